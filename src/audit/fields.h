/* fields.h - members of JSON objects as timelines, proofs and statements have them.  Pure. */
#ifndef CLOISTER_AUDIT_FIELDS_H
#define CLOISTER_AUDIT_FIELDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/chain.h"
#include "http/json_walk.h"

/* Each is false where the member is missing, is there twice, or is none of that kind. */

bool audit_field(struct http_text object, const char *name, enum json_walk_kind kind,
                 struct json_walk_item *ret_item);
/* A hash, or what is as long as one: a key. */
bool audit_field_hash(struct http_text object, const char *name, unsigned char ret_hash[AUDIT_HASH]);
/* A whole number from 0 to 2^53 - 1. */
bool audit_field_number(struct http_text object, const char *name, uint64_t *ret_n);
bool audit_number(struct http_text raw, uint64_t *ret_n);
/* A text that fits into SIZE bytes with its NUL. */
bool audit_field_text(struct http_text object, const char *name, char *ret_text, size_t size);
#endif
