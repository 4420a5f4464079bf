/* json_walk.h - parses JSON (RFC 8259) in place, item by item, without copying or allocating.
 *
 * For bytes of a peer: what is found can be cut out and replaced where it stands, and a hostile text costs
 * no memory.  canon/canon.h reads JSON into values.
 *
 * Strict: UTF-8 only, only the four blanks, nothing behind the value.  Where the specification
 * leaves a choice, U+0000 and half a surrogate pair are refused.  Callers handle duplicate names in
 * an object; json_walk_member() refuses them. */
#ifndef CLOISTER_JSON_WALK_H
#define CLOISTER_JSON_WALK_H
#include <stdbool.h>
#include <stddef.h>

#include "http/http_head.h"

#define JSON_WALK_DEPTH_MAX 32          /* nesting of objects and arrays */

enum json_walk_kind {
	JSON_WALK_OBJECT, JSON_WALK_ARRAY,      /* its beginning; its items follow */
	JSON_WALK_CLOSE,                        /* the end of the innermost open one */
	JSON_WALK_STRING, JSON_WALK_NUMBER, JSON_WALK_TRUE, JSON_WALK_FALSE, JSON_WALK_NULL,
};

struct json_walk_item {
	enum json_walk_kind kind;
	struct http_text name;          /* an object member's, between the quotes, as written; else .at
	                                 * is NULL */
	struct http_text raw;           /* as written; a string without its quotes; with CLOSE the whole
	                                 * object or array, with its brackets */
	size_t depth;                   /* the number of objects and arrays around it */
};

struct json_walk {
	const char *at, *end;
	const char *open[JSON_WALK_DEPTH_MAX];  /* where each began */
	size_t depth;
	bool any;                       /* the innermost open one has had an item */
};

void json_walk_begin(struct json_walk *w, struct http_text text);
/* Returns 1: *ret_item is the next item; 0: end of a valid text; -EBADMSG: invalid, and w->at is
 * at the error; -E2BIG: nested too deeply. */
int json_walk_next(struct json_walk *w, struct json_walk_item *ret_item);

/* Whether a string equals WORD.  RAW comes from an item. */
bool json_walk_is(struct http_text raw, const char *word);
/* Decode a string, without adding a NUL.  -ENOBUFS if it needs more than SIZE bytes.  It never
 * needs more than raw.len bytes. */
int json_walk_decode(struct http_text raw, char *out, size_t size, size_t *ret_len);
/* The next character of a decoded name at *AT as readers see it that ignore case, and '\0' at END.
 * Two characters beyond ASCII fold into it (U+017F, U+212A).  Advances *AT. */
unsigned char json_walk_fold(const char **at, const char *end);

/* Find the member NAME of the object TEXT, and validate all of TEXT.  An object or array is
 * returned whole, with its brackets.  Returns 1: found; 0: not found; -EEXIST: found twice;
 * -EINVAL: TEXT is not an object; else as json_walk_next(). */
int json_walk_member(struct http_text text, const char *name, struct json_walk_item *ret_item);
#endif
