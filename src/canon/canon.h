/* canon.h - reads JSON into values, and writes canonical JSON (RFC 8785): each value has one text, so
 * that it can be hashed.
 *
 * This is the reader for whoever needs values.  Where bytes of a peer are searched without making values
 * of them, http/json_walk.h reads in place.  Three readers differ, each for its reason: mcp/jsonrpc
 * answers each fault with its own code, inspect/body_json accepts whatever servers accept, and
 * vault/source keeps secrets in memory that is wiped.
 *
 * Members are sorted by the UTF-16 code units of their names.  Numbers are written as ECMAScript
 * writes them, strings with the fewest escapes, without blanks in between. */
#ifndef CLOISTER_CANON_H
#define CLOISTER_CANON_H
#include <jansson.h>
#include <stddef.h>

struct buf;
struct err;

#define CANON_DEPTH_MAX 64              /* nesting of lists and objects */
#define CANON_VALUES_MAX (256 * 1024)  /* in one text: in memory, values take fifty times as much */
#define CANON_NUMBER_MAX 48             /* bytes of any number, with its NUL */
#define CANON_INTEGER_MAX 9007199254740991      /* beyond it a double is not exact */

/* Parse TEXT strictly: one value, no duplicate name in an object, no NUL in a string, no number
 * beyond CANON_INTEGER_MAX, at most CANON_DEPTH_MAX deep, at most CANON_VALUES_MAX values.  The
 * caller owns *ret_value. */
int canon_read(const char *text, size_t len, json_t **ret_value, struct err *err);
/* The same for callers that need no reason.  NULL: TEXT is invalid. */
json_t *canon_value(const char *text, size_t len);

/* Append VALUE to B.  -EINVAL: it has a number that is not finite or not exact as a double, or is
 * nested too deeply; -E2BIG: B is full. */
int canon_put(struct buf *b, json_t *value, struct err *err);
/* The same in new memory of at most MAX bytes, NUL-terminated; the caller owns it. */
int canon_dump(json_t *value, size_t max, char **ret_text, size_t *ret_len,
               struct err *err);

/* ---- for callers without jansson; strings are in canon_text.h ---- */

/* As ECMAScript's Number::toString; NUMBER is finite. */
void canon_number(double number, char ret_text[CANON_NUMBER_MAX]);
/* Compares names, as strcmp does, by UTF-16 code units. */
int canon_compare(const char *a, const char *b);
#endif
