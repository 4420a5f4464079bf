/* placeholder_parts.h - between placeholder.c and placeholder_text.c. */
#ifndef CLOISTER_PLACEHOLDER_PARTS_H
#define CLOISTER_PLACEHOLDER_PARTS_H
#include <stdint.h>

#include "vault/placeholder.h"
#include "vault/shape.h"

/* The shape of SHAPES that fits REAL, or else one that is guessed; of those that are words,
 * what is there is taken for granted. */
void placeholder_choose(const struct policy_list *shapes, const struct guard *real,
                        struct shape *ret_shape);

/* The caller owns *ret_text. */
int placeholder_by_items(const struct shape *shape, const struct guard *real, char **ret_text,
                         struct err *err);
int placeholder_base64(const struct guard *real, char **ret_text, struct err *err);
/* ALG goes into it as it is; EXPIRES: 0 if it does not say. */
int placeholder_jwt(const char *alg, int64_t expires, size_t n_signature, char **ret_text,
                    struct err *err);
#endif
