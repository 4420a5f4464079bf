/* decode.h - undoes the content coding of a body, with limits.
 *
 * If two readers could understand it differently, it is an error: an unknown coding, bytes after
 * the end, or a missing end. */
#ifndef CLOISTER_DECODE_H
#define CLOISTER_DECODE_H
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"
#include "http/http_head.h"

struct err;
struct decode;                          /* opaque */

#define DECODE_CODINGS_MAX 3            /* nested */
#define DECODE_WINDOW_LOG_MAX 23        /* of zstd: RFC 9659 requires it of everyone */
#define DECODE_PIECE (32 * 1024)        /* bytes decoded at once */

/* Takes decoded bytes; a negative return value ends the decoding. */
typedef int decode_sink(void *arg, const unsigned char *data, size_t len);

/* CODING is the value of Content-Encoding: "gzip", "gzip, br", "" or "identity".  The
 * caller owns *ret_decode. */
int decode_new(struct http_text coding, decode_sink *sink, void *arg,
               struct decode **ret_decode, struct err *err);
void decode_free(struct decode *d);     /* NULL is fine */
OWN_BY(decode_freep, struct decode *, decode_free)

/* Whether there is no coding to undo. */
bool decode_is_plain(const struct decode *d);
/* -EBADMSG: the data is broken, or decodes to too much (INSPECT_DECODED_MAX, INSPECT_RATIO_MAX).
 * Otherwise returns the sink's result. */
int decode_feed(struct decode *d, const void *data, size_t len, struct err *err);
/* The data has ended.  -EBADMSG: it is incomplete. */
int decode_finish(struct decode *d, struct err *err);

/* ---- piece by piece: for responses, which are passed on decoded ---- */

/* Bytes that are not content are skipped instead of refused, and nothing is limited: the caller
 * takes one piece at a time, so only that piece and the libraries' state are held. */
int decode_new_pulled(struct http_text coding, struct decode **ret_decode, struct err *err);
/* Decode the next bytes of DATA, which is advanced.  *ret_n bytes at *ret_at are valid until the
 * next call.  If it is 0, more data is needed. */
int decode_pull(struct decode *d, const unsigned char **data, size_t *len,
                const unsigned char **ret_at, size_t *ret_n, struct err *err);
#endif
