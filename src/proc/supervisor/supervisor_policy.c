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
	enum steer_verb verb;           /* VERB_POLICY, VERB_ALLOW or VERB_DENY */
	char rule[CONTROL_RULE_MAX + 1];
	bool now;
};

static void
record_set(struct supervisor *sv, const struct steer *s, const char *before)
{
	const struct setting *setting = s->arg;
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	steer_members(&m, steer_rows[setting->verb].name, &s->who);
	members_str(&m, "rule", setting->rule);
	members_str(&m, "policy", sv->egress.policy.hash);
	members_str(&m, "before", before);
	if (setting->now)
		members_bool(&m, "now", true);
	steer_record(sv, setting->verb, &s->who, &m);
}

/* One more allowing rule, in front.  Judging any other change would take a parser of policies. */
static bool
only_widens(const struct setting *setting)
{
	return setting->verb == VERB_ALLOW &&
	       setting->rule[strspn(setting->rule, " ")] != '{';
}

/* The courier has read all of the policy, and found it sound. */
static void
watch_anew(struct supervisor *sv)
{
	struct err err = {0};

	if (supervisor_watch_load(sv, &err) < 0)
		supervisor_say(sv, "the rules of `watch` stay as they were: %s", err.text);
	else
		supervisor_witness_rules(sv);
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
		watch_anew(sv);
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
	cell_policy_hash(setting->policy);
	return setting;
}

/* The fields of the request. */
struct order {
	const char *rule, *after;
	uint32_t flags, front, back;
};

static int
take_order(const struct steer_call *call, struct order *ret_order)
{
	const int *fds = call->message->fds;
	const struct steer_request *q = &call->q;

	*ret_order = (struct order){ q->text[0], q->text[1], (uint32_t)q->n[0], (uint32_t)q->n[1],
	                             (uint32_t)q->n[2] };
	return (ret_order->flags & ~(uint32_t)CONTROL_POLICY_NOW) == 0 &&
	       strlen(ret_order->rule) <= CONTROL_RULE_MAX && is_sealed(fds[0], SEALED) &&
	       is_sealed(fds[1], SEALED) && is_sealed(fds[2], SEALED_SIZE) ? 0 : -EBADMSG;
}

static int
may_be_set(struct supervisor *sv, const struct order *o, struct err *err)
{
	if (!sv->spec.has_policy)
		return err_set(err, ENOTSUP, NO_POLICY);
	if (sv->egress.policy.changing ||
	    (o->after[0] != '\0' && strcmp(o->after, supervisor_policy_hash(sv)) != 0))
		return err_set(err, ESTALE, "somebody else has changed the cell's policy meanwhile: look at it "
		               "again");
	return 0;
}

int
supervisor_answer_set_policy(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	struct setting *setting;
	struct err err = {0};
	struct order o;
	struct steer *s;

	if (take_order(call, &o) < 0)
		return -EBADMSG;
	if (may_be_set(sv, &o, &err) < 0)
		return steer_refuse(client, &err);
	setting = take_files(call->message);
	s = setting == NULL ? NULL : steer_begin(sv, client, STEER_POLICY, &call->who, is_set, setting);
	if (s == NULL) {
		if (setting != NULL) {
			free_policy(setting->policy);
			free(setting);
		}
		(void)steer_busy(&err);
		return steer_refuse(client, &err);
	}
	setting->now = o.flags != 0;
	setting->verb = call->q.verb;
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
supervisor_answer_get_policy(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	const struct cell_policy *p = &sv->egress.policy;
	OWN(buf_free) struct buf answer = {0};
	struct err err = {0};

	(void)call;
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
