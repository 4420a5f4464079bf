/* redis.h - what a Redis client sends: where commands begin and end, and which of them log in.
 *
 * Pure.  Arrays of bulk strings pass as they are; a command in a line of its own becomes such an
 * array, so that there is one reading of it.  AUTH, and HELLO with AUTH in it, are given out by
 * themselves.  Strict: what a server might read in another way is refused. */
#ifndef CLOISTER_REDIS_H
#define CLOISTER_REDIS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

#define REDIS_LINE_MAX (16 * 1024)      /* of a command in a line of its own */
#define REDIS_WORDS_MAX 256             /* in it */
#define REDIS_LOGIN_MAX (48 * 1024)     /* of a command that logs in */
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
	REDIS_MORE,                     /* all was used, and nothing is to be passed on */
	REDIS_PASS,                     /* a piece is */
	REDIS_LOGIN,                    /* a login, in its place among the pieces */
};

struct redis_reader {
	/* private: */
	enum { REDIS_START, REDIS_COUNT, REDIS_LINE, REDIS_LENGTH, REDIS_BODY, REDIS_BODY_END } state;
	enum { REDIS_DECIDES, REDIS_PASSES, REDIS_GATHERS } mode;
	char number[REDIS_NUMBER_MAX];
	size_t n_number;
	uint64_t args, index;           /* of the command; which of them this is */
	uint64_t left;                  /* of it */
	unsigned ends;                  /* of the line end behind it */
	struct buf held;                /* of the command, as it came */
	struct buf coded;               /* of a line: as an array */
	bool given;                     /* HELD was given out */
	size_t at[REDIS_LOGIN_WORDS], lens[REDIS_LOGIN_WORDS];
};

void redis_reader_init(struct redis_reader *r);
void redis_reader_free(struct redis_reader *r);         /* wipes; twice is fine */

/* Bytes of a client; *RET_USED of them are done with.  REDIS_PASS: *ret_piece goes on next;
 * REDIS_LOGIN: *ret_login does, written anew; both are there until the next call.  -EBADMSG:
 * this is no Redis, or none that can be followed. */
int redis_read(struct redis_reader *r, const unsigned char *data, size_t len, size_t *ret_used,
               struct redis_text *ret_piece, struct redis_login *ret_login, struct err *err);

/* As a command, with this user (NULL: none) and password in place of those that are in it. */
void redis_login_write(struct buf *b, const struct redis_login *login,
                       const struct redis_text *user, struct redis_text password);
/* An error, as servers send it; TEXT is cut at a line end. */
void redis_put_error(struct buf *b, const char *code, const char *text);

/* ---- between processes: u32 flags (REDIS_LOGIN_*), then version, user, password, name, each
 * u32 length and bytes ---- */

#define REDIS_LOGIN_HELLO 1u
#define REDIS_LOGIN_USER 2u
#define REDIS_LOGIN_NAME 4u

void redis_login_encode(struct buf *b, const struct redis_login *login);
/* Strict, and all of B: -EBADMSG.  Texts point into it. */
int redis_login_decode(struct buf *b, struct redis_login *ret_login);
#endif
