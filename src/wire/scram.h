/* scram.h - the client's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), with channel binding if
 * possible.
 *
 * Pure.  The password is used unchanged: SASLprep is not applied to a password that is not ASCII. */
#ifndef CLOISTER_SCRAM_H
#define CLOISTER_SCRAM_H
#include <stddef.h>

struct err;

#define SCRAM_MESSAGE_MAX 1024          /* of any message */
#define SCRAM_NONCE_SIZE 18             /* bytes of ours, before they are encoded as text */
#define SCRAM_ITERATIONS_MAX 200000     /* more would let a server keep us busy */
#define SCRAM_BINDING_MAX 64            /* bytes */
#define SCRAM_KEY_SIZE 32

/* The channel to bind to, if any. */
struct scram_binding {
	const char *header;             /* "n,,", "y,," or "p=tls-server-end-point,," */
	unsigned char data[SCRAM_BINDING_MAX];
	size_t len;
};

struct scram {
	struct scram_binding binding;
	char bare[SCRAM_MESSAGE_MAX];   /* the first message without its header */
	size_t nonce_at;                /* offset in BARE */
	unsigned char expected[SCRAM_KEY_SIZE]; /* the server's signature */
};

/* Each writes the next message, with a NUL, to TEXT.  NONCE is random printable text from the
 * caller, without a comma. */
int scram_first(struct scram *s, const struct scram_binding *binding, const char *user,
                const char *nonce, char text[SCRAM_MESSAGE_MAX]);
/* -EBADMSG: the server's message is invalid.  -E2BIG: it asks for too many iterations. */
int scram_final(struct scram *s, const char *password, const char *server, size_t len,
                char text[SCRAM_MESSAGE_MAX], struct err *err);
/* Check that the server knows the password too: 0, or -EBADMSG. */
int scram_check(const struct scram *s, const char *server, size_t len, struct err *err);
#endif
