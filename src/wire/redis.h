/* redis.h - parses a Redis client's bytes: where commands begin and end, and which of them log in.
 *
 * Pure.  Arrays of bulk strings pass unchanged.  An inline command becomes such an array, so that
 * there is only one reading of it.  AUTH, and HELLO with AUTH, are returned separately.  Strict: a
 * command that a server might read differently is refused. */
#ifndef CLOISTER_REDIS_H
#define CLOISTER_REDIS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

#define REDIS_LINE_MAX (16 * 1024)      /* of an inline command */
#define REDIS_WORDS_MAX 256             /* of an inline command */
#define REDIS_LOGIN_MAX (48 * 1024)     /* bytes of a command that logs in */
#define REDIS_LOGIN_WORDS 7             /* HELLO 3 AUTH user password SETNAME name */
#define REDIS_NUMBER_MAX 24             /* characters of a line with a length */

struct redis_text {
	const char *at;
	size_t len;
};

struct redis_login {
	bool is_hello, has_user, has_name;
	struct redis_text version, user, password, name;
};

enum redis_got {
	REDIS_MORE,                     /* all was used, and there is nothing to pass on */
	REDIS_PASS,                     /* there is a piece to pass on */
	REDIS_LOGIN,                    /* a login, in its place among the pieces */
};

struct redis_reader {
	/* private: */
	enum { REDIS_START, REDIS_COUNT, REDIS_LINE, REDIS_LENGTH, REDIS_BODY, REDIS_BODY_END } state;
	enum { REDIS_DECIDES, REDIS_PASSES, REDIS_GATHERS } mode;
	char number[REDIS_NUMBER_MAX];
	size_t n_number;
	uint64_t args, index;           /* of the command; index of the current one */
	uint64_t left;                  /* bytes left of the current one */
	unsigned ends;                  /* bytes of the line end after it */
	struct buf held;                /* the command so far, as it came */
	struct buf coded;               /* an inline command as an array */
	bool given;                     /* HELD was returned */
	size_t at[REDIS_LOGIN_WORDS], lens[REDIS_LOGIN_WORDS];
};

void redis_reader_init(struct redis_reader *r);
void redis_reader_free(struct redis_reader *r);         /* wipes; twice is fine */

/* Process bytes of a client; *RET_USED of them were consumed.  REDIS_PASS: pass on *ret_piece next.
 * REDIS_LOGIN: pass on *ret_login, written anew.  Both are valid until the next call.  -EBADMSG:
 * this is not Redis, or cannot be followed. */
int redis_read(struct redis_reader *r, const unsigned char *data, size_t len, size_t *ret_used,
               struct redis_text *ret_piece, struct redis_login *ret_login, struct err *err);

/* Write a login as a command, with this user (NULL: none) and password instead of its own. */
void redis_login_write(struct buf *b, const struct redis_login *login,
                       const struct redis_text *user, struct redis_text password);
/* Write an error, as servers send it; TEXT is cut at a line end. */
void redis_put_error(struct buf *b, const char *code, const char *text);

/* ---- between processes: u32 flags (REDIS_LOGIN_*), then version, user, password, name, each
 * u32 length and bytes ---- */

#define REDIS_LOGIN_HELLO 1u
#define REDIS_LOGIN_USER 2u
#define REDIS_LOGIN_NAME 4u

void redis_login_encode(struct buf *b, const struct redis_login *login);
/* Strict: B must contain nothing else, or it is -EBADMSG.  Texts point into B. */
int redis_login_decode(struct buf *b, struct redis_login *ret_login);
#endif
