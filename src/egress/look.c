/* look.c - searches the head of a request for credentials: its path, query and fields, as
 * the agent wrote them.
 *
 * Fields and parameters that are named for credentials may contain one, and are not searched.  The
 * cell's own placeholders look like the values that they stand for. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/control.h"
#include "base/own.h"
#include "egress/courier.h"

#define KEY_MIN 20                      /* bytes: the catalogue knows no shorter credential */

/* Beginnings and ends of such names, in any case. */
static const char *const begins[] = { "x-amz-", "x-goog-", "sec-websocket-" };
static const char *const ends[] = { "authorization", "authentication", "auth", "cookie", "token", "key", "keyid",
	"key-id", "secret", "signature", "sig", "credential", "password", "session", "jwt" };

static bool
is_for_credentials(struct http_text name)
{
	for (size_t i = 0; i < ARRAY_LEN(begins); i++)
		if (name.len >= strlen(begins[i]) && strncasecmp(name.at, begins[i], strlen(begins[i])) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		size_t n = strlen(ends[i]);

		if (name.len >= n && strncasecmp(name.at + name.len - n, ends[i], n) == 0)
			return true;
	}
	return false;
}

static bool
has_placeholder(const struct exchange *ex, struct http_text text)
{
	const struct secrets_view *view = ex->courier->secrets.view;

	for (size_t i = 0; view != NULL && i < view->n_known; i++)
		for (size_t f = 0; f < SECRET_FIELDS; f++) {
			struct http_text fake = view->at[i]->placeholder[f];

			if (fake.len > 0 && fake.len <= text.len &&
			    memmem(text.at, text.len, fake.at, fake.len) != NULL)
				return true;
		}
	return false;
}

/* False: EX is refused. */
static bool
look_at(struct exchange *ex, struct http_text text, const char *where, struct http_text name)
{
	struct secrets_scan *scan = &ex->scan.state;
	char reason[256];
	const char *found;

	if (text.len < KEY_MIN)
		return true;
	scan->n_tail = 0;
	scan->n_extra = 0;
	found = secrets_find(scan, text.at, text.len);
	if (found == NULL || has_placeholder(ex, text))
		return true;
	snprintf(reason, sizeof(reason), "%s%s%.*s carries what looks like a credential (%s)", where,
	         name.len > 0 ? " " : "", (int)(name.len < 64 ? name.len : 64), name.len > 0 ? name.at : "", found);
	exchange_refuse(ex, "secret", reason);
	return false;
}

static bool
look_at_query(struct exchange *ex, struct http_text query)
{
	const char *end = query.at + query.len;

	for (const char *at = query.at; at < end;) {
		const char *stop = memchr(at, '&', (size_t)(end - at));
		const char *equals;

		stop = stop != NULL ? stop : end;
		equals = memchr(at, '=', (size_t)(stop - at));
		if ((equals == NULL || !is_for_credentials((struct http_text){ at, (size_t)(equals - at) })) &&
		    !look_at(ex, (struct http_text){ at, (size_t)(stop - at) }, "the query", (struct http_text){0}))
			return false;
		at = stop + 1;
	}
	return true;
}

enum stage_answer
stage_look(struct exchange *ex)
{
	/* If the body decides which rule applies, the head is searched after the inspection. */
	return ex->decision.needs_body || exchange_look_at_head(ex) ? STAGE_CONTINUE : STAGE_REFUSE;
}

bool
exchange_look_at_head(struct exchange *ex)
{
	const struct policy_decision *d = &ex->decision;
	const struct http_head *head = exchange_head(ex);
	const char *mark = memchr(ex->request.path.at, '?', ex->request.path.len);
	size_t n = mark != NULL ? (size_t)(mark - ex->request.path.at) : ex->request.path.len;

	if (!d->must_look || d->may_carry_secrets || !CONTROL_ON("secrets"))
		return true;
	if (!look_at(ex, (struct http_text){ ex->request.path.at, n }, "the path", (struct http_text){0}) ||
	    (mark != NULL && !look_at_query(ex, (struct http_text){ mark + 1, ex->request.path.len - n - 1 })))
		return false;
	for (size_t i = 0; i < head->n_fields; i++)
		if (!is_for_credentials(head->fields[i].name) &&
		    !look_at(ex, head->fields[i].value, "the header", head->fields[i].name))
			return false;
	return true;
}
