/* build_words.h - the words of a Dockerfile: their quotes, and the variables in them.
 *
 * Pure.  Quotes are as Docker has them: nothing is special in single quotes; in double quotes, variables are
 * replaced. */
#ifndef CLOISTER_BUILD_WORDS_H
#define CLOISTER_BUILD_WORDS_H
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"

struct err;

#define BUILD_VARS_MAX 1024

/* Variables in order: of two with one name there is only the later. */
struct build_vars {
	struct build_var {
		char *name, *value;
	} *list;
	size_t n;
};
void build_vars_free(struct build_vars *vars);  /* for OWN() too */
/* Copies both.  False: out of memory, or too many. */
bool build_vars_set(struct build_vars *vars, const char *name, const char *value);
const char *build_vars_get(const struct build_vars *vars, const char *name);    /* NULL: not set */
bool build_var_name_ok(const char *name, size_t len);

/* The length of the first word of TEXT, quotes included; spaces before it must be skipped.  -EINVAL: a quote is not
 * closed. */
int build_word_len(const char *text, char escape, size_t *ret_len, struct err *err);
/* WORD with its variables replaced and its quotes removed.  FIRST, then SECOND (NULL: none) have the values.  The
 * caller owns *ret_text. */
int build_word_expand(const char *word, char escape, const struct build_vars *first, const struct build_vars *second,
                      char **ret_text, struct err *err);
#endif
