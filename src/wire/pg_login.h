/* pg_login.h - logs in to a Postgres server: handles its messages until the login is done.
 *
 * Pure.  It supports SCRAM-SHA-256 (with channel binding if there is TLS and the server offers it),
 * MD5, and the plain password if nobody else can read it. */
#ifndef CLOISTER_PG_LOGIN_H
#define CLOISTER_PG_LOGIN_H
#include <stdbool.h>
#include <stddef.h>

#include "wire/pg.h"
#include "wire/scram.h"

struct err;

#define PG_MESSAGE_MAX (16 * 1024)      /* of a server's message during a login */
#define PG_REFUSAL_MAX 256
#define PG_MESSAGES_MAX 64              /* before the login is done */

struct pg_login {
	/* Set by the caller, the rest is zero; borrowed until it is done. */
	const char *user, *password;
	bool is_private;                /* over TLS, to a verified server */
	struct scram_binding binding;   /* for that TLS; empty: not possible */
	const char *nonce;              /* random text */

	/* Results. */
	bool told_password;             /* the plain password was sent */
	char refusal[PG_REFUSAL_MAX];   /* the server's message, or "" */

	/* private: */
	enum { PG_LOGIN_BEGINS, PG_LOGIN_SCRAM, PG_LOGIN_PROVED, PG_LOGIN_CHECKED, PG_LOGIN_ANSWERED }
		step;
	struct scram scram;
	unsigned char message[PG_MESSAGE_MAX];
	size_t len, n_messages;
};

/* Process bytes of the server.  *RET_USED of them were consumed, and the response is appended to
 * OUT.  0: more is needed.  1: it is done, and the bytes that follow are for the client.  -EACCES:
 * the server refuses; see refusal.  -EPROTO: the server violates the protocol, or asks for
 * something that it does not get. */
int pg_login_read(struct pg_login *l, const unsigned char *data, size_t len, size_t *ret_used,
                  struct buf *out, struct err *err);
void pg_login_wipe(struct pg_login *l);
#endif
