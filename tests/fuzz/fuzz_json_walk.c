/* fuzz_json_walk.c - bytes that may be JSON: jansson, which shares no code with the walk, has
 * to take the same ones and find the same in them. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/own.h"
#include "canon/canon_text.h"
#include "fuzz.h"
#include "http/json_walk.h"

/* RAW decoded, with a NUL behind it: the caller's to free. */
static char *
text_of(struct http_text raw, size_t *ret_len)
{
	char *text = malloc(raw.len + 1);

	assert(text != NULL && json_walk_decode(raw, text, raw.len, ret_len) == 0);
	assert(*ret_len == 0 || json_walk_decode(raw, text, *ret_len - 1, ret_len) == -ENOBUFS);
	text[*ret_len] = '\0';
	assert(json_walk_is(raw, text));
	return text;
}

static void
check_string(struct http_text raw, const json_t *want)
{
	size_t len = 0, again_len;
	OWN(freep) char *text = text_of(raw, &len);
	OWN(freep) char *again = NULL;
	OWN(buf_free) struct buf b;

	assert(json_is_string(want) && json_string_length(want) == len);
	assert(memcmp(json_string_value(want), text, len) == 0);
	/* What is written is read as the same. */
	buf_init(&b, 8 * len + 16);
	canon_text_put(&b, text, len, false);
	assert(!buf_failed(&b));
	if (len == 0)
		return;
	again = text_of((struct http_text){ (char *)b.data, b.len }, &again_len);
	assert(again_len == len && memcmp(again, text, len) == 0);
}

static json_t *
child_of(json_t *parent, const struct json_walk_item *item, size_t index)
{
	OWN(freep) char *name = NULL;
	size_t len;

	if (item->name.at == NULL)
		return json_array_get(parent, index);
	name = text_of(item->name, &len);
	return json_object_get(parent, name);
}

static bool
is_kind(enum json_walk_kind kind, const json_t *json)
{
	switch (kind) {
	case JSON_WALK_OBJECT:
		return json_is_object(json);
	case JSON_WALK_ARRAY:
		return json_is_array(json);
	case JSON_WALK_STRING:
		return json_is_string(json);
	case JSON_WALK_NUMBER:
		return json_is_number(json);
	case JSON_WALK_TRUE:
		return json_is_true(json);
	case JSON_WALK_FALSE:
		return json_is_false(json);
	case JSON_WALK_NULL:
		return json_is_null(json);
	case JSON_WALK_CLOSE:
		break;
	}
	return false;
}

/* ROOT has no name twice: each item is in it, and nothing else. */
static void
compare(struct http_text text, json_t *root)
{
	json_t *open[JSON_WALK_DEPTH_MAX + 1];
	size_t n[JSON_WALK_DEPTH_MAX + 1] = {0}, depth = 0;
	struct json_walk_item item;
	struct json_walk w;

	json_walk_begin(&w, text);
	while (json_walk_next(&w, &item) == 1) {
		json_t *json;

		if (item.kind == JSON_WALK_CLOSE) {
			assert(item.depth == --depth && item.raw.len >= 2);
			assert(n[depth] == (json_is_object(open[depth]) ? json_object_size(open[depth])
			                                                : json_array_size(open[depth])));
			continue;
		}
		assert(item.depth == depth && (item.name.at != NULL) ==
		       (depth > 0 && json_is_object(open[depth - 1])));
		json = depth == 0 ? root : child_of(open[depth - 1], &item, n[depth - 1]++);
		assert(is_kind(item.kind, json));
		if (item.kind == JSON_WALK_STRING)
			check_string(item.raw, json);
		if (item.kind == JSON_WALK_OBJECT || item.kind == JSON_WALK_ARRAY) {
			open[depth] = json;
			n[depth++] = 0;
		}
	}
	assert(depth == 0);
}

static void
check_members(struct http_text text, json_t *root)
{
	static const char *const names[] = { "a", "access_token", "" };
	struct json_walk_item item;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		json_t *want = json_object_get(root, names[i]);
		int r = json_walk_member(text, names[i], &item);

		assert(json_is_object(root) ? r == (want != NULL) : r == -EINVAL);
		if (r == 1 && (item.kind == JSON_WALK_OBJECT || item.kind == JSON_WALK_ARRAY))
			compare(item.raw, want);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_text text = { (const char *)data, size };
	struct json_walk_item item;
	struct json_walk w;
	json_error_t why;
	json_t *root;
	int r;

	json_walk_begin(&w, text);
	while ((r = json_walk_next(&w, &item)) == 1)
		assert(item.raw.at >= text.at && item.raw.at + item.raw.len <= text.at + text.len);
	if (r == -E2BIG)
		return 0;
	/* jansson takes a NUL behind the value for the end. */
	if (size > 0 && memchr(data, '\0', size) != NULL) {
		assert(r < 0);
		return 0;
	}
	root = json_loadb((const char *)data, size, JSON_DECODE_ANY, &why);
	/* A number that it has no room for is one all the same. */
	if (root == NULL && json_error_code(&why) == json_error_numeric_overflow)
		return 0;
	assert((root != NULL) == (r == 0));
	json_decref(root);
	root = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
	if (root != NULL) {
		compare(text, root);
		check_members(text, root);
	}
	json_decref(root);
	return 0;
}
