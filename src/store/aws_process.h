/* aws_process.h - keys that a program of the operator's prints: `credential_process` of a profile.
 *
 * The one that uses the key is locked down and starts no program.  A keeper, forked before that, starts it whenever it is
 * asked: it gets single bytes, and parses nothing. */
#ifndef CLOISTER_AWS_PROCESS_H
#define CLOISTER_AWS_PROCESS_H
#include <stddef.h>

struct buf;
struct err;

#define AWS_PROCESS_WORDS_MAX 64
#define AWS_PROCESS_OUT_MAX (32 * 1024)

/* Splits COMMAND, which is changed, at blanks, but not within single or double quotes; WORDS ends with NULL.  -EINVAL. */
int aws_process_split(char *command, char *ret_words[AWS_PROCESS_WORDS_MAX + 1], struct err *err);
/* Starts the keeper of COMMAND; the caller owns *ret_fd, whose end ends it. */
int aws_process_start(const char *command, int *ret_fd, struct err *err);
/* Has the program run, and appends what it printed.  -EACCES: it failed. */
int aws_process_ask(int fd, struct buf *out, struct err *err);
#endif
