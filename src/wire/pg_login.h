/* pg_login.h - logs in to a Postgres server: what it says until it is content.
 *
 * Pure.  SCRAM-SHA-256 (with channel binding where there is TLS and the server offers it), MD5,
 * and the password itself where nobody else can read it. */
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
	/* The caller's to set, the rest is zero; borrowed until it is done. */
	const char *user, *password;
	bool is_private;                /* over TLS, to a server that is known */
	struct scram_binding binding;   /* of that TLS; empty: none can be */
	const char *nonce;              /* random text */

	/* What came of it. */
	bool told_password;             /* as it is */
	char refusal[PG_REFUSAL_MAX];   /* what the server said, or "" */

	/* private: */
	enum { PG_LOGIN_BEGINS, PG_LOGIN_SCRAM, PG_LOGIN_PROVED, PG_LOGIN_CHECKED, PG_LOGIN_ANSWERED }
		step;
	struct scram scram;
	unsigned char message[PG_MESSAGE_MAX];
	size_t len, n_messages;
};

/* Bytes of the server; *RET_USED of them are done with, and what is to be sent is put behind
 * what is in OUT.  0: more is needed; 1: it is done, and what follows is the client's;
 * -EACCES: the server refuses, see refusal; -EPROTO: it does what it should not, or asks for
 * what it is not given. */
int pg_login_read(struct pg_login *l, const unsigned char *data, size_t len, size_t *ret_used,
                  struct buf *out, struct err *err);
void pg_login_wipe(struct pg_login *l);
#endif
