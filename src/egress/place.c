/* place.c - decides where a placeholder may be, and explains misplaced ones. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "egress/courier.h"
#include "egress/secrets_parts.h"

bool
exchange_fits_scope(struct exchange *ex, const struct secret *s)
{
	struct policy_request req = { .protocol = POLICY_HTTP, .head = exchange_head(ex),
	                              .host = ex->host, .port = ex->t.port };

	return secret_in_scope(s, &req);
}

void
exchange_tell_misfit(struct exchange *ex, const struct secret *s, char *text, size_t size)
{
	struct policy_request req = { .protocol = POLICY_HTTP, .head = exchange_head(ex),
	                              .host = ex->host, .port = ex->t.port };

	if (!exchange_lets_use(ex, s) && secret_in_scope(s, &req))
		snprintf(text, size, COURIER_NOT_USED);
	else
		secret_misfit_text(s, &req, text, size);
}

/* Whether the placeholder is in a parameter that S names.  A different spelling of the name does
 * not match. */
static bool
fits_param(const struct secret *s, const struct http_head *head, const struct swap_seen *seen)
{
	const char *query = memchr(head->path.at, '?', head->path.len);
	const char *at, *name, *equals;

	if (query == NULL || seen->at >= (size_t)(head->path.at + head->path.len - query))
		return false;
	at = name = query + seen->at;
	while (name > query + 1 && name[-1] != '&')
		name--;
	equals = memchr(name, '=', (size_t)(at - name));
	return equals != NULL ? secret_in_param(s, name, (size_t)(equals - name)) : s->params.n == 0;
}

static bool
fits_place(const struct secret *s, const struct http_head *head, const struct swap_seen *seen)
{
	switch (seen->place) {
	case SWAP_HEADER:
		return (s->places & SECRET_IN_HEADER) != 0 &&
		       secret_in_header(s, seen->name.at, seen->name.len);
	case SWAP_BASIC_USER:
		return (s->places & SECRET_IN_BASIC_USER) != 0;
	case SWAP_BASIC_PASSWORD:
		return (s->places & SECRET_IN_BASIC_PASSWORD) != 0;
	case SWAP_QUERY:
		return (s->places & SECRET_IN_QUERY) != 0 && fits_param(s, head, seen);
	case SWAP_PATH:
		return (s->places & SECRET_IN_PATH) != 0;
	case SWAP_BODY:
	case SWAP_BODY_FORM:
	case SWAP_BODY_JSON:
		return (s->places & SECRET_IN_BODY) != 0;
	case SWAP_MESSAGE:
		return (s->places & SECRET_IN_WEBSOCKET) != 0;
	default:
		return false;
	}
}

static const char *
place_text(const struct swap_seen *seen)
{
	static const char *const texts[] = {
		[SWAP_HEADER] = "a header", [SWAP_NAME] = "the name of a header", [SWAP_HOST] = "the host",
		[SWAP_BASIC_USER] = "a user name", [SWAP_BASIC_PASSWORD] = "a password",
		[SWAP_PATH] = "the path", [SWAP_QUERY] = "the query", [SWAP_BODY] = "the body",
		[SWAP_BODY_FORM] = "the body", [SWAP_BODY_JSON] = "the body",
		[SWAP_MESSAGE] = "a message",
	};

	return texts[seen->place];
}

/* A key's id or token, in a request signed with it: both are replaced with the signature.  In a
 * header or query they do no harm. */
static bool
is_signers(const struct exchange *ex, const struct swap_seen *seen)
{
	const struct secrets_view *s = ex->secrets->view;
	size_t owner = s->owner[seen->needle];

	if (s->schemes[owner] == NULL || s->field[seen->needle] == SECRET_SECRET)
		return false;
	return seen->place == SWAP_HEADER || seen->place == SWAP_QUERY ||
	       ((seen->place == SWAP_BODY || seen->place == SWAP_BODY_FORM) &&
	        exchange_is_signer(ex, owner));
}

/* A template may also put a key's id into requests that are not signed. */
static bool
is_lone_id(const struct exchange *ex, const struct swap_seen *seen)
{
	const struct secrets_view *s = ex->secrets->view;
	size_t owner = s->owner[seen->needle];
	const struct hmac_place *place;

	if (s->schemes[owner] != &sign_hmac || s->field[seen->needle] != SECRET_ID ||
	    exchange_is_signer(ex, owner) || ex->secrets->covered)
		return false;
	place = &s->options[owner]->hmac.one[0].id;
	return seen->place == SWAP_HEADER && place->kind == HMAC_HEADER &&
	       place->name.len == seen->name.len &&
	       strncasecmp(place->name.at, seen->name.at, seen->name.len) == 0;
}

bool
exchange_has_ended(struct exchange *ex, size_t owner)
{
	struct exchange_secrets *x = ex->secrets;
	const struct bound_secret *known = x->view->at[owner];

	if (secrets_is_revoked(&ex->courier->secrets, x->view, owner, x->reason, sizeof(x->reason))) {
		x->ended = 403;
		x->revoked = true;
		exchange_note_quiet(ex, x->view, owner);
		return true;
	}
	if (!secret_has_ended(known))
		return false;
	if (owner >= x->view->n_bound) {
		/* Clients get a new token after this status. */
		x->ended = 401;
		snprintf(x->reason, sizeof(x->reason), "the token that was given for the secret '%s' has "
		         "ended", known->secret->name);
		return true;
	}
	courier_ask_keeper(ex->courier);
	x->ended = 403;
	snprintf(x->reason, sizeof(x->reason), "the value of the secret '%s' has ended, and no new one "
	         "could be fetched: `cloister events` tells why", known->secret->name);
	return true;
}

void
exchange_note_carried(struct exchange *ex, size_t owner)
{
	const struct secrets_view *v = ex->secrets->view;
	size_t of = owner < v->n_bound ? owner : v->tokens[owner - v->n_bound]->of;
	struct secrets *s = &ex->courier->secrets;

	s->used[of] += ex->secrets->carried[of] == 0;
	s->used_more = true;
	ex->secrets->carried[of] = 1;
}

void
exchange_secrets_record(struct events *e, const struct exchange *ex)
{
	const char *names[BOUND_MAX];
	size_t n = 0;

	for (size_t i = 0; ex->secrets != NULL && i < BOUND_MAX; i++)
		if (ex->secrets->carried[i] != 0)
			names[n++] = ex->courier->secrets.bound.at[i].secret->name;
	if (n > 0)
		event_list(e, "secrets", names, n);
	if (ex->secrets != NULL && ex->secrets->misplaced && strcmp(ex->secrets->reason, ex->note) == 0)
		event_true(e, "misplaced");
}

/* The name of the secret, also if OWNER is a token that was issued for it. */
static const char *
name_of(const struct exchange *ex, size_t owner)
{
	const struct secrets_view *v = ex->secrets->view;
	size_t of = owner < v->n_bound ? owner : v->tokens[owner - v->n_bound]->of;

	return ex->courier->secrets.bound.at[of].secret->name;
}

static bool
is_for_host(struct exchange *ex, const struct secret *s)
{
	struct policy_request req = { .protocol = POLICY_HTTP, .head = exchange_head(ex),
	                              .host = ex->host, .port = ex->t.port };

	return secret_is_for_host(s, &req);
}

static void
tell_misplaced(struct exchange *ex, const struct secret *s, const struct swap_seen *seen,
               bool in_scope)
{
	struct exchange_secrets *x = ex->secrets;
	char why[EXCHANGE_MISFIT_MAX] = "";

	x->misplaced = in_scope || is_for_host(ex, s);
	if (!in_scope) {
		exchange_tell_misfit(ex, s, why, sizeof(why));
		snprintf(x->reason, sizeof(x->reason), "the placeholder of the secret '%s' is in %s, on its "
		         "way to where it may not go: %s", s->name, place_text(seen), why);
		return;
	}
	if (s->places != 0)
		secret_places_text(s, why, sizeof(why));
	snprintf(x->reason, sizeof(x->reason), "the placeholder of the secret '%s' is in %s%s%.*s"
	         COURIER_WRONG_PLACE "%s%s", s->name, place_text(seen), seen->place == SWAP_HEADER ? " " : "",
	         seen->place == SWAP_HEADER ? (int)(seen->name.len < 64 ? seen->name.len : 64) : 0,
	         seen->name.at != NULL ? seen->name.at : "", s->places != 0 ? COURIER_ITS_PLACES :
	         "it is a key that signs, and is never sent", s->places != 0 ? why : "");
}

/* A placeholder is worth nothing.  If the policy trusts a host with what the agent says, a
 * placeholder in it passes unchanged.  Otherwise it would block every later turn of the
 * conversation too. */
static bool
passes(const struct exchange *ex, const struct swap_seen *seen)
{
	switch (seen->place) {
	case SWAP_BODY:
	case SWAP_BODY_FORM:
	case SWAP_BODY_JSON:
	case SWAP_MESSAGE:
		return ex->decision.may_pass_placeholders;
	default:
		return false;
	}
}

/* Whether a passed placeholder was recorded for HOST before; marks it as recorded. */
static bool
is_noted(struct secrets *s, const char *host)
{
	for (size_t i = 0; i < s->n_passed && i < SECRETS_PASSED; i++)
		if (strcmp(s->passed[i], host) == 0)
			return true;
	snprintf(s->passed[s->n_passed++ % SECRETS_PASSED], sizeof(s->passed[0]), "%s", host);
	return false;
}

static void
note_passed(struct exchange *ex, size_t owner)
{
	struct events *e = &ex->courier->events;

	if (is_noted(&ex->courier->secrets, ex->host))
		return;
	event_begin(e, "secret");
	event_str(e, "verdict", "allow");
	event_str(e, "secret", name_of(ex, owner));
	event_str(e, "host", ex->host);
	event_str(e, "why", "passed");
	event_str(e, "note", "its placeholder passed as it is in a body: the rule says `placeholders: pass`");
	event_done(e, false, NULL);
}

/* A placeholder on its way to its own host may be a mistake.  It must not hide a theft, so the search goes on behind it. */
static enum swap_verdict
find_misplaced(struct exchange *ex, const struct secret *s, const struct swap_seen *seen, bool in_scope)
{
	struct exchange_secrets *x = ex->secrets;
	bool is_mistake = in_scope || is_for_host(ex, s);

	if (!is_mistake || x->reason[0] == '\0')
		tell_misplaced(ex, s, seen, in_scope);
	return is_mistake ? SWAP_LEAVE : SWAP_STOP;
}

enum swap_verdict
exchange_judge_stray(void *arg, const struct swap_seen *seen)
{
	struct exchange *ex = arg;
	const struct secrets_view *s = ex->secrets->view;
	const struct secret *secret = s->at[s->owner[seen->needle]]->secret;
	bool in_scope = exchange_fits_scope(ex, secret);

	if (passes(ex, seen))
		return SWAP_LEAVE;
	if (in_scope && (is_lone_id(ex, seen) || is_signers(ex, seen) ||
	                 fits_place(secret, exchange_head(ex), seen)))
		return SWAP_LEAVE;
	return find_misplaced(ex, secret, seen, in_scope);
}

enum swap_verdict
exchange_judge(void *arg, const struct swap_seen *seen)
{
	struct exchange *ex = arg;
	struct exchange_secrets *x = ex->secrets;
	const struct secrets_view *s = x->view;
	size_t owner = s->owner[seen->needle];
	const struct secret *secret = s->at[owner]->secret;
	bool in_scope = exchange_may_use(ex, secret);
	bool fits = in_scope && (is_lone_id(ex, seen) || fits_place(secret, exchange_head(ex), seen));

	/* EX is going to be refused. */
	if (x->misplaced)
		return exchange_judge_stray(arg, seen);
	if (passes(ex, seen)) {
		note_passed(ex, owner);
		return SWAP_LEAVE;
	}
	if (in_scope && exchange_has_ended(ex, owner))
		return SWAP_STOP;
	if (in_scope && is_signers(ex, seen) && (!fits || exchange_is_signer(ex, owner)))
		return SWAP_LEAVE;
	/* Messages come after the signed request, so the signature does not cover them. */
	if (fits && (!x->covered || seen->place == SWAP_MESSAGE)) {
		if (!exchange_afford_secret(ex, name_of(ex, owner), x->reason, sizeof(x->reason))) {
			x->ended = 429;
			x->used_up = true;
			return SWAP_STOP;
		}
		x->carries = x->swapped = true;
		exchange_note_carried(ex, owner);
		return SWAP_REPLACE;
	}
	x->refused_covered = fits;
	if (fits) {
		snprintf(x->reason, sizeof(x->reason), "the request is signed, so the placeholder of the "
		         "secret '%s' in %s cannot become the real one", secret->name, place_text(seen));
		return SWAP_STOP;
	}
	return find_misplaced(ex, secret, seen, in_scope);
}

enum swap_verdict
exchange_judge_never(void *arg, const struct swap_seen *seen)
{
	struct exchange *ex = arg;
	const struct secrets_view *s = ex->secrets->view;

	if (passes(ex, seen)) {
		note_passed(ex, s->owner[seen->needle]);
		return SWAP_LEAVE;
	}
	ex->secrets->misplaced = false;
	snprintf(ex->secrets->reason, sizeof(ex->secrets->reason), "the placeholder of the secret '%s' "
	         "is in %s, where it may not be", s->at[s->owner[seen->needle]]->secret->name,
	         place_text(seen));
	return SWAP_STOP;
}

int
exchange_no_sink(void *arg, const unsigned char *data, size_t len)
{
	(void)arg;
	(void)data;
	(void)len;
	return 0;
}
