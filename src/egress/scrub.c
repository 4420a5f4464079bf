/* scrub.c - cleans the response to a request that carried a real value: replaces real
 * values by placeholders. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "egress/courier.h"
#include "egress/secrets_parts.h"

bool
exchange_is_scrubbed(const struct exchange *ex)
{
	return ex->secrets != NULL && ex->secrets->carries;
}

static enum swap_verdict
judge_answer(void *arg, const struct swap_seen *seen)
{
	(void)arg;
	(void)seen;
	return SWAP_REPLACE;
}

/* The bytes held back were the beginning of a value, but the rest did not follow.  If this happens
 * more often than by chance, someone is testing beginnings. */
static void
answer_missed(void *arg)
{
	struct courier *c = ((struct exchange *)arg)->courier;

	if (++c->secrets.n_missed != SECRETS_MISSED_MAX)
		return;
	c->secrets.guessed = c->secrets.tells_guessed = true;
	courier_at_round_end(c);
}

void
courier_tell_guessed(struct courier *c)
{
	struct events *e = &c->events;

	if (!c->secrets.tells_guessed)
		return;
	c->secrets.tells_guessed = false;
	event_begin(e, "secret");
	event_str(e, "verdict", "deny");
	event_str(e, "why", "guessed");
	event_str(e, "note", "beginnings of a secret's value were tried out by what is held back of "
	          "answers: from now on the same of all is");
	event_done(e, true, "guesses at a secret");
	courier_raise_alarm(c, "exfiltration");
}

static int
answer_sink(void *arg, const unsigned char *data, size_t len)
{
	exchange_give_plain(arg, data, len);
	return 0;
}

/* Make x->coming from the current view.  False: out of memory. */
static bool
use_known(struct exchange *ex)
{
	struct exchange_secrets *x = ex->secrets;

	/* The stream was set up with the former set, so it is freed too. */
	swap_free(&x->answer);
	x->answer.set = x->coming = NULL;
	secrets_view_release(x->known);
	x->known = secrets_view_use(ex->courier->secrets.view);
	return exchange_coming(x, x->known, &x->coming, NULL) == 0;
}

bool
exchange_scrub_fields(struct exchange *ex, struct http_head *head, const char **ret_why)
{
	struct swap_heads how = { NULL, SWAP_FIT_LENGTH, judge_answer, ex };
	struct exchange_secrets *x = ex->secrets;

	if (!use_known(ex)) {
		*ret_why = "there is no memory to take a token out of it";
		return false;
	}
	how.set = x->coming;
	if (how.set == NULL)
		return true;
	if (swap_head(&how, head, &ex->courier->secrets.scratch, NULL) < 0) {
		*ret_why = "there is no room to take a secret out of it";
		return false;
	}
	x->answer = (struct swap_stream){
		.set = how.set, .place = swap_body_place(http_head_get(head, "content-type")),
		.lengths = SWAP_FIT_LENGTH, .judge = judge_answer, .sink = answer_sink, .arg = ex,
		.missed = answer_missed, .steady = &ex->courier->secrets.guessed,
	};
	return true;
}

/* Whether the response is a range of bytes.  Ranges in other units are lists of whole items, in
 * which no value is cut. */
static bool
is_part(const struct http_head *head)
{
	struct http_text range = http_head_get(head, "content-range");

	return head->status == 206 && (range.len == 0 || http_text_has_nocase(range, "bytes"));
}

static bool
clean_head(struct exchange *ex, struct http_head *head, bool has_body, const char **ret_why)
{
	struct exchange_secrets *x = ex->secrets;
	bool plain = swap_is_plain(head);
	bool holds = x->captures && has_body && ex->t.upstream != NULL && head->status >= 200 &&
	             head->status < 300;
	/* A stored object that is compressed is checked and cut by its bytes, and contains nothing
	 * of this request.  Other responses may repeat the signature. */
	bool as_it_is = !plain && (x->signs[0] != NULL || x->signs[1] != NULL) && !x->whole &&
	                !x->swapped && !holds && head->status < 300;

	(void)exchange_scratch(ex);
	if (x->whole && is_part(head)) {
		*ret_why = "it is a part that was not asked for, in which a secret could not be seen";
		return false;
	}
	if (!plain && !as_it_is && !exchange_unpack_begin(ex, head, has_body, ret_why))
		return false;
	if (holds)
		return exchange_hold(ex, head, ret_why);
	if (!exchange_scrub_fields(ex, head, ret_why))
		return false;
	if (as_it_is)
		x->answer.set = NULL;
	return true;
}

enum stage_answer
scrub_head(struct exchange *ex, struct http_head *head, bool has_body)
{
	struct failure failure;
	const char *why;

	if (!exchange_is_scrubbed(ex))
		return STAGE_CONTINUE;
	if (clean_head(ex, head, has_body, &why))
		return exchange_is_held(ex) ? STAGE_WAIT : STAGE_CONTINUE;
	failure_set(&failure, 502, "protocol", "upstream answers nonsense",
	            "the server's answer cannot be passed on: %s", why);
	exchange_detach(ex);
	exchange_fail(ex, &failure);
	return STAGE_REFUSE;
}

/* Whether the current view has values that STREAM does not search for.  A half-found value is
 * settled first. */
static bool
is_behind(const struct exchange *ex, const struct swap_stream *stream)
{
	const struct secrets_view *now = ex->courier->secrets.view;

	return ex->secrets->known != now && now->in != NULL && stream->n_held == 0;
}

bool
exchange_scrub_raw(struct exchange *ex, const void *data, size_t len)
{
	struct swap_stream how = { .judge = judge_answer, .lengths = SWAP_FIT_LENGTH,
	                           .sink = answer_sink, .arg = ex, .missed = answer_missed,
	                           .steady = &ex->courier->secrets.guessed };
	struct exchange_secrets *x = ex->secrets;

	if (ex->kind != EXCHANGE_HTTP) {
		if (x->known == NULL || is_behind(ex, &x->answer)) {
			if (!use_known(ex))
				return false;
			how.set = x->coming;
			how.place = SWAP_BODY;
			x->answer = how;
		}
		return exchange_scrub_plain(ex, data, len);
	}
	if (x->received == NULL) {
		if (!use_known(ex))
			return false;
		how.set = x->coming;
		x->received = exchange_new_messages(false, &how);
	} else if (x->received->stream.set != NULL && is_behind(ex, &x->received->stream)) {
		if (!use_known(ex))
			return false;
		x->received->stream.set = x->coming;
	}
	if (x->received != NULL && x->received->stream.set == NULL) {
		exchange_give_plain(ex, data, len);
		return true;
	}
	return x->received != NULL && swap_ws_feed(x->received, data, len, NULL) == 0;
}

/* Handle the result R of a search in the response.  False: a part is missing, so nothing more is
 * passed on. */
static bool
searched(struct exchange *ex, int r)
{
	if (r == 0)
		return true;
	snprintf(ex->secrets->reason, sizeof(ex->secrets->reason), r == -E2BIG ?
	         "there is no room to take a secret out of it" : "there is no memory to look for secrets in it");
	return false;
}

bool
exchange_scrub_plain(struct exchange *ex, const void *data, size_t len)
{
	int r;

	if (exchange_is_held(ex))
		return exchange_hold_body(ex, data, len);
	if (ex->secrets->answer.set == NULL) {
		exchange_give_plain(ex, data, len);
		return true;
	}
	r = swap_feed(&ex->secrets->answer, data, len, NULL);
	/* The client gets all bytes so far.  Only a possible beginning of a secret is held back. */
	if (r == 0)
		r = swap_let_go(&ex->secrets->answer);
	return searched(ex, r);
}

/* Fail the response. */
static bool
fail(struct exchange *ex)
{
	struct failure failure;

	failure_set(&failure, 502, "protocol", "upstream answers nonsense",
	                    "the server's answer cannot be passed on: %s", ex->secrets->reason);
	exchange_fail(ex, &failure);
	return false;
}

/* False: the bytes cannot be passed on; the exchange's note has the reason. */
static bool
exchange_scrub(struct exchange *ex, const void *data, size_t len)
{
	bool ok = ex->secrets->unpack != NULL ? exchange_unpack(ex, data, len)
	                                      : exchange_scrub_plain(ex, data, len);

	return ok || fail(ex);
}

enum stage_answer
scrub_data(struct exchange *ex, const void *data, size_t len)
{
	if (!exchange_is_scrubbed(ex))
		return STAGE_CONTINUE;
	if (ex->state != EXCHANGE_PASSES)
		(void)exchange_scrub(ex, data, len);
	else if (!exchange_scrub_raw(ex, data, len))
		exchange_reset(ex, EGRESS_RESET_UPSTREAM);
	return STAGE_WAIT;
}

static bool
scrub_trailers(struct exchange *ex, struct http_field *trailers, size_t *n)
{
	struct swap_heads how = { ex->secrets->coming, SWAP_FIT_LENGTH, judge_answer, ex };

	return *n == 0 || how.set == NULL ||
	       searched(ex, swap_fields(&how, trailers, n, exchange_scratch(ex), NULL)) || fail(ex);
}

/* No byte waits any more. */
static bool
end(struct exchange *ex)
{
	struct exchange_secrets *x = ex->secrets;

	if (x->unpack != NULL && !exchange_unpack_end(ex))
		return fail(ex);
	exchange_drop_unpack(ex->courier, x);
	if (exchange_is_held(ex) && !exchange_let_go(ex))
		return ex->response.ending ? false : fail(ex);
	return x->answer.set == NULL || searched(ex, swap_finish(&x->answer, NULL)) || fail(ex);
}

enum scrub_end
exchange_scrub_end(struct exchange *ex, struct http_field *trailers, size_t n, size_t *ret_n)
{
	struct exchange_secrets *x = ex->secrets;

	if (!x->packed_all && x->unpack != NULL) {
		if (!exchange_scrub(ex, NULL, 0))
			return SCRUB_FAILED;
		if (buf_left(&ex->t.pending) > 0) {
			http_fields_encode(&x->trailers, trailers, n);
			if (buf_failed(&x->trailers)) {
				(void)searched(ex, -ENOMEM);
				(void)fail(ex);
				return SCRUB_FAILED;
			}
			x->packed_all = true;
			return SCRUB_WAITS;
		}
	}
	if (!end(ex) || !scrub_trailers(ex, trailers, &n))
		return SCRUB_FAILED;
	*ret_n = n;
	return SCRUB_ENDED;
}

bool
exchange_scrub_more(struct exchange *ex)
{
	struct http_field trailers[HTTP_FIELDS_MAX];
	struct exchange_secrets *x = ex->secrets;
	struct buf encoded;
	size_t n = 0;

	if (x == NULL || x->unpack == NULL)
		return true;
	if (!exchange_scrub(ex, NULL, 0))
		return false;
	if (!x->packed_all || buf_left(&ex->t.pending) > 0)
		return true;
	buf_init_borrowed(&encoded, x->trailers.data, x->trailers.len);
	if (x->trailers.len > 0 && http_fields_decode(&encoded, trailers, &n, NULL) < 0)
		n = 0;
	exchange_end(ex, trailers, n);
	return false;
}
