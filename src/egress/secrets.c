/* secrets.c - puts secrets into requests: replaces placeholders where permitted, and makes
 * signatures anew. */
#include "egress/secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/secrets_parts.h"

/* ---- state of an exchange ---- */

static void
free_messages(struct swap_ws *ws)
{
	if (ws == NULL)
		return;
	swap_ws_free(ws);
	free(ws);
}

static void
free_head(struct exchange_secrets *x)
{
	buf_free(&x->head);
}

bool
exchange_secrets_new(struct exchange *ex)
{
	struct exchange_secrets *x = malloc(sizeof(*x));

	if (x == NULL)
		return false;
	memset(x, 0, offsetof(struct exchange_secrets, wrong));
	x->wrong.code = 0;
	x->reason[0] = '\0';
	x->view = secrets_view_use(ex->courier->secrets.view);
	ex->secrets = x;
	return true;
}

void
exchange_secrets_free(struct exchange *ex)
{
	struct exchange_secrets *x = TAKE(ex->secrets);

	if (x == NULL)
		return;
	swap_free(&x->body);
	swap_free(&x->answer);
	free_messages(x->sent);
	free_messages(x->received);
	sign_chunks_free(x->chunks);
	free_head(x);
	exchange_drop_unpack(ex->courier, x);
	exchange_free_held(x);
	exchange_free_made(x);
	secrets_view_release(x->view);
	secrets_view_release(x->known);
	free(x);
}

struct sign_memory *
exchange_scratch(struct exchange *ex)
{
	struct sign_memory *m = &ex->courier->secrets.scratch;

	m->used = 0;
	m->body = (struct sign_body){0};
	m->n_made = 0;
	m->h1_only = false;
	return m;
}

static void
wipe_scratch(struct exchange *ex)
{
	explicit_bzero(ex->courier->secrets.scratch.at, ex->courier->secrets.scratch.used);
}

bool
exchange_refuse_secret(struct exchange *ex, int r, const struct err *err)
{
	char reason[COURIER_NOTE_MAX];

	wipe_scratch(ex);
	if (r == -EACCES) {
		snprintf(reason, sizeof(reason), "%s", ex->secrets->reason);
		exchange_refuse_with(ex, ex->secrets->ended != 0 ? ex->secrets->ended : 403,
		                     ex->secrets->revoked ? "revoked" : ex->secrets->used_up ? "budget" :
		                     ex->secrets->ended != 0 ? "expired" :
		                     ex->secrets->refused_covered ? "credential" : "exfiltration", reason);
	} else {
		snprintf(reason, sizeof(reason), "a secret cannot be put into the request: %.300s",
		         err->text);
		exchange_refuse(ex, "credential", reason);
	}
	return false;
}

/* ---- requests ---- */

/* Whether the head has a signed token that no secret signed, and that is no placeholder. */
static bool
is_wrong(const struct exchange *ex)
{
	return ex->secrets->wrong.code != 0 && !ex->secrets->swapped;
}

/* A value that was sent there before, by any exchange, may come back in any response. */
static void
find_what_returns(struct exchange *ex)
{
	struct exchange_secrets *x = ex->secrets;

	for (size_t i = 0; i < x->view->n_known; i++) {
		const struct secret *secret = x->view->at[i]->secret;

		if (!policy_mentions_host(secret->scope, ex->host))
			continue;
		x->carries = true;
		/* A key that only signs is never sent. */
		x->whole |= secret->places != 0;
	}
}

/* Make HEAD ask for the whole response. */
static int
ask_whole(const struct exchange_secrets *x, struct http_head *head, struct err *err)
{
	/* Azure has a range field of its own, and Apache an old one. */
	static const char *const names[] = { "range", "request-range", "x-ms-range" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (x->covered && http_head_get(head, names[i]).len > 0)
			return err_set(err, EPERM, "it is signed and asks for a part of the answer, in which "
			               "a secret that goes there too could not be seen");
		http_head_drop(head, names[i]);
	}
	if (!x->covered)
		http_head_drop(head, "if-range");
	return 0;
}

/* HEAD is the head to send.  False: EX is refused. */
static bool
keep_head(struct exchange *ex, struct http_head *head)
{
	struct exchange_secrets *x = ex->secrets;
	struct err err = {0};
	struct buf encoded = BUF_SECRET(MUX_FRAME_MAX);
	int r;

	if (!x->carries)
		return true;
	head->written = (struct http_text){ "", 0 };
	/* The response must be readable to be searched.  A signature contains no secret that could
	 * come back, and may cover the field. */
	r = x->covered ? 0 : swap_ask_plain(head, &err);
	x->whole |= x->captures || x->made_token;
	if (r == 0 && x->whole)
		r = ask_whole(x, head, &err);
	if (r == 0)
		r = http_head_check(head, &err);
	if (r < 0)
		return exchange_refuse_secret(ex, r, &err);
	/* HEAD may point into the head that was kept before. */
	http_head_encode(&encoded, head);
	wipe_scratch(ex);
	free_head(x);
	x->head = encoded;
	if (buf_failed(&x->head)) {
		err_set(&err, E2BIG, "there is no room for it");
		return exchange_refuse_secret(ex, -E2BIG, &err);
	}
	return true;
}

/* R of a search with exchange_judge(), which goes on behind a misplaced placeholder. */
static int
found(const struct exchange *ex, int r)
{
	return r == 0 && ex->secrets->misplaced ? -EACCES : r;
}

/* Replace placeholders in HEAD where permitted.  False: EX is refused. */
static bool
swap_in_head(struct exchange *ex, struct http_head *head)
{
	const struct swap_heads how = { ex->secrets->view->out, SWAP_ANY_LENGTH, exchange_judge, ex };
	struct err err = {0};
	int r;

	if (how.set == NULL)
		return true;
	r = found(ex, swap_head(&how, head, &ex->courier->secrets.scratch, &err));
	return r == 0 || exchange_refuse_secret(ex, r, &err);
}

/* Trailers that came before this stage.  False: EX is refused. */
static bool
search_trailers(struct exchange *ex)
{
	struct http_field fields[HTTP_FIELDS_MAX];
	struct buf encoded;
	size_t n = 0;

	buf_init_borrowed(&encoded, ex->t.trailers.data, ex->t.trailers.len);
	/* They were decoded before. */
	if (ex->t.trailers.len > 0 && http_fields_decode(&encoded, fields, &n, NULL) < 0)
		abort();
	return exchange_use_trailers(ex, fields, n);
}

/* Make EX's head as it is to be sent.  False: EX is refused. */
static bool
use_secrets(struct exchange *ex)
{
	const struct secrets_view *s = ex->courier->secrets.view;
	struct http_head *head = &ex->courier->secrets.head;
	size_t of;

	if (s == NULL)
		return true;
	if (!exchange_secrets_new(ex)) {
		exchange_refuse(ex, "credential", "there is no memory");
		return false;
	}
	if (!search_trailers(ex))
		return false;
	http_head_copy(head, exchange_head(ex));
	(void)exchange_scratch(ex);
	if (!exchange_sign_head(ex, head))
		return false;
	if (!swap_in_head(ex, head))
		return false;
	if (is_wrong(ex))
		return exchange_refuse_secret(ex, -EBADMSG, &ex->secrets->wrong);
	/* When a placeholder is found in the body or a message, the head has already been sent. */
	ex->secrets->captures = exchange_find_capture(ex, &of) != NULL;
	if (ex->t.is_upgrade || ex->secrets->captures)
		ex->secrets->carries = true;
	find_what_returns(ex);
	return keep_head(ex, head);
}

enum stage_answer
stage_swap(struct exchange *ex)
{
	return use_secrets(ex) ? STAGE_CONTINUE : STAGE_REFUSE;
}

struct http_head *
exchange_head_to_send(struct exchange *ex)
{
	struct courier *c = ex->courier;
	struct buf encoded;

	if (ex->secrets == NULL || ex->secrets->head.len == 0)
		return exchange_head(ex);
	buf_init_borrowed(&encoded, ex->secrets->head.data, ex->secrets->head.len);
	/* We encoded it ourselves. */
	if (!http_head_decode_checked(&encoded, &c->head))
		abort();
	c->head_of = NULL;
	return &c->head;
}

bool
exchange_expects(const struct exchange *ex)
{
	return ex->flow.came == 0 || (ex->secrets != NULL && ex->secrets->covered);
}

bool
exchange_may_fill_body(struct exchange *ex)
{
	const struct secrets_view *s = ex->secrets != NULL ? ex->secrets->view : NULL;

	if (ex->decision.may_pass_placeholders)
		return false;
	for (size_t i = 0; s != NULL && !ex->secrets->covered && i < s->n_known; i++)
		if ((s->at[i]->secret->places & SECRET_IN_BODY) != 0 &&
		    exchange_may_use(ex, s->at[i]->secret)) {
			ex->secrets->measures = ex->request.length <= SECRETS_MEASURED_MAX;
			return true;
		}
	return false;
}

bool
exchange_may_pass_placeholders(const struct exchange *ex)
{
	/* The body may decide which rule applies. */
	return ex->secrets != NULL && ex->secrets->view->out != NULL &&
	       (ex->decision.may_pass_placeholders || ex->decision.needs_body);
}

bool
exchange_signs_body(const struct exchange *ex)
{
	return ex->secrets != NULL && (ex->secrets->signs_body || ex->secrets->measures);
}

/* Values may be longer than their placeholders. */
static bool
has_room(const struct exchange *ex, size_t len)
{
	return len + SECRETS_TAIL <= ex->t.body.max && buf_left(&ex->t.body) <= ex->t.body.max - len - SECRETS_TAIL;
}

static int
body_sink(void *arg, const unsigned char *data, size_t len)
{
	struct exchange *ex = arg;

	if (ex->secrets->misplaced)
		return 0;
	if (!ex->inspect.holds && !has_room(ex, len)) {
		ex->secrets->grew = true;
		return -ECANCELED;
	}
	return ex->secrets->pass(ex, data, len) ? 0 : -ECANCELED;
}

static void
begin_body(struct exchange *ex, swap_judge *judges, swap_sink *sink)
{
	struct exchange_secrets *x = ex->secrets;
	const struct http_head *head = exchange_head(ex);

	if (x->in_body)
		return;
	x->in_body = true;
	x->body = (struct swap_stream){
		.set = ex->secrets->view->out,
		.place = swap_body_place(http_head_get(head, "content-type")),
		.lengths = ex->request.length == HTTP_LENGTH_UNKNOWN || ex->inspect.holds ? SWAP_ANY_LENGTH
		                                                                      : SWAP_SAME_LENGTH,
		.judge = judges, .sink = sink, .arg = ex,
	};
}

/* Handle the result R of a search.  False: EX is refused, or takes no more. */
static bool
went(struct exchange *ex, int r, struct err *err)
{
	if (r == -ECANCELED && !ex->secrets->grew)
		return false;
	if (r == -ECANCELED)
		r = err_set(err, EFBIG, "it becomes too large with the real values in it");
	return r == 0 || exchange_refuse_secret(ex, r, err);
}

/* Search and replace in bytes of the body.  False: EX is refused, or takes no more. */
static bool
feed_body(struct exchange *ex, const unsigned char *data, size_t len, bool ends)
{
	struct exchange_secrets *x = ex->secrets;
	struct err err = {0};
	int r;

	if (x->view->out == NULL)
		return len == 0 || x->pass(ex, data, len);
	begin_body(ex, exchange_judge, body_sink);
	r = swap_feed(&x->body, data, len, &err);
	if (r == 0 && (ends || (x->misplaced && ex->t.came_all)))
		r = swap_finish(&x->body, &err);
	return went(ex, found(ex, r), &err);
}

/* False: EX is refused. */
static bool
watch_chunks(struct exchange *ex, const unsigned char *data, size_t len)
{
	struct exchange_secrets *x = ex->secrets;
	struct err err = {0};
	int r;

	if (x->view->out == NULL)
		return true;
	begin_body(ex, exchange_judge_never, exchange_no_sink);
	r = swap_feed(&x->body, data, len, &err);
	return r == 0 || exchange_refuse_secret(ex, r, &err);
}

bool
exchange_use_trailers(struct exchange *ex, struct http_field *fields, size_t n)
{
	struct swap_heads how = { NULL, SWAP_ANY_LENGTH, exchange_judge_never, ex };
	struct err err = {0};
	int r;

	if (ex->secrets == NULL || ex->secrets->view->out == NULL || n == 0)
		return true;
	how.set = ex->secrets->view->out;
	r = swap_fields(&how, fields, &n, exchange_scratch(ex), &err);
	return r == 0 || exchange_refuse_secret(ex, r, &err);
}

static bool
feed_chunks(struct exchange *ex, const unsigned char *data, size_t len, exchange_pass *pass)
{
	struct exchange_secrets *x = ex->secrets;
	struct http_text piece;
	struct err err = {0};
	size_t used;
	int r;

	if (!watch_chunks(ex, data, len))
		return false;
	while (len > 0) {
		r = sign_chunks_next(x->chunks, data, len, &used, &piece, &err);
		if (r < 0)
			return exchange_refuse_secret(ex, -EBADMSG, &err);
		data += used;
		len -= used;
		if (!has_room(ex, piece.len)) {
			x->grew = true;
			return went(ex, -ECANCELED, &err);
		}
		if (piece.len > 0 && !pass(ex, (const unsigned char *)piece.at, piece.len))
			return false;
	}
	return true;
}

bool
exchange_use_body(struct exchange *ex, const unsigned char *data, size_t len,
                  exchange_pass *pass)
{
	if (ex->secrets == NULL)
		return pass(ex, data, len);
	ex->secrets->pass = pass;
	if (ex->secrets->chunks != NULL)
		return feed_chunks(ex, data, len, pass);
	return feed_body(ex, data, len, false);
}

bool
exchange_use_body_end(struct exchange *ex, exchange_pass *pass)
{
	struct err err = {0};
	int r;

	if (ex->secrets == NULL)
		return true;
	ex->secrets->pass = pass;
	if (ex->secrets->chunks == NULL)
		return feed_body(ex, NULL, 0, true);
	r = sign_chunks_end(ex->secrets->chunks, &err);
	return r == 0 || exchange_refuse_secret(ex, -EBADMSG, &err);
}

/* ---- messages ---- */

struct swap_ws *
exchange_new_messages(bool from_client, const struct swap_stream *how)
{
	struct swap_ws *ws = calloc(1, sizeof(*ws));

	if (ws == NULL)
		return NULL;
	ws->from_client = from_client;
	ws->stream = *how;
	ws->stream.place = SWAP_MESSAGE;
	swap_ws_init(ws);
	return ws;
}

bool
exchange_use_raw(struct exchange *ex, const unsigned char *data, size_t len,
                 exchange_pass *pass)
{
	struct exchange_secrets *x = ex->secrets;
	const struct swap_stream how = { .set = x != NULL ? x->view->out : NULL, .judge = exchange_judge,
	                                 .lengths = SWAP_ANY_LENGTH, .sink = body_sink, .arg = ex };
	struct err err = {0};
	int r = -ENOMEM;

	if (x == NULL || x->view->out == NULL)
		return pass(ex, data, len);
	if (ex->kind != EXCHANGE_HTTP)
		return exchange_search(ex, data, len) && pass(ex, data, len);
	x->pass = pass;
	if (x->sent == NULL)
		x->sent = exchange_new_messages(true, &how);
	if (x->sent != NULL)
		r = swap_ws_feed(x->sent, data, len, &err);
	return went(ex, found(ex, r), &err);
}

bool
exchange_is_filling(const struct exchange *ex)
{
	return ex->secrets != NULL && ex->secrets->body.replacing;
}

static bool
keep_held(struct exchange *ex, const unsigned char *data, size_t len)
{
	if (!exchange_scan(ex, data, len))
		return false;
	buf_put(&ex->secrets->held, data, len);
	return !buf_failed(&ex->secrets->held);
}

/* False: EX is refused. */
static bool
swap_held(struct exchange *ex)
{
	struct exchange_secrets *x = ex->secrets;

	buf_init_secret(&x->held, ex->t.body.max);
	if (!exchange_use_body(ex, ex->t.body.data, ex->t.body.len, keep_held) ||
	    !exchange_use_body_end(ex, keep_held)) {
		if (buf_failed(&x->held))
			exchange_refuse(ex, "too-large", "the body becomes too large with the real values in it");
		buf_free(&x->held);
		return false;
	}
	/* The gate got its credit when the body was held. */
	ex->flow.free = x->held.len;
	buf_free(&ex->t.body);
	ex->t.body = x->held;
	x->held = (struct buf){0};
	return true;
}

/* Values may differ in length from their placeholders.  False: EX is refused. */
static bool
measure_held(struct exchange *ex)
{
	struct http_head head = *exchange_head_to_send(ex);

	if (head.length == HTTP_LENGTH_UNKNOWN || head.length == ex->t.body.len)
		return true;
	head.length = ex->t.body.len;
	return keep_head(ex, &head);
}

/* False: EX is refused. */
static bool
sign_held(struct exchange *ex)
{
	struct sign_memory *m = exchange_scratch(ex);
	struct http_head head = *exchange_head_to_send(ex);
	const struct sign_body body = { ex->t.body.data, ex->t.body.len };

	if (!exchange_sign_body(ex, &head, &body))
		return false;
	/* No secret signed it: placeholders that were left for a signer are replaced as usual. */
	if (ex->secrets->signs[0] == NULL && ex->secrets->signs[1] == NULL && !swap_in_head(ex, &head))
		return false;
	if (m->body.at != NULL) {
		buf_reset(&ex->t.body);
		buf_put(&ex->t.body, m->body.at, m->body.len);
		ex->flow.free = m->body.len;
	}
	return keep_head(ex, &head);
}

/* The whole body is in ex->t.body.  False: EX is refused. */
static bool
use_held(struct exchange *ex)
{
	struct exchange_secrets *x = ex->secrets;
	bool signs = x != NULL && x->signs_body, covered = x != NULL && x->covered;

	if (x == NULL)
		return true;
	/* A signed body is searched but not changed.  A token is signed as it came; the text around
	 * it is replaced afterwards. */
	if ((signs && !covered && !sign_held(ex)) || !swap_held(ex) || !measure_held(ex) ||
	    (signs && covered && !sign_held(ex)))
		return false;
	if (is_wrong(ex))
		return exchange_refuse_secret(ex, -EBADMSG, &x->wrong);
	return true;
}

/* Whether the agent's own signature covers what a rule has changed, and no secret signs it anew.
 * Then EX is refused. */
static bool
breaks_signature(struct exchange *ex)
{
	struct http_head *made = &ex->courier->secrets.signed_head;

	if (!exchange_is_rewritten(ex) || (ex->secrets != NULL && ex->secrets->signs[0] != NULL))
		return false;
	exchange_made_head(ex, made);
	if (!sign_is_signed(made))
		return false;
	exchange_refuse(ex, "rewrite", "a rule changes what the agent has signed, and no secret of the cell "
	                "can sign it anew");
	return true;
}

enum stage_answer
stage_sign(struct exchange *ex)
{
	/* Other bodies are changed as they pass. */
	if (ex->inspect.holds && !use_held(ex))
		return STAGE_REFUSE;
	return breaks_signature(ex) ? STAGE_REFUSE : STAGE_CONTINUE;
}
