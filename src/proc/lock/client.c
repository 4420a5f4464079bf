/* client.c - speaks MCP to a server, as its client. */
#include "proc/lock/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/utf8.h"
#include "base/version.h"
#include "mcp/jsonrpc.h"

#define CLIENT_VERSION "2025-06-18"

void
client_init(struct client *c, int in, int out, int errors, uint64_t timeout_ms)
{
	*c = (struct client){ .in = in, .out = out, .errors = errors, .deadline = io_now_ms() + (int64_t)timeout_ms,
	                      .line = BUF(CLIENT_LINE_MAX + 65536) };
	(void)fcntl(in, F_SETFL, O_NONBLOCK);
	(void)fcntl(out, F_SETFL, O_NONBLOCK);
	(void)fcntl(errors, F_SETFL, O_NONBLOCK);
}

void
client_free(struct client *c)
{
	close_fd(&c->in);
	close_fd(&c->out);
	close_fd(&c->errors);
	buf_free(&c->line);
}

/* ---- bytes ---- */

static void
hear_errors(struct client *c)
{
	char some[4096];
	ssize_t n = read(c->errors, some, sizeof(some));

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		close_fd(&c->errors);
	for (ssize_t i = 0; i < n; i++)
		c->said[c->n_said++ % sizeof(c->said)] = some[i];
}

/* Until the server's output or, with WRITES, its input is ready. */
static int
await(struct client *c, bool writes, struct err *err)
{
	for (;;) {
		const int64_t left = c->deadline - io_now_ms();
		struct pollfd polls[] = { { .fd = writes ? -1 : c->in, .events = POLLIN },
		                          { .fd = writes ? c->out : -1, .events = POLLOUT },
		                          { .fd = c->errors > 0 ? c->errors : -1, .events = POLLIN } };

		if (left <= 0)
			return err_set(err, ETIMEDOUT, "it did not answer in time");
		if (poll(polls, ARRAY_LEN(polls), left > INT32_MAX ? INT32_MAX : (int)left) < 0 && errno != EINTR)
			return err_errno(err, "cannot wait for the server");
		if (polls[2].revents != 0)
			hear_errors(c);
		if (polls[0].revents != 0 || polls[1].revents != 0)
			return 0;
	}
}

static int
send_message(struct client *c, json_t *message, struct err *err)
{
	OWN(freep) char *text = message != NULL ? json_dumps(message, JSON_COMPACT) : NULL;
	size_t len = text != NULL ? strlen(text) : 0, at = 0;

	json_decref(message);
	if (text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	text[len++] = '\n';             /* in place of its NUL */
	while (at < len) {
		ssize_t n = write(c->out, text + at, len - at);
		int r;

		if (n > 0) {
			at += (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return err_set(err, EPIPE, "it ended");
		r = await(c, true, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The next line is the first *ret_len bytes of c->line. */
static int
read_line(struct client *c, size_t *ret_len, struct err *err)
{
	size_t searched = 0;

	for (;;) {
		const unsigned char *end = c->line.len > searched ?
			memchr(c->line.data + searched, '\n', c->line.len - searched) : NULL;
		unsigned char *room;
		ssize_t n;
		int r;

		if (end != NULL) {
			*ret_len = (size_t)(end - c->line.data);
			return 0;
		}
		searched = c->line.len;
		if (searched > CLIENT_LINE_MAX || c->bytes > CLIENT_BYTES_MAX)
			return err_set(err, EFBIG, "it sent more than anybody waits for");
		r = await(c, false, err);
		if (r < 0)
			return r;
		room = buf_add(&c->line, 65536);
		if (room == NULL)
			return err_set(err, ENOMEM, "out of memory");
		n = read(c->in, room, 65536);
		c->line.len = searched + (n > 0 ? (size_t)n : 0);
		c->bytes += n > 0 ? (size_t)n : 0;
		if (n == 0)
			return err_set(err, EPIPE, "it ended without an answer");
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return err_errno(err, "cannot read from it");
	}
}

static void
drop_line(struct client *c, size_t len)
{
	memmove(c->line.data, c->line.data + len + 1, c->line.len - len - 1);
	c->line.len -= len + 1;
}

/* ---- messages ---- */

/* Nothing that a server asks for is given, but a sign of life. */
static int
answer_request(struct client *c, const struct jsonrpc *m, struct err *err)
{
	if (++c->asked > CLIENT_ASKED_MAX)
		return err_set(err, EFBIG, "it asks without end");
	if (strcmp(m->method, "ping") == 0)
		return send_message(c, jsonrpc_result(m->id, json_object()), err);
	return send_message(c, jsonrpc_error(m->id, JSONRPC_NO_METHOD, "not here"), err);
}

static int
next_message(struct client *c, struct jsonrpc *ret_message, struct err *err)
{
	json_t *error = NULL;
	size_t len = 0;
	int r = read_line(c, &len, err);

	if (r < 0)
		return r;
	if (++c->messages > CLIENT_MESSAGES_MAX)
		return err_set(err, EFBIG, "it sent over %d messages instead of an answer", CLIENT_MESSAGES_MAX);
	r = jsonrpc_read((const char *)c->line.data, len, ret_message, &error);
	json_decref(error);
	drop_line(c, len);
	return r < 0 ? err_set(err, EBADMSG, "it sent a line that is no valid message of JSON-RPC") : 0;
}

/* The response to ID; the caller owns *ret_root. */
static int
await_response(struct client *c, json_int_t id, json_t **ret_root, struct err *err)
{
	for (;;) {
		OWN(jsonrpc_free) struct jsonrpc m = {0};
		int r = next_message(c, &m, err);

		if (r == 0 && m.kind == JSONRPC_REQUEST)
			r = answer_request(c, &m, err);
		if (r < 0)
			return r;
		if (m.kind != JSONRPC_RESPONSE)
			continue;
		if (!json_is_integer(m.id) || json_integer_value(m.id) != id)
			return err_set(err, EBADMSG, "it answered what nobody asked");
		*ret_root = json_incref(m.root);
		return 0;
	}
}

/* Takes PARAMS. */
static int
request(struct client *c, const char *method, json_t *params, json_t **ret_root, struct err *err)
{
	const json_int_t id = ++c->next_id;
	json_t *message = jsonrpc_notification(method, params);
	int r;

	if (message != NULL && json_object_set_new(message, "id", json_integer(id)) < 0)
		json_decref(TAKE(message));
	r = send_message(c, message, err);
	c->bytes = c->messages = 0;
	return r < 0 ? r : await_response(c, id, ret_root, err);
}

/* What an error of a server says, made safe. */
static int
refused(const json_t *root, const char *method, struct err *err)
{
	char said[LOCK_WORD_MAX + 1];

	listing_set_word(said, json_object_get(json_object_get(root, "error"), "message"));
	return err_set(err, EPROTO, "it answered %s with an error: %s", method, said);
}

int
client_greet(struct client *c, struct listing *l, struct err *err)
{
	json_t *params = json_pack("{s:s, s:{}, s:{s:s, s:s}}", "protocolVersion", CLIENT_VERSION, "capabilities", "clientInfo",
	                           "name", "cloister-tools", "version", CLOISTER_VERSION);
	OWN(json_decrefp) json_t *root = NULL;
	const json_t *info;
	int r = request(c, "initialize", params, &root, err);

	if (r < 0)
		return r;
	if (!json_is_object(json_object_get(root, "result")))
		return refused(root, "initialize", err);
	info = json_object_get(json_object_get(root, "result"), "serverInfo");
	listing_set_word(l->name, json_object_get(info, "name"));
	listing_set_word(l->version, json_object_get(info, "version"));
	return send_message(c, jsonrpc_notification("notifications/initialized", json_object()), err);
}

int
client_list(struct client *c, struct listing *l, struct err *err)
{
	OWN(json_decrefp) json_t *cursor = NULL;

	for (unsigned page = 0; page < CLIENT_PAGES_MAX; page++) {
		OWN(json_decrefp) json_t *root = NULL;
		json_t *params = json_object(), *result;
		int r;

		if (cursor != NULL)
			(void)json_object_set(params, "cursor", cursor);
		r = request(c, "tools/list", params, &root, err);
		if (r < 0)
			return r;
		result = json_object_get(root, "result");
		if (!json_is_object(result))
			return refused(root, "tools/list", err);
		r = listing_add(l, json_object_get(result, "tools"), err);
		if (r < 0)
			return r;
		json_decref(TAKE(cursor));
		cursor = json_incref(json_object_get(result, "nextCursor"));
		if (!json_is_string(cursor))
			return 0;
	}
	return err_set(err, E2BIG, "it lists its tools on over %d pages", CLIENT_PAGES_MAX);
}

/* The first text of a result, or the message of an error. */
static void
put_why(struct buf *b, const json_t *root)
{
	json_t *content = json_object_get(json_object_get(root, "result"), "content"), *part;
	const char *text = json_string_value(json_object_get(json_object_get(root, "error"), "message"));
	size_t i, n = 0, left;

	json_array_foreach(content, i, part)
		text = text == NULL ? json_string_value(json_object_get(part, "text")) : text;
	for (left = text != NULL ? strlen(text) : 0; left > 0 && n < CLIENT_ERROR_MAX; n++, text++, left--)
		buf_put(b, *text >= ' ' && *text < 0x7f ? text : " ", 1);
	buf_put_text(b, left > 0 ? "..." : n == 0 ? "(no text)" : "");
}

int
client_call(struct client *c, const char *tool, json_t *arguments, bool *ret_failed, struct buf *why, struct err *err)
{
	json_t *params = json_pack("{s:s, s:O}", "name", tool, "arguments", arguments);
	OWN(json_decrefp) json_t *root = NULL;
	int r = request(c, "tools/call", params, &root, err);

	if (r < 0)
		return r;
	*ret_failed = !json_is_object(json_object_get(root, "result")) ||
	              json_is_true(json_object_get(json_object_get(root, "result"), "isError"));
	if (*ret_failed)
		put_why(why, root);
	return 0;
}

int
client_explain(const struct client *c, struct err *err)
{
	char said[CLIENT_STDERR_KEPT + 1];
	size_t n = 0, from = c->n_said > sizeof(c->said) ? c->n_said - sizeof(c->said) : 0;

	for (size_t i = from; i < c->n_said; i++)
		said[n++] = c->said[i % sizeof(c->said)] >= ' ' && c->said[i % sizeof(c->said)] < 0x7f ?
		            c->said[i % sizeof(c->said)] : ' ';
	while (n > 0 && said[n - 1] == ' ')
		n--;
	said[n] = '\0';
	if (n > 0) {
		char first[ERR_TEXT_MAX];

		snprintf(first, sizeof(first), "%s", err->text);
		return err_set(err, err->code, "%s; it said: %s", first, said + (n > 300 ? n - 300 : 0));
	}
	return -err->code;
}
