/* sign_chunks.h - aws-chunked bodies whose chunks are signed: each is checked with one
 * key and signed with another as it passes.
 *
 * A chunk's signature stands before its data and covers it, and the one before.  The new
 * signature therefore cannot be written before the data is all there: one chunk is held,
 * at most SIGN_CHUNK_MAX, and nothing of it goes on before it was found right.  (To cut it
 * into smaller chunks of our own would hold less, but data would go out under the real
 * key before it is known to be the agent's, and every length would change.)  Signatures
 * have one length, so the body's length stays.  What ends early never had its last chunk,
 * which is signed too: the service does not take it for complete. */
#ifndef CLOISTER_SIGN_CHUNKS_H
#define CLOISTER_SIGN_CHUNKS_H
#include "sign/sign.h"

#define SIGN_CHUNK_MAX (1024 * 1024)    /* of data; clients send 64 or 128 KiB */
#define SIGN_TRAILERS_MAX (8 * 1024)
#define SIGN_CHUNK_KEY_LEN 32
#define SIGN_CHUNK_SIGNATURE_LEN 64     /* hex digits */

/* What comes of the request's head.  Texts are copied. */
struct sign_chunks_start {
	bool trailers;                  /* behind the last chunk, signed */
	struct http_text time, scope;   /* as the head's signature has them */
	const unsigned char *from_key, *to_key;         /* SIGN_CHUNK_KEY_LEN */
	const char *from_signature, *to_signature;      /* the head's */
};

int sign_chunks_new(const struct sign_chunks_start *start, struct sign_chunks **ret_chunks,
                    struct err *err);
void sign_chunks_free(struct sign_chunks *c);   /* NULL is fine; wipes the keys */
void sign_chunks_freep(struct sign_chunks **c);

/* The body's next bytes.  *RET_USED of them are done with and must not be given again;
 * *RET_PIECE may go on now: it is valid until the next call, and empty if there is
 * nothing yet.  Call it until all is used.  After an error C is dead, and so is the
 * request: end it without its last byte. */
int sign_chunks_next(struct sign_chunks *c, const void *data, size_t len, size_t *ret_used,
                     struct http_text *ret_piece, struct err *err);
/* The body has ended: whether it was complete. */
int sign_chunks_end(const struct sign_chunks *c, struct err *err);
#endif
