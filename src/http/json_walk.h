/* json_walk.h - reads JSON (RFC 8259) where it lies: one item after the other, nothing
 * copied and nothing allocated.
 *
 * Strict: UTF-8 only, no blanks but the four, nothing behind the value.  Of what the
 * specification leaves to the reader, U+0000 and half a surrogate pair are refused.  Names
 * that an object has twice are the caller's business; json_walk_member() refuses them. */
#ifndef CLOISTER_JSON_WALK_H
#define CLOISTER_JSON_WALK_H
#include <stdbool.h>
#include <stddef.h>

#include "http/http_head.h"

#define JSON_WALK_DEPTH_MAX 32          /* of objects and arrays in one another */

enum json_walk_kind {
	JSON_WALK_OBJECT, JSON_WALK_ARRAY,      /* its beginning; what is in it follows */
	JSON_WALK_CLOSE,                        /* the end of the last that began */
	JSON_WALK_STRING, JSON_WALK_NUMBER, JSON_WALK_TRUE, JSON_WALK_FALSE, JSON_WALK_NULL,
};

struct json_walk_item {
	enum json_walk_kind kind;
	struct http_text name;          /* of an object's member: between the quotes, as it is
	                                 * written; else .at is NULL */
	struct http_text raw;           /* as it is written; a string's without the quotes; with
	                                 * CLOSE all of the object or array, with its brackets */
	size_t depth;                   /* how many objects and arrays it is in */
};

struct json_walk {
	const char *at, *end;
	const char *open[JSON_WALK_DEPTH_MAX];  /* where each began */
	size_t depth;
	bool any;                       /* something came before in what is open */
};

void json_walk_begin(struct json_walk *w, struct http_text text);
/* 1: *ret_item is the next one; 0: that was all, and all was well; -EBADMSG, with w->at where
 * it is no JSON any more; -E2BIG if it is too deep. */
int json_walk_next(struct json_walk *w, struct json_walk_item *ret_item);

/* Strings, as an item has them: RAW was walked over before. */
bool json_walk_is(struct http_text raw, const char *word);
/* Without a NUL behind it; -ENOBUFS if there are over SIZE bytes.  It takes no more than
 * raw.len bytes. */
int json_walk_decode(struct http_text raw, char *out, size_t size, size_t *ret_len);
/* TEXT, which is UTF-8, as it stands between quotes. */
void json_walk_put(struct buf *b, struct http_text text);

/* The member NAME of the object TEXT, of which all is read.  An object or array is there as
 * a whole, with its brackets.  1: there is one; 0: there is none; -EEXIST: there are two;
 * -EINVAL: TEXT is no object; else as json_walk_next(). */
int json_walk_member(struct http_text text, const char *name, struct json_walk_item *ret_item);
#endif
