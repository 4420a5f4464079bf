/* redis_parts.h - declarations shared by the files of redis. */
#ifndef CLOISTER_REDIS_PARTS_H
#define CLOISTER_REDIS_PARTS_H
#include "wire/redis.h"

/* Whether these words are a login; if so, parse it. */
bool redis_login_find(const struct redis_text *words, size_t n, struct redis_login *ret_login);

/* ---- redis_line.c ---- */

/* As redis_read(), within an inline command. */
int redis_read_line(struct redis_reader *r, const unsigned char *data, size_t len,
                    size_t *used, struct redis_text *ret_piece, struct redis_login *ret_login,
                    struct err *err);
#endif
