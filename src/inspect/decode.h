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
#endif
