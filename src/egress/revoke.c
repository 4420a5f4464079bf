/* revoke.c - revokes a secret, or replaces its value, while the cell runs.
 *
 * The placeholder stays known either way.  The value of a revoked secret is kept to search
 * responses for it: a server may have stored it, and may return it in any response. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/secrets_parts.h"
#include "ipc/ipc.h"

bool
secrets_is_revoked(const struct secrets *s, const struct secrets_view *view, size_t i,
                   char *ret_reason, size_t size)
{
	size_t of = i < view->n_bound ? i : view->tokens[i - view->n_bound]->of;

	if (!s->revoked[of])
		return false;
	snprintf(ret_reason, size, "the secret '%.64s' has been revoked%s%s", s->bound.at[of].secret->name,
	         s->why[of][0] != '\0' ? ": " : "", s->why[of]);
	return true;
}

/* A draining exchange uses no server any more. */
static bool
goes_with(const struct exchange *ex, size_t secret)
{
	if (ex->state == EXCHANGE_DRAINS || ex->state == EXCHANGE_OVER)
		return false;
	return ex->t.certificate == secret + 1 || (ex->secrets != NULL && ex->secrets->carried[secret] != 0);
}

/* Cutting one exchange may cut others, so the list is searched from the start each time. */
static bool
cut_one(struct courier *c, size_t secret, const struct exchange *spared)
{
	char reason[COURIER_NOTE_MAX];

	for (struct exchange *ex = c->exchanges; ex != NULL; ex = ex->next) {
		if (ex == spared || !goes_with(ex, secret))
			continue;
		(void)secrets_is_revoked(&c->secrets, c->secrets.view, secret, reason, sizeof(reason));
		exchange_note_quiet(ex, c->secrets.view, secret);
		exchange_refuse(ex, "revoked", reason);
		return true;
	}
	return false;
}

int
courier_revoke(struct courier *c, const char *name, const char *why, bool quiet,
               const struct exchange *spared, struct err *err)
{
	struct secrets *s = &c->secrets;
	size_t at;

	if (!secrets_named(s, name, &at))
		return err_set(err, ENOENT, "the cell has no secret '%.64s'", name);
	if (s->revoked[at])
		return 0;
	s->revoked[at] = true;
	s->quiet[at] = quiet;
	snprintf(s->why[at], sizeof(s->why[at]), "%.*s", SECRETS_WHY_MAX - 1, why);
	/* If there is no memory for a new view, the old view stays, and secrets_is_revoked() still
	 * refuses. */
	(void)secrets_look_again(s, NULL);
	while (cut_one(c, at, spared))
		;
	if (s->mtls.is[at])
		pool_forget_certificate(c->pool, (unsigned)at + 1, spared == NULL);
	courier_at_round_end(c);
	return 0;
}

static bool
is_ssh(const struct secret *s)
{
	return strcmp(s->scheme->name, "ssh") == 0;
}

int
courier_rotate(struct courier *c, int fd, struct err *err)
{
	OWN(bound_free) struct bound bound = {0};
	struct secrets *s = &c->secrets;
	const struct bound_secret *fresh = &bound.at[0];
	size_t at;
	int r = bound_read(fd, &bound, err);

	if (r == 0 && bound.n != 1)
		r = err_set(err, EINVAL, "that is no value of a secret");
	if (r < 0)
		return r == -EBADMSG ? -EINVAL : r;
	if (!secrets_named(s, fresh->secret->name, &at))
		return err_set(err, ENOENT, "the cell has no secret '%.64s'", fresh->secret->name);
	if (s->revoked[at])
		return err_set(err, EPERM, "the secret '%.64s' was revoked in this cell, and stays so",
		               fresh->secret->name);
	/* The stored parts of an SSH key differ in form. */
	if (is_ssh(fresh->secret) != is_ssh(s->bound.at[at].secret))
		return err_set(err, EINVAL, "the secret '%.64s' is defined otherwise in this cell",
		               fresh->secret->name);
	r = secrets_renew(s, fresh->secret->name, fresh->expires, fresh->real, &bound.memory, err);
	if (r < 0)
		return r == -EBADMSG ? -EINVAL : r;
	s->rotated[at] = true;
	if (s->mtls.is[at])
		pool_forget_certificate(c->pool, (unsigned)at + 1, false);
	return 0;
}

/* ---- messages of the supervisor ---- */

int
courier_take_revoke(struct courier *c, uint64_t number, struct ipc_message *message, struct err *err)
{
	const char *name, *why;
	uint32_t quiet;

	(void)number;
	if (buf_get_str(&message->body, &name) < 0 || buf_get_str(&message->body, &why) < 0 ||
	    buf_get_u32(&message->body, &quiet) < 0 || quiet > 1 || buf_left(&message->body) != 0)
		return -EBADMSG;
	return courier_revoke(c, name, why, quiet != 0, NULL, err);
}

int
courier_take_rotate(struct courier *c, uint64_t number, struct ipc_message *message, struct err *err)
{
	(void)number;
	if (buf_left(&message->body) != 0 || message->n_fds != 1)
		return -EBADMSG;
	return courier_rotate(c, message->fds[0], err);
}

void
courier_tell_used(struct courier *c)
{
	OWN(buf_free) struct buf message = {0};
	struct secrets *s = &c->secrets;

	if (!s->used_more)
		return;
	ipc_begin(&message, COURIER_USED);
	buf_put_u32(&message, (uint32_t)s->bound.n);
	for (size_t i = 0; i < s->bound.n; i++)
		buf_put_u64(&message, s->used[i]);
	/* If the supervisor does not read, the report is repeated a second later. */
	s->used_more = send(c->events.fd, message.data, message.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0;
}
