/* canon_check.h - checks in place whether JSON is in canonical form (RFC 8785).
 *
 * Pure, and allocates nothing.  It accepts less than the form allows.  Numbers are whole and within
 * 2^53 - 1 either way, so that no two readers can differ about them.  U+0000 is refused. */
#ifndef CLOISTER_CANON_CHECK_H
#define CLOISTER_CANON_CHECK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CANON_CHECK_DEPTH_MAX 32              /* nesting of objects and arrays */
#define CANON_CHECK_NUMBER_MAX UINT64_C(9007199254740991)

/* Check the one value at AT.  Returns its end, or NULL with *ret_bad at the first byte that is not
 * canonical. */
const char *canon_check_value(const char *at, const char *end, const char **ret_bad);
/* Whether TEXT is one canonical object and nothing else. */
bool canon_check_object(const char *text, size_t len);
#endif
