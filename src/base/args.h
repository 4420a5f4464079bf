/* args.h - what `cloister` says to a program that it becomes: argv is the program, the
 * command, options as "--name=value" or "--name", "--", and words.
 *
 * `cloister` has checked the options against its table. */
#ifndef CLOISTER_ARGS_H
#define CLOISTER_ARGS_H
#include <stdbool.h>
#include <stddef.h>

struct args {
	const char *command;
	char **options;                 /* in argv */
	size_t n_options;
	char **words;                   /* in argv, ends with NULL */
	size_t n_words;
};

/* False: this was not written by `cloister`. */
bool args_parse(int argc, char **argv, struct args *ret_args);
/* The value of an option, the last if there are several; "" of a flag; NULL: it was not said. */
const char *args_get(const struct args *a, const char *name);
/* The next one's after *AT (0 at first), for those that may be said often; NULL: no more. */
const char *args_next(const struct args *a, const char *name, size_t *at);
#endif
