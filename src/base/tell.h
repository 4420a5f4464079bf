/* tell.h - prints a program's final error. */
#ifndef CLOISTER_TELL_H
#define CLOISTER_TELL_H

struct err;

#define TELL_FAILED 125                 /* the exit status of cloister's own failures */

/* Print "cloister: TEXT" to standard error, with control characters made safe for a terminal;
 * returns TELL_FAILED. */
int tell_error(const struct err *err);
#endif
