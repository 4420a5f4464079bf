/* fuzz_canon_check.c - bytes that may be canonical JSON: they are, if and only if the other writer
 * (canon_put(), of jansson's values) gives the same. */
#include <assert.h>
#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "canon/canon.h"
#include "canon/canon_check.h"
#include "fuzz.h"

/* Whether all numbers are whole: others are canonical, too, but not here. */
static bool
is_whole(const json_t *value)
{
	const char *key;
	json_t *child;
	size_t i;

	if (json_is_real(value))
		return false;
	json_object_foreach((json_t *)(uintptr_t)value, key, child)
		if (!is_whole(child))
			return false;
	json_array_foreach(value, i, child)
		if (!is_whole(child))
			return false;
	return true;
}

static size_t
depth_of(const json_t *value)
{
	const char *key;
	json_t *child;
	size_t i, most = 0, depth;

	json_object_foreach((json_t *)(uintptr_t)value, key, child) {
		depth = depth_of(child);
		most = depth > most ? depth : most;
	}
	json_array_foreach(value, i, child) {
		depth = depth_of(child);
		most = depth > most ? depth : most;
	}
	return json_is_object(value) || json_is_array(value) ? most + 1 : 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(json_decrefp) json_t *value = NULL;
	OWN(buf_free) struct buf b;
	bool mine = canon_check_object((const char *)data, size), theirs;

	buf_init(&b, 16 * size + 64);
	theirs = canon_read((const char *)data, size, &value, NULL) == 0 && json_is_object(value) &&
	         is_whole(value) && depth_of(value) <= CANON_CHECK_DEPTH_MAX &&
	         canon_put(&b, value, NULL) == 0 && b.len == size && memcmp(b.data, data, size) == 0;
	assert(mine == theirs);
	return 0;
}
