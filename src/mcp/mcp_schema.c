/* mcp_schema.c - checks arguments against the schema of tools/list, so that the published schema is
 * the enforced one.
 *
 * It knows the keywords of JSON Schema that these schemas use. */
#include <errno.h>
#include <string.h>

#include "mcp/mcp_parts.h"

static bool
is_type(const char *type, const json_t *value)
{
	static const struct { const char *name; json_type type; } types[] = {
		{ "object", JSON_OBJECT }, { "array", JSON_ARRAY }, { "string", JSON_STRING },
		{ "integer", JSON_INTEGER },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(type, types[i].name) == 0)
			return json_typeof(value) == types[i].type;
	return strcmp(type, "boolean") == 0 && json_is_boolean(value);
}

static int
check_object(const json_t *schema, const json_t *value, const char *where, struct err *err)
{
	const json_t *properties = json_object_get(schema, "properties"), *one;
	const char *name;
	json_t *item;
	size_t i;
	int r;

	json_array_foreach (json_object_get(schema, "required"), i, item)
		if (json_object_get(value, json_string_value(item)) == NULL)
			return err_set(err, EINVAL, "'%s' is missing", json_string_value(item));
	json_object_foreach ((json_t *)(uintptr_t)value, name, item) {
		one = json_object_get(properties, name);
		if (one == NULL)
			return err_set(err, EINVAL, "%s has no '%.64s'", where, name);
		r = mcp_schema_check(one, item, name, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int
check_range(const json_t *schema, json_int_t n, const char *min, const char *max, const char *what,
            const char *where, struct err *err)
{
	const json_t *low = json_object_get(schema, min), *high = json_object_get(schema, max);

	if (low != NULL && n < json_integer_value(low))
		return err_set(err, EINVAL, "'%s' is less than %" JSON_INTEGER_FORMAT "%s", where,
		               json_integer_value(low), what);
	if (high != NULL && n > json_integer_value(high))
		return err_set(err, EINVAL, "'%s' is more than %" JSON_INTEGER_FORMAT "%s", where,
		               json_integer_value(high), what);
	return 0;
}

static int
check_string(const json_t *schema, const json_t *value, const char *where, struct err *err)
{
	const json_t *list = json_object_get(schema, "enum"), *item;
	size_t i;

	json_array_foreach (list, i, item)
		if (json_equal(item, value))
			return 0;
	if (list != NULL)
		return err_set(err, EINVAL, "'%s' is not one of its values", where);
	return check_range(schema, (json_int_t)json_string_length(value), "minLength", "maxLength",
	                   " bytes", where, err);
}

int
mcp_schema_check(const json_t *schema, const json_t *value, const char *where, struct err *err)
{
	const char *type = json_string_value(json_object_get(schema, "type"));
	const json_t *item;
	size_t i;
	int r = 0;

	if (type == NULL || !is_type(type, value))
		return err_set(err, EINVAL, "'%s' is to be of type %s", where, type);
	if (json_is_object(value))
		return check_object(schema, value, where, err);
	if (json_is_string(value))
		return check_string(schema, value, where, err);
	if (json_is_integer(value))
		return check_range(schema, json_integer_value(value), "minimum", "maximum", "", where, err);
	if (json_is_array(value))
		r = check_range(schema, (json_int_t)json_array_size(value), "minItems", "maxItems", " items",
		                where, err);
	json_array_foreach (value, i, item)
		r = r == 0 ? mcp_schema_check(json_object_get(schema, "items"), item, where, err) : r;
	return r;
}
