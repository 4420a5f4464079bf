/* sign_chunks.c - reads aws-chunked, checks each chunk's signature and replaces it. */
#include "sign/sign_chunks.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "sign/sigv4.h"

#define WORD ";chunk-signature="
#define SIZE_DIGITS_MAX 16
#define HEADER_MAX (SIZE_DIGITS_MAX + sizeof(WORD) - 1 + SIGN_CHUNK_SIGNATURE_LEN + 2)
#define TRAILER_WORD "x-amz-trailer-signature:"
#define HOLD_MAX (HEADER_MAX + SIGN_CHUNK_MAX + 2)
#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

enum state {
	AT_HEADER, AT_DATA, AT_TRAILERS,
	AT_TAIL,                        /* signed trailers may be followed by an empty line */
	AT_END, DEAD,
};

struct side {
	unsigned char key[SIGN_CHUNK_KEY_LEN];
	char last[SIGN_CHUNK_SIGNATURE_LEN];    /* the previous signature */
};

struct sign_chunks {
	enum state state;
	bool trailers, last;            /* LAST: the chunk in HOLD has no data */
	struct side from, to;
	char context[SIGV4_SCOPE_MAX * 2];      /* time and scope */
	size_t context_len;
	unsigned char *hold;            /* a chunk, or the trailers */
	size_t held, cap;
	size_t given;                   /* bytes of HOLD given to the caller: dropped at the next call */
	size_t header, want;            /* the header's length in HOLD; the chunk's */
	size_t tail;
};

int
sign_chunks_new(const struct sign_chunks_start *start, struct sign_chunks **ret_chunks,
                struct err *err)
{
	struct sign_chunks *c = calloc(1, sizeof(*c));
	int n;

	if (c == NULL)
		return err_set(err, ENOMEM, "no memory to sign chunks");
	n = snprintf(c->context, sizeof(c->context), "%.*s\n%.*s\n", (int)start->time.len,
	             start->time.at, (int)start->scope.len, start->scope.at);
	if (n < 0 || (size_t)n >= sizeof(c->context)) {
		free(c);
		return err_set(err, EMSGSIZE, "the signature's scope is too long");
	}
	c->context_len = (size_t)n;
	c->trailers = start->trailers;
	memcpy(c->from.key, start->from_key, sizeof(c->from.key));
	memcpy(c->to.key, start->to_key, sizeof(c->to.key));
	memcpy(c->from.last, start->from_signature, sizeof(c->from.last));
	memcpy(c->to.last, start->to_signature, sizeof(c->to.last));
	*ret_chunks = c;
	return 0;
}

void
sign_chunks_free(struct sign_chunks *c)
{
	if (c == NULL)
		return;
	free(c->hold);
	OPENSSL_cleanse(c, sizeof(*c));
	free(c);
}

/* ---- signatures ---------------------------------------------------------------------- */

/* The signature after SIDE's last one, over data with the hash HASH. */
static int
signature_of(const struct sign_chunks *c, const struct side *side, bool trailer,
             const char hash[SIGV4_HEX_LEN], char ret_hex[SIGN_CHUNK_SIGNATURE_LEN])
{
	char text[sizeof(c->context) + 256];
	unsigned char mac[SIGV4_HASH_LEN];
	int n;

	n = snprintf(text, sizeof(text), "%s\n%.*s%.*s\n%s%.*s",
	             trailer ? "AWS4-HMAC-SHA256-TRAILER" : "AWS4-HMAC-SHA256-PAYLOAD",
	             (int)c->context_len, c->context, SIGN_CHUNK_SIGNATURE_LEN, side->last,
	             trailer ? "" : EMPTY_HASH "\n", SIGV4_HEX_LEN, hash);
	if (n < 0 || (size_t)n >= sizeof(text) ||
	    sigv4_hmac(side->key, sizeof(side->key), text, (size_t)n, mac) < 0)
		return -EIO;
	codec_hex_digits(mac, sizeof(mac), ret_hex);
	return 0;
}

/* Check and replace the signature at AT, over DATA. */
static int
replace(struct sign_chunks *c, char *at, bool trailer, const void *data, size_t len,
        struct err *err)
{
	char from[SIGN_CHUNK_SIGNATURE_LEN], to[SIGN_CHUNK_SIGNATURE_LEN], hex[SIGV4_HEX_LEN];
	unsigned char hash[SIGV4_HASH_LEN];
	bool same;

	if (EVP_Digest(data, len, hash, NULL, EVP_sha256(), NULL) != 1)
		return err_set(err, EIO, "cannot hash a chunk: SHA-256 fails");
	codec_hex_digits(hash, sizeof(hash), hex);
	if (signature_of(c, &c->from, trailer, hex, from) < 0 ||
	    signature_of(c, &c->to, trailer, hex, to) < 0)
		return err_set(err, EIO, "cannot sign a chunk: HMAC fails");
	same = CRYPTO_memcmp(from, at, sizeof(from)) == 0;
	memcpy(c->from.last, from, sizeof(from));
	OPENSSL_cleanse(from, sizeof(from));
	if (!same)
		return err_set(err, EACCES, "the signature of %s of the upload is wrong: it was made "
		               "with another key, or of other data",
		               trailer ? "the trailers" : "a chunk");
	memcpy(at, to, sizeof(to));
	memcpy(c->to.last, to, sizeof(to));
	return 0;
}

/* ---- held data ---------------------------------------------------------------------------- */

static int
hold(struct sign_chunks *c, const char *data, size_t len, struct err *err)
{
	size_t cap = c->cap == 0 ? 4096 : c->cap;
	unsigned char *more;

	while (cap < c->held + len)
		cap *= 2;
	if (cap > HOLD_MAX)
		cap = HOLD_MAX;
	if (cap > c->cap) {
		more = realloc(c->hold, cap);
		if (more == NULL)
			return err_set(err, ENOMEM, "no memory for a chunk of an upload");
		c->hold = more;
		c->cap = cap;
	}
	memcpy(c->hold + c->held, data, len);
	c->held += len;
	return 0;
}

static void
give(struct sign_chunks *c, enum state next, struct http_text *ret_piece)
{
	*ret_piece = (struct http_text){ (const char *)c->hold, c->held };
	c->given = c->held;
	c->state = next;
}

/* Hold the bytes up to the next LF, at most MAX in HOLD.  1: the line is complete. */
static int
hold_line(struct sign_chunks *c, const char *data, size_t len, size_t max, size_t *ret_used,
          struct err *err)
{
	const char *end = memchr(data, '\n', len);
	size_t n = end == NULL ? len : (size_t)(end - data) + 1;

	if (n > max - c->held)
		return err_set(err, EBADMSG, "a signed chunk's line is too long");
	*ret_used = n;
	if (hold(c, data, n, err) < 0)
		return -ENOMEM;
	return end != NULL;
}

/* ---- chunks ---------------------------------------------------------------------------- */

/* SIZE;chunk-signature=SIGNATURE CR LF */
static int
read_header(struct sign_chunks *c, struct err *err)
{
	static const size_t fixed = sizeof(WORD) - 1 + SIGN_CHUNK_SIGNATURE_LEN + 2;
	const char *at = (const char *)c->hold;
	size_t digits, size = 0;

	if (c->held <= fixed || c->held - fixed > SIZE_DIGITS_MAX)
		return err_set(err, EBADMSG, "the upload has a chunk that is not signed");
	digits = c->held - fixed;
	if (memcmp(at + digits, WORD, sizeof(WORD) - 1) != 0 || at[c->held - 2] != '\r')
		return err_set(err, EBADMSG, "the upload has a chunk that is not signed");
	for (size_t i = 0; i < digits; i++) {
		int digit = codec_hex_value(at[i]);

		if (digit < 0)
			return err_set(err, EBADMSG, "the upload has a chunk without a size");
		size = size << 4 | (size_t)digit;
		if (size > SIGN_CHUNK_MAX)
			return err_set(err, EMSGSIZE, "the upload has a signed chunk of more than %d bytes: "
			               "set a smaller chunk size in the client", SIGN_CHUNK_MAX);
	}
	c->header = c->held;
	c->last = size == 0;
	c->want = c->header + size + 2;
	return 0;
}

static int
check_chunk(struct sign_chunks *c, struct err *err)
{
	char *signature = (char *)c->hold + c->header - 2 - SIGN_CHUNK_SIGNATURE_LEN;
	size_t size = c->want - c->header - 2;

	return replace(c, signature, false, c->hold + c->header, size, err);
}

static int
at_header(struct sign_chunks *c, const char *data, size_t len, size_t *ret_used,
          struct http_text *ret_piece, struct err *err)
{
	int r = hold_line(c, data, len, HEADER_MAX, ret_used, err);

	if (r <= 0)
		return r;
	r = read_header(c, err);
	if (r < 0)
		return r;
	c->state = AT_DATA;
	/* The trailers replace the end of the last chunk's data. */
	if (c->last && c->trailers) {
		r = check_chunk(c, err);
		if (r == 0)
			give(c, AT_TRAILERS, ret_piece);
	}
	return r;
}

static int
at_data(struct sign_chunks *c, const char *data, size_t len, size_t *ret_used,
        struct http_text *ret_piece, struct err *err)
{
	size_t n = c->want - c->held < len ? c->want - c->held : len;
	int r = hold(c, data, n, err);

	if (r < 0)
		return r;
	*ret_used = n;
	if (c->held < c->want)
		return 0;
	if (memcmp(c->hold + c->held - 2, "\r\n", 2) != 0)
		return err_set(err, EBADMSG, "a signed chunk is longer than it says");
	r = check_chunk(c, err);
	if (r == 0)
		give(c, c->last ? AT_END : AT_HEADER, ret_piece);
	return r;
}

/* ---- trailers --------------------------------------------------------------------------- */

/* Write one line as it is signed: the name in lower case, no blanks around the value. */
static size_t
canonical_trailer(struct http_text line, char *ret_text)
{
	const char *colon = memchr(line.at, ':', line.len), *at = line.at, *end = at + line.len;
	size_t n = 0;

	for (; at < end && at != colon; at++)
		ret_text[n++] = *at >= 'A' && *at <= 'Z' ? (char)(*at | 0x20) : *at;
	if (colon != NULL)
		ret_text[n++] = *at++;
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	while (at < end)
		ret_text[n++] = *at++;
	ret_text[n++] = '\n';
	return n;
}

/* Write all lines before the signature's.  Empty lines, which some clients write there, are
 * skipped.  The result is never longer than its source. */
static size_t
canonical_trailers(const char *at, const char *end, char *ret_text)
{
	size_t n = 0;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at)), *last = stop;

		while (last > at && (last[-1] == '\r' || last[-1] == ' ' || last[-1] == '\t'))
			last--;
		if (last > at)
			n += canonical_trailer((struct http_text){ at, (size_t)(last - at) }, ret_text + n);
		at = stop + 1;
	}
	return n;
}

static int
at_trailers(struct sign_chunks *c, const char *data, size_t len, size_t *ret_used,
            struct http_text *ret_piece, struct err *err)
{
	static const size_t line_len = sizeof(TRAILER_WORD) - 1 + SIGN_CHUNK_SIGNATURE_LEN;
	char text[SIGN_TRAILERS_MAX];
	size_t line = c->held, end, n;
	int r;

	while (line > 0 && c->hold[line - 1] != '\n')
		line--;
	r = hold_line(c, data, len, SIGN_TRAILERS_MAX, ret_used, err);
	if (r <= 0)
		return r;
	end = c->held - 1;
	if (end > line && c->hold[end - 1] == '\r')
		end--;
	if (end - line < sizeof(TRAILER_WORD) - 1 ||
	    memcmp(c->hold + line, TRAILER_WORD, sizeof(TRAILER_WORD) - 1) != 0)
		return 0;
	if (end - line != line_len)
		return err_set(err, EBADMSG, "the upload's trailers have no signature");
	n = canonical_trailers((char *)c->hold, (char *)c->hold + line, text);
	r = replace(c, (char *)c->hold + end - SIGN_CHUNK_SIGNATURE_LEN, true, text, n, err);
	if (r == 0)
		give(c, AT_TAIL, ret_piece);
	return r;
}

static int
at_tail(struct sign_chunks *c, const char *data, size_t *ret_used, struct http_text *ret_piece,
        struct err *err)
{
	if (*data != "\r\n"[c->tail])
		return err_set(err, EBADMSG, "there is something behind the upload's last chunk");
	*ret_used = 1;
	if (hold(c, data, 1, err) < 0)
		return -ENOMEM;
	give(c, ++c->tail == 2 ? AT_END : AT_TAIL, ret_piece);
	return 0;
}

/* ---- the stream ----------------------------------------------------------------------------- */

int
sign_chunks_next(struct sign_chunks *c, const void *data, size_t len, size_t *ret_used,
                 struct http_text *ret_piece, struct err *err)
{
	int r = 0;

	*ret_used = 0;
	*ret_piece = (struct http_text){ "", 0 };
	if (c->given > 0)
		c->held = c->given = 0;
	if (len == 0)
		return 0;
	switch (c->state) {
	case AT_HEADER:
		r = at_header(c, data, len, ret_used, ret_piece, err);
		break;
	case AT_DATA:
		r = at_data(c, data, len, ret_used, ret_piece, err);
		break;
	case AT_TRAILERS:
		r = at_trailers(c, data, len, ret_used, ret_piece, err);
		break;
	case AT_TAIL:
		r = at_tail(c, data, ret_used, ret_piece, err);
		break;
	case AT_END:
		r = err_set(err, EBADMSG, "there is something behind the upload's last chunk");
		break;
	case DEAD:
		r = err_set(err, EBADMSG, "the upload was refused before");
		break;
	}
	if (r < 0)
		c->state = DEAD;
	return r;
}

int
sign_chunks_end(const struct sign_chunks *c, struct err *err)
{
	if (c->state == AT_END || (c->state == AT_TAIL && c->tail == 0))
		return 0;
	return err_set(err, EBADMSG, "the signed upload ended before its last chunk");
}
