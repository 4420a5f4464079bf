/* canon_check.h - tells whether JSON is in canonical form (RFC 8785), where it lies.
 *
 * Pure, and allocates nothing.  Of what the form allows it takes less: numbers are whole and
 * within 2^53 - 1 either way, so that no two readers can differ about them; U+0000 is refused. */
#ifndef CLOISTER_CANON_CHECK_H
#define CLOISTER_CANON_CHECK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CANON_CHECK_DEPTH_MAX 32              /* of objects and arrays in one another */
#define CANON_CHECK_NUMBER_MAX UINT64_C(9007199254740991)

/* The one value that begins at AT: where it ends; NULL, with *ret_bad where it is not
 * canonical any more. */
const char *canon_check_value(const char *at, const char *end, const char **ret_bad);
/* Whether TEXT is one canonical object and nothing else. */
bool canon_check_object(const char *text, size_t len);
#endif
