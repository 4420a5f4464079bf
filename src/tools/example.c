/* example.c - makes arguments for a tool from its input schema, for a call whose acts are observed. */
#include <string.h>

#include "tools/check.h"

#define DEPTH_MAX 6

static json_t *make(const json_t *schema, unsigned depth);

static json_t *
make_object(const json_t *schema, unsigned depth)
{
	const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
	json_t *object = json_object(), *name;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)required, i, name) {
		const char *key = json_string_value(name);

		if (object == NULL || key == NULL ||
		    json_object_set_new(object, key, make(json_object_get(properties, key), depth + 1)) < 0) {
			json_decref(object);
			return NULL;
		}
	}
	return object;
}

static json_t *
make_array(const json_t *schema, unsigned depth)
{
	json_t *array = json_array();

	for (json_int_t n = json_integer_value(json_object_get(schema, "minItems")); n > 0 && n <= 16 && array != NULL; n--)
		(void)json_array_append_new(array, make(json_object_get(schema, "items"), depth + 1));
	return array;
}

static json_t *
make_string(const json_t *schema)
{
	static const struct { const char *format, *text; } formats[] = {
		{ "uri", "https://example.com/" }, { "url", "https://example.com/" }, { "email", "a@example.com" },
		{ "date", "2026-01-01" }, { "date-time", "2026-01-01T00:00:00Z" }, { "hostname", "example.com" },
		{ "uuid", "00000000-0000-4000-8000-000000000000" }, { "ipv4", "192.0.2.1" },
	};
	const char *format = json_string_value(json_object_get(schema, "format"));
	const json_int_t least = json_integer_value(json_object_get(schema, "minLength"));
	char text[257] = "example";

	for (size_t i = 0; format != NULL && i < ARRAY_LEN(formats); i++)
		if (strcmp(format, formats[i].format) == 0)
			return json_string(formats[i].text);
	for (size_t n = strlen(text); n < sizeof(text) - 1 && (json_int_t)n < least; n++) {
		text[n] = 'x';
		text[n + 1] = '\0';
	}
	return json_string(text);
}

static json_t *
make_number(const json_t *schema)
{
	const json_t *least = json_object_get(schema, "minimum"), *most = json_object_get(schema, "maximum");

	if (json_is_number(least))
		return json_incref((json_t *)(uintptr_t)least);
	return json_is_number(most) && json_number_value(most) < 1 ? json_incref((json_t *)(uintptr_t)most) : json_integer(1);
}

static const char *
type_of(const json_t *schema)
{
	const json_t *type = json_object_get(schema, "type");

	if (json_is_array(type))
		type = json_array_get(type, 0);
	return json_is_string(type) ? json_string_value(type) : json_is_object(json_object_get(schema, "properties")) ? "object" : "";
}

static json_t *
make(const json_t *schema, unsigned depth)
{
	static const char *const given[] = { "const", "default" }, *const lists[] = { "examples", "enum" },
	                  *const choices[] = { "anyOf", "oneOf", "allOf" };
	const char *type = type_of(schema);

	if (depth > DEPTH_MAX)
		return json_null();
	for (size_t i = 0; i < ARRAY_LEN(given); i++)
		if (json_object_get(schema, given[i]) != NULL)
			return json_incref(json_object_get(schema, given[i]));
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (json_array_size(json_object_get(schema, lists[i])) > 0)
			return json_incref(json_array_get(json_object_get(schema, lists[i]), 0));
	for (size_t i = 0; i < ARRAY_LEN(choices); i++)
		if (json_array_size(json_object_get(schema, choices[i])) > 0)
			return make(json_array_get(json_object_get(schema, choices[i]), 0), depth + 1);
	if (strcmp(type, "object") == 0)
		return make_object(schema, depth);
	if (strcmp(type, "array") == 0)
		return make_array(schema, depth);
	if (strcmp(type, "number") == 0 || strcmp(type, "integer") == 0)
		return make_number(schema);
	if (strcmp(type, "boolean") == 0)
		return json_false();
	return strcmp(type, "null") == 0 ? json_null() : make_string(schema);
}

json_t *
check_example(const struct listed_tool *tool)
{
	return make_object(json_object_get(tool->pinned, "inputSchema"), 0);
}
