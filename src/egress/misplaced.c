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

/* What the search has found is what EX is refused for. */
static void
note_stray(struct exchange *ex)
{
	ex->outcome.why = "exfiltration";
	snprintf(ex->note, sizeof(ex->note), "%s", ex->secrets->reason);
}

void
exchange_note_mistake(struct exchange *ex)
{
	if (ex->secrets != NULL && ex->secrets->watched && ex->secrets->misplaced)
		note_stray(ex);
}

/* The search has found a placeholder in the body: record that. */
static void
tell_stray(struct exchange *ex)
{
	ex->secrets->watched = false;
	note_stray(ex);
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

/* Search the body for placeholders, as far as it was HELD.  The rest is watched. */
static void
search_body(struct exchange *ex, const struct buf *held)
{
	struct exchange_secrets *x = ex->secrets;
	int r;

	if (!ex->t.has_body)
		return;
	x->body = (struct swap_stream){
		.set = x->view->out, .place = swap_body_place(http_head_get(exchange_head(ex), "content-type")),
		.lengths = SWAP_ANY_LENGTH, .judge = exchange_judge_stray, .sink = exchange_no_sink, .arg = ex,
	};
	r = held->len > 0 ? swap_feed(&x->body, held->data, held->len, NULL) : 0;
	if (r == 0 && ex->t.came_all)
		(void)swap_finish(&x->body, NULL);
	else if (r == 0)
		watch(ex);
}

/* A misplaced placeholder was found while the body was sent: watch its rest. */
static void
go_on(struct exchange *ex)
{
	struct exchange_secrets *x = ex->secrets;

	x->body.judge = exchange_judge_stray;
	x->body.sink = exchange_no_sink;
	if (!ex->t.came_all)
		watch(ex);
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
	struct exchange_secrets *x;

	if (ex->kind != EXCHANGE_HTTP || s == NULL || s->out == NULL || (is_new && !exchange_secrets_new(ex)))
		return NULL;
	x = ex->secrets;
	/* In a request with secrets of its own, the head was searched already. */
	if (is_new && strays_in_head(ex))
		return x->reason;
	if (!is_new && x->view->out == NULL)
		return NULL;
	if (!is_new && x->misplaced && x->in_body)
		go_on(ex);
	else if (is_new || (is_unsearched(ex) && x->reason[0] == '\0') || (x->misplaced && !x->in_body))
		search_body(ex, held);
	else
		return NULL;
	return x->reason[0] != '\0' ? x->reason : NULL;
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
	if (swap_finish(&x->body, NULL) == -EACCES || (x->misplaced && strcmp(ex->note, x->reason) != 0)) {
		tell_stray(ex);
		return;
	}
	x->watched = false;
	exchange_record(ex);
}
