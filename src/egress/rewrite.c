/* rewrite.c - see rewrite.h. */
#include "egress/rewrite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "policy/policy_rewrite.h"
#include "sign/sign.h"

/* ---- state ---- */

struct exchange_rewrite *
exchange_rewrite_of(struct exchange *ex)
{
	if (ex->rewrite == NULL && (ex->rewrite = calloc(1, sizeof(*ex->rewrite))) != NULL) {
		buf_init_secret(&ex->rewrite->body, COURIER_HELD_MAX);
		buf_init(&ex->rewrite->texts, REWRITE_TEXTS_MAX);
	}
	return ex->rewrite;
}

/* EX's connection to cloister-inspect is no longer needed. */
static void
exchange_rewrite_drop(struct exchange *ex)
{
	struct exchange_rewrite *x = ex->rewrite;

	if (x == NULL || x->stream == NULL)
		return;
	mux_send(ex->courier->inspect, x->stream->id, INSPECT_DROP, NULL);
	mux_close(TAKE(x->stream));
}

void
exchange_rewrite_free(struct exchange *ex)
{
	struct exchange_rewrite *x = TAKE(ex->rewrite);

	if (x == NULL)
		return;
	buf_free(&x->body);
	buf_free(&x->frame);
	buf_free(&x->made_body);
	buf_free(&x->texts);
	free(x);
}

bool
exchange_is_rewritten(const struct exchange *ex)
{
	return ex->rewrite != NULL && ex->rewrite->frame.len > 0;
}

int
exchange_rule_of_layer(const struct exchange *ex, unsigned layer)
{
	return policy_way_rule(ex->policy->policy, &ex->decision.way, layer);
}

bool
exchange_is_to_be_rewritten(const struct exchange *ex)
{
	const struct policy *p = ex->policy->policy;

	if (!ex->policy->rewrites || ex->learned || ex->kind != EXCHANGE_HTTP ||
	    ex->decision.verdict == POLICY_DENY)
		return false;
	for (unsigned i = ex->rewrite == NULL ? 0 : ex->rewrite->layer; i < POLICY_LAYERS_MAX; i++) {
		int rule = exchange_rule_of_layer(ex, i);

		if (policy_rewrite_of(p, rule) != NULL || policy_hook_of(p, rule) != NULL)
			return true;
	}
	return false;
}

/* ---- as the agent made it ---- */

void
exchange_made_head(struct exchange *ex, struct http_head *ret_head)
{
	const struct exchange_rewrite *x = ex->rewrite;
	struct buf encoded;

	if (!exchange_is_rewritten(ex)) {
		http_head_copy(ret_head, exchange_head(ex));
		return;
	}
	buf_init_borrowed(&encoded, x->frame.data, x->frame.len);
	encoded.pos = x->head_at;
	/* It was decoded before. */
	if (!http_head_decode_checked(&encoded, ret_head))
		abort();
}

struct sign_body
exchange_made_body(const struct exchange *ex)
{
	const struct buf *body = ex->rewrite != NULL && ex->rewrite->has_made_body ? &ex->rewrite->made_body
	                                                                           : &ex->t.body;

	return (struct sign_body){ body->data, body->len };
}

/* ---- changes ---- */

static enum stage_answer
refuse(struct exchange *ex, int rule, const char *why)
{
	char reason[COURIER_NOTE_MAX];

	snprintf(reason, sizeof(reason), "the request cannot be changed as the rule at %.100s asks: %.200s",
	         policy_rule_place(ex->policy->policy, rule), why);
	exchange_refuse(ex, "rewrite", reason);
	return STAGE_REFUSE;
}

static void
note_changes(struct exchange_rewrite *x, const struct policy_rewrite *rw, uint64_t changed)
{
	char text[POLICY_EDIT_TEXT_MAX];

	for (size_t i = 0; i < rw->n; i++)
		if ((changed >> i & 1) != 0) {
			policy_edit_text(&rw->edits[i], text);
			buf_put(&x->texts, text, strlen(text) + 1);
			x->n_texts += !buf_failed(&x->texts);
		}
}

static uint64_t
edits_of_body(const struct policy_rewrite *rw)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < rw->n; i++)
		if (policy_edit_part(&rw->edits[i]) == POLICY_PART_BODY)
			bits |= (uint64_t)1 << i;
	return bits;
}

/* HEAD replaces EX's head. */
static int
replace_head(struct exchange *ex, const struct http_head *head)
{
	struct exchange_rewrite *x = ex->rewrite;
	struct buf frame = BUF(MUX_FRAME_MAX);

	http_head_encode(&frame, head);
	if (buf_failed(&frame)) {
		buf_free(&frame);
		return -E2BIG;
	}
	if (x->frame.len == 0) {
		x->frame = ex->request.frame;
		x->head_at = ex->request.head_at;
	} else {
		buf_free(&ex->request.frame);
	}
	ex->request.frame = frame;
	ex->request.head_at = 0;
	return exchange_take_head(ex);
}

/* The rewrites of EX's layer: first that of its hook, so that the rule's own have the last word. */
struct rewrites {
	int rule;
	const struct policy_rewrite *at[2];
	size_t n;
};

static struct rewrites
find_rewrites(const struct exchange *ex)
{
	struct rewrites all = { .rule = exchange_rule_of_layer(ex, ex->rewrite->layer) };
	const struct policy_rewrite *own = policy_rewrite_of(ex->policy->policy, all.rule);
	const struct policy_rewrite *hooks = exchange_hook_rewrite(ex);

	if (hooks != NULL)
		all.at[all.n++] = hooks;
	if (own != NULL)
		all.at[all.n++] = own;
	return all;
}

static bool
needs_body(struct exchange *ex, const struct rewrites *all)
{
	for (size_t i = 0; i < all->n; i++)
		if (policy_rewrite_needs_body(all->at[i], exchange_head(ex)))
			return true;
	return false;
}

static bool
sends_elsewhere(const struct policy_rewrite *rw, uint64_t changed)
{
	for (size_t i = 0; i < rw->n; i++)
		if ((changed >> i & 1) != 0 && rw->edits[i].kind == POLICY_EDIT_HOST)
			return true;
	return false;
}

static enum stage_answer
change_head(struct exchange *ex, const struct rewrites *all)
{
	struct http_head head;
	struct err err = {0};
	bool any = false;

	http_head_copy(&head, exchange_head(ex));
	for (size_t i = 0; i < all->n; i++) {
		OWN(freep) char *path = NULL;
		uint64_t changed = 0;

		if (policy_rewrite_head(all->at[i], &head, &path, &changed, &err) < 0)
			return refuse(ex, all->rule, err.text);
		if (changed == 0)
			continue;
		any = true;
		note_changes(ex->rewrite, all->at[i], changed);
		if (replace_head(ex, &head) < 0)
			return refuse(ex, all->rule, "the head becomes too large");
		/* Its texts pointed into the former frame. */
		http_head_copy(&head, exchange_head(ex));
		if (sends_elsewhere(all->at[i], changed)) {
			ex->decision.may_use_private = policy_rewrite_may_use_private(ex->policy->policy,
			                                                              all->rule, all->at[i]);
			ex->decision.named_bits = ex->decision.may_use_private ? POLICY_NAMED_WHOLE : 0;
		}
	}
	if (any)
		ex->rewrite->n_decided = ex->rewrite->layer + 1;
	return STAGE_CONTINUE;
}

/* ---- the body: cloister-inspect changes it ---- */

void
exchange_rewrite_feed(struct exchange *ex)
{
	struct exchange_rewrite *x = ex->rewrite;
	const struct buf *body = &ex->t.body;

	if (x->at < body->len)
		x->at += mux_send_data(x->stream, body->data + x->at, body->len - x->at);
	if (x->at == body->len && !x->ended) {
		x->ended = true;
		mux_send(ex->courier->inspect, x->stream->id, INSPECT_END, NULL);
	}
}

static enum stage_answer
ask_inspect(struct exchange *ex, const struct rewrites *all)
{
	struct exchange_rewrite *x = ex->rewrite;
	struct courier *c = ex->courier;
	const struct http_head *head = exchange_head(ex);
	struct http_text answer = exchange_hook_answer_text(ex);

	x->stream = c->inspect == NULL ? NULL : mux_open(c->inspect, ex);
	if (x->stream == NULL)
		return refuse(ex, all->rule, "nobody is there to read the body");
	x->at = 0;
	x->ended = false;
	courier_show_policy(c, ex->policy);
	buf_reset(&c->out);
	http_text_put(&c->out, http_head_get(head, "content-type"));
	http_text_put(&c->out, http_head_get(head, "content-encoding"));
	buf_put_u32(&c->out, policy_rewrite_of(ex->policy->policy, all->rule) == NULL ? 0 :
	                     (uint32_t)all->rule + 1);
	http_text_put(&c->out, answer);
	if (buf_failed(&c->out) || c->out.len > MUX_FRAME_MAX)
		return refuse(ex, all->rule, "the head and the answer of the hook are too large together");
	mux_send(c->inspect, x->stream->id, INSPECT_REWRITE, &c->out);
	transfer_touch(&ex->t, COURIER_INSPECT_S);
	exchange_rewrite_feed(ex);
	return STAGE_WAIT;
}

int
exchange_take_rewritten_data(struct exchange *ex, const unsigned char *data, size_t len)
{
	struct exchange_rewrite *x = ex->rewrite;

	buf_put(&x->body, data, len);
	if (buf_failed(&x->body))
		return -EBADMSG;
	mux_consumed(x->stream, len);
	return 0;
}

int
exchange_take_rewritten(struct exchange *ex, struct buf *body)
{
	struct exchange_rewrite *x = ex->rewrite;
	struct rewrites all = find_rewrites(ex);
	const char *why;
	uint64_t changed[2];

	if (buf_get_str(body, &why) < 0 || buf_get_u64(body, &changed[0]) < 0 ||
	    buf_get_u64(body, &changed[1]) < 0 || buf_left(body) != 0)
		return -EBADMSG;
	mux_close(TAKE(x->stream));
	snprintf(x->why, sizeof(x->why), "%s", why);
	for (size_t i = 0; why[0] == '\0' && i < all.n; i++)
		note_changes(x, all.at[i], changed[i] & edits_of_body(all.at[i]));
	x->body_done = true;
	exchange_resume(ex);
	return 0;
}

/* The body that cloister-inspect made replaces EX's. */
static enum stage_answer
change_body(struct exchange *ex, int rule)
{
	struct exchange_rewrite *x = ex->rewrite;
	struct http_head head;

	if (x->why[0] != '\0')
		return refuse(ex, rule, x->why);
	if (x->body.len == ex->t.body.len &&
	    (x->body.len == 0 || memcmp(x->body.data, ex->t.body.data, x->body.len) == 0)) {
		buf_free(&x->body);
		return STAGE_CONTINUE;
	}
	/* The body as the agent made it is kept for its signature. */
	if (x->body.len > COURIER_HELD_ALL - ex->courier->held)
		return refuse(ex, rule, "too much of other bodies is held");
	ex->courier->held += x->body.len;
	ex->inspect.held += x->body.len;
	if (!x->has_made_body) {
		x->made_body = ex->t.body;
		x->has_made_body = true;
	} else {
		ex->courier->held -= ex->t.body.len;
		ex->inspect.held -= ex->t.body.len;
		buf_free(&ex->t.body);
	}
	ex->t.body = x->body;
	ex->t.body.max = COURIER_HELD_MAX + 4 * MUX_WINDOW;
	buf_init_secret(&x->body, COURIER_HELD_MAX);
	/* The gate has its credit back for all of it. */
	ex->flow.free = ex->t.body.len;
	x->n_decided = x->layer + 1;
	http_head_copy(&head, exchange_head(ex));
	head.length = ex->t.body.len;
	head.says_zero = head.length == 0;
	return replace_head(ex, &head) < 0 ? refuse(ex, rule, "the head becomes too large")
	                                   : STAGE_CONTINUE;
}

/* ---- the stage ---- */

static enum stage_answer
apply_layer(struct exchange *ex)
{
	struct exchange_rewrite *x = ex->rewrite;
	struct rewrites all = find_rewrites(ex);
	enum stage_answer answer;
	bool body;

	if (all.n == 0)
		return STAGE_CONTINUE;
	body = ex->t.has_body && needs_body(ex, &all);
	if (body && (answer = exchange_hold_all(ex)) != STAGE_CONTINUE)
		return answer;
	if (!x->head_done && (answer = change_head(ex, &all)) != STAGE_CONTINUE)
		return answer;
	x->head_done = true;
	if (!body)
		return STAGE_CONTINUE;
	if (!x->body_done)
		return x->stream != NULL ? STAGE_WAIT : ask_inspect(ex, &all);
	return change_body(ex, all.rule);
}

/* The layers outside decide on what LAYER made of the request. */
static bool
is_allowed_outside(struct exchange *ex)
{
	const struct policy_request req = { .protocol = POLICY_HTTP, .head = exchange_head(ex),
	                                    .host = ex->host, .port = ex->t.port };

	if (ex->rewrite->n_decided != ex->rewrite->layer + 1)
		return true;
	if (exchange_refuse_doh(ex, req.head))
		return false;
	exchange_decide_outside(ex, &req);
	return ex->decision.needs_body || exchange_settle(ex);
}

enum stage_answer
stage_rewrite(struct exchange *ex)
{
	enum stage_answer answer;

	/* If the body decides which rule applies, EX comes here again. */
	if (ex->decision.needs_body || !exchange_is_to_be_rewritten(ex))
		return STAGE_CONTINUE;
	if (exchange_rewrite_of(ex) == NULL) {
		exchange_refuse(ex, "rewrite", "there is no memory");
		return STAGE_REFUSE;
	}
	answer = apply_layer(ex);
	if (answer != STAGE_CONTINUE)
		return answer;
	if (!is_allowed_outside(ex))
		return STAGE_REFUSE;
	ex->rewrite->layer++;
	ex->rewrite->head_done = ex->rewrite->body_done = false;
	return !ex->decision.needs_body && exchange_is_to_be_rewritten(ex) ? STAGE_AGAIN : STAGE_CONTINUE;
}

void
rewrite_stop(struct exchange *ex)
{
	exchange_rewrite_drop(ex);
}

/* Outer layers that asked about the request before it was changed have not agreed to it yet. */
static void
note_asked(struct exchange *ex)
{
	struct exchange_rewrite *x = ex->rewrite;
	struct policy_question q;

	for (unsigned i = x->n_decided; i < POLICY_LAYERS_MAX && x->n_asked < ARRAY_LEN(x->asked); i++) {
		int rule = exchange_rule_of_layer(ex, i);

		if (policy_question(ex->policy->policy, rule, &q))
			x->asked[x->n_asked++] = rule;
	}
}

void
exchange_decide_outside(struct exchange *ex, const struct policy_request *req)
{
	struct exchange_rewrite *x = ex->rewrite;

	/* EX comes here again if its body is needed, and is not decided then. */
	if (x->n_inner != x->n_decided) {
		x->n_inner = x->n_decided;
		x->inner = ex->decision;
		note_asked(ex);
	}
	policy_decide_outside(ex->policy->policy, x->n_decided, req, &x->inner, &ex->decision);
}

/* The record has the request as it was sent.  Without its own host, nobody could tell where it was meant to go. */
static void
record_made_host(struct events *e, const struct exchange *ex)
{
	struct http_head made;

	if (!exchange_is_rewritten(ex))
		return;
	exchange_made_head((struct exchange *)(uintptr_t)ex, &made);
	if (http_text_is(made.host, ex->host) && made.port == exchange_head((struct exchange *)(uintptr_t)ex)->port)
		return;
	event_text(e, "made_host", made.host.at, made.host.len);
	event_u64(e, "made_port", made.port);
}

void
exchange_rewrite_record(struct events *e, const struct exchange *ex)
{
	const struct exchange_rewrite *x = ex->rewrite;
	const char *texts[2 * POLICY_EDITS_MAX], *at;
	size_t n = 0;

	if (x == NULL || x->n_texts == 0)
		return;
	for (at = (const char *)x->texts.data; n < x->n_texts && n < ARRAY_LEN(texts); at += strlen(at) + 1)
		texts[n++] = at;
	event_list(e, "rewritten", texts, n);
	record_made_host(e, ex);
}
