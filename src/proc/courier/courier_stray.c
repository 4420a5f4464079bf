/* courier_stray.c - placeholders in what is refused anyway.  Nothing of it leaves; but where it was
 * to go is told. */
#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "proc/courier/courier.h"
#include "proc/courier/courier_secrets_parts.h"

/* What it is searched for is found in its body, which is still to come. */
static void
tell_stray(struct exchange *ex)
{
	ex->secrets->watched = false;
	ex->why = "exfiltration";
	snprintf(ex->note, sizeof(ex->note), "%s", ex->secrets->reason);
	ex->recorded = false;
	exchange_record(ex);
}

/* The record waits for the rest of the body no longer, but the search goes on. */
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
	struct exchange_secrets *x = ex->secrets;

	x->watched = x->waits = true;
	x->body = (struct swap_stream){
		.set = x->view->out, .place = swap_body_place(http_head_get(exchange_head(ex), "content-type")),
		.lengths = SWAP_ANY_LENGTH, .judge = exchange_judge_stray, .sink = exchange_no_sink, .arg = ex,
	};
	ex->tail_timer = (struct loop_timer){ .due = is_late, .arg = ex };
	loop_set_timer(ex->courier->loop, &ex->tail_timer, COURIER_STRAY_MS);
}

const char *
exchange_find_stray(struct exchange *ex)
{
	const struct secrets_view *s = ex->courier->secrets.view;
	struct http_head *head = &ex->courier->secrets.head;
	struct swap_heads how = { NULL, SWAP_ANY_LENGTH, exchange_judge_stray, ex };

	/* With secrets of its own it was searched. */
	if (ex->kind != EXCHANGE_HTTP || ex->secrets != NULL || s == NULL || s->out == NULL ||
	    !exchange_secrets_new(ex))
		return NULL;
	how.set = s->out;
	http_head_copy(head, exchange_head(ex));
	if (swap_head(&how, head, exchange_scratch(ex), NULL) == -EACCES)
		return ex->secrets->reason;
	if (ex->has_body && !ex->came_all)
		watch(ex);
	return NULL;
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
