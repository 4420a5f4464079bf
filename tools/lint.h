/* lint.h - what analyzers cannot see for themselves; only `make lint` includes it.
 *
 * err_set and its kin always return a negative number.  Without knowing it an
 * analyzer follows paths on which something both failed and succeeded. */
#ifndef CLOISTER_LINT_H
#define CLOISTER_LINT_H
#include "base/err.h"

static inline int
lint_negative(int r)
{
	if (r >= 0)
		__builtin_unreachable();
	return r;
}

#define err_set(...)   lint_negative(err_set(__VA_ARGS__))
#define err_errno(...) lint_negative(err_errno(__VA_ARGS__))
#define err_wrap(...)  lint_negative(err_wrap(__VA_ARGS__))
#endif
