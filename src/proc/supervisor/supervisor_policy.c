/* supervisor_policy.c - see supervisor_policy.h. */
#include "proc/supervisor/supervisor_policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"
#include "proc/supervisor/supervisor_steer.h"

#define NO_POLICY "the cell was started without a policy, so it has no network, and cannot get any: start " \
	"another one with -p or --allow"
#define POLICY_MAX ((off_t)8 * 1024 * 1024)     /* for each of the files */
#define SEALED_SIZE (F_SEAL_SHRINK | F_SEAL_GROW)
#define SEALED (SEALED_SIZE | F_SEAL_WRITE)

static void
hash_file(int fd, char ret_hash[HASH_NAME + 1])
{
	unsigned char hash[HASH_LEN], bytes[16384];
	struct hash h;
	off_t at = 0;
	ssize_t n;

	hash_begin(&h);
	for (; (n = pread(fd, bytes, sizeof(bytes), at)) > 0; at += n)
		hash_add(&h, bytes, (size_t)n);
	hash_end(&h, hash);
	hash_name(hash, ret_hash);
}

const char *
supervisor_policy_hash(struct supervisor *sv)
{
	struct cell_policy *p = &sv->egress.policy;

	if (p->hash[0] == '\0')
		hash_file(p->policy, p->hash);
	return p->hash;
}

int
supervisor_policy_tell(struct supervisor *sv)
{
	struct steer *s = steer_tell(sv, STEER_COUNTS);

	return s == NULL ? -ENOMEM : steer_add_fd(s, sv->egress.policy.counts);
}

/* ---- a new one ---- */

static void
free_policy(struct cell_policy *p)
{
	closep(&p->policy);
	closep(&p->text);
	closep(&p->counts);
	free(p);
}

struct setting {
	struct cell_policy *policy;
	char did[16], rule[CONTROL_RULE_MAX + 1];
	bool now;
};

static void
record_set(struct supervisor *sv, const struct steer *s, const char *before)
{
	const struct setting *setting = s->arg;
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	steer_members(&m, setting->did, &s->who);
	members_str(&m, "rule", setting->rule);
	members_str(&m, "policy", sv->egress.policy.hash);
	members_str(&m, "before", before);
	if (setting->now)
		members_bool(&m, "now", true);
	steer_record(sv, setting->did, &s->who, &m);
}

/* One more allowing rule, in front.  Judging any other change would take a parser of policies. */
static bool
only_widens(const struct setting *setting)
{
	return strcmp(setting->did, "allow") == 0 &&
	       setting->rule[strspn(setting->rule, " ")] != '{';
}

static void
is_set(struct supervisor *sv, struct steer *s, const struct err *err)
{
	struct cell_policy *kept = &sv->egress.policy;
	struct setting *setting = s->arg;
	struct cell_policy before;

	kept->changing = false;
	if (err->code == 0) {
		(void)supervisor_policy_hash(sv);
		before = *kept;
		*kept = *setting->policy;
		kept->times = before.times + 1;
		kept->narrowed = before.narrowed || !only_widens(setting);
		*setting->policy = before;
		record_set(sv, s, before.hash);
		buf_put_str(&s->answer, kept->hash);
		supervisor_timeline_keep_policy(sv);
		supervisor_budget_look(sv);
	}
	free_policy(setting->policy);
	free(setting);
}

/* A sealed file cannot change any more, so the one that was checked is the one that is used. */
static bool
is_sealed(int fd, int seals)
{
	struct stat st;
	int has = fcntl(fd, F_GET_SEALS);

	return has >= 0 && (has & seals) == seals && fstat(fd, &st) == 0 && st.st_size <= POLICY_MAX;
}

static struct setting *
take_files(struct ipc_message *message)
{
	struct setting *setting = calloc(1, sizeof(*setting));

	if (setting != NULL)
		setting->policy = calloc(1, sizeof(*setting->policy));
	if (setting == NULL || setting->policy == NULL) {
		free(setting);
		return NULL;
	}
	setting->policy->policy = ipc_take_fd(message, 0);
	setting->policy->text = ipc_take_fd(message, 1);
	setting->policy->counts = ipc_take_fd(message, 2);
	hash_file(setting->policy->policy, setting->policy->hash);
	return setting;
}

struct order {
	struct steer_who who;
	const char *did, *rule, *after;
	uint32_t flags, front, back;
};

static int
take_order(struct client *client, struct ipc_message *message, struct order *o)
{
	struct buf *b = &message->body;

	if (steer_take_who(client, b, &o->who) < 0 || buf_get_str(b, &o->did) < 0 ||
	    buf_get_str(b, &o->rule) < 0 || buf_get_str(b, &o->after) < 0 ||
	    buf_get_u32(b, &o->flags) < 0 || (o->flags & ~(uint32_t)CONTROL_POLICY_NOW) != 0 ||
	    buf_get_u32(b, &o->front) < 0 || buf_get_u32(b, &o->back) < 0 || buf_left(b) != 0 ||
	    (strcmp(o->did, "policy") != 0 && strcmp(o->did, "allow") != 0 &&
	     strcmp(o->did, "deny") != 0) ||
	    strlen(o->rule) > CONTROL_RULE_MAX || message->n_fds != 3 ||
	    !is_sealed(message->fds[0], SEALED) || !is_sealed(message->fds[1], SEALED) ||
	    !is_sealed(message->fds[2], SEALED_SIZE))
		return -EBADMSG;
	return 0;
}

static int
may_be_set(struct supervisor *sv, const struct order *o, struct err *err)
{
	if (sv->dead)
		return err_set(err, ESRCH, "the cell is ending");
	if (!sv->spec.has_policy)
		return err_set(err, ENOTSUP, NO_POLICY);
	if (sv->egress.policy.changing ||
	    (o->after[0] != '\0' && strcmp(o->after, supervisor_policy_hash(sv)) != 0))
		return err_set(err, ESTALE, "somebody else has changed the cell's policy meanwhile: look at it "
		               "again");
	return 0;
}

int
supervisor_answer_set_policy(struct client *client, struct ipc_message *message)
{
	struct supervisor *sv = client->sv;
	struct setting *setting;
	struct err err = {0};
	struct order o;
	struct steer *s;

	if (take_order(client, message, &o) < 0)
		return -EBADMSG;
	if (may_be_set(sv, &o, &err) < 0)
		return steer_refuse(client, &err);
	setting = take_files(message);
	s = setting == NULL ? NULL : steer_begin(sv, client, STEER_POLICY, &o.who, is_set, setting);
	if (s == NULL) {
		if (setting != NULL) {
			free_policy(setting->policy);
			free(setting);
		}
		(void)steer_busy(&err);
		return steer_refuse(client, &err);
	}
	setting->now = o.flags != 0;
	snprintf(setting->did, sizeof(setting->did), "%s", o.did);
	snprintf(setting->rule, sizeof(setting->rule), "%s", o.rule);
	buf_put_u32(&s->message, o.flags);
	buf_put_u32(&s->message, o.front);
	buf_put_u32(&s->message, o.back);
	if (steer_add_fd(s, setting->policy->policy) < 0 || steer_add_fd(s, setting->policy->counts) < 0)
		s->message.failed = true;
	sv->egress.policy.changing = true;
	return steer_send(sv, s);
}

int
supervisor_answer_get_policy(struct client *client, struct ipc_message *message)
{
	struct supervisor *sv = client->sv;
	const struct cell_policy *p = &sv->egress.policy;
	OWN(buf_free) struct buf answer = {0};
	struct steer_who who;
	struct err err = {0};

	if (steer_take_who(client, &message->body, &who) < 0 || buf_left(&message->body) != 0)
		return -EBADMSG;
	if (!sv->spec.has_policy) {
		(void)err_set(&err, ENOTSUP, NO_POLICY);
		return steer_refuse(client, &err);
	}
	ipc_begin(&answer, CONTROL_DONE);
	buf_put_str(&answer, supervisor_policy_hash(sv));
	buf_put_u64(&answer, p->times);
	buf_put_str(&answer, sv->spec.principal != NULL ? sv->spec.principal : "");
	buf_put_str(&answer, sv->spec.chain != NULL ? sv->spec.chain : "");
	supervisor_client_send(client, &answer, (int[]){ p->policy, p->text, p->counts }, 3);
	return -EPIPE;
}
