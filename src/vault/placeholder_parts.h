/* placeholder_parts.h - shared by placeholder.c and placeholder_text.c. */
#ifndef CLOISTER_PLACEHOLDER_PARTS_H
#define CLOISTER_PLACEHOLDER_PARTS_H
#include <stdint.h>

#include "credential/shape.h"
#include "vault/placeholder.h"

/* Choose the shape of SHAPES that fits REAL, or guess one.  A shape that is a word ("jwt") is not
 * compared with REAL. */
void placeholder_choose(const struct policy_list *shapes, const struct guard *real,
                        struct shape *ret_shape);

/* The caller owns *ret_text. */
int placeholder_by_items(const struct shape *shape, const struct guard *real, char **ret_text,
                         struct err *err);
int placeholder_base64(const struct guard *real, char **ret_text, struct err *err);
/* ALG is inserted unchanged.  EXPIRES: 0 leaves it out. */
int placeholder_jwt(const char *alg, int64_t expires, size_t n_signature, char **ret_text,
                    struct err *err);
#endif
