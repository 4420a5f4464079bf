/* postgres.h - the login at the start of a connection to a Postgres server.
 *
 * The owner of the transfer says what the client asked for, and which password to use.  After the
 * login, the connection passes bytes both ways. */
#ifndef CLOISTER_UPSTREAM_POSTGRES_H
#define CLOISTER_UPSTREAM_POSTGRES_H
#include <stdbool.h>

#include "base/buf.h"

struct pg_login;
struct transfer;

#define POSTGRES_LOGIN_S 30             /* for the whole login */
#define POSTGRES_NONCE 32

struct postgres {
	/* Set by the owner. */
	struct buf *asked;              /* the client's start (pg_start_decode()), or the request to cancel
	                                 * a query: a process id and a key */
	bool is_cancel;
	bool tls;                       /* the login is over TLS, or fails */
	/* The password for the server, valid until the caller returns. */
	const char *(*password)(struct transfer *t);
	/* The login is done; bytes follow.  TOLD: the server got the password itself. */
	void (*logged_in)(struct transfer *t, bool told);

	/* private: */
	struct pg_login *login;         /* NULL: it has not begun, or is over */
	char nonce[POSTGRES_NONCE];
};

/* Forget the login, if there is one. */
void postgres_end(struct postgres *p);
#endif
