/* one_of.h - tests whether a byte is in a small set. */
#ifndef CLOISTER_ONE_OF_H
#define CLOISTER_ONE_OF_H
#include <stdbool.h>
#include <string.h>

/* NUL is never in the set. */
static inline bool
is_one_of(unsigned char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}
#endif
