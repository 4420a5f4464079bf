/* decode.h - undoes the content coding of a body, with bounds.
 *
 * What two readers could take differently is an error: a coding that we do not know, bytes
 * behind the end, an end that is missing. */
#ifndef CLOISTER_DECODE_H
#define CLOISTER_DECODE_H
#include <stdbool.h>
#include <stddef.h>

#include "http/http_head.h"

struct err;
struct decode;                          /* opaque */

#define DECODE_CODINGS_MAX 3            /* one in another */
#define DECODE_WINDOW_LOG_MAX 23        /* of zstd: what RFC 9659 asks of everybody */
#define DECODE_PIECE (32 * 1024)        /* that is undone at once */

/* Takes bytes that were decoded; a negative return value ends it. */
typedef int decode_sink(void *arg, const unsigned char *data, size_t len);

/* CODING is the value of Content-Encoding: "gzip", "gzip, br", "" or "identity".  The
 * caller owns *ret_decode. */
int decode_new(struct http_text coding, decode_sink *sink, void *arg,
               struct decode **ret_decode, struct err *err);
void decode_free(struct decode *d);     /* NULL is fine */
void decode_freep(struct decode **d);

/* Whether there is anything to undo. */
bool decode_is_plain(const struct decode *d);
/* What is broken, or unpacks to too much (INSPECT_DECODED_MAX, INSPECT_RATIO_MAX), is
 * -EBADMSG; otherwise what the sink returned. */
int decode_feed(struct decode *d, const void *data, size_t len, struct err *err);
/* There is no more: -EBADMSG if there should be. */
int decode_finish(struct decode *d, struct err *err);

/* ---- bit by bit: for answers, which are passed on unpacked ---- */

/* What is not content is left out instead of being refused, and nothing is counted: who takes
 * a piece at a time holds no more than that, and what the libraries keep. */
int decode_new_pulled(struct http_text coding, struct decode **ret_decode, struct err *err);
/* The next of DATA, which moves on: *ret_n bytes at *ret_at, there until the next call; none if
 * more data are wanted. */
int decode_pull(struct decode *d, const unsigned char **data, size_t *len,
                const unsigned char **ret_at, size_t *ret_n, struct err *err);
#endif
