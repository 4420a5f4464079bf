/* main.c - cloister-inspect: inspects request bodies and models' responses for the courier.
 *
 * Decoders, a JSON parser and regular expressions run here on what an agent sends and receives, in
 * a process that has nothing: its one descriptor is the channel to the courier. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/own.h"
#include "confine/lockdown.h"
#include "inspect/inspect.h"
#include "inspect/rewriting.h"
#include "inspect/usage.h"
#include "ipc/courier_channel.h"
#include "ipc/inspect_channel.h"
#include "loop/loop.h"

#define BODIES_MAX 128                          /* at once */
#define MEMORY_MAX ((rlim_t)1024 * 1024 * 1024) /* of addresses, for what has no bound of
                                                 * its own: windows of decoders */
#define IDLE_MS (5 * 60 * 1000)                 /* a body that nobody ends is dropped */

/* A policy is kept as long as something uses it. */
struct rules {
	struct policy *policy;
	size_t users;
};

struct server {
	struct loop *loop;
	struct mux *mux;
	struct rules *rules;            /* NULL before the first */
	struct buf pieces;              /* of the next policy */
	size_t n_bodies;
};

struct question {
	struct server *server;
	struct mux_stream *stream;
	struct rules *rules;
	struct inspect *inspect;        /* one of these three */
	struct usage *usage;
	struct rewriting *rewriting;    /* NULL: nothing is changed */
	struct loop_timer idle;
};

/* ---- policies ---- */

static void
rules_drop(struct rules *rules)
{
	if (rules == NULL || --rules->users > 0)
		return;
	policy_free(rules->policy);
	free(rules);
}

static int
take_policy(struct server *s, struct buf *body)
{
	struct rules *rules;
	struct buf all;
	uint32_t more;
	int r;

	if (buf_get_u32(body, &more) < 0)
		return -EBADMSG;
	buf_put(&s->pieces, body->data + body->pos, buf_left(body));
	if (buf_failed(&s->pieces))
		return -EBADMSG;
	if (more != 0)
		return 0;
	rules = calloc(1, sizeof(*rules));
	if (rules == NULL)
		return -ENOMEM;
	buf_init_borrowed(&all, s->pieces.data, s->pieces.len);
	r = policy_get(&all, &rules->policy, NULL);
	if (r < 0 || buf_left(&all) != 0) {
		policy_free(rules->policy);
		free(rules);
		return -EBADMSG;
	}
	buf_free(&s->pieces);
	buf_init(&s->pieces, POLICY_ENCODED_MAX);
	rules->users = 1;
	rules_drop(s->rules);
	s->rules = rules;
	return 0;
}

/* ---- results ---- */

static void
send_result(struct server *s, uint32_t id, const struct inspect_findings *f)
{
	OWN(buf_free) struct buf answer = BUF(MUX_FRAME_MAX);

	buf_put_u32(&answer, f->secret ? INSPECT_SECRET : f->unreadable ? INSPECT_UNREADABLE
	                                                                : INSPECT_CLEAN);
	buf_put_str(&answer, f->what);
	buf_put_str(&answer, f->pushed);
	buf_put_str(&answer, f->call);
	buf_put_str(&answer, f->shape);
	buf_put_u32(&answer, (uint32_t)f->n_fits);
	buf_put(&answer, f->fits, f->n_fits);
	mux_send(s->mux, id, INSPECT_RESULT, &answer);
}

static void
refuse(struct server *s, uint32_t id, const char *why)
{
	struct inspect_findings f = { .unreadable = true, .fits = (const unsigned char *)"",
	                              .shape = "" };

	snprintf(f.what, sizeof(f.what), "%s", why);
	send_result(s, id, &f);
}

static void
tell_rewritten(struct server *s, uint32_t id, const char *why, const uint64_t changed[2])
{
	OWN(buf_free) struct buf answer = BUF(MUX_FRAME_MAX);

	buf_put_str(&answer, why);
	buf_put_u64(&answer, changed[0]);
	buf_put_u64(&answer, changed[1]);
	mux_send(s->mux, id, INSPECT_REWRITTEN, &answer);
}

static int
refuse_rewrite(struct server *s, uint32_t id)
{
	tell_rewritten(s, id, "too many bytes are being inspected", (uint64_t[2]){0});
	return 0;
}

static void
question_drop(struct question *q)
{
	loop_cancel_timer(q->server->loop, &q->idle);
	if (q->stream != NULL)
		mux_close(q->stream);
	inspect_free(q->inspect);
	usage_free(q->usage);
	rewriting_free(q->rewriting);
	rules_drop(q->rules);
	q->server->n_bodies--;
	free(q);
}

static void
question_answer(struct question *q)
{
	struct inspect_findings f;

	inspect_result(q->inspect, &f);
	send_result(q->server, q->stream->id, &f);
	question_drop(q);
}

static void
question_is_idle(void *arg)
{
	question_drop(arg);
}

/* The changed body as far as the courier takes it, then the result. */
static void
send_rewritten(struct question *q)
{
	struct rewriting *w = q->rewriting;

	if (!w->done)
		return;
	if (w->why[0] == '\0' && buf_left(&w->out) > 0) {
		w->out.pos += mux_send_data(q->stream, w->out.data + w->out.pos, buf_left(&w->out));
		loop_set_timer(q->server->loop, &q->idle, IDLE_MS);
		if (buf_left(&w->out) > 0)
			return;
	}
	tell_rewritten(q->server, q->stream->id, w->why, w->changed);
	question_drop(q);
}

/* ---- requests ---- */

static int
get_text(struct buf *body, struct http_text *ret_text)
{
	int r = buf_get_str(body, &ret_text->at);

	if (r == 0)
		ret_text->len = strlen(ret_text->at);
	return r;
}

static int
read_question(struct server *s, struct buf *body, struct inspect_request *ret_req)
{
	uint32_t wanted;

	*ret_req = (struct inspect_request){0};
	if (get_text(body, &ret_req->method) < 0 || get_text(body, &ret_req->path) < 0 ||
	    get_text(body, &ret_req->content_type) < 0 ||
	    get_text(body, &ret_req->content_coding) < 0 || buf_get_u32(body, &wanted) < 0 ||
	    buf_left(body) != 0 || (wanted & ~(INSPECT_SECRETS | INSPECT_RULES | INSPECT_SHAPE)) != 0)
		return -EBADMSG;
	ret_req->secrets = (wanted & INSPECT_SECRETS) != 0;
	ret_req->rules = (wanted & INSPECT_RULES) != 0;
	ret_req->shape = (wanted & INSPECT_SHAPE) != 0;
	if (ret_req->rules && s->rules == NULL)
		return -EBADMSG;
	ret_req->policy = s->rules != NULL ? s->rules->policy : NULL;
	return 0;
}

/* Q, which was just made for the stream ID, is under way.  On failure it is freed. */
static int
question_open(struct server *s, uint32_t id, struct question *q)
{
	q->server = s;
	loop_prepare_timer(&q->idle, question_is_idle, q);
	q->rules = s->rules;
	if (q->rules != NULL)
		q->rules->users++;
	s->n_bodies++;
	q->stream = mux_open_as(s->mux, id, q);
	if (q->stream == NULL) {
		question_drop(q);
		return -EBADMSG;
	}
	loop_set_timer(s->loop, &q->idle, IDLE_MS);
	return 0;
}

static int
take_question(struct server *s, uint32_t id, struct buf *body)
{
	OWN(freep) struct question *q = calloc(1, sizeof(*q));
	struct inspect_request req;
	struct err err = {0};

	if (read_question(s, body, &req) < 0)
		return -EBADMSG;
	if (s->n_bodies >= BODIES_MAX) {
		refuse(s, id, "too many bodies are being inspected");
		return 0;
	}
	if (q == NULL || inspect_new(&req, &q->inspect, &err) < 0) {
		refuse(s, id, "out of memory while inspecting the body");
		return 0;
	}
	return question_open(s, id, TAKE(q));
}

/* ---- responses of models ---- */

static void
send_used(struct server *s, uint32_t id, const struct usage_found *found)
{
	OWN(buf_free) struct buf answer = BUF(MUX_FRAME_MAX);

	buf_put_u32(&answer, (found->found ? INSPECT_FOUND : 0u) | (found->kept ? INSPECT_KEPT : 0u) |
	                     (found->later ? INSPECT_LATER : 0u) |
	                     (found->whole ? INSPECT_WHOLE : 0u));
	buf_put_str(&answer, found->model);
	buf_put_u64(&answer, found->tokens.input);
	buf_put_u64(&answer, found->tokens.output);
	buf_put_u64(&answer, found->tokens.cache_read);
	buf_put_u64(&answer, found->tokens.cache_write);
	buf_put_u64(&answer, found->text);
	mux_send(s->mux, id, INSPECT_USED, &answer);
}

/* A response that cannot be inspected still needs a result at its end. */
static int
take_answer(struct server *s, uint32_t id, struct buf *body)
{
	OWN(freep) struct question *q = calloc(1, sizeof(*q));
	struct http_text coding;

	if (get_text(body, &coding) < 0 || buf_left(body) != 0)
		return -EBADMSG;
	if (q == NULL || s->n_bodies >= BODIES_MAX || usage_new(coding, &q->usage, NULL) < 0)
		return 0;
	return question_open(s, id, TAKE(q));
}

static int
end_answer(struct server *s, uint32_t id, struct mux_stream *stream, struct buf *body)
{
	struct question *q = stream != NULL ? stream->arg : NULL;
	struct usage_found found = {0};
	uint32_t complete;

	if (buf_get_u32(body, &complete) < 0 || buf_left(body) != 0 || (q != NULL && q->usage == NULL))
		return -EBADMSG;
	if (q != NULL)
		usage_finish(q->usage, complete == 1, &found);
	send_used(s, id, &found);
	if (q != NULL)
		question_drop(q);
	return 0;
}

/* ---- changes ---- */

static int
take_rewrite(struct server *s, uint32_t id, struct buf *body)
{
	OWN(freep) struct question *q = calloc(1, sizeof(*q));
	struct rewriting_order order;
	uint32_t rule;

	if (get_text(body, &order.content_type) < 0 || get_text(body, &order.content_coding) < 0 ||
	    buf_get_u32(body, &rule) < 0 || get_text(body, &order.answer) < 0 || buf_left(body) != 0 ||
	    s->rules == NULL || rule > policy_n_rules(s->rules->policy))
		return -EBADMSG;
	order.policy = s->rules->policy;
	order.rule = (int)rule - 1;
	if (q == NULL || s->n_bodies >= BODIES_MAX || rewriting_new(&order, &q->rewriting) < 0)
		return refuse_rewrite(s, id);
	return question_open(s, id, TAKE(q));
}

static int
end_question(struct question *q)
{
	if (q->usage != NULL)
		return -EBADMSG;
	if (q->rewriting != NULL) {
		rewriting_finish(q->rewriting);
		send_rewritten(q);
		return 0;
	}
	inspect_finish(q->inspect);
	question_answer(q);
	return 0;
}

static int
take_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type,
           struct buf *body)
{
	struct server *s = arg;

	switch (type) {
	case INSPECT_POLICY:
		return id == 0 ? take_policy(s, body) : -EBADMSG;
	case INSPECT_BODY:
		return stream == NULL ? take_question(s, id, body) : -EBADMSG;
	case INSPECT_END:
		return stream == NULL ? 0 : end_question(stream->arg);
	case INSPECT_REWRITE:
		return stream == NULL ? take_rewrite(s, id, body) : -EBADMSG;
	case INSPECT_DROP:
		if (stream != NULL)
			question_drop(stream->arg);
		return 0;
	case INSPECT_USAGE:
		return stream == NULL ? take_answer(s, id, body) : -EBADMSG;
	case INSPECT_USAGE_END:
		return end_answer(s, id, stream, body);
	default:
		return -EBADMSG;
	}
}

static int
take_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	struct question *q = stream->arg;

	(void)arg;
	if (q->usage != NULL) {
		usage_feed(q->usage, data, len);
	} else if (q->rewriting != NULL) {
		if (!rewriting_feed(q->rewriting, data, len)) {
			tell_rewritten(q->server, stream->id, "the body is too large", (uint64_t[2]){0});
			question_drop(q);
			return 0;
		}
	} else if (inspect_feed(q->inspect, data, len) == INSPECT_DONE) {
		question_answer(q);
		return 0;
	}
	mux_consumed(stream, len);
	loop_set_timer(q->server->loop, &q->idle, IDLE_MS);
	return 0;
}

static void
is_writable(void *arg, struct mux_stream *stream)
{
	struct question *q = stream->arg;

	(void)arg;
	if (q->rewriting != NULL)
		send_rewritten(q);
}

static void
courier_is_gone(void *arg, int error)
{
	struct server *s = arg;

	(void)error;
	loop_quit(s->loop);
}

/* ---- the process ---- */

/* Does what needs more rights than the lock-down leaves. */
static void
prepare(void)
{
	struct rlimit limit = { MEMORY_MAX, MEMORY_MAX };
	unsigned char hash[EVP_MAX_MD_SIZE];

	signal(SIGPIPE, SIG_IGN);
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	(void)EVP_Digest("", 0, hash, NULL, EVP_sha1(), NULL);
	(void)EVP_Digest("", 0, hash, NULL, EVP_sha256(), NULL);
#ifndef CLOISTER_SANITIZED
	(void)setrlimit(RLIMIT_AS, &limit);
#else
	(void)limit;
#endif
}

static int
serve(struct err *err)
{
	static const struct mux_handler handler = {
		.frame = take_frame, .data = take_data, .writable = is_writable,
		.ended = courier_is_gone,
	};
	static struct server server;
	int r = loop_new(&server.loop, err);

	buf_init(&server.pieces, POLICY_ENCODED_MAX);
	if (r == 0)
		r = mux_new(server.loop, INSPECT_COURIER_FD, &handler, &server, &server.mux, err);
	return r == 0 ? loop_run(server.loop, err) : r;
}

int
main(void)
{
	static const struct lockdown lockdown = { .filter = FILTER_INSPECT };
	struct err err = {0};
	int r;

	if (fcntl(INSPECT_COURIER_FD, F_GETFD) < 0) {
		fprintf(stderr, "cloister-inspect is started by cloister-supervisor only\n");
		return 125;
	}
	prepare();
	r = lockdown_enter(&lockdown, INSPECT_COURIER_FD + 1, &err);
	if (r == 0)
		r = serve(&err);
	if (r < 0)
		fprintf(stderr, "cloister-inspect: %s\n", err.text);
	return r < 0;
}
