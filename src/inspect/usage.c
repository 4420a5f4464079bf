/* usage.c - see usage.h. */
#include "inspect/usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "inspect/decode.h"
#include "inspect/usage_parts.h"

struct usage {
	struct decode *decode;
	enum { SNIFF, JSON, EVENTS, FRAMES } kind;
	struct buf piece;               /* the response, or the current line or frame */
	bool skips;                     /* the line is too long; for FRAMES: everything that follows is
	                                 * skipped */
	struct usage_said said;
};

static size_t held;                     /* see USAGE_HELD_MAX */

/* ---- pieces ---- */

static void
drop_piece(struct usage *u)
{
	held -= u->piece.len;
	buf_free(&u->piece);
	buf_init(&u->piece, USAGE_PIECE_MAX);
}

static void
keep(struct usage *u, const unsigned char *data, size_t len)
{
	if (u->skips || len == 0)
		return;
	if (len > USAGE_HELD_MAX - held || len > USAGE_PIECE_MAX - u->piece.len) {
		drop_piece(u);
		u->skips = true;
		return;
	}
	buf_put(&u->piece, data, len);
	if (buf_failed(&u->piece)) {
		drop_piece(u);
		u->skips = true;
		return;
	}
	held += len;
}

static void
end_line(struct usage *u)
{
	if (!u->skips)
		usage_said_line(&u->said, (const char *)u->piece.data, u->piece.len);
	held -= u->piece.len;
	buf_reset(&u->piece);
	u->skips = false;
}

static void
take_events(struct usage *u, const unsigned char *data, size_t len)
{
	while (len > 0) {
		const unsigned char *end = memchr(data, '\n', len);
		size_t n = end != NULL ? (size_t)(end - data) : len;

		keep(u, data, n > 0 && data[n - 1] == '\r' && end != NULL ? n - 1 : n);
		if (end == NULL)
			return;
		end_line(u);
		data += n + 1;
		len -= n + 1;
	}
}

static void
take_frames(struct usage *u, const unsigned char *data, size_t len)
{
	size_t at = 0;
	ssize_t n = 1;

	keep(u, data, len);
	while (!u->skips && n > 0) {
		n = usage_said_frame(&u->said, u->piece.data + at, u->piece.len - at);
		at += n > 0 ? (size_t)n : 0;
	}
	if (n < 0) {
		drop_piece(u);
		u->skips = true;
	} else if (at > 0) {
		memmove(u->piece.data, u->piece.data + at, u->piece.len - at);
		u->piece.len -= at;
		held -= at;
	}
}

static int
take_decoded(void *arg, const unsigned char *data, size_t len)
{
	struct usage *u = arg;

	while (u->kind == SNIFF && len > 0) {
		if (*data == '{' || *data == '[')
			u->kind = JSON;
		else if (*data == '\0')
			u->kind = FRAMES;       /* a frame of AWS: no length begins with a larger byte */
		else if (strchr(" \t\r\n", *data) == NULL)
			u->kind = EVENTS;
		else
			data++, len--;
	}
	if (u->kind == JSON)
		keep(u, data, len);
	else if (u->kind == FRAMES)
		take_frames(u, data, len);
	else
		take_events(u, data, len);
	return 0;
}

/* ---- the interface ---- */

int
usage_new(struct http_text coding, struct usage **ret_usage, struct err *err)
{
	OWN(usage_freep) struct usage *u = calloc(1, sizeof(*u));
	int r;

	if (u == NULL)
		return err_set(err, ENOMEM, "out of memory");
	buf_init(&u->piece, USAGE_PIECE_MAX);
	r = decode_new(coding, take_decoded, u, &u->decode, err);
	if (r == 0)
		*ret_usage = TAKE(u);
	return r;
}

void
usage_free(struct usage *u)
{
	if (u == NULL)
		return;
	decode_free(u->decode);
	drop_piece(u);
	buf_free(&u->piece);
	free(u);
}

void
usage_feed(struct usage *u, const void *data, size_t len)
{
	/* Output before the error is kept. */
	if (u->decode != NULL && decode_feed(u->decode, data, len, NULL) < 0) {
		decode_free(u->decode);
		u->decode = NULL;
	}
}

void
usage_finish(struct usage *u, bool complete, struct usage_found *ret_found)
{
	if (u->decode != NULL)
		(void)decode_finish(u->decode, NULL);
	if (u->kind == JSON && !u->skips)
		usage_said_json(&u->said, (const char *)u->piece.data, u->piece.len);
	else if (u->kind == EVENTS)
		end_line(u);
	usage_said_sum(&u->said, complete, ret_found);
}
