/* args.h - parses the argv that `cloister` passes to a helper program: the program, the command,
 * options as "--name=value" or "--name", "--", and words.
 *
 * `cloister` has checked the options against its table. */
#ifndef CLOISTER_ARGS_H
#define CLOISTER_ARGS_H
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct args {
	const char *command;
	char **options;                 /* in argv */
	size_t n_options;
	char **words;                   /* in argv, ends with NULL */
	size_t n_words;
};

/* False if `cloister` did not write these arguments. */
bool args_parse(int argc, char **argv, struct args *ret_args);
/* The value of an option, the last if there are several; "" for a flag; NULL: not given. */
const char *args_get(const struct args *a, const char *name);
/* The value of the next option NAME after *AT (0 at first), for options that may be repeated; NULL:
 * no more. */
const char *args_next(const struct args *a, const char *name, size_t *at);
/* An error if an option is not in OPTIONS, names with a blank before and behind each.  WHAT is the command in the
 * error's text. */
int args_check(const struct args *a, const char *what, const char *options, struct err *err);
#endif
