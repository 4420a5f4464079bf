/* fields.h - reads members of JSON objects in timelines, proofs and statements.  Pure. */
#ifndef CLOISTER_AUDIT_FIELDS_H
#define CLOISTER_AUDIT_FIELDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/chain.h"
#include "http/json_walk.h"

/* Each is false if the member is missing, is there twice, or has another type. */

bool audit_field(struct http_text object, const char *name, enum json_walk_kind kind,
                 struct json_walk_item *ret_item);
/* A hash, or a key, which is as long. */
bool audit_field_hash(struct http_text object, const char *name, unsigned char ret_hash[AUDIT_HASH]);
/* An integer from 0 to 2^53 - 1. */
bool audit_field_number(struct http_text object, const char *name, uint64_t *ret_n);
bool audit_number(struct http_text raw, uint64_t *ret_n);
/* A text that fits into SIZE bytes with its NUL. */
bool audit_field_text(struct http_text object, const char *name, char *ret_text, size_t size);
#endif
