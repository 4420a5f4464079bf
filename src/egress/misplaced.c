/* misplaced.c - finds placeholders in names, and in requests that are refused anyway.  Nothing
 * of these leaves, but the attempt is recorded with its destination. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "egress/courier.h"
#include "egress/secrets_parts.h"

/* ---- names ---- */

static char
lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Names have no case, and a label holds 63 bytes: a longer text has dots in it without meaning. */
static size_t
squeeze(const char *name, char ret_text[HTTP_HOST_MAX])
{
	size_t n = 0;

	for (; *name != '\0' && n < HTTP_HOST_MAX; name++)
		if (*name != '.')
			ret_text[n++] = lower(*name);
	return n;
}

static bool
begins_with(const char *text, size_t len, struct http_text find)
{
	size_t n = 0;

	for (size_t i = 0; i < find.len; i++) {
		if (find.at[i] == '.')
			continue;
		if (n == len || text[n++] != lower(find.at[i]))
			return false;
	}
	return n >= SWAP_NEEDLE_MIN;
}

bool
courier_strays_in_name(const struct courier *c, const char *name, const char *what,
                       char *ret_reason, size_t size)
{
	const struct secrets_view *s = c->secrets.view;
	char text[HTTP_HOST_MAX];
	size_t len = s == NULL ? 0 : squeeze(name, text);

	for (size_t i = 0; len >= SWAP_NEEDLE_MIN && i < s->n; i++)
		for (size_t at = 0; at <= len - SWAP_NEEDLE_MIN; at++)
			if (begins_with(text + at, len - at, s->leaving[i].find)) {
				snprintf(ret_reason, size, "the placeholder of the secret '%s' is in %s, "
				         "where it may not be", s->at[s->owner[i]]->secret->name, what);
				return true;
			}
	return false;
}

bool
exchange_strays_in_name(struct exchange *ex, const char *name, const char *what)
{
	char reason[COURIER_NOTE_MAX];

	if (!courier_strays_in_name(ex->courier, name, what, reason, sizeof(reason)))
		return false;
	exchange_refuse(ex, "exfiltration", reason);
	return true;
}

/* ---- refused requests ---- */

/* The search has found a placeholder in the body: record that. */
static void
tell_stray(struct exchange *ex)
{
	ex->secrets->watched = false;
	ex->outcome.why = "exfiltration";
	snprintf(ex->note, sizeof(ex->note), "%s", ex->secrets->reason);
	ex->outcome.recorded = false;
	exchange_record(ex);
}

/* The record stops waiting for the rest of the body, but the search goes on. */
static void
is_late(void *arg)
{
	struct exchange *ex = arg;

	ex->secrets->waits = false;
	exchange_record(ex);
}

static void
watch(struct exchange *ex)
{
	ex->secrets->watched = ex->secrets->waits = true;
	loop_prepare_timer(&ex->scan.timer, is_late, ex);
	loop_set_timer(ex->courier->loop, &ex->scan.timer, COURIER_STRAY_MS);
}

/* Whether the body has a placeholder, as far as it was HELD.  The rest is watched. */
static bool
strays_in_body(struct exchange *ex, const struct buf *held)
{
	struct exchange_secrets *x = ex->secrets;
	int r;

	if (!ex->t.has_body)
		return false;
	x->body = (struct swap_stream){
		.set = x->view->out, .place = swap_body_place(http_head_get(exchange_head(ex), "content-type")),
		.lengths = SWAP_ANY_LENGTH, .judge = exchange_judge_stray, .sink = exchange_no_sink, .arg = ex,
	};
	r = held->len > 0 ? swap_feed(&x->body, held->data, held->len, NULL) : 0;
	if (r == 0 && ex->t.came_all)
		r = swap_finish(&x->body, NULL);
	else if (r == 0)
		watch(ex);
	return r == -EACCES;
}

static bool
strays_in_head(struct exchange *ex)
{
	struct http_head *head = &ex->courier->secrets.head;
	struct swap_heads how = { ex->secrets->view->out, SWAP_ANY_LENGTH, exchange_judge_stray, ex };

	http_head_copy(head, exchange_head(ex));
	return swap_head(&how, head, exchange_scratch(ex), NULL) == -EACCES;
}

/* Whether nobody has searched the body that EX holds.  Other bodies are searched as they pass. */
static bool
is_unsearched(const struct exchange *ex)
{
	return ex->inspect.holds && (ex->secrets == NULL || !ex->secrets->in_body);
}

struct buf
exchange_take_unsearched(struct exchange *ex)
{
	struct buf held = {0};

	if (!is_unsearched(ex))
		return held;
	held = ex->t.body;
	buf_init_secret(&ex->t.body, held.max);
	return held;
}

const char *
exchange_find_stray(struct exchange *ex, const struct buf *held)
{
	const struct secrets_view *s = ex->courier->secrets.view;
	bool is_new = ex->secrets == NULL;

	if (ex->kind != EXCHANGE_HTTP || s == NULL || s->out == NULL || (is_new && !exchange_secrets_new(ex)))
		return NULL;
	/* In a request with secrets of its own, the head was searched already. */
	if (is_new && strays_in_head(ex))
		return ex->secrets->reason;
	if (!is_new && (!is_unsearched(ex) || ex->secrets->view->out == NULL ||
	                ex->secrets->reason[0] != '\0'))
		return NULL;
	return strays_in_body(ex, held) ? ex->secrets->reason : NULL;
}

bool
exchange_awaits_stray(const struct exchange *ex)
{
	return ex->secrets != NULL && ex->secrets->watched && ex->secrets->waits;
}

void
exchange_watch(struct exchange *ex, const unsigned char *data, size_t len)
{
	struct exchange_secrets *x = ex->secrets;

	if (x != NULL && x->watched && swap_feed(&x->body, data, len, NULL) == -EACCES)
		tell_stray(ex);
}

void
exchange_watch_end(struct exchange *ex)
{
	struct exchange_secrets *x = ex->secrets;

	if (x == NULL || !x->watched)
		return;
	if (swap_finish(&x->body, NULL) == -EACCES) {
		tell_stray(ex);
		return;
	}
	x->watched = false;
	exchange_record(ex);
}
