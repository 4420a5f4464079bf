/* one_of.h - whether a byte is one of a few. */
#ifndef CLOISTER_ONE_OF_H
#define CLOISTER_ONE_OF_H
#include <stdbool.h>
#include <string.h>

/* NUL is none of them. */
static inline bool
is_one_of(unsigned char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}
#endif
