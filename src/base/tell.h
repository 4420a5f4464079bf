/* tell.h - how a program says that it failed. */
#ifndef CLOISTER_TELL_H
#define CLOISTER_TELL_H

struct err;

#define TELL_FAILED 125                 /* the exit status of cloister's own failures */

/* "cloister: TEXT" on standard error, safe on a terminal whatever is in it; returns TELL_FAILED. */
int tell_error(const struct err *err);
#endif
