/* body_schema.c - evaluates JSON Schema, of the keywords that policy_read_schema.c lets through. */
#include <math.h>
#include <string.h>

#include "base/own.h"
#include "inspect/body.h"

#define DEPTH_MAX 32                    /* of a schema within schemas */
#define STEPS_MAX 200000                /* of one value */

struct judging {
	struct body_regex_time *time;
	size_t steps;
	unsigned depth;
	bool unreadable;
};

static bool fits(struct judging *j, const json_t *schema, const json_t *value);

static bool
has_type(const json_t *value, const char *type)
{
	double number = json_number_value(value);

	if (strcmp(type, "integer") == 0)
		return json_is_number(value) && floor(number) == number;
	return strcmp(type, json_is_object(value) ? "object" : json_is_array(value) ? "array" :
	              json_is_string(value) ? "string" : json_is_number(value) ? "number" :
	              json_is_boolean(value) ? "boolean" : "null") == 0;
}

static bool
fits_type(const json_t *type, const json_t *value)
{
	for (size_t i = 0; i < json_array_size(type); i++)
		if (fits_type(json_array_get(type, i), value))
			return true;
	return json_is_string(type) && has_type(value, json_string_value(type));
}

static bool
fits_enum(const json_t *values, const json_t *value)
{
	for (size_t i = 0; i < json_array_size(values); i++)
		if (json_equal(json_array_get(values, i), value))
			return true;
	return false;
}

static size_t
count_characters(const json_t *text)
{
	const char *at = json_string_value(text);
	size_t n = 0;

	for (size_t i = 0; i < json_string_length(text); i++)
		n += ((unsigned char)at[i] & 0xc0) != 0x80;
	return n;
}

/* ---- objects and arrays ---- */

static bool
fits_properties(struct judging *j, const json_t *schema, const json_t *value)
{
	const json_t *properties = json_object_get(schema, "properties");
	const json_t *rest = json_object_get(schema, "additionalProperties");
	json_t *member;
	const char *name;

	json_object_foreach((json_t *)(uintptr_t)value, name, member) {
		const json_t *of = json_object_get(properties, name);

		of = of != NULL ? of : rest;
		if (of != NULL && !fits(j, of, member))
			return false;
	}
	return true;
}

static bool
fits_object(struct judging *j, const json_t *schema, const json_t *value)
{
	const json_t *required = json_object_get(schema, "required");

	for (size_t i = 0; i < json_array_size(required); i++)
		if (json_object_get(value, json_string_value(json_array_get(required, i))) == NULL)
			return false;
	return fits_properties(j, schema, value);
}

static bool
is_from_to(const json_t *schema, const char *least, const char *most, double n)
{
	const json_t *from = json_object_get(schema, least), *to = json_object_get(schema, most);

	return (from == NULL || n >= json_number_value(from)) && (to == NULL || n <= json_number_value(to));
}

static bool
fits_array(struct judging *j, const json_t *schema, const json_t *value)
{
	const json_t *items = json_object_get(schema, "items");

	if (!is_from_to(schema, "minItems", "maxItems", (double)json_array_size(value)))
		return false;
	for (size_t i = 0; items != NULL && i < json_array_size(value); i++)
		if (!fits(j, items, json_array_get(value, i)))
			return false;
	return true;
}

/* ---- texts and numbers ---- */

static bool
fits_text(struct judging *j, const json_t *schema, const json_t *value)
{
	const char *pattern = json_string_value(json_object_get(schema, "pattern"));
	const struct policy_list list = { &pattern, 1 };
	enum body_fit fit;

	if (!is_from_to(schema, "minLength", "maxLength", (double)count_characters(value)))
		return false;
	if (pattern == NULL)
		return true;
	fit = body_regex_fits(json_string_value(value), json_string_length(value), &list, j->time);
	j->unreadable = j->unreadable || fit == BODY_UNREADABLE;
	return fit == BODY_FITS;
}

static bool
fits_number(const json_t *schema, double n)
{
	const json_t *above = json_object_get(schema, "exclusiveMinimum"), *below = json_object_get(schema, "exclusiveMaximum");

	return is_from_to(schema, "minimum", "maximum", n) && (above == NULL || n > json_number_value(above)) &&
	       (below == NULL || n < json_number_value(below));
}

/* ---- schemas of schemas ---- */

static size_t
count_fits(struct judging *j, const json_t *schemas, const json_t *value)
{
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(schemas); i++)
		n += fits(j, json_array_get(schemas, i), value);
	return n;
}

static bool
fits_together(struct judging *j, const json_t *schema, const json_t *value)
{
	const json_t *any = json_object_get(schema, "anyOf"), *all = json_object_get(schema, "allOf");
	const json_t *one = json_object_get(schema, "oneOf"), *not = json_object_get(schema, "not");

	return (any == NULL || count_fits(j, any, value) > 0) &&
	       (all == NULL || count_fits(j, all, value) == json_array_size(all)) &&
	       (one == NULL || count_fits(j, one, value) == 1) && (not == NULL || !fits(j, not, value));
}

static bool
fits_itself(struct judging *j, const json_t *schema, const json_t *value)
{
	const json_t *type = json_object_get(schema, "type"), *values = json_object_get(schema, "enum");
	const json_t *one = json_object_get(schema, "const");

	if ((type != NULL && !fits_type(type, value)) || (values != NULL && !fits_enum(values, value)) ||
	    (one != NULL && !json_equal(one, value)) || !fits_together(j, schema, value))
		return false;
	return json_is_object(value) ? fits_object(j, schema, value) :
	       json_is_array(value) ? fits_array(j, schema, value) :
	       json_is_string(value) ? fits_text(j, schema, value) :
	       !json_is_number(value) || fits_number(schema, json_number_value(value));
}

static bool
fits(struct judging *j, const json_t *schema, const json_t *value)
{
	bool result;

	if (++j->steps > STEPS_MAX || j->depth == DEPTH_MAX)
		j->unreadable = true;
	if (j->unreadable)
		return false;
	if (json_is_boolean(schema))
		return json_is_true(schema);
	j->depth++;
	result = fits_itself(j, schema, value);
	j->depth--;
	return result;
}

enum body_fit
body_schema_fits(const json_t *schema, const json_t *value, struct body_regex_time *time)
{
	struct judging j = { .time = time };
	bool result = fits(&j, schema, value);

	return j.unreadable ? BODY_UNREADABLE : result ? BODY_FITS : BODY_MISFITS;
}
