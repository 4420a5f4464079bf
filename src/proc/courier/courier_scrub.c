/* courier_scrub.c - what comes back to a request that carried something real: real values
 * become placeholders again. */
#include "proc/courier/courier.h"
#include "proc/courier/courier_secrets_parts.h"

bool
exchange_is_scrubbed(const struct exchange *ex)
{
	return ex->secrets != NULL && ex->secrets->carries && ex->courier->secrets.in != NULL;
}

static enum swap_verdict
judge_answer(void *arg, const struct swap_seen *seen)
{
	(void)arg;
	(void)seen;
	return SWAP_REPLACE;
}

static int
answer_sink(void *arg, const unsigned char *data, size_t len)
{
	exchange_give_plain(arg, data, len);
	return 0;
}

bool
exchange_scrub_head(struct exchange *ex, struct http_head *head, const char **ret_why)
{
	const struct swap_heads how = { ex->courier->secrets.in, SWAP_FIT_LENGTH, judge_answer, ex };
	struct exchange_secrets *x = ex->secrets;
	bool plain = swap_is_plain(head);

	/* A signature in what is packed gives no key away. */
	if (!plain && (x->signs == NULL || x->swapped)) {
		*ret_why = "it is packed, although that was not asked for, so a secret in it could not be "
		           "seen";
		return false;
	}
	if (swap_head(&how, head, exchange_scratch(ex), NULL) < 0) {
		*ret_why = "there is no room to take a secret out of it";
		return false;
	}
	if (!plain)
		return true;
	x->answer = (struct swap_stream){
		.set = ex->courier->secrets.in,
		.place = swap_body_place(http_head_get(head, "content-type")),
		.lengths = SWAP_FIT_LENGTH, .judge = judge_answer, .sink = answer_sink, .arg = ex,
	};
	return true;
}

bool
exchange_scrub_raw(struct exchange *ex, const void *data, size_t len)
{
	const struct swap_stream how = { .set = ex->courier->secrets.in, .judge = judge_answer,
	                                 .lengths = SWAP_FIT_LENGTH, .sink = answer_sink, .arg = ex,
	                                 .place = SWAP_BODY };
	struct exchange_secrets *x = ex->secrets;

	if (ex->kind != EXCHANGE_HTTP) {
		if (x->answer.set == NULL)
			x->answer = how;
		exchange_scrub(ex, data, len);
		return true;
	}
	if (x->received == NULL)
		x->received = exchange_new_messages(false, &how);
	return x->received != NULL && swap_ws_feed(x->received, data, len, NULL) == 0;
}

void
exchange_scrub(struct exchange *ex, const void *data, size_t len)
{
	if (ex->secrets->answer.set == NULL) {
		exchange_give_plain(ex, data, len);
		return;
	}
	(void)swap_feed(&ex->secrets->answer, data, len, NULL);
	/* Who waits for what was sent so far gets it; what is left back is the beginning of a
	 * secret, or its like. */
	(void)swap_let_go(&ex->secrets->answer);
}

bool
exchange_scrub_end(struct exchange *ex, struct http_field *trailers, size_t n)
{
	const struct swap_heads how = { ex->courier->secrets.in, SWAP_FIT_LENGTH, judge_answer, ex };

	if (ex->secrets->answer.set != NULL)
		(void)swap_finish(&ex->secrets->answer, NULL);
	return swap_fields(&how, trailers, n, exchange_scratch(ex), NULL) == 0;
}
