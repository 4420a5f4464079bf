/* fields.c - see fields.h. */
#include "audit/fields.h"

#include "base/codec.h"
#include "canon/canon_check.h"

bool
audit_field(struct http_text object, const char *name, enum json_walk_kind kind,
            struct json_walk_item *ret_item)
{
	return json_walk_member(object, name, ret_item) == 1 && ret_item->kind == kind;
}

bool
audit_field_hash(struct http_text object, const char *name, unsigned char ret_hash[AUDIT_HASH])
{
	struct json_walk_item item;

	return audit_field(object, name, JSON_WALK_STRING, &item) && item.raw.len == AUDIT_HEX &&
	       codec_unhex_lower(item.raw.at, ret_hash, AUDIT_HASH);
}

bool
audit_number(struct http_text raw, uint64_t *ret_n)
{
	uint64_t n = 0;

	if (raw.len > 16)
		return false;
	for (size_t i = 0; i < raw.len; i++) {
		if (raw.at[i] < '0' || raw.at[i] > '9')
			return false;
		n = n * 10 + (uint64_t)(raw.at[i] - '0');
	}
	*ret_n = n;
	return n <= CANON_CHECK_NUMBER_MAX;
}

bool
audit_field_number(struct http_text object, const char *name, uint64_t *ret_n)
{
	struct json_walk_item item;

	return audit_field(object, name, JSON_WALK_NUMBER, &item) && audit_number(item.raw, ret_n);
}

bool
audit_field_text(struct http_text object, const char *name, char *ret_text, size_t size)
{
	struct json_walk_item item;
	size_t len;

	if (!audit_field(object, name, JSON_WALK_STRING, &item) ||
	    json_walk_decode(item.raw, ret_text, size - 1, &len) < 0)
		return false;
	ret_text[len] = '\0';
	return true;
}
