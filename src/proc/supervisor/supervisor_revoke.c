/* supervisor_revoke.c - see supervisor_revoke.h. */
#include "proc/supervisor/supervisor_revoke.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"
#include "proc/supervisor/supervisor_steer.h"

#define VALUE_MAX ((off_t)8 * 1024 * 1024)
#define VALUE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static size_t
count_secrets(const struct supervisor *sv)
{
	return sv->spec.secrets != NULL ? strv_len(sv->spec.secrets) : 0;
}

bool
supervisor_find_secret(const struct supervisor *sv, const char *name, size_t *ret_at)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < count_secrets(sv); i++)
		if (strncmp(sv->spec.secrets[i], name, len) == 0 && sv->spec.secrets[i][len] == ' ') {
			*ret_at = i;
			return true;
		}
	return false;
}

static int
find_secret(const struct supervisor *sv, const char *name, size_t *ret_at, struct err *err)
{
	return supervisor_find_secret(sv, name, ret_at) ? 0 :
	       err_set(err, ENOENT, "the cell has no secret '%.64s': see `cloister secret list --cell %s`",
	               name, sv->spec.id);
}

static void
record(struct supervisor *sv, enum steer_verb verb, const struct steer_who *who, size_t at, bool quiet)
{
	const char *text = sv->spec.secrets[at];
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	steer_members(&m, steer_rows[verb].name, who);
	members_text(&m, "secret", text, strcspn(text, " "), MEMBERS_STR_MAX);
	if (quiet)
		members_bool(&m, "quiet", true);
	steer_record(sv, verb, who, &m);
}

static void
put_name(struct buf *b, const struct supervisor *sv, size_t at)
{
	char name[MEMBERS_STR_MAX];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(sv->spec.secrets[at], " "),
	         sv->spec.secrets[at]);
	buf_put_str(b, name);
}

static int
too_much(struct client *client)
{
	struct err err = {0};

	(void)steer_busy(&err);
	return steer_refuse(client, &err);
}

/* ---- revoked ---- */

static void
note_revoked(struct supervisor *sv, struct steer *s, const struct err *err, bool quiet)
{
	size_t at = (size_t)(uintptr_t)s->arg;

	if (err->code != 0)
		return;
	/* If the first revocation was not quiet, the agent already knows. */
	sv->secrets.at[at].quiet = sv->secrets.at[at].revoked ? sv->secrets.at[at].quiet : quiet;
	sv->secrets.at[at].revoked = true;
	record(sv, VERB_REVOKE, &s->who, at, quiet);
}

static void
is_revoked(struct supervisor *sv, struct steer *s, const struct err *err)
{
	note_revoked(sv, s, err, false);
}

static void
is_revoked_quietly(struct supervisor *sv, struct steer *s, const struct err *err)
{
	note_revoked(sv, s, err, true);
}

int
supervisor_answer_revoke(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	uint64_t quiet = call->q.n[0];
	struct err err = {0};
	struct steer *s;
	size_t at;

	if (quiet > 1)
		return -EBADMSG;
	if (find_secret(sv, call->q.text[0], &at, &err) < 0)
		return steer_refuse(client, &err);
	s = steer_begin(sv, client, STEER_REVOKE, &call->who, quiet != 0 ? is_revoked_quietly : is_revoked,
	                (void *)(uintptr_t)at);
	if (s == NULL)
		return too_much(client);
	put_name(&s->message, sv, at);
	/* The operator's reason is for the record, not for the agent. */
	buf_put_str(&s->message, "");
	buf_put_u32(&s->message, quiet != 0);
	return steer_send(sv, s);
}

/* ---- replaced ---- */

static void
is_rotated(struct supervisor *sv, struct steer *s, const struct err *err)
{
	size_t at = (size_t)(uintptr_t)s->arg;

	if (err->code != 0)
		return;
	if (sv->secrets.at[at].rotated)
		close(sv->secrets.at[at].value);
	sv->secrets.at[at].value = TAKE_FD(s->fds[0]);
	sv->secrets.at[at].rotated = true;
	s->n_fds = 0;
	record(sv, VERB_ROTATE, &s->who, at, false);
}

static bool
is_value(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & VALUE_SEALS) == VALUE_SEALS && fstat(fd, &st) == 0 &&
	       st.st_size <= VALUE_MAX;
}

int
supervisor_answer_rotate(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	int r, value = call->message->fds[0];
	struct err err = {0};
	struct steer *s;
	size_t at;

	if (!is_value(value))
		return -EBADMSG;
	r = find_secret(sv, call->q.text[0], &at, &err);
	if (r == 0 && sv->secrets.at[at].revoked)
		r = err_set(&err, EPERM, "the secret was revoked in cell %s, and stays so",
		            sv->spec.id);
	if (r < 0)
		return steer_refuse(client, &err);
	s = steer_begin(sv, client, STEER_ROTATE, &call->who, is_rotated, (void *)(uintptr_t)at);
	if (s == NULL)
		return too_much(client);
	if (steer_add_fd(s, value) < 0)
		s->message.failed = true;
	return steer_send(sv, s);
}

/* ---- listed ---- */

int
supervisor_answer_secrets(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	size_t n = count_secrets(sv);
	OWN(buf_free) struct buf answer = {0};

	(void)call;
	ipc_begin(&answer, CONTROL_DONE);
	buf_put_u32(&answer, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		buf_put_str(&answer, sv->spec.secrets[i]);
		buf_put_u32(&answer, sv->secrets.at[i].revoked);
		buf_put_u64(&answer, sv->secrets.at[i].used_before + sv->secrets.at[i].used);
	}
	supervisor_client_send(client, &answer, NULL, 0);
	return -EPIPE;
}

int
supervisor_secrets_used(struct supervisor *sv, struct ipc_message *message)
{
	uint32_t n;

	if (buf_get_u32(&message->body, &n) < 0 || n != count_secrets(sv))
		return -EBADMSG;
	for (uint32_t i = 0; i < n; i++)
		if (buf_get_u64(&message->body, &sv->secrets.at[i].used) < 0)
			return -EBADMSG;
	return buf_left(&message->body) == 0 ? 0 : -EBADMSG;
}

/* ---- at a courier's start ---- */

int
supervisor_secrets_tell(struct supervisor *sv)
{
	for (size_t i = 0; i < count_secrets(sv); i++) {
		struct steer *s;

		sv->secrets.at[i].used_before += sv->secrets.at[i].used;
		sv->secrets.at[i].used = 0;
		/* The value first: the courier scans for a value even after it was revoked. */
		if (sv->secrets.at[i].rotated &&
		    ((s = steer_tell(sv, STEER_ROTATE)) == NULL ||
		     steer_add_fd(s, sv->secrets.at[i].value) < 0))
			return -ENOMEM;
		if (!sv->secrets.at[i].revoked)
			continue;
		s = steer_tell(sv, STEER_REVOKE);
		if (s == NULL)
			return -ENOMEM;
		put_name(&s->message, sv, i);
		buf_put_str(&s->message, sv->secrets.at[i].why);
		buf_put_u32(&s->message, sv->secrets.at[i].quiet);
	}
	return 0;
}

void
supervisor_secrets_close(struct supervisor *sv)
{
	for (size_t i = 0; i < CELL_SECRETS_MAX; i++) {
		/* Most were never touched, and have no memory yet. */
		if (!sv->secrets.at[i].rotated)
			continue;
		close(sv->secrets.at[i].value);
		sv->secrets.at[i].rotated = false;
	}
}

/* ---- the cell's time to live ---- */

int
supervisor_answer_ttl(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	OWN(members_free) struct members m = {0};
	OWN(buf_free) struct buf answer = {0};
	uint64_t ms = call->q.n[0];

	/* The reported cause of the end is then the last limit that was set. */
	sv->spec.limits.ttl_ms = ms;
	sv->ttl_set = ms > 0;
	if (ms > 0)
		loop_set_timer(sv->loop, &sv->ttl, ms);
	else
		loop_cancel_timer(sv->loop, &sv->ttl);
	supervisor_tell_limit(sv);
	members_init(&m, AUDIT_EVENT_MAX);
	steer_members(&m, steer_rows[VERB_TTL].name, &call->who);
	members_u64(&m, "ttl_ms", ms);
	steer_record(sv, VERB_TTL, &call->who, &m);
	ipc_begin(&answer, CONTROL_DONE);
	supervisor_client_send(client, &answer, NULL, 0);
	return -EPIPE;
}
