/* supervisor_watch.c - see supervisor_watch.h. */
#include "proc/supervisor/supervisor_watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "ipc/witness_channel.h"
#include "policy/policy_behaviour.h"
#include "proc/supervisor/supervisor.h"

static const struct steer_who policy_itself = { .by = "policy" };

/* ---- the rules ---- */

/* Most policies have none, which their first bytes say. */
static bool
has_rules(int fd)
{
	unsigned char bytes[4];

	return pread(fd, bytes, sizeof(bytes), 0) == sizeof(bytes) && policy_begins_with_behaviours(bytes);
}

int
supervisor_watch_load(struct supervisor *sv, struct err *err)
{
	OWN(policy_freep) struct policy *rules = NULL;
	OWN(freep) char *bytes = NULL;
	int fd = sv->egress.policy.policy, r;
	struct buf b;
	size_t len;

	if (has_rules(fd)) {
		r = read_whole(fd, POLICY_ENCODED_MAX, &bytes, &len, err);
		if (r < 0)
			return r;
		buf_init_borrowed(&b, bytes, len);
		r = policy_get_behaviours_only(&b, &rules, err);
		if (r < 0)
			return r;
	}
	supervisor_watch_close(sv);
	sv->watch = TAKE(rules);
	return 0;
}

void
supervisor_watch_close(struct supervisor *sv)
{
	policy_freep(&sv->watch);
	sv->watch = NULL;
}

static const char *
home_of(const struct cell_spec *spec)
{
	for (char **at = spec->env; at != NULL && *at != NULL; at++)
		if (strncmp(*at, "HOME=/", 6) == 0)
			return *at + 5;
	return CELL_HOME;
}

void
supervisor_watch_put(const struct supervisor *sv, struct buf *message)
{
	buf_put_str(message, home_of(&sv->spec));
	policy_put_matchers(message, sv->watch);
}

/* ---- consequences ---- */

struct fired {
	uint64_t key;
	uint32_t pid, more;
	const char *what;
	const struct policy_behaviour *rule;
};

static void
record(struct supervisor *sv, const struct fired *f)
{
	OWN(members_free) struct members m;
	char leads[POLICY_LEADS_MAX];
	size_t kind;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "watch");
	members_str(&m, "rule", f->rule->text);
	members_str(&m, "place", f->rule->place);
	members_str(&m, "then", policy_behaviour_leads(f->rule, leads));
	kind = m.n;
	members_str(&m, "of", f->what);
	members_u64(&m, "pid", f->pid);
	if (f->more > 0)
		members_u64(&m, "count", (uint64_t)f->more + 1);
	if (f->rule->reason != NULL)
		members_str(&m, "reason", f->rule->reason);
	(void)supervisor_record_repeated(sv, &m, kind, REPEATS_EACH);
	if (policy_consequence_notifies(f->rule->then))
		supervisor_notify_members(sv, "watch", &m);
}

/* A secret that the cell does not have needs no revocation. */
static int
revoke_secrets(struct supervisor *sv, const struct policy_consequence *c)
{
	static const char why[] = "what a process of the cell did led to that";
	const char *name;
	struct steer *s;
	size_t at;

	for (size_t i = 0; (name = policy_consequence_revokes(c, i)) != NULL; i++) {
		if (!supervisor_find_secret(sv, name, &at) || sv->secrets.at[at].revoked)
			continue;
		sv->secrets.at[at].revoked = true;
		snprintf(sv->secrets.at[at].why, sizeof(sv->secrets.at[at].why), "%.*s", REVOKED_WHY_MAX, why);
		s = steer_begin(sv, NULL, STEER_REVOKE, &policy_itself, NULL, NULL);
		if (s == NULL)
			return -EBUSY;
		buf_put_str(&s->message, name);
		buf_put_str(&s->message, why);
		buf_put_u32(&s->message, 0);
		(void)steer_send(sv, s);
	}
	return 0;
}

/* Once: the layer stays in force, and a restarted courier gets it again. */
static int
narrow(struct supervisor *sv, const struct policy_consequence *c)
{
	uint64_t key = policy_consequence_key(c);
	const void *layer;
	struct steer *s;
	size_t len;
	int r;

	layer = policy_consequence_narrow(c, &len);
	if (len == 0 || supervisor_has_fired(sv, key))
		return 0;
	s = steer_begin(sv, NULL, STEER_FIRED, &policy_itself, NULL, NULL);
	r = s == NULL ? -EBUSY : supervisor_keep_fired(sv, key, layer, len);
	if (s == NULL)
		return r;
	if (r < 0)
		s->message.failed = true;
	buf_put_u64(&s->message, key);
	buf_put_u32(&s->message, (uint32_t)len);
	buf_put(&s->message, layer, len);
	(void)steer_send(sv, s);
	return r;
}

static int
ask(struct supervisor *sv, const struct fired *f)
{
	const char *space = strchr(f->what, ' ');
	const struct approval_act act = {
		.key = f->key, .ms = POLICY_BEHAVIOUR_ASK_MS, .kind = policy_behaviour_name(f->rule->kind),
		.what = space != NULL ? space + 1 : f->what, .text = f->rule->text, .place = f->rule->place,
		.reason = f->rule->reason != NULL ? f->rule->reason : "",
	};

	return supervisor_ask_of_cell(sv, &act);
}

static void
apply(struct supervisor *sv, const struct fired *f)
{
	const struct policy_consequence *c = f->rule->then;
	char what[WITNESS_WHAT_MAX + 300];
	int r;

	record(sv, f);
	if (sv->dead)
		return;
	snprintf(what, sizeof(what), "%.200s led to it (%.200s)", f->what, f->rule->place);
	r = revoke_secrets(sv, c);
	r = r == 0 ? narrow(sv, c) : r;
	if (r == 0 && f->rule->ask && !f->rule->kill)
		r = ask(sv, f);
	/* A consequence that cannot be put in force must not be as if there were none. */
	if (f->rule->kill)
		supervisor_stop_cell(sv, false, "watch", what);
	else if (policy_consequence_freezes(c) || r < 0)
		supervisor_stop_cell(sv, true, "watch", what);
}

int
supervisor_watch_fired(struct supervisor *sv, struct ipc_message *message)
{
	struct buf *b = &message->body;
	struct fired f = {0};

	if (buf_get_u64(b, &f.key) < 0 || buf_get_u32(b, &f.pid) < 0 || buf_get_u32(b, &f.more) < 0 ||
	    buf_get_str(b, &f.what) < 0 || strlen(f.what) > WITNESS_WHAT_MAX || buf_left(b) != 0 || message->n_fds != 0)
		return -EBADMSG;
	/* A rule that is gone was in the policy when the act was seen. */
	f.rule = sv->watch == NULL ? NULL : policy_behaviour_find(sv->watch, f.key);
	if (f.rule != NULL)
		apply(sv, &f);
	return 0;
}
