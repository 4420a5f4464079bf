/* policy_judge.c - decides as a cell's courier would; cloister-inspect inspects bodies, as there. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cli/policy.h"
#include "ipc/courier_channel.h"
#include "ipc/inspect_channel.h"
#include "loop/loop.h"

#define ANSWER_MS (30 * 1000)

struct policy_judge {
	const struct policy *p;
	struct loop *loop;
	struct mux *mux;
	int channel;
	pid_t inspect;
	/* the request that is being judged */
	struct policy_asked *asked;
	struct policy_judgement *out;
	struct mux_stream *stream;
	size_t sent;
	uint32_t result;
	char what[128];
	const char *failed;             /* NULL unless something failed */
	struct loop_timer timer;
};

const char *
policy_verdict_name(enum policy_verdict verdict)
{
	return verdict == POLICY_ALLOW ? "allow" : verdict == POLICY_ASK ? "ask" : "deny";
}

int
policy_judge_new(const struct policy *p, struct policy_judge **ret_judge, struct err *err)
{
	struct policy_judge *judge = calloc(1, sizeof(*judge));

	if (judge == NULL)
		return err_set(err, ENOMEM, "out of memory");
	judge->p = p;
	*ret_judge = judge;
	return 0;
}

void
policy_judge_freep(struct policy_judge **judge)
{
	struct policy_judge *j = *judge;

	if (j == NULL)
		return;
	mux_free(j->mux);
	loop_free(j->loop);
	close_fd(&j->channel);
	if (j->inspect > 0) {
		kill(j->inspect, SIGKILL);
		waitpid(j->inspect, NULL, 0);
	}
	free(j);
}

/* ---- cloister-inspect ---- */

static void
quit_failing(struct policy_judge *j, const char *why)
{
	j->failed = why;
	loop_quit(j->loop);
}

static void
send_more(struct policy_judge *j)
{
	const struct policy_asked *asked = j->asked;

	if (j->stream == NULL || j->sent > asked->n_body)
		return;
	while (j->sent < asked->n_body) {
		size_t n = mux_send_data(j->stream, asked->body + j->sent, asked->n_body - j->sent);

		if (n == 0)
			return;
		j->sent += n;
	}
	mux_send(j->mux, j->stream->id, INSPECT_END, NULL);
	j->sent++;                      /* only once */
}

static int
take_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type, struct buf *body)
{
	struct policy_judge *j = arg;
	const char *what, *pushed, *call, *shape;
	uint32_t n;

	(void)id;
	if (type != INSPECT_RESULT || stream == NULL || stream != j->stream)
		return -EBADMSG;
	if (buf_get_u32(body, &j->result) < 0 || buf_get_str(body, &what) < 0 ||
	    buf_get_str(body, &pushed) < 0 || buf_get_str(body, &call) < 0 || buf_get_str(body, &shape) < 0 ||
	    buf_get_u32(body, &n) < 0 ||
	    n > sizeof(j->out->fits) || buf_left(body) != n)
		return -EBADMSG;
	snprintf(j->what, sizeof(j->what), "%s", what);
	memcpy(j->out->fits, body->data + body->pos, n);
	j->out->n_fits = n;
	mux_close(TAKE(j->stream));
	loop_quit(j->loop);
	return 0;
}

static int
take_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	(void)arg, (void)stream, (void)data, (void)len;
	return -EBADMSG;
}

static void
is_writable(void *arg, struct mux_stream *stream)
{
	(void)stream;
	send_more(arg);
}

static void
is_gone(void *arg, int error)
{
	(void)error;
	quit_failing(arg, "cloister-inspect, which looks into bodies, ended");
}

static void
is_late(void *arg)
{
	quit_failing(arg, "cloister-inspect, which looks into bodies, does not answer");
}

static int
send_policy(struct policy_judge *j, struct err *err)
{
	OWN(buf_free) struct buf all = BUF(POLICY_ENCODED_MAX), piece = BUF(MUX_FRAME_MAX);
	size_t at = 0, n;

	policy_put(&all, j->p);
	if (buf_failed(&all))
		return err_set(err, E2BIG, "the policy is too large");
	do {
		n = all.len - at < MUX_FRAME_MAX / 2 ? all.len - at : MUX_FRAME_MAX / 2;
		buf_reset(&piece);
		buf_put_u32(&piece, at + n < all.len);
		buf_put(&piece, all.data + at, n);
		mux_send(j->mux, 0, INSPECT_POLICY, &piece);
		at += n;
	} while (at < all.len);
	return 0;
}

static int
start_inspect(struct policy_judge *j, struct err *err)
{
	static const struct mux_handler handler = { .frame = take_frame, .data = take_data,
		.writable = is_writable, .ended = is_gone };
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot start cloister-inspect");
	j->inspect = spawn_start(&(struct spawn){ .argv = (char *[]){ (char[]){ "cloister-inspect" }, NULL },
		.env = (char *[]){ NULL }, .fds = &(struct spawn_fd){ ends[1], INSPECT_COURIER_FD }, .n_fds = 1 },
		NULL, err);
	close(ends[1]);
	j->channel = ends[0];
	if (j->inspect < 0)
		return j->inspect;
	signal(SIGPIPE, SIG_IGN);
	fcntl(j->channel, F_SETFL, O_NONBLOCK);
	r = loop_new(&j->loop, err);
	r = r == 0 ? mux_new(j->loop, j->channel, &handler, j, &j->mux, err) : r;
	return r == 0 ? send_policy(j, err) : r;
}

static void
put_text(struct buf *b, struct http_text text)
{
	buf_put_u32(b, (uint32_t)text.len);
	buf_put(b, text.at, text.len);
	buf_put(b, "", 1);
}

int
policy_judge_inspect(struct policy_judge *j, struct policy_asked *asked,
                     struct policy_judgement *out, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(MUX_FRAME_MAX);
	const struct http_head *head = &asked->head;
	int r;

	r = j->mux == NULL ? start_inspect(j, err) : 0;
	if (r < 0)
		return r;
	put_text(&b, head->method);
	put_text(&b, head->path);
	put_text(&b, http_head_get(head, "content-type"));
	put_text(&b, http_head_get(head, "content-encoding"));
	buf_put_u32(&b, INSPECT_SECRETS | INSPECT_RULES);
	j->asked = asked;
	j->out = out;
	j->sent = 0;
	j->failed = NULL;
	loop_prepare_timer(&j->timer, is_late, j);
	j->stream = mux_open(j->mux, j);
	if (j->stream == NULL || buf_failed(&b))
		return err_set(err, E2BIG, "the request is too large");
	mux_send(j->mux, j->stream->id, INSPECT_BODY, &b);
	send_more(j);
	loop_set_timer(j->loop, &j->timer, ANSWER_MS);
	r = loop_run(j->loop, err);
	loop_cancel_timer(j->loop, &j->timer);
	return r < 0 ? r : j->failed != NULL ? err_set(err, EPIPE, "%s", j->failed) : 0;
}

/* ---- the answer ---- */

static void
deny(struct policy_judgement *out, const char *before, const char *what)
{
	out->decision.verdict = POLICY_DENY;
	out->decision.needs_body = false;
	snprintf(out->why, sizeof(out->why), "%s%s", before, what);
}

int
policy_judge(struct policy_judge *judge, struct policy_asked *asked,
             struct policy_judgement *out, struct err *err)
{
	struct policy_decision *d = &out->decision;
	char size[NUM_TEXT_MAX];
	int r;

	out->why[0] = '\0';
	out->n_fits = 0;
	if (asked->refused[0] != '\0') {
		*d = (struct policy_decision){ .verdict = POLICY_DENY, .rule = -1 };
		deny(out, "", asked->refused);
		return 0;
	}
	policy_decide(judge->p, &asked->req, d, &out->logged);
	if ((d->verdict != POLICY_DENY || d->needs_body) && policy_is_doh(&asked->req)) {
		*d = (struct policy_decision){ .verdict = POLICY_DENY, .rule = -1 };
		deny(out, "", "it asks for names over HTTPS or TLS, which would hide them, and no rule "
		     "changes that");
		return 0;
	}
	if (d->too_large)
		deny(out, "its body is larger than ", num_format_size(size, d->upload_max));
	if (asked->req.protocol != POLICY_HTTP || d->too_large ||
	    (!d->needs_body && (asked->n_body == 0 || d->verdict == POLICY_DENY)))
		return 0;
	if (d->needs_body && asked->n_body > d->held_max) {
		deny(out, "its body is too large to be looked into: over ",
		     num_format_size(size, d->held_max));
		return 0;
	}
	r = policy_judge_inspect(judge, asked, out, err);
	if (r < 0)
		return r;
	asked->req.body_fits = out->fits;
	asked->req.n_body_fits = out->n_fits;
	policy_decide(judge->p, &asked->req, d, &out->logged);
	if (d->verdict == POLICY_DENY)
		return 0;
	if (judge->result == INSPECT_UNREADABLE)
		deny(out, "its body cannot be read: ", judge->what);
	else if (judge->result == INSPECT_SECRET && d->must_look)
		deny(out, "its body contains what looks like a credential: ", judge->what);
	return 0;
}

int
policy_judge_sent(struct policy_judge *judge, const struct policy_asked *asked,
                  struct policy_judgement *judgement, struct policy_sent **ret_sent,
                  struct err *err)
{
	struct err why = {0};
	int r;

	*ret_sent = NULL;
	if (judgement->decision.verdict == POLICY_DENY || asked->req.protocol != POLICY_HTTP)
		return 0;
	r = policy_sent_make(judge, judge->p, asked, &judgement->decision, ret_sent, &why);
	if (r == -ENOMEM)
		return err_set(err, ENOMEM, "%s", why.text);
	if (r < 0)
		deny(judgement, "", why.text);
	return 0;
}
