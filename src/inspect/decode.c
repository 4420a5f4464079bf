/* decode.c - undoes gzip, deflate, br and zstd, also nested. */
#include "inspect/decode.h"

#include <brotli/decode.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/err.h"
#include "base/own.h"
#include "inspect/inspect.h"
#include "inspect/one_of.h"

#define PIECE DECODE_PIECE
#define RATIO_FROM (1024 * 1024)        /* below this size, a ratio means nothing */
#define BROTLI_OVERHEAD 64              /* bytes that compression may add, besides an eighth */

/* Available since 1.1; Debian 12 has an older version. */
#ifdef BROTLI_COMMON_SHARED_DICTIONARY_H_
#define HAVE_BROTLI_METADATA 1
#endif

struct stage;

/* Decode as much as possible from *data, which is advanced, into OUT.  *ret_n is the number of
 * bytes there.  *ret_end: the compressed data is complete. */
struct coding {
	const char *name;
	int (*open)(struct stage *s);
	int (*step)(struct stage *s, const unsigned char **data, size_t *len,
	            unsigned char out[PIECE], size_t *ret_n, bool *ret_end);
	void (*close)(struct stage *s);
};

struct stage {
	const struct coding *coding;
	bool begun, ended;              /* bytes have come; its data was complete with the last */
	bool hides;                     /* it contains bytes that are not content */
	bool pulled;                    /* HIDES does not matter then */
	bool more;                      /* there may be more output without more input */
	size_t at, n;                   /* part of PIECE that the next stage has not taken; PULLED */
	uint64_t in, out;
	union {
		z_stream zlib;
		BrotliDecoderState *brotli;
		ZSTD_DStream *zstd;
	};
	unsigned char piece[PIECE];
};

struct decode {
	struct stage *stages[DECODE_CODINGS_MAX];       /* in the order of decoding */
	size_t n_stages;
	decode_sink *sink;
	void *arg;
};

/* ---- gzip and deflate ---- */

static int
open_gzip(struct stage *s)
{
	return inflateInit2(&s->zlib, 15 + 16) == Z_OK ? 0 : -ENOMEM;
}

/* RFC 9110: deflate is the zlib format.  Some servers send and read it bare.  If readers could
 * differ, it is refused. */
static int
open_deflate(struct stage *s)
{
	return inflateInit2(&s->zlib, 15) == Z_OK ? 0 : -ENOMEM;
}

static int
step_zlib(struct stage *s, const unsigned char **data, size_t *len,
          unsigned char out[PIECE], size_t *ret_n, bool *ret_end)
{
	unsigned take = *len > PIECE ? PIECE : (unsigned)*len;
	int r;

	s->zlib.next_in = (unsigned char *)(uintptr_t)*data;
	s->zlib.avail_in = take;
	s->zlib.next_out = out;
	s->zlib.avail_out = PIECE;
	r = inflate(&s->zlib, Z_NO_FLUSH);
	*data += take - s->zlib.avail_in;
	*len -= take - s->zlib.avail_in;
	*ret_n = PIECE - s->zlib.avail_out;
	*ret_end = r == Z_STREAM_END;
	return r == Z_OK || r == Z_BUF_ERROR || r == Z_STREAM_END ? 0 : -EBADMSG;
}

/* In the fourth byte of a member: FEXTRA, FNAME and FCOMMENT. */
#define GZIP_EXTRAS 0x1c

/* RFC 1952: a file may have several members.  Their headers may hold other data, which is not
 * content and would not be inspected. */
static int
step_gzip(struct stage *s, const unsigned char **data, size_t *len,
          unsigned char out[PIECE], size_t *ret_n, bool *ret_end)
{
	bool extras;
	int r;

	/* Some servers pad blocks; no member begins with a zero. */
	if (s->ended && s->pulled && *len > 0 && **data == 0) {
		while (*len > 0 && **data == 0)
			(*data)++, (*len)--;
		*ret_n = 0;
		*ret_end = true;
		return 0;
	}
	if (s->ended && inflateReset(&s->zlib) != Z_OK)
		return -EBADMSG;
	extras = s->zlib.total_in <= 3 && *len > 3 - s->zlib.total_in &&
	         ((*data)[3 - s->zlib.total_in] & GZIP_EXTRAS) != 0;
	r = step_zlib(s, data, len, out, ret_n, ret_end);
	s->hides = r == 0 && extras;
	return r;
}

/* RFC 1950, 2.2, as far as the bytes are there. */
static bool
is_zlib_header(const unsigned char *data, size_t len)
{
	if (len > 0 && (data[0] & 0x0f) != 8)
		return false;
	return len < 2 || (data[0] * 256u + data[1]) % 31 == 0;
}

static int
step_deflate(struct stage *s, const unsigned char **data, size_t *len,
             unsigned char out[PIECE], size_t *ret_n, bool *ret_end)
{
	if (s->ended)
		return -EBADMSG;
	/* Responses are passed on decoded: the reader sees only our interpretation. */
	if (s->pulled && s->zlib.total_in == 0 && !is_zlib_header(*data, *len) &&
	    inflateReset2(&s->zlib, -15) != Z_OK)
		return -EBADMSG;
	return step_zlib(s, data, len, out, ret_n, ret_end);
}

static void
close_zlib(struct stage *s)
{
	inflateEnd(&s->zlib);
}

/* ---- br ---- */

/* RFC 7932: a block may hold bytes that are not content. */
#ifdef HAVE_BROTLI_METADATA
static void
note_metadata(void *arg, size_t size)
{
	struct stage *s = arg;

	s->hides = s->hides || size > 0;
}
#endif

static int
open_brotli(struct stage *s)
{
	s->brotli = BrotliDecoderCreateInstance(NULL, NULL, NULL);
	if (s->brotli == NULL)
		return -ENOMEM;
#ifdef HAVE_BROTLI_METADATA
	BrotliDecoderSetMetadataCallbacks(s->brotli, note_metadata, NULL, s);
#endif
	return 0;
}

static int
step_brotli(struct stage *s, const unsigned char **data, size_t *len,
            unsigned char out[PIECE], size_t *ret_n, bool *ret_end)
{
	size_t room = PIECE, before = *len;
	uint64_t in, made;
	BrotliDecoderResult r;

	if (s->ended)
		return -EBADMSG;
	r = BrotliDecoderDecompressStream(s->brotli, len, data, &room, &out, NULL);
	*ret_n = PIECE - room;
	*ret_end = r == BROTLI_DECODER_RESULT_SUCCESS;
	/* If the library does not report such bytes, compressed data that is much longer than its
	 * content reveals them. */
	in = s->in + before - *len;
	made = s->out + *ret_n;
	if (*ret_end && in > made + made / 8 + BROTLI_OVERHEAD)
		s->hides = true;
	return r == BROTLI_DECODER_RESULT_ERROR ? -EBADMSG : 0;
}

static void
close_brotli(struct stage *s)
{
	BrotliDecoderDestroyInstance(s->brotli);
}

/* ---- zstd ---- */

static int
open_zstd(struct stage *s)
{
	s->zstd = ZSTD_createDStream();
	if (s->zstd == NULL)
		return -ENOMEM;
	ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, DECODE_WINDOW_LOG_MAX);
	return 0;
}

#define ZSTD_FIRST 0x28                 /* first byte of a frame's magic number */
#define ZSTD_SKIPPABLE 0x50             /* to 0x5f: first byte of a skippable frame */

/* RFC 8878: frames may follow one another; frames without content are refused. */
static int
step_zstd(struct stage *s, const unsigned char **data, size_t *len,
          unsigned char out[PIECE], size_t *ret_n, bool *ret_end)
{
	ZSTD_inBuffer from = { *data, *len, 0 };
	ZSTD_outBuffer to = { out, PIECE, 0 };
	size_t r;

	if ((!s->begun || s->ended) && *len > 0 && **data != ZSTD_FIRST && !s->pulled) {
		s->hides = (**data & 0xf0) == ZSTD_SKIPPABLE;
		return -EBADMSG;
	}
	r = ZSTD_decompressStream(s->zstd, &to, &from);
	if (ZSTD_isError(r))
		return -EBADMSG;
	*data += from.pos;
	*len -= from.pos;
	*ret_n = to.pos;
	*ret_end = r == 0;
	return 0;
}

static void
close_zstd(struct stage *s)
{
	ZSTD_freeDStream(s->zstd);
}

/* ---- the list of codings ---- */

static const struct coding codings[] = {
	{ "gzip",    open_gzip,    step_gzip,    close_zlib },
	{ "x-gzip",  open_gzip,    step_gzip,    close_zlib },
	{ "deflate", open_deflate, step_deflate, close_zlib },
	{ "br",      open_brotli,  step_brotli,  close_brotli },
	{ "zstd",    open_zstd,    step_zstd,    close_zstd },
};

/* Insert at the front: the coding that was applied last is undone first. */
static int
add_stage(struct decode *d, struct http_text name, struct err *err)
{
	const struct coding *coding = NULL;
	struct stage *s;

	/* Some programs write "none" for identity; no coding has that name. */
	if (name.len == 0 || http_text_is_nocase(name, "identity") || http_text_is_nocase(name, "none"))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(codings); i++)
		if (http_text_is_nocase(name, codings[i].name))
			coding = &codings[i];
	if (coding == NULL)
		return err_set(err, EBADMSG, "its content coding is not known here");
	if (d->n_stages == DECODE_CODINGS_MAX)
		return err_set(err, EBADMSG, "it is packed more than %d times", DECODE_CODINGS_MAX);
	s = calloc(1, sizeof(*s));
	if (s == NULL || coding->open(s) < 0) {
		free(s);
		return err_set(err, ENOMEM, "there is no memory to unpack it");
	}
	s->coding = coding;
	for (size_t i = d->n_stages++; i > 0; i--)
		d->stages[i] = d->stages[i - 1];
	d->stages[0] = s;
	return 0;
}

static struct http_text
trim(struct http_text text)
{
	while (text.len > 0 && (*text.at == ' ' || *text.at == '\t'))
		text = (struct http_text){ text.at + 1, text.len - 1 };
	while (text.len > 0 && is_one_of((unsigned char)text.at[text.len - 1], " \t"))
		text.len--;
	return text;
}

int
decode_new(struct http_text coding, decode_sink *sink, void *arg, struct decode **ret_decode,
           struct err *err)
{
	OWN(decode_freep) struct decode *d = calloc(1, sizeof(*d));
	int r = 0;

	if (d == NULL)
		return err_set(err, ENOMEM, "there is no memory to unpack it");
	d->sink = sink;
	d->arg = arg;
	while (coding.len > 0 && r == 0) {
		const char *comma = memchr(coding.at, ',', coding.len);
		size_t n = comma != NULL ? (size_t)(comma - coding.at) : coding.len;

		r = add_stage(d, trim((struct http_text){ coding.at, n }), err);
		n += comma != NULL;
		coding = (struct http_text){ coding.at + n, coding.len - n };
	}
	if (r == 0)
		*ret_decode = TAKE(d);
	return r;
}

void
decode_free(struct decode *d)
{
	if (d == NULL)
		return;
	for (size_t i = 0; i < d->n_stages; i++) {
		d->stages[i]->coding->close(d->stages[i]);
		free(d->stages[i]);
	}
	free(d);
}

bool
decode_is_plain(const struct decode *d)
{
	return d->n_stages == 0;
}

/* ---- bytes ---- */

static int
check_bounds(const struct stage *s, struct err *err)
{
	if (s->out > INSPECT_DECODED_MAX)
		return err_set(err, EBADMSG, "it unpacks to more than %d MiB",
		               INSPECT_DECODED_MAX / 1024 / 1024);
	if (s->out > RATIO_FROM && s->out / INSPECT_RATIO_MAX > s->in)
		return err_set(err, EBADMSG, "it unpacks to more than %d times its size",
		               INSPECT_RATIO_MAX);
	return 0;
}

/* Depth is bounded by DECODE_CODINGS_MAX. */
static int
feed_stage(struct decode *d, size_t i, const unsigned char *data, size_t len, struct err *err)
{
	struct stage *s = i < d->n_stages ? d->stages[i] : NULL;
	bool more = false;
	int r = 0;

	if (s == NULL)
		return len > 0 ? d->sink(d->arg, data, len) : 0;
	while (r == 0 && (len > 0 || more)) {
		size_t before = len, n = 0;
		bool end = false;

		if (len == 0 && s->ended)
			break;
		r = s->coding->step(s, &data, &len, s->piece, &n, &end);
		if (s->hides)
			return err_set(err, EBADMSG, "its %s data hold more than its content",
			               s->coding->name);
		if (r < 0)
			return err_set(err, EBADMSG, "its %s data are broken", s->coding->name);
		s->begun = true;
		s->ended = end;
		s->in += before - len;
		s->out += n;
		/* A full piece. */
		more = n == PIECE;
		r = check_bounds(s, err);
		if (r == 0)
			r = feed_stage(d, i + 1, s->piece, n, err);
		if (r == 0 && n == 0 && before == len && len > 0)
			return err_set(err, EBADMSG, "its %s data are broken", s->coding->name);
	}
	return r;
}

int
decode_feed(struct decode *d, const void *data, size_t len, struct err *err)
{
	return len > 0 ? feed_stage(d, 0, data, len, err) : 0;
}

int
decode_finish(struct decode *d, struct err *err)
{
	for (size_t i = 0; i < d->n_stages; i++)
		if (d->stages[i]->begun && !d->stages[i]->ended)
			return err_set(err, EBADMSG, "its %s data are cut short",
			               d->stages[i]->coding->name);
	return 0;
}

/* ---- piece by piece ---- */

int
decode_new_pulled(struct http_text coding, struct decode **ret_decode, struct err *err)
{
	struct decode *d = NULL;
	int r = decode_new(coding, NULL, NULL, &d, err);

	for (size_t i = 0; r == 0 && i < d->n_stages; i++)
		d->stages[i]->pulled = true;
	if (r == 0)
		*ret_decode = d;
	return r;
}

/* Fill the piece of stage S from DATA; all of the former piece was taken. */
static int
fill(struct stage *s, const unsigned char **data, size_t *len, struct err *err)
{
	do {
		size_t before = *len;
		bool end = false;

		s->at = s->n = 0;
		if (*len == 0 && (!s->more || s->ended))
			return 0;
		if (s->coding->step(s, data, len, s->piece, &s->n, &end) < 0 ||
		    (s->n == 0 && before == *len && *len > 0))
			return err_set(err, EBADMSG, "its %s data are broken", s->coding->name);
		s->begun = true;
		s->ended = end;
		s->in += before - *len;
		s->out += s->n;
		s->more = s->n == PIECE;
	} while (s->n == 0 && *len > 0);
	return 0;
}

/* Depth is bounded by DECODE_CODINGS_MAX. */
static int
pull(struct decode *d, size_t i, const unsigned char **data, size_t *len, struct err *err)
{
	struct stage *s = d->stages[i], *from;
	int r;

	if (i == 0)
		return fill(s, data, len, err);
	from = d->stages[i - 1];
	for (;;) {
		const unsigned char *at = from->piece + from->at;
		size_t left = from->n - from->at;

		r = fill(s, &at, &left, err);
		from->at = from->n - left;
		if (r < 0 || s->n > 0)
			return r;
		r = pull(d, i - 1, data, len, err);
		if (r < 0 || from->n == 0)
			return r;
	}
}

int
decode_pull(struct decode *d, const unsigned char **data, size_t *len,
            const unsigned char **ret_at, size_t *ret_n, struct err *err)
{
	struct stage *s;
	int r;

	if (d->n_stages == 0) {
		*ret_at = *data;
		*ret_n = *len;
		*data += *len;
		*len = 0;
		return 0;
	}
	s = d->stages[d->n_stages - 1];
	r = pull(d, d->n_stages - 1, data, len, err);
	*ret_at = s->piece;
	*ret_n = r == 0 ? s->n : 0;
	s->at = s->n;
	return r;
}
