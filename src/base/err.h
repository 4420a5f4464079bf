/* err.h - describes an expected failure in one sentence.
 *
 * A struct err lives on the caller's stack, never allocates and is safe after fork.  Functions
 * return 0 or a negative errno and fill the caller's err; callers wrap it with context on the way
 * up.  A NULL err is fine everywhere. */
#ifndef CLOISTER_ERR_H
#define CLOISTER_ERR_H

#define ERR_TEXT_MAX 768

struct err {
	int code;                   /* positive errno, 0 if unset */
	char text[ERR_TEXT_MAX];    /* truncated if longer */
};

/* Set the message; returns -CODE. */
int err_set(struct err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* As err_set with the current errno, with ": strerror" appended. */
int err_errno(struct err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Put "context: " in front of the message; returns -err->code. */
int err_wrap(struct err *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
#endif
