/* redis_parts.h - what the files of redis share. */
#ifndef CLOISTER_REDIS_PARTS_H
#define CLOISTER_REDIS_PARTS_H
#include "wire/redis.h"

/* Whether these words log in, and how. */
bool redis_login_find(const struct redis_text *words, size_t n, struct redis_login *ret_login);

/* ---- redis_line.c ---- */

/* As redis_read(), within a command in a line of its own. */
int redis_read_line(struct redis_reader *r, const unsigned char *data, size_t len,
                    size_t *used, struct redis_text *ret_piece, struct redis_login *ret_login,
                    struct err *err);
#endif
