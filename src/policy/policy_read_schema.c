/* policy_read_schema.c - reads JSON Schema in a rule: only keywords that src/inspect evaluates.
 *
 * A keyword that it does not know is an error: such a rule could not be enforced. */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "policy/policy_load.h"

enum form { FORM_TYPES, FORM_ANY, FORM_VALUES, FORM_SCHEMAS_BY_NAME, FORM_SCHEMAS, FORM_SCHEMA, FORM_SCHEMA_OR_BOOL,
            FORM_NAMES, FORM_COUNT, FORM_NUMBER, FORM_REGEX, FORM_TEXT };
static const struct {
	const char *name;
	enum form form;
} keywords[] = {
	{ "type", FORM_TYPES }, { "enum", FORM_VALUES }, { "const", FORM_ANY },
	{ "properties", FORM_SCHEMAS_BY_NAME }, { "required", FORM_NAMES }, { "additionalProperties", FORM_SCHEMA_OR_BOOL },
	{ "items", FORM_SCHEMA }, { "minItems", FORM_COUNT }, { "maxItems", FORM_COUNT },
	{ "minLength", FORM_COUNT }, { "maxLength", FORM_COUNT }, { "pattern", FORM_REGEX },
	{ "minimum", FORM_NUMBER }, { "maximum", FORM_NUMBER },
	{ "exclusiveMinimum", FORM_NUMBER }, { "exclusiveMaximum", FORM_NUMBER },
	{ "anyOf", FORM_SCHEMAS }, { "allOf", FORM_SCHEMAS }, { "oneOf", FORM_SCHEMAS }, { "not", FORM_SCHEMA },
	{ "title", FORM_TEXT }, { "description", FORM_TEXT },
};
static const char *const types[] = { "object", "array", "string", "number", "integer", "boolean", "null", NULL };

/* ---- checks ---- */

static int check_schema(struct policy_draft *d, const struct node *node);

static int
check_type(struct policy_draft *d, const struct node *node)
{
	for (size_t k = 0; node->kind == NODE_SCALAR && types[k] != NULL; k++)
		if (strcmp(types[k], node->text) == 0)
			return 0;
	return node_err(d->err, node, "a type is object, array, string, number, integer, boolean or null");
}

static int
check_items(struct policy_draft *d, const struct node *node, int (*check)(struct policy_draft *d, const struct node *node))
{
	int r = 0;

	if (node->kind != NODE_LIST || node->n == 0 || node->n > POLICY_LIST_MAX)
		return node_err(d->err, node, "here stands a list of 1 to %d items", POLICY_LIST_MAX);
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = check(d, node->items[i]);
	return r;
}

static int
check_name(struct policy_draft *d, const struct node *node)
{
	return node->kind == NODE_SCALAR ? 0 : node_err(d->err, node, "here stands a name");
}

static int
check_any(struct policy_draft *d, const struct node *node)
{
	(void)d, (void)node;
	return 0;
}

static int
check_number(struct policy_draft *d, const struct node *node, bool counts)
{
	double number;

	return node_is_number(node, &number) && (!counts || (number >= 0 && number < 1e15 && floor(number) == number)) ? 0 :
	       node_err(d->err, node, counts ? "here stands a whole number" : "here stands a number");
}

static int
check_keyword(struct policy_draft *d, const struct node *node, enum form form)
{
	bool truth;
	int r = 0;

	switch (form) {
	case FORM_TYPES:
		return node->kind == NODE_LIST ? check_items(d, node, check_type) : check_type(d, node);
	case FORM_VALUES:
		return check_items(d, node, check_any);
	case FORM_SCHEMAS_BY_NAME:
		if (node->kind != NODE_MAP)
			return node_err(d->err, node, "`properties` is a map of schemas");
		for (size_t i = 0; r == 0 && i < node->n; i++)
			r = check_schema(d, node->values[i]);
		return r;
	case FORM_SCHEMAS:
		return check_items(d, node, check_schema);
	case FORM_SCHEMA_OR_BOOL:
		return node_is_bool(node, &truth) ? 0 : check_schema(d, node);
	case FORM_SCHEMA:
		return check_schema(d, node);
	case FORM_NAMES:
		return check_items(d, node, check_name);
	case FORM_COUNT:
	case FORM_NUMBER:
		return check_number(d, node, form == FORM_COUNT);
	case FORM_REGEX:
		return node->kind == NODE_SCALAR ? policy_check_regex(d, node, node->text) : check_name(d, node);
	case FORM_TEXT:
		return check_name(d, node);
	default:
		return 0;
	}
}

static int
check_schema(struct policy_draft *d, const struct node *node)
{
	const char *names[ARRAY_LEN(keywords) + 1] = { NULL };
	int r = 0;

	for (size_t k = 0; k < ARRAY_LEN(keywords); k++)
		names[k] = keywords[k].name;
	if (node->kind != NODE_MAP)
		return node_err(d->err, node, "a schema is a map: {type: string}");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		size_t k = 0;

		while (names[k] != NULL && strcmp(names[k], node->items[i]->text) != 0)
			k++;
		r = names[k] == NULL ? policy_read_unknown(node->items[i], names, "in a schema", d->err) :
		    check_keyword(d, node->values[i], keywords[k].form);
	}
	return r;
}

int
policy_read_schema(struct policy_draft *d, const struct node *node, const char **ret_json)
{
	OWN(buf_free) struct buf b = BUF(POLICY_SCHEMA_MAX);
	int r = check_schema(d, node);

	if (r < 0)
		return r;
	node_put_json(&b, node);
	if (buf_failed(&b))
		return node_err(d->err, node, "a schema is larger than %d KiB", POLICY_SCHEMA_MAX / 1024);
	*ret_json = policy_copy(d->p, (const char *)b.data, b.len);
	return *ret_json != NULL ? 0 : policy_read_oom(d);
}
