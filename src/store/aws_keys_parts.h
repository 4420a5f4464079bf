/* aws_keys_parts.h - shared by the files of aws_keys.h. */
#ifndef CLOISTER_STORE_AWS_KEYS_PARTS_H
#define CLOISTER_STORE_AWS_KEYS_PARTS_H
#include <stddef.h>

#include "store/aws_keys.h"

/* Copies VALUE, which goes into a header field, to TO.  WHAT it is, for messages: "the token". */
int aws_keys_set(const struct aws_keys *k, char *to, size_t size, const char *value, size_t len, const char *what,
                 struct err *err);
int aws_keys_set_all(struct aws_keys *k, const char *id, const char *secret, const char *token, struct err *err);
/* AGAIN: its folder is all that is seen here now, and was checked when the file was first read. */
int aws_keys_read(struct aws_keys *k, bool again, struct err *err);
/* Appends NAME, and VALUE with its escapes. */
void aws_keys_escape(struct buf *b, const char *name, const char *value);
#endif
