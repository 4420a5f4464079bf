/* tell.h - prints a program's final error. */
#ifndef CLOISTER_TELL_H
#define CLOISTER_TELL_H
#include <stddef.h>

struct err;

#define TELL_FAILED 125                 /* the exit status of cloister's own failures */

/* Print "cloister: TEXT" to standard error, with control characters made safe for a terminal;
 * returns TELL_FAILED. */
int tell_error(const struct err *err);
/* The first line of what a program said so, in the file SAID, without "cloister: "; OTHERWISE if there is none. */
void tell_read(int said, const char *otherwise, char *ret_text, size_t size);
#endif
