/* ssh.c - see ssh.h. */
#include "egress/ssh.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/secrets_parts.h"
#include "sign/scheme_parts.h"
#include "ssh/ssh_agent.h"
#include "ssh/ssh_key.h"

#define SIGNED_MAX (3 * SSH_BLOB_MAX)   /* the signed bytes, put together */

struct exchange_ssh {
	size_t len;
	unsigned char heard[COURIER_SSH_HEARD_MAX];
};

/* A signing request of the gate, and what the courier finds out about it. */
struct signing {
	struct courier *c;
	uint32_t kind;                  /* enum egress_ssh */
	struct ssh_request r;
	bool hostbound, forwarded;
	struct http_text bound;         /* the session that the client named */
	struct http_text host_key, signature;
	const struct bound_secret *of;  /* the key's secret; NULL: none of the cell's */
	size_t of_at;                   /* its number */
	struct exchange *ex;            /* the connection of the session, or NULL */
	const char *why;                /* as in events; NULL: allowed */
	char note[COURIER_NOTE_MAX];
	bool misplaced;                 /* the host is right, but not the use */
};

/* ---- the cell's keys ---- */

static bool
is_ssh(const struct bound_secret *b)
{
	return strcmp(b->secret->scheme->name, "ssh") == 0;
}

/* The public half, which cloister-vault has stored beside the private one. */
static bool
public_of(const struct bound_secret *b, struct buf *ret_blob)
{
	buf_init(ret_blob, SSH_BLOB_MAX);
	return is_ssh(b) && ssh_key_parse(b->real[SECRET_ID], ret_blob) == 0;
}

static const struct bound_secret *
find_key(const struct courier *c, struct http_text key, size_t *ret_at)
{
	const struct secrets_view *view = c->secrets.view;
	const struct bound_secret *found = NULL;

	for (size_t i = 0; i < c->secrets.bound.n && found == NULL; i++) {
		OWN(buf_free) struct buf blob = {0};

		if (public_of(view->at[i], &blob) && scheme_same(scheme_text_of(&blob), key)) {
			found = view->at[i];
			*ret_at = i;
		}
	}
	return found;
}

int
courier_ssh_list(struct courier *c, uint32_t id, struct buf *body)
{
	const struct bound *bound = &c->secrets.bound;
	uint32_t n = 0;

	if (buf_left(body) != 0)
		return -EBADMSG;
	for (size_t i = 0; i < bound->n; i++)
		n += is_ssh(&bound->at[i]);
	buf_reset(&c->out);
	ssh_put_u32(&c->out, n);
	for (size_t i = 0; i < bound->n; i++) {
		OWN(buf_free) struct buf blob = {0};

		if (!is_ssh(&bound->at[i]))
			continue;
		(void)public_of(c->secrets.view->at[i], &blob);
		ssh_put_string(&c->out, scheme_text_of(&blob));
		ssh_put_str(&c->out, bound->at[i].secret->name);
	}
	mux_send(c->gate, id, EGRESS_SSH_KEYS, &c->out);
	return 0;
}

/* ---- connections ---- */

static bool
in_scope(const struct secret *s, const struct exchange *ex)
{
	struct policy_request req = { .protocol = POLICY_TCP, .host = ex->host, .port = ex->t.port };

	return secret_in_scope(s, &req);
}

/* The connection was allowed when it was opened; the policy may have changed. */
static bool
is_allowed(const struct courier *c, const struct exchange *ex, const struct secret *s, bool *ret_used)
{
	struct policy_request req = { .protocol = POLICY_TCP, .host = ex->host, .port = ex->t.port };
	struct policy_decision decision;

	policy_decide(c->policy->policy, &req, &decision, NULL);
	*ret_used = c->learn || policy_may_use(c->policy->policy, &decision.way, s->name);
	return decision.verdict == POLICY_ALLOW || c->learn;
}

void
exchange_ssh_hear(struct exchange *ex, const void *data, size_t len)
{
	const struct bound *bound = &ex->courier->secrets.bound;
	struct exchange_ssh *ssh = ex->ssh;
	bool any = false;

	if (ex->kind != EXCHANGE_TCP || (ssh == NULL && ex->response.received > 0))
		return;
	for (size_t i = 0; i < bound->n && ssh == NULL && !any; i++)
		any = is_ssh(&bound->at[i]);
	if (any)
		ssh = ex->ssh = calloc(1, sizeof(*ssh));
	if (ssh == NULL)
		return;
	if (len > sizeof(ssh->heard) - ssh->len)
		len = sizeof(ssh->heard) - ssh->len;
	memcpy(ssh->heard + ssh->len, data, len);
	ssh->len += len;
}

void
exchange_ssh_free(struct exchange *ex)
{
	free(TAKE(ex->ssh));
}

/* Encrypted bytes do not count.  A client that knows the session's key can make the server send any
 * bytes there, including those of another machine's session. */
static bool
has_heard(const struct exchange_ssh *ssh, struct http_text signature)
{
	struct http_text said = { (const char *)ssh->heard, ssh->len };

	return memmem(said.at, ssh_clear_len(said), signature.at, signature.len) != NULL;
}

/* Find an open connection on which the server has sent this signature unencrypted. */
static struct exchange *
find_connection(const struct courier *c, struct http_text signature)
{
	for (struct exchange *ex = c->exchanges; ex != NULL; ex = ex->next)
		if (ex->ssh != NULL && ex->state == EXCHANGE_PASSES && signature.len > 0 &&
		    has_heard(ex->ssh, signature))
			return ex;
	return NULL;
}

/* Lines of "host port type base64", collected by cloister-vault. */
static bool
is_known(const struct bound_secret *b, const struct exchange *ex, struct http_text host_key)
{
	struct http_text rest = b->real[SECRET_TOKEN];
	OWN(buf_free) struct buf want = BUF(HTTP_HOST_MAX + 2 * SSH_BLOB_MAX);

	buf_put_text(&want, ex->host);
	buf_put(&want, " ", 1);
	buf_put_decimal(&want, ex->t.port);
	buf_put(&want, " ", 1);
	ssh_key_put_line(&want, host_key);
	while (rest.len > 0 && !buf_failed(&want)) {
		const char *end = memchr(rest.at, '\n', rest.len);
		size_t len = end != NULL ? (size_t)(end - rest.at) : rest.len;

		if (len == want.len && memcmp(rest.at, want.data, len) == 0)
			return true;
		rest.at += len + (end != NULL);
		rest.len -= len + (end != NULL);
	}
	return false;
}

/* ---- decisions ---- */

static void
refuse(struct signing *s, const char *why, const char *note)
{
	s->why = why;
	snprintf(s->note, sizeof(s->note), "%.*s", (int)sizeof(s->note) - 1, note);
}

static void
refuse_use(struct signing *s, const char *note)
{
	refuse(s, "exfiltration", note);
	s->misplaced = true;
}

/* The host has signed the session, and the courier saw that signature on a connection of this cell.
 * So nothing depends on the client's word: the host is the one that the courier dialled. */
static void
judge_login(struct signing *s)
{
	const struct secret *secret = s->of->secret;
	const char *user = secret_with(secret, "user");
	bool used;

	if (s->bound.len == 0) {
		refuse(s, "unbound", "the client did not say which host it speaks with: OpenSSH does since "
		       "8.9");
	} else if (s->forwarded) {
		refuse(s, "unbound", "the agent was forwarded to another host, which may not use the "
		       "cell's keys");
	} else if (!scheme_same(s->bound, s->r.session) ||
	           !ssh_verify(s->host_key, s->r.session, s->signature)) {
		refuse(s, "forged", "the host whose key the client showed has not signed this session");
	} else if ((s->ex = find_connection(s->c, s->signature)) == NULL) {
		refuse(s, "exfiltration", "the session is on no connection that this cell has open itself");
	} else if (!in_scope(secret, s->ex)) {
		refuse(s, "exfiltration", "the key is not for this host");
	} else if (!is_allowed(s->c, s->ex, secret, &used)) {
		refuse(s, "no-rule", "no rule allows raw TCP to this host any more");
	} else if (!used) {
		refuse_use(s, COURIER_NOT_USED);
	} else if (!is_known(s->of, s->ex, s->host_key)) {
		refuse(s, "unknown-host", "the host has another key than those that are known for it: see "
		       "`ssh-keygen -F`");
	} else if (user != NULL && strcmp(user, s->r.user) != 0) {
		refuse_use(s, "the key is not for this user");
	}
}

static void
judge_text(struct signing *s)
{
	const char *space = secret_with(s->of->secret, "sign");

	if (space == NULL)
		refuse_use(s, "the key is for logins only: `with: {sign: git}` in its definition lets it sign commits");
	else if (strcmp(space, s->r.space) != 0)
		refuse_use(s, "the key does not sign texts for this purpose");
}

static void
judge(struct signing *s)
{
	char reason[COURIER_NOTE_MAX];

	s->of = find_key(s->c, s->r.key, &s->of_at);
	if (s->c->halted[0] != '\0')
		refuse(s, "audit", s->c->halted);
	else if (s->of == NULL)
		refuse(s, "no-key", "the cell has no such key");
	else if (secrets_is_revoked(&s->c->secrets, s->c->secrets.view, s->of_at, reason, sizeof(reason)))
		refuse(s, "revoked", reason);
	else if (s->kind == EGRESS_SSH_TEXT)
		judge_text(s);
	else
		judge_login(s);
	/* The connection was counted before its purpose was known. */
	if (s->why == NULL && s->ex != NULL &&
	    !exchange_afford_secret(s->ex, s->of->secret->name, reason, sizeof(reason)))
		refuse(s, "budget", reason);
}

/* ---- records ---- */

static void
record(const struct signing *s)
{
	struct events *e = &s->c->events;
	char print[SSH_PRINT_MAX], host_print[SSH_PRINT_MAX], what[HTTP_HOST_MAX + 64];

	event_begin(e, "ssh");
	event_str(e, "verdict", s->why == NULL ? "allow" : "deny");
	event_str(e, "why", s->why);
	event_str(e, "secret", s->of == NULL ? NULL : s->of->secret->name);
	ssh_key_print(s->r.key, print);
	event_str(e, "fingerprint", print);
	if (s->kind == EGRESS_SSH_TEXT) {
		event_str(e, "sign", s->r.space);
	} else {
		event_str(e, "user", s->r.user);
		if (s->ex != NULL) {
			event_str(e, "host", s->ex->host);
			event_u64(e, "port", s->ex->t.port);
		}
		if (s->host_key.len > 0) {
			ssh_key_print(s->host_key, host_print);
			event_str(e, "host_key", host_print);
		}
	}
	event_str(e, "note", s->note);
	if (s->misplaced)
		event_true(e, "misplaced");
	snprintf(what, sizeof(what), "ssh %s", s->ex != NULL ? s->ex->host :
	         s->of != NULL ? s->of->secret->name : "");
	event_done(e, s->why != NULL, what);
	courier_raise_alarm(s->c, s->why);
	courier_at_round_end(s->c);
}

/* ---- requests of the gate ---- */

static int
take_login(struct signing *s, struct http_text *rest)
{
	return ssh_get_sized(rest, SSH_SESSION_MIN, SSH_SESSION_MAX, &s->r.session) &&
	       ssh_get_name(rest, SSH_NAME_MAX, s->r.user) && ssh_get_bool(rest, &s->hostbound) &&
	       ssh_get_sized(rest, 0, SSH_SESSION_MAX, &s->bound) &&
	       ssh_get_sized(rest, 0, SSH_BLOB_MAX, &s->host_key) &&
	       ssh_get_sized(rest, 0, SSH_BLOB_MAX, &s->signature) &&
	       ssh_get_bool(rest, &s->forwarded) ? 0 : -EBADMSG;
}

static int
take_text(struct signing *s, struct http_text *rest)
{
	return ssh_get_name(rest, SSH_SPACE_MAX, s->r.space) &&
	       ssh_get_name(rest, SSH_ALGORITHM_MAX, s->r.hash) &&
	       ssh_get_sized(rest, 32, SSH_SESSION_MAX, &s->r.digest) ? 0 : -EBADMSG;
}

static int
take(struct signing *s, struct http_text rest)
{
	int r;

	if (!ssh_get_u32(&rest, &s->kind) || s->kind > EGRESS_SSH_TEXT ||
	    !ssh_get_sized(&rest, 1, SSH_BLOB_MAX, &s->r.key) ||
	    !ssh_get_name(&rest, SSH_ALGORITHM_MAX, s->r.algorithm))
		return -EBADMSG;
	r = s->kind == EGRESS_SSH_TEXT ? take_text(s, &rest) : take_login(s, &rest);
	return r == 0 && rest.len == 0 ? 0 : -EBADMSG;
}

static void
sign(struct signing *s, struct buf *ret_signature)
{
	OWN(buf_free) struct buf message = BUF(SIGNED_MAX);
	struct err err = {0};

	if (s->kind == EGRESS_SSH_TEXT) {
		ssh_put_text(&message, &s->r);
	} else {
		if (s->hostbound)
			s->r.host_key = s->host_key;
		ssh_put_login(&message, &s->r);
	}
	if (buf_failed(&message))
		refuse(s, "malformed", "what is to be signed is too large");
	else if (ssh_sign(s->of->real[SECRET_SECRET], s->r.algorithm, scheme_text_of(&message),
	                  ret_signature, &err) < 0)
		refuse(s, "malformed", err.text);
	if (s->why != NULL)
		buf_reset(ret_signature);
}

int
courier_ssh_sign(struct courier *c, uint32_t id, struct buf *body)
{
	struct signing s = { .c = c };
	OWN(buf_free) struct buf signature = BUF(SSH_BLOB_MAX);

	if (take(&s, (struct http_text){ (char *)body->data + body->pos, buf_left(body) }) < 0)
		return -EBADMSG;
	judge(&s);
	if (s.why == NULL)
		sign(&s, &signature);
	/* From now on the connection depends on this key. */
	if (s.why == NULL && s.ex != NULL && s.ex->secrets != NULL)
		exchange_note_carried(s.ex, s.of_at);
	record(&s);
	buf_reset(&c->out);
	ssh_put_string(&c->out, scheme_text_of(&signature));
	mux_send(c->gate, id, EGRESS_SSH_SIGNED, &c->out);
	return 0;
}
