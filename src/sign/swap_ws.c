/* swap_ws.c - takes WebSocket frames apart, and writes their messages in new frames. */
#include "sign/swap_ws.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

enum { CONTINUATION, TEXT, BINARY, CLOSE = 8, PING, PONG };
#define FIN 0x80
#define MASKED 0x80
#define LEN_16 126
#define LEN_64 127

/* ---- writing frames ---- */

/* Write the head of a frame of N bytes, directly before PAYLOAD.  Returns its start. */
static unsigned char *
put_head(const struct swap_ws *ws, unsigned char *payload, size_t n, unsigned first)
{
	unsigned char *at = payload, masked = ws->from_client ? MASKED : 0;

	if (ws->from_client) {
		at -= sizeof(ws->mask);
		memcpy(at, ws->mask, sizeof(ws->mask));
		for (size_t i = 0; i < n; i++)
			payload[i] ^= ws->mask[i % 4];
	}
	if (n < LEN_16) {
		*--at = (unsigned char)(masked | n);
	} else {
		*--at = (unsigned char)n;
		*--at = (unsigned char)(n >> 8);
		*--at = masked | LEN_16;
	}
	*--at = (unsigned char)first;
	return at;
}

_Static_assert(SWAP_WS_FRAME <= 0xffff, "the length has 16 bits");

/* Write the bytes collected of a message as a frame. */
static int
put_frame(struct swap_ws *ws, bool fin)
{
	unsigned char *payload = ws->out + SWAP_WS_HEAD_MAX;
	unsigned first = (fin ? FIN : 0u) | (ws->has_begun ? CONTINUATION : ws->opcode);
	unsigned char *at = put_head(ws, payload, ws->n_out, first);
	size_t len = (size_t)(payload - at) + ws->n_out;

	ws->has_begun = !fin;
	ws->n_out = 0;
	return ws->sink(ws->arg, at, len);
}

/* Bytes of a message, after replacement. */
static int
take(void *arg, const unsigned char *data, size_t len)
{
	struct swap_ws *ws = arg;
	int r = 0;

	while (len > 0 && r >= 0) {
		size_t n = SWAP_WS_FRAME - ws->n_out;

		if (n == 0) {
			r = put_frame(ws, false);
			continue;
		}
		if (n > len)
			n = len;
		memcpy(ws->out + SWAP_WS_HEAD_MAX + ws->n_out, data, n);
		ws->n_out += n;
		data += n;
		len -= n;
	}
	return r;
}

static enum swap_verdict
judge(void *arg, const struct swap_seen *seen)
{
	struct swap_ws *ws = arg;

	return ws->judge(ws->arg, seen);
}

static void
missed(void *arg)
{
	struct swap_ws *ws = arg;

	ws->missed(ws->arg);
}

/* ---- reading frames ---- */

static bool
is_control(const struct swap_ws *ws)
{
	return (ws->head[0] & 8) != 0;
}

/* The length of the head, as far as known. */
static size_t
head_len(const struct swap_ws *ws)
{
	unsigned len;

	if (ws->n_head < 2)
		return 2;
	len = ws->head[1] & 0x7f;
	return 2u + (len == LEN_16 ? 2 : len == LEN_64 ? 8 : 0) +
	       ((ws->head[1] & MASKED) != 0 ? 4 : 0);
}

static int
read_length(struct swap_ws *ws, struct err *err)
{
	unsigned len = ws->head[1] & 0x7f, n = len == LEN_16 ? 2 : len == LEN_64 ? 8 : 0;

	ws->left = n == 0 ? len : 0;
	for (unsigned i = 0; i < n; i++)
		ws->left = ws->left << 8 | ws->head[2 + i];
	if ((n == 2 && ws->left < LEN_16) || (n == 8 && (ws->left <= 0xffff || ws->left >> 63 != 0)))
		return err_set(err, EPROTO, "a WebSocket frame's length is not as it should be written");
	if ((ws->head[1] & MASKED) != 0)
		memcpy(ws->mask, ws->head + 2 + n, sizeof(ws->mask));
	ws->mask_at = 0;
	return 0;
}

static int
check_control(const struct swap_ws *ws, struct err *err)
{
	unsigned opcode = ws->head[0] & 15;

	if (opcode > PONG)
		return err_set(err, EPROTO, "a WebSocket frame is of a kind that nobody knows");
	if ((ws->head[0] & FIN) == 0 || ws->left > SWAP_WS_CONTROL_MAX)
		return err_set(err, EPROTO, "a WebSocket's frame of control is too long");
	return 0;
}

/* The head is complete. */
static int
begin_frame(struct swap_ws *ws, struct err *err)
{
	unsigned opcode = ws->head[0] & 15;
	int r;

	if ((ws->head[0] & 0x70) != 0)
		return err_set(err, EPROTO, "a WebSocket frame uses an extension that was not agreed on");
	if (((ws->head[1] & MASKED) != 0) != ws->from_client)
		return err_set(err, EPROTO, "a WebSocket frame is %s", ws->from_client ? "not masked"
		                                                                      : "masked");
	r = read_length(ws, err);
	if (r == 0 && is_control(ws)) {
		r = check_control(ws, err);
	} else if (r == 0) {
		if (opcode > BINARY)
			return err_set(err, EPROTO, "a WebSocket frame is of a kind that nobody knows");
		if ((opcode == CONTINUATION) != ws->in_message)
			return err_set(err, EPROTO, "a WebSocket's fragments are out of order");
		if (opcode != CONTINUATION)
			ws->opcode = (unsigned char)opcode;
		ws->in_message = true;
	}
	ws->in_frame = r == 0;
	return r;
}

/* A message has ended. */
static int
end_message(struct swap_ws *ws, struct err *err)
{
	int r = swap_finish(&ws->stream, err);

	if (r >= 0)
		r = put_frame(ws, true);
	ws->stream.before = 0;
	ws->in_message = false;
	return r;
}

/* A control frame while it is written. */
struct control {
	struct swap_ws *ws;
	unsigned char frame[SWAP_WS_HEAD_MAX + SWAP_WS_CONTROL_MAX];
	size_t n;
};

static int
take_control(void *arg, const unsigned char *data, size_t len)
{
	struct control *c = arg;

	if (len > SWAP_WS_CONTROL_MAX - c->n)
		return -EMSGSIZE;
	memcpy(c->frame + SWAP_WS_HEAD_MAX + c->n, data, len);
	c->n += len;
	return 0;
}

static enum swap_verdict
judge_control(void *arg, const struct swap_seen *seen)
{
	struct control *c = arg;

	return c->ws->judge(c->ws->arg, seen);
}

static int
end_control(struct swap_ws *ws, struct err *err)
{
	struct control c = { .ws = ws };
	struct swap_stream s = {
		.set = ws->stream.set, .place = SWAP_MESSAGE, .sink = take_control,
		.judge = judge_control, .arg = &c, .lengths = ws->stream.lengths,
	};
	unsigned char *at;
	int r = swap_feed(&s, ws->control, ws->n_control, err);

	if (r >= 0)
		r = swap_finish(&s, err);
	swap_free(&s);
	if (r == -EMSGSIZE)
		r = err_set(err, EPROTO, "a WebSocket's frame of control becomes too long");
	if (r >= 0) {
		at = put_head(ws, c.frame + SWAP_WS_HEAD_MAX, c.n, ws->head[0]);
		r = ws->sink(ws->arg, at, (size_t)(c.frame + SWAP_WS_HEAD_MAX + c.n - at));
	}
	ws->n_control = 0;
	ws->closed = (ws->head[0] & 15) == CLOSE;
	explicit_bzero(c.frame, sizeof(c.frame));
	return r;
}

/* The whole frame was read. */
static int
end_frame(struct swap_ws *ws, struct err *err)
{
	int r = 0;

	ws->in_frame = false;
	ws->n_head = 0;
	if (is_control(ws))
		return end_control(ws, err);
	if ((ws->head[0] & FIN) != 0)
		return end_message(ws, err);
	/* The sender of fragments may expect them to be seen at once. */
	if (ws->n_out > 0)
		r = put_frame(ws, false);
	return r;
}

/* Append to CONTROL; the caller has checked that it fits. */
static void
keep_control(struct swap_ws *ws, const unsigned char *data, size_t len)
{
	for (size_t i = 0; i < len; i++, ws->n_control++)
		ws->control[ws->n_control] = !ws->from_client ? data[i] :
		                             data[i] ^ ws->mask[ws->n_control % 4];
}

/* Bytes of the frame's payload. */
static int
feed_payload(struct swap_ws *ws, const unsigned char *data, size_t len, struct err *err)
{
	unsigned char plain[1024];
	size_t n;
	int r = 0;

	if (is_control(ws)) {
		keep_control(ws, data, len);
		return 0;
	}
	if (!ws->from_client)
		return swap_feed(&ws->stream, data, len, err);
	for (; len > 0 && r >= 0; data += n, len -= n) {
		n = len < sizeof(plain) ? len : sizeof(plain);
		for (size_t i = 0; i < n; i++)
			plain[i] = data[i] ^ ws->mask[(ws->mask_at + i) % 4];
		ws->mask_at = (unsigned)((ws->mask_at + n) % 4);
		r = swap_feed(&ws->stream, plain, n, err);
	}
	return r;
}

static int
feed_head(struct swap_ws *ws, const unsigned char **data, size_t *len, struct err *err)
{
	while (*len > 0 && ws->n_head < head_len(ws)) {
		ws->head[ws->n_head++] = *(*data)++;
		(*len)--;
	}
	if (ws->n_head < head_len(ws))
		return 0;
	return begin_frame(ws, err);
}

void
swap_ws_init(struct swap_ws *ws)
{
	ws->sink = ws->stream.sink;
	ws->arg = ws->stream.arg;
	ws->judge = ws->stream.judge;
	ws->missed = ws->stream.missed;
	if (ws->missed != NULL)
		ws->stream.missed = missed;
	ws->stream.sink = take;
	ws->stream.judge = judge;
	ws->stream.arg = ws;
	ws->stream.place = SWAP_MESSAGE;
}

int
swap_ws_feed(struct swap_ws *ws, const void *data, size_t len, struct err *err)
{
	const unsigned char *at = data;
	int r = 0;

	while (r >= 0 && (len > 0 || (ws->in_frame && ws->left == 0))) {
		size_t n = ws->left < len ? (size_t)ws->left : len;

		/* Nothing after the close is read by anyone. */
		if (ws->closed)
			return 0;
		if (!ws->in_frame) {
			r = feed_head(ws, &at, &len, err);
		} else if (ws->left == 0) {
			r = end_frame(ws, err);
		} else {
			r = feed_payload(ws, at, n, err);
			ws->left -= n;
			at += n;
			len -= n;
		}
	}
	return r;
}

void
swap_ws_free(struct swap_ws *ws)
{
	swap_free(&ws->stream);
	explicit_bzero(ws->out, sizeof(ws->out));
	explicit_bzero(ws->control, sizeof(ws->control));
}
