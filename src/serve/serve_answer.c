/* serve_answer.c - sends responses: their heads, and their bodies as fast as the client takes them. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "serve/serve_parts.h"

#define PIECE_MAX (32 * 1024)
#define SEND_MAX (128 * 1024)            /* bytes in one chunk */
#define DATE_MAX 40

void
serve_request_free(struct serve_request *q)
{
	if (q->is_offered)
		q->server->handler->lost(q->server->arg, q);
	serve_body_free(&q->body);
	buf_free(&q->head_data);
	buf_free(&q->extra);
	free(q->path);
	free(q);
}

/* A caller that writes cannot handle a lost connection: that waits for the end of the round. */
static void
give(struct serve_conn *c, const void *data, size_t len)
{
	c->written += len;
	if (conn_write(&c->conn, data, len) < 0) {
		c->failed = true;
		loop_at_round_end(c->way->server->loop, &c->again);
	}
}

bool
serve_read_field(const struct serve_request *q, const char *name, char *out, size_t size)
{
	struct http_text value = http_head_get(&q->head, name);

	snprintf(out, size, "%.*s", (int)(value.len < size ? value.len : size - 1), value.len > 0 ? value.at : "");
	return value.len > 0;
}

void
serve_field(struct serve_request *q, const char *name, const char *value)
{
	buf_put(&q->extra, name, strlen(name) + 1);
	buf_put(&q->extra, value, strlen(value) + 1);
}

static struct http_text
text_of(const char *s)
{
	return (struct http_text){ s, strlen(s) };
}

static void
add_field(struct http_head *head, const char *name, const char *value)
{
	if (head->n_fields < HTTP_FIELDS_MAX)
		head->fields[head->n_fields++] = (struct http_field){ text_of(name), text_of(value) };
}

static bool
has_extra(const struct serve_request *q, const char *name)
{
	for (const char *at = (char *)q->extra.data, *end = at + q->extra.len; at < end;) {
		if (strcmp(at, name) == 0)
			return true;
		at += strlen(at) + 1;
		at += strlen(at) + 1;
	}
	return false;
}

static void
put_date(char text[DATE_MAX])
{
	time_t now = time(NULL);
	struct tm tm;

	strftime(text, DATE_MAX, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
}

static void
give_head(struct serve_request *q, unsigned status, const char *type, uint64_t length)
{
	struct serve_conn *c = q->conn;
	struct http_head head = { .status = (uint16_t)status, .length = length };
	bool is_old = c->reader.version == 10;
	char date[DATE_MAX];
	OWN(buf_free) struct buf b = BUF(32 * 1024);

	assert(!buf_failed(&q->extra));
	put_date(date);
	add_field(&head, "date", date);
	if (type != NULL)
		add_field(&head, "content-type", type);
	if (!has_extra(q, "cache-control"))
		add_field(&head, "cache-control", "no-store");
	for (const char *at = (char *)q->extra.data, *end = at + q->extra.len; at < end;) {
		const char *value = at + strlen(at) + 1;

		add_field(&head, at, value);
		at = value + strlen(value) + 1;
	}
	if (length == HTTP_LENGTH_UNKNOWN && is_old)
		c->keep_alive = false;
	/* The rest of its body will not be read. */
	if (c->step == STEP_HEAD || c->step == STEP_BODY || c->way->server->stopping)
		c->keep_alive = false;
	q->chunked = length == HTTP_LENGTH_UNKNOWN && !is_old;
	h1_write_head(&b, &head, (struct h1_style){ .keep_alive = c->keep_alive,
		.plain_body = is_old, .no_body = q->is_head, .to_http10 = is_old });
	c->way->server->stats.statuses[status / 100 % 6]++;
	if (status < 400 && q->role != SERVE_GUEST)
		c->is_known = true;
	give(c, b.data, b.len);
}

/* ---- whole responses ---- */

static size_t
next_piece(struct serve_conn *c, char piece[PIECE_MAX])
{
	size_t len = c->out.len - c->out_at;
	ssize_t n;

	if (c->out_fd <= 0) {
		len = len > PIECE_MAX ? PIECE_MAX : len;
		if (len > 0)
			memcpy(piece, c->out.data + c->out_at, len);
		c->out_at += len;
		return len;
	}
	if (c->out_left == 0)
		return 0;
	do
		n = read(c->out_fd, piece, c->out_left < PIECE_MAX ? (size_t)c->out_left : PIECE_MAX);
	while (n < 0 && errno == EINTR);
	/* The file became shorter: the client must not take the part for the whole. */
	if (n <= 0) {
		c->failed = true;
		loop_at_round_end(c->way->server->loop, &c->again);
		return 0;
	}
	c->out_left -= (uint64_t)n;
	return (size_t)n;
}

bool
serve_conn_pump(struct serve_conn *c)
{
	char piece[PIECE_MAX];
	size_t n;

	while (!c->failed && !conn_is_full(&c->conn)) {
		n = next_piece(c, piece);
		if (n == 0)
			break;
		give(c, piece, n);
	}
	if (c->failed || conn_is_full(&c->conn) ||
	    (!c->keep_alive && c->conn.out.len - c->conn.out_at + c->conn.held.len > 0))
		return false;
	close_fd(&c->out_fd);
	buf_free(&c->out);
	c->out_at = 0;
	return true;
}

static void
give_answer(struct serve_request *q, unsigned status, const char *type, uint64_t length)
{
	struct serve_conn *c = q->conn;

	conn_cork(&c->conn);
	give_head(q, status, type, length);
	c->request = NULL;
	serve_request_free(q);
	c->step = STEP_ANSWERS;
	serve_conn_late(c, SERVE_WRITE_S);
	(void)serve_conn_pump(c);
	conn_uncork(&c->conn);
	if (serve_conn_pump(c))
		serve_conn_answered(c);
}

void
serve_answer(struct serve_request *q, unsigned status, const char *type, const void *body,
             size_t len)
{
	struct serve_conn *c = q->conn;

	if (c == NULL) {
		serve_request_free(q);
		return;
	}
	buf_init(&c->out, len);
	if (!q->is_head)
		buf_put(&c->out, body, len);
	if (buf_failed(&c->out)) {
		c->request = NULL;
		serve_request_free(q);
		serve_conn_drop(c, true);
		return;
	}
	give_answer(q, status, type, len);
}

void
serve_answer_fd(struct serve_request *q, unsigned status, const char *type, int fd, uint64_t len)
{
	struct serve_conn *c = q->conn;

	if (c == NULL || q->is_head) {
		close(fd);
		fd = -1;
	}
	if (c == NULL) {
		serve_request_free(q);
		return;
	}
	c->out_fd = fd;
	c->out_left = len;
	give_answer(q, status, type, len);
}

void
serve_refuse(struct serve_request *q, unsigned status, const char *code, const char *pointer,
             const char *message)
{
	OWN(freep) char *text = NULL;
	size_t size = 0;
	FILE *out = NULL;
	struct json w;

	if (q->door->refuse != NULL) {
		q->door->refuse(q, status, code, message);
		return;
	}
	out = open_memstream(&text, &size);
	w = (struct json){ .out = out };
	if (out != NULL) {
		json_open(&w, NULL, '{');
		json_open(&w, "error", '{');
		json_str(&w, "code", code);
		json_str(&w, "message", message);
		if (pointer != NULL)
			json_str(&w, "pointer", pointer);
		json_close(&w, '}');
		json_close(&w, '}');
		fputc('\n', out);
		fclose(out);
	}
	serve_answer(q, status, "application/json", text, text != NULL ? size : 0);
}

/* ---- streams ---- */

void
serve_stream(struct serve_request *q, unsigned status, const char *type)
{
	struct serve_conn *c = q->conn;

	q->is_stream = true;
	if (c == NULL)
		return;
	assert(c->step == STEP_ASKED && q->writable != NULL && q->gone != NULL);
	give_head(q, status, type, HTTP_LENGTH_UNKNOWN);
	c->step = STEP_STREAMS;
	c->way->server->stats.streams++;
	serve_conn_late(c, SERVE_WRITE_S);
}

void
serve_carry(struct serve_request *q)
{
	struct serve_conn *c = q->conn;

	q->is_stream = true;
	if (c == NULL)
		return;
	assert(c->is_carried && c->step == STEP_ASKED && q->writable != NULL);
	c->step = STEP_STREAMS;
	c->way->server->stats.streams++;
	serve_conn_late(c, SERVE_WRITE_S);
}

void
serve_drop(struct serve_request *q)
{
	assert(q->conn == NULL && !q->is_stream);
	serve_request_free(q);
}

void
serve_hear(struct serve_request *q, bool more)
{
	if (q->conn == NULL || q->conn->ended)
		return;
	if (more)
		conn_resume_reading(&q->conn->conn);
	else
		conn_pause_reading(&q->conn->conn);
}

static void
send_piece(struct serve_conn *c, const char *data, size_t len, bool chunked)
{
	char size[H1_CHUNK_MAX];

	conn_cork(&c->conn);
	if (chunked)
		give(c, size, h1_chunk_begin(size, len));
	give(c, data, len);
	if (chunked)
		give(c, "\r\n", 2);
	conn_uncork(&c->conn);
}

bool
serve_send(struct serve_request *q, const void *data, size_t len)
{
	struct serve_conn *c = q->conn;
	const char *at = data;

	if (c == NULL || len == 0)
		return c != NULL;
	if (q->is_head)
		return true;
	for (size_t n; len > 0; at += n, len -= n) {
		n = len < SEND_MAX ? len : SEND_MAX;
		send_piece(c, at, n, q->chunked);
	}
	return !c->failed && !conn_is_full(&c->conn);
}

void
serve_end(struct serve_request *q, bool cut)
{
	struct serve_conn *c = q->conn;
	bool chunked = q->chunked && !q->is_head;

	if (c != NULL) {
		c->request = NULL;
		c->step = STEP_ANSWERS;
		c->way->server->stats.streams--;
	}
	serve_request_free(q);
	if (c == NULL)
		return;
	if (cut) {
		serve_conn_drop(c, true);
		return;
	}
	if (chunked)
		give(c, "0\r\n\r\n", 5);
	if (serve_conn_pump(c))
		serve_conn_answered(c);
}
