/* sign_chunks.h - aws-chunked bodies with signed chunks: checks each chunk with one key, and signs
 * it with another as it passes.
 *
 * A chunk's signature precedes its data, and covers the data and the previous signature.  So the
 * new signature can only be written when all of the data is there.  One chunk is held, at most
 * SIGN_CHUNK_MAX, and none of it is sent before it is verified.  Smaller chunks of our own would
 * need less memory, but would send data under the real key before it is known to be the agent's,
 * and change every length.  All signatures have one length, so the body's length stays.  A body
 * that ends early lacks its last chunk, which is signed too, so the service does not take it for
 * complete. */
#ifndef CLOISTER_SIGN_CHUNKS_H
#define CLOISTER_SIGN_CHUNKS_H
#include "base/own.h"
#include "sign/sign.h"

#define SIGN_CHUNK_MAX (1024 * 1024)    /* of data; clients send 64 or 128 KiB */
#define SIGN_TRAILERS_MAX (8 * 1024)
#define SIGN_CHUNK_KEY_LEN 32
#define SIGN_CHUNK_SIGNATURE_LEN 64     /* hex digits */

/* Values from the request's head.  Texts are copied. */
struct sign_chunks_start {
	bool trailers;                  /* signed, after the last chunk */
	struct http_text time, scope;   /* as in the head's signature */
	const unsigned char *from_key, *to_key;         /* SIGN_CHUNK_KEY_LEN */
	const char *from_signature, *to_signature;      /* of the head */
};

int sign_chunks_new(const struct sign_chunks_start *start, struct sign_chunks **ret_chunks,
                    struct err *err);
void sign_chunks_free(struct sign_chunks *c);   /* NULL is fine; wipes the keys */
OWN_BY(sign_chunks_freep, struct sign_chunks *, sign_chunks_free)

/* Process the next bytes of the body.  *RET_USED of them were consumed, and must not be given
 * again.  *RET_PIECE may be sent now; it is valid until the next call, and may be empty.  Call it
 * until all bytes are used.  After an error C is unusable: end the request without its last byte. */
int sign_chunks_next(struct sign_chunks *c, const void *data, size_t len, size_t *ret_used,
                     struct http_text *ret_piece, struct err *err);
/* The body has ended: check that it was complete. */
int sign_chunks_end(const struct sign_chunks *c, struct err *err);
#endif
