/* wire.c - see wire.h: chooses the connections that use a credential, searches all
 * raw bytes, and logs in to Redis. */
#include "egress/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/wire_parts.h"
#include "sign/scheme_parts.h"
#include "wire/pg.h"
#include "wire/redis.h"

/* ---- protocol ---- */

static const struct {
	const char *scheme;
	enum egress_routed kind;
} kinds[] = { { "postgres", EGRESS_POSTGRES }, { "redis", EGRESS_REDIS } };

static const char *
kind_name(enum egress_routed kind)
{
	return kinds[kind == kinds[1].kind].scheme;
}

/* Whether B is for EX's destination and for this KIND. */
static bool
wire_fits(const struct exchange *ex, const struct bound_secret *b, enum egress_routed kind)
{
	struct policy_request req = { .protocol = POLICY_TCP, .host = ex->host, .port = ex->t.port };

	return strcmp(b->secret->scheme->name, kind_name(kind)) == 0 &&
	       secret_in_scope(b->secret, &req);
}

bool
wire_wants_tls(const struct bound_secret *b)
{
	const char *said = secret_with(b->secret, "tls");

	if (strcmp(b->secret->scheme->name, "redis") == 0)
		return said != NULL && strcmp(said, "on") == 0;
	return said == NULL || strcmp(said, "off") != 0;
}

/* The first secret for this destination defines the protocol. */
static int
find_wire(struct exchange *ex)
{
	const struct bound *bound = &ex->courier->secrets.bound;

	for (size_t i = 0; i < bound->n; i++)
		for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
			if (!wire_fits(ex, &bound->at[i], kinds[k].kind))
				continue;
			ex->wire = calloc(1, sizeof(*ex->wire));
			if (ex->wire == NULL)
				return -ENOMEM;
			ex->wire->kind = kinds[k].kind;
			ex->t.server_waits = true;
			if (kinds[k].kind == EGRESS_POSTGRES)
				wire_begin_postgres(ex, wire_wants_tls(&bound->at[i]));
			else
				ex->t.begins_tls = wire_wants_tls(&bound->at[i]);
			return 0;
		}
	return 0;
}

/* A connection that a rule allows is raw, or has the protocol of a fitting secret. */
enum stage_answer
stage_login(struct exchange *ex)
{
	int r = 0;

	/* It has waited for its client's login. */
	if (ex->wire != NULL)
		return STAGE_CONTINUE;
	if (ex->courier->secrets.view != NULL)
		r = !exchange_secrets_new(ex) ? -ENOMEM : ex->kind == EXCHANGE_TCP ? find_wire(ex) : 0;
	if (r < 0) {
		exchange_refuse(ex, "credential", "there is no memory");
		return STAGE_REFUSE;
	}
	if (ex->wire == NULL)
		return STAGE_CONTINUE;
	if (ex->wire->kind == EGRESS_REDIS) {
		/* Redis stores the passwords themselves, and shows them to privileged users. */
		ex->secrets->carries = true;
		return STAGE_CONTINUE;
	}
	transfer_touch(&ex->t, WIRE_LOGIN_S);
	exchange_routed(ex, EGRESS_POSTGRES, "", "");
	return STAGE_WAIT;
}

void
login_late(struct exchange *ex)
{
	struct failure failure;

	failure_set(&failure, 504, "login", "login failed", "the client did not log in within %d s",
	            WIRE_LOGIN_S);
	exchange_fail(ex, &failure);
}

void
exchange_wire_free(struct exchange *ex)
{
	struct exchange_wire *w = TAKE(ex->wire);

	if (w == NULL)
		return;
	postgres_end(&w->postgres);
	ex->t.postgres = NULL;
	free(w);
}

bool
exchange_wire_has_bytes(const struct exchange *ex)
{
	return ex->wire != NULL && ex->wire->asked && ex->state == EXCHANGE_WAITS;
}

/* ---- searching ---- */

static enum swap_verdict
judge(void *arg, const struct swap_seen *seen)
{
	struct exchange *ex = arg;
	const struct secrets_view *s = ex->secrets->view;

	snprintf(ex->secrets->reason, sizeof(ex->secrets->reason),
	         "the placeholder of the secret '%s' is on its way to where it may not go, or not so",
	         s->at[s->owner[seen->needle]]->secret->name);
	return SWAP_STOP;
}

static void
refuse_found(struct exchange *ex, int r, const struct err *err)
{
	char reason[COURIER_NOTE_MAX];

	snprintf(reason, sizeof(reason), "%.300s", r == -EACCES ? ex->secrets->reason : err->text);
	exchange_refuse(ex, r == -EACCES ? "exfiltration" : "credential", reason);
}

/* Bytes are passed on at once, because the client may wait for a response to them.  So if a
 * placeholder comes in pieces, all but its last piece has gone when it is found.  Then the
 * connection is closed. */
bool
exchange_search(struct exchange *ex, const void *data, size_t len)
{
	struct exchange_secrets *x = ex->secrets;
	struct err err = {0};
	int r;

	if (x == NULL || x->view->out == NULL)
		return true;
	if (x->body.set == NULL)
		x->body = (struct swap_stream){ .set = x->view->out, .place = SWAP_BODY,
		                                .judge = judge, .sink = exchange_no_sink, .arg = ex };
	r = swap_feed(&x->body, data, len, &err);
	if (r < 0)
		refuse_found(ex, r, &err);
	return r == 0;
}

/* False: EX is refused. */
static bool
search_text(struct exchange *ex, struct http_text text)
{
	struct swap_stream s = { .set = ex->secrets->view->out, .place = SWAP_BODY,
	                         .judge = judge, .sink = exchange_no_sink, .arg = ex };
	struct err err = {0};
	int r;

	if (s.set == NULL || text.len == 0)
		return true;
	r = swap_feed(&s, text.at, text.len, &err);
	if (r == 0)
		r = swap_finish(&s, &err);
	swap_free(&s);
	if (r < 0)
		refuse_found(ex, r, &err);
	return r == 0;
}

/* ---- logins ---- */

/* The user that the secret is for; empty: any user. */
static struct http_text
user_of(const struct bound_secret *b)
{
	if (b->real[SECRET_ID].len > 0)
		return b->real[SECRET_ID];
	return (struct http_text){ b->secret->id, strlen(b->secret->id) };
}

/* Find the secret whose placeholder is in the right place.  *ret_other_user: the user is wrong. */
static const struct bound_secret *
find_secret(const struct exchange *ex, const struct wire_attempt *a, bool *ret_other_user)
{
	const struct bound *bound = &ex->courier->secrets.bound;

	*ret_other_user = false;
	for (size_t i = 0; i < bound->n; i++) {
		const struct bound_secret *b = &bound->at[i];
		struct http_text id = user_of(b);

		if (!wire_fits(ex, b, ex->wire->kind) || b->placeholder[SECRET_SECRET].len == 0 ||
		    !scheme_same(b->placeholder[SECRET_SECRET], a->password))
			continue;
		if (id.len == 0 || a->user.len == 0 || scheme_same(id, a->user))
			return b;
		*ret_other_user = true;
	}
	return NULL;
}

static void
refuse_password(struct exchange *ex, const struct wire_attempt *a, bool other_user)
{
	char reason[COURIER_NOTE_MAX];

	if (other_user)
		snprintf(reason, sizeof(reason), "the password is a placeholder, but not of a secret of the "
		         "user '%.*s'", a->user.len < 64 ? (int)a->user.len : 64, a->user.at);
	else
		snprintf(reason, sizeof(reason), "the password is not the placeholder of a secret that may "
		         "go to %.200s:%u", ex->host, ex->t.port);
	exchange_refuse(ex, "login", reason);
}

const struct bound_secret *
wire_secret(const struct exchange *ex, size_t number)
{
	return ex->courier->secrets.view->at[number];
}

static size_t
secret_number(const struct exchange *ex, const struct bound_secret *b)
{
	return (size_t)(b - ex->courier->secrets.bound.at);
}

bool
wire_judge(struct exchange *ex, const struct wire_attempt *a, size_t *ret_secret)
{
	struct exchange_wire *w = ex->wire;
	const struct bound_secret *found;
	char reason[COURIER_NOTE_MAX];
	bool other_user, good = true;

	snprintf(w->user, sizeof(w->user), "%.*s", (int)(a->user.len < 64 ? a->user.len : 63),
	         a->user.len > 0 ? a->user.at : "");
	found = find_secret(ex, a, &other_user);
	w->judging = true;
	for (size_t i = 0; good && i < a->n_others; i++)
		good = search_text(ex, a->others[i]);
	if (good && found == NULL && !other_user)
		good = search_text(ex, a->password);
	if (good && found == NULL) {
		refuse_password(ex, a, other_user);
		good = false;
	}
	if (good && !exchange_lets_use(ex, found->secret)) {
		snprintf(reason, sizeof(reason), "the login is with the secret '%s', but " COURIER_NOT_USED,
		         found->secret->name);
		exchange_refuse(ex, "exfiltration", reason);
		good = false;
	}
	if (good && secrets_is_revoked(&ex->courier->secrets, ex->secrets->view, secret_number(ex, found),
	                               reason, sizeof(reason))) {
		exchange_note_quiet(ex, ex->secrets->view, secret_number(ex, found));
		exchange_refuse(ex, "revoked", reason);
		good = false;
	}
	if (good && secret_has_ended(wire_secret(ex, secret_number(ex, found)))) {
		courier_ask_keeper(ex->courier);
		exchange_refuse(ex, "expired", "the value of the secret has ended, and no new one could be "
		                "fetched");
		good = false;
	}
	/* EX still exists here: exchanges are freed when the round ends. */
	w->judging = false;
	if (!good)
		return false;
	snprintf(w->name, sizeof(w->name), "%s", found->secret->name);
	*ret_secret = secret_number(ex, found);
	exchange_note_carried(ex, *ret_secret);
	return true;
}

/* ---- Redis ---- */

void
exchange_wire_went(struct exchange *ex)
{
	if (ex->wire == NULL || !ex->wire->owes_logged || buf_left(&ex->t.body) > 0 ||
	    ex->stream == NULL)
		return;
	ex->wire->owes_logged = false;
	mux_send(ex->courier->gate, ex->stream->id, EGRESS_LOGGED, NULL);
}

static struct http_text
text_of(struct redis_text text)
{
	return (struct http_text){ text.at, text.len };
}

static void
send_login(struct exchange *ex, const struct redis_login *login, const struct bound_secret *b)
{
	struct redis_text user = login->user, password;
	struct http_text id = user_of(b);
	bool has_user = login->has_user, went;
	struct buf command = BUF_SECRET(REDIS_LOGIN_MAX + 2 * SECRET_VALUE_MAX);

	if (id.len > 0) {
		user = (struct redis_text){ id.at, id.len };
		has_user = true;
		snprintf(ex->wire->user, sizeof(ex->wire->user), "%.63s", user.at);
	}
	password = (struct redis_text){ b->real[SECRET_SECRET].at, b->real[SECRET_SECRET].len };
	redis_login_write(&command, login, has_user ? &user : NULL, password);
	if (buf_failed(&command)) {
		exchange_refuse(ex, "credential", "there is no memory");
	} else {
		went = exchange_pass_on(ex, command.data, command.len);
		ex->wire->owes_logged = true;
		if (went)
			exchange_wire_went(ex);
	}
	buf_free(&command);
}

static int
take_redis(struct exchange *ex, struct buf *body)
{
	struct wire_attempt attempt;
	struct http_text others[3];
	struct redis_login login;
	size_t secret;

	if (ex->wire->owes_logged || ex->t.came_all || redis_login_decode(body, &login) < 0)
		return -EBADMSG;
	if (ex->state == EXCHANGE_DRAINS)
		return 0;
	if (ex->state != EXCHANGE_PASSES)
		return -EBADMSG;
	others[0] = text_of(login.version);
	others[1] = text_of(login.user);
	others[2] = text_of(login.name);
	attempt = (struct wire_attempt){ text_of(login.password), text_of(login.user), others, 3 };
	if (wire_judge(ex, &attempt, &secret))
		send_login(ex, &login, wire_secret(ex, secret));
	return 0;
}

int
exchange_wire_login(struct exchange *ex, struct buf *body)
{
	if (ex->wire == NULL)
		return -EBADMSG;
	return ex->wire->kind == EGRESS_REDIS ? take_redis(ex, body) : wire_take_postgres(ex, body);
}

/* ---- responses and records ---- */

static const char *
sqlstate(const char *why, bool quiet)
{
	if (strcmp(why, "login") == 0 || (quiet && strcmp(why, "revoked") == 0))
		return "28P01";         /* invalid_password */
	if (strcmp(why, "exfiltration") == 0 || strcmp(why, "revoked") == 0)
		return "28000";         /* invalid_authorization_specification */
	return "08001";                 /* sqlclient_unable_to_establish_sqlconnection */
}

bool
exchange_wire_tell(struct exchange *ex, const char *why, const char *reason)
{
	const struct exchange_wire *w = ex->wire;
	struct buf *out = &ex->courier->out;
	char text[COURIER_NOTE_MAX + 32];

	if (w == NULL || (!w->judging && !(w->kind == EGRESS_POSTGRES && w->asked && !w->done)))
		return false;
	if (ex->outcome.quiet == NULL || strcmp(why, "revoked") != 0)
		snprintf(text, sizeof(text), "%s: %s", ex->outcome.refused ? "refused by cloister" : "cloister",
		         reason);
	else if (w->kind == EGRESS_POSTGRES)
		snprintf(text, sizeof(text), "password authentication failed for user \"%s\"", w->user);
	else
		snprintf(text, sizeof(text), "invalid username-password pair or user is disabled.");
	buf_reset(out);
	if (w->kind == EGRESS_POSTGRES)
		pg_put_error(out, sqlstate(why, ex->outcome.quiet != NULL), text);
	else
		redis_put_error(out, "WRONGPASS", text);
	exchange_give_plain(ex, out->data, out->len);
	ex->response.received = 0;
	exchange_record(ex);
	exchange_end(ex, NULL, 0);
	return true;
}

void
exchange_wire_record(struct events *e, const struct exchange *ex)
{
	const struct exchange_wire *w = ex->wire;

	if (w == NULL)
		return;
	event_str(e, "service", kind_name(w->kind));
	event_str(e, "secret", w->name);
	event_str(e, "user", w->user);
	event_str(e, "database", w->database);
	if (w->postgres.is_cancel)
		event_true(e, "cancel");
}
