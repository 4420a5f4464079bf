/* api_body.c - checks a body against a table of its members: no unknown ones, no other types. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/own.h"
#include "base/text.h"
#include "proc/serve/api.h"

#define NAMES_MAX 16

static const char *const types[] = {
	[API_TEXT] = "a text", [API_NUMBER] = "a whole number", [API_TEXTS] = "a list of texts",
	[API_TRUTH] = "true or false", [API_ANY] = "there",
};

static int
wrong(struct api_call *c, const char *member, const char *fmt, const char *what)
{
	snprintf(c->pointer, sizeof(c->pointer), "%s%.200s", member[0] != '\0' ? "/" : "", member);
	return api_fail_with(c, 400, "invalid", fmt, member, what);
}

static bool
is_of_type(const json_t *value, enum api_type type)
{
	const json_t *item;
	size_t i;

	switch (type) {
	case API_TEXT:
		return json_is_string(value);
	case API_NUMBER:
		return json_is_integer(value);
	case API_TEXTS:
		json_array_foreach (value, i, item)
			if (!json_is_string(item))
				return false;
		return json_is_array(value);
	case API_TRUTH:
		return json_is_boolean(value);
	case API_ANY:
		return true;
	}
	return false;
}

static int
refuse_unknown(struct api_call *c, const struct api_member *members, const char *key)
{
	const char *names[NAMES_MAX] = { NULL }, *nearest;

	for (size_t i = 0; members[i].name != NULL && i + 1 < NAMES_MAX; i++)
		names[i] = members[i].name;
	nearest = text_nearest(key, names);
	snprintf(c->pointer, sizeof(c->pointer), "/%.200s", key);
	if (nearest != NULL)
		return api_fail_with(c, 400, "invalid", "there is no member '%.64s': did you mean '%s'?", key,
		                     nearest);
	return api_fail_with(c, 400, "invalid", "there is no member '%.64s' here", key);
}

int
api_body_check(struct api_call *c, const struct api_member *members)
{
	const char *key;
	json_t *value;

	if (!json_is_object(c->body))
		return wrong(c, "", "the body is not an object%s%s", "");
	json_object_foreach (c->body, key, value) {
		const struct api_member *m = members;

		while (m->name != NULL && strcmp(m->name, key) != 0)
			m++;
		if (m->name == NULL)
			return refuse_unknown(c, members, key);
		if (!json_is_null(value) && !is_of_type(value, m->type))
			return wrong(c, key, "'%s' must be %s", types[m->type]);
	}
	for (const struct api_member *m = members; m->name != NULL; m++)
		if (m->required && json_is_null(api_body_get(c, m->name)))
			return wrong(c, m->name, "'%s' is missing%s", "");
	return 0;
}

const json_t *
api_body_get(const struct api_call *c, const char *name)
{
	const json_t *value = json_object_get(c->body, name);

	return value != NULL ? value : json_null();
}

int
api_body_wrong(struct api_call *c, const char *member, int r)
{
	snprintf(c->pointer, sizeof(c->pointer), "/%s", member);
	return r;
}

int
api_body_bytes(struct api_call *c, const char *plain, const char *coded, const void **ret_data, size_t *ret_len,
               void **ret_owned)
{
	const json_t *text = api_body_get(c, plain), *base64 = api_body_get(c, coded);
	size_t len = json_string_length(base64);

	if (json_is_string(text) && json_is_string(base64))
		return api_body_wrong(c, plain, api_fail_with(c, 400, "invalid",
			"'%s' and '%s' contradict each other: send one", plain, coded));
	*ret_data = json_string_value(text);
	*ret_len = json_string_length(text);
	if (!json_is_string(base64))
		return 0;
	*ret_data = *ret_owned = malloc(CODEC_BYTES_LEN(len) + 1);
	if (*ret_owned == NULL || codec_unbase64(CODEC_BASE64, json_string_value(base64), len, *ret_owned,
	                                         CODEC_BYTES_LEN(len), ret_len) < 0)
		return api_body_wrong(c, coded, api_fail_with(c, 400, "invalid", "'%s' is not base64", coded));
	return 0;
}
