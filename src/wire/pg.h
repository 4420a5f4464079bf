/* pg.h - the beginning of a Postgres connection (protocol 3), as a server reads it, and its
 * encoding between processes.
 *
 * Pure.  Strict: a message that two programs might read differently is refused. */
#ifndef CLOISTER_PG_H
#define CLOISTER_PG_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

#define PG_FIRST_MAX 10000              /* of a client's first message, as in servers */
#define PG_PARAMETERS_MAX 64
#define PG_PASSWORD_MAX (32 * 1024)
#define PG_KEY_MAX 256                  /* bytes of the key for cancelling a query */

enum pg_kind { PG_SSL, PG_GSS, PG_CANCEL, PG_START };

struct pg_parameter {
	const char *name, *value;
};

/* A login: the user, the database and parameters.  Texts are borrowed. */
struct pg_start {
	const char *user, *database;
	struct pg_parameter parameters[PG_PARAMETERS_MAX];      /* all but user and database */
	size_t n;
};

struct pg_first {
	enum pg_kind kind;
	struct pg_start start;          /* PG_START */
	uint32_t minor;                 /* of the requested version */
	const char *options[PG_PARAMETERS_MAX]; /* of the protocol, unknown here */
	size_t n_options;
	uint32_t pid;                   /* PG_CANCEL */
	const unsigned char *key;
	size_t n_key;
};

/* ---- messages of a client ---- */

/* Both parse the LEN bytes that have come.  0: the message is complete and valid; texts point into
 * DATA.  -EAGAIN: it is incomplete, and *ret_need is the least total number of bytes.  -EBADMSG: it
 * is no such message.  They never ask for bytes behind the message. */
int pg_first_read(const unsigned char *data, size_t len, size_t *ret_need,
                  struct pg_first *ret_first, struct err *err);
int pg_password_read(const unsigned char *data, size_t len, size_t *ret_need,
                     const char **ret_password, struct err *err);

/* ---- messages of a server ---- */

void pg_put_ask_password(struct buf *b);        /* in plain text, not hashed */
void pg_put_ok(struct buf *b);
/* An error that ends the connection; CODE is an SQLSTATE. */
void pg_put_error(struct buf *b, const char *code, const char *text);
/* Announce version 3.0, and the unknown options. */
void pg_put_negotiate(struct buf *b, const struct pg_first *first);

/* ---- messages to a server ---- */

void pg_put_ask_tls(struct buf *b);
void pg_put_start(struct buf *b, const struct pg_start *start);
void pg_put_cancel(struct buf *b, uint32_t pid, const unsigned char *key, size_t n_key);
/* A message of TYPE with LEN bytes in it. */
void pg_put_message(struct buf *b, char type, const void *data, size_t len);

/* ---- between processes: str user, str database, str password, u32 n, then n times str name,
 * str value ---- */

void pg_start_encode(struct buf *b, const struct pg_start *start, const char *password);
/* Strict: B must contain nothing else, or it is -EBADMSG.  Texts point into B. */
int pg_start_decode(struct buf *b, struct pg_start *ret_start, const char **ret_password);
#endif
