/* scram.h - the client's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), with channel binding
 * where there is something to bind to.
 *
 * Pure.  The password is used as it is: what SASLprep would make of one that is not ASCII is
 * not done. */
#ifndef CLOISTER_SCRAM_H
#define CLOISTER_SCRAM_H
#include <stddef.h>

struct err;

#define SCRAM_MESSAGE_MAX 1024          /* of any message */
#define SCRAM_NONCE_SIZE 18             /* bytes of ours, before they are made text */
#define SCRAM_ITERATIONS_MAX 200000     /* a server could keep us busy for long */
#define SCRAM_BINDING_MAX 64            /* bytes */
#define SCRAM_KEY_SIZE 32

/* What is bound to, if anything. */
struct scram_binding {
	const char *header;             /* "n,,", "y,," or "p=tls-server-end-point,," */
	unsigned char data[SCRAM_BINDING_MAX];
	size_t len;
};

struct scram {
	struct scram_binding binding;
	char bare[SCRAM_MESSAGE_MAX];   /* the first message without its header */
	size_t nonce_at;                /* in it */
	unsigned char expected[SCRAM_KEY_SIZE]; /* the server's signature */
};

/* Each writes the next message, with a NUL, to TEXT.  NONCE is text of the caller's, random
 * and printable, without a comma. */
int scram_first(struct scram *s, const struct scram_binding *binding, const char *user,
                const char *nonce, char text[SCRAM_MESSAGE_MAX]);
/* -EBADMSG: the server's message is none; -E2BIG: it asks for too much. */
int scram_final(struct scram *s, const char *password, const char *server, size_t len,
                char text[SCRAM_MESSAGE_MAX], struct err *err);
/* Whether the server knows the password too: 0, or -EBADMSG. */
int scram_check(const struct scram *s, const char *server, size_t len, struct err *err);
#endif
