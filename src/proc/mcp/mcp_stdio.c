/* mcp_stdio.c - MCP over standard input and output: one message per line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/own.h"
#include "proc/mcp/mcp_proc.h"

#define READ_MAX (64 * 1024)
#define WRITE_MAX 4096                  /* a writable pipe takes at least this much */
#define OUT_FULL (1u << 20)             /* nothing is read while so much waits to be written */
#define OUT_MAX (128u << 20)
#define END_MS 5000                     /* for requests from before the end */
#define LOOK_MS 20                      /* between two checks */

static struct loop_source input = { .fd = STDIN_FILENO }, output = { .fd = STDOUT_FILENO };
static struct loop_round input_round;   /* for input that cannot be watched: a file */
static struct loop_timer end_timer;
static uint64_t end_ms;
static struct mcp_peer peer;
static struct buf line, out;
static size_t out_at;
static bool too_long, ended, input_is_file, output_is_file;

static void receive_input(void *arg);

/* ---- out ---- */

static void
check_end(void)
{
	if (ended && out.len == out_at && !job_any_brief())
		exit(0);
}

static void
watch_input(void)
{
	bool on = !ended && out.len - out_at < OUT_FULL;

	if (input_is_file && on)
		loop_at_round_end(mcp_loop, &input_round);
	else if (!input_is_file)
		(void)loop_watch(mcp_loop, &input, on ? EPOLLIN : 0, NULL);
}

static void
write_output(void *arg, uint32_t events)
{
	size_t left = out.len - out_at;
	ssize_t n;

	(void)arg;
	/* The reader is gone. */
	if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLOUT) == 0)
		exit(0);
	n = write(STDOUT_FILENO, out.data + out_at, left < WRITE_MAX ? left : WRITE_MAX);
	if (n < 0 && errno != EINTR && errno != EAGAIN)
		exit(errno == EPIPE ? 0 : 125);
	out_at += n > 0 ? (size_t)n : 0;
	if (out_at == out.len) {
		buf_reset(&out);
		out_at = 0;
	}
	if (!output_is_file)
		(void)loop_watch(mcp_loop, &output, out.len > out_at ? EPOLLOUT : 0, NULL);
	watch_input();
	check_end();
}

static void
say(json_t *message)
{
	OWN(freep) char *text = jsonrpc_write(message);

	json_decref(message);
	if (text != NULL) {
		buf_put_text(&out, text);
		buf_put(&out, "\n", 1);
	}
	if (text == NULL || buf_failed(&out)) {
		fputs("cloister: out of memory for answers\n", stderr);
		exit(125);
	}
	if (!output_is_file && loop_watch(mcp_loop, &output, EPOLLOUT, NULL) == -EPERM)
		output_is_file = true;
	while (output_is_file && out.len > out_at)
		write_output(NULL, EPOLLOUT);
}

static void
job_say(struct job *job, json_t *message, bool last)
{
	(void)job;
	(void)last;
	if (message != NULL)
		say(message);
}

static const struct job_handler handler = { .say = job_say };

/* ---- in ---- */

static void
refuse_call(const struct jsonrpc *m)
{
	say(jsonrpc_error(m->id, JSONRPC_BAD_REQUEST, "too many messages are being handled: try again "
	                  "later"));
}

static void
receive_line(const char *text, size_t len)
{
	OWN(jsonrpc_free) struct jsonrpc m = {0};
	struct mcp_reply reply;
	json_t *error = NULL;

	if (len > 0 && text[len - 1] == '\r')
		len--;
	if (len == 0)
		return;
	if (jsonrpc_read(text, len, &m, &error) < 0) {
		say(error);
		return;
	}
	if (mcp_receive(&mcp_config, &peer, NULL, &m, &reply) < 0) {
		say(NULL);
		return;
	}
	if (reply.message != NULL)
		say(reply.message);
	if (reply.call != NULL) {
		reply.call->app = job_new(reply.call, "", &handler, NULL);
		if (reply.call->app == NULL)
			refuse_call(&m);
	}
	if (reply.cancel != NULL)
		job_cancel(reply.cancel->app);
}

static void
receive_lines(const char *data, size_t len)
{
	while (len > 0) {
		const char *end = memchr(data, '\n', len);
		size_t n = end != NULL ? (size_t)(end - data) : len;

		if (line.len + n > JSONRPC_MESSAGE_MAX)
			too_long = true;
		else
			buf_put(&line, data, n);
		if (end != NULL && too_long)
			say(jsonrpc_error(NULL, JSONRPC_BAD_JSON, "the message is over 8 MiB"));
		else if (end != NULL)
			receive_line((char *)line.data, line.len);
		if (end != NULL) {
			buf_reset(&line);
			too_long = false;
		}
		n += end != NULL;
		data += n;
		len -= n;
	}
}

/* Requests are still answered for a limited time; calls that may take any time are not waited for. */
static void
look_for_end(void *arg)
{
	(void)arg;
	if (loop_now_ms() > end_ms)
		exit(0);
	check_end();
	loop_set_timer(mcp_loop, &end_timer, LOOK_MS);
}

static void
end_input(void)
{
	ended = true;
	end_ms = loop_now_ms() + END_MS;
	if (!input_is_file)
		loop_unwatch(mcp_loop, &input);
	if (line.len > 0)
		receive_line((char *)line.data, line.len);
	look_for_end(NULL);
}

static void
receive_input(void *arg)
{
	static char data[READ_MAX];
	ssize_t n;

	(void)arg;
	n = read(STDIN_FILENO, data, sizeof(data));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		n = 0;
	else if (n <= 0) {
		end_input();
		return;
	}
	receive_lines(data, (size_t)n);
	watch_input();
}

static void
input_ready(void *arg, uint32_t events)
{
	(void)events;
	receive_input(arg);
}

int
stdio_begin(struct err *err)
{
	int r;

	buf_init(&line, JSONRPC_MESSAGE_MAX);
	buf_init(&out, OUT_MAX);
	input.ready = input_ready;
	output.ready = write_output;
	loop_prepare_round(&input_round, receive_input, NULL);
	loop_prepare_timer(&end_timer, look_for_end, NULL);
	r = loop_watch(mcp_loop, &input, EPOLLIN, err);
	if (r != -EPERM)
		return r;
	input_is_file = true;
	loop_at_round_end(mcp_loop, &input_round);
	return 0;
}
