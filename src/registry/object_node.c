/* object_node.c - converts JSON to the nodes from which policies are read, and back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "canon/canon.h"
#include "registry/object_parts.h"

const char object_json_file[] = "json";

/* ---- JSON to nodes ---- */

struct making {
	struct node *all;
	size_t n_nodes, n_values;
	struct err *err;
};

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

static int
new_node(struct making *m, enum node_kind kind, struct node **ret_node)
{
	struct node *node;

	if (++m->n_nodes > NODE_NODES_MAX)
		return err_set(m->err, E2BIG, "there is too much in this");
	node = calloc(1, sizeof(*node));
	if (node == NULL)
		return no_memory(m->err);
	node->kind = kind;
	node->file = object_json_file;
	node->line = m->n_values;
	node->column = 1;
	if (m->all == NULL) {
		m->all = node;
	} else {
		node->next = m->all->next;
		m->all->next = node;
	}
	*ret_node = node;
	return 0;
}

static int
new_scalar(struct making *m, const char *text, bool plain, struct node **ret_node)
{
	size_t len = strlen(text), step;
	struct node *node;
	uint32_t code;
	int r = new_node(m, NODE_SCALAR, &node);

	if (r < 0)
		return r;
	node->plain = plain;
	node->text = strdup(text);
	if (node->text == NULL)
		return no_memory(m->err);
	for (size_t i = 0; i < len; i += step) {
		step = utf8_next(text + i, len - i, &code);
		if (step == 0 || (utf8_is_control(code) && code != '\n' && code != '\t'))
			return node_err(m->err, node, "there is a control character in this text");
	}
	*ret_node = node;
	return 0;
}

static int
take_scalar(struct making *m, json_t *value, struct node **ret_node)
{
	char number[CANON_NUMBER_MAX];

	switch (json_typeof(value)) {
	case JSON_STRING:
		return new_scalar(m, json_string_value(value), false, ret_node);
	case JSON_TRUE:
		return new_scalar(m, "true", true, ret_node);
	case JSON_FALSE:
		return new_scalar(m, "false", true, ret_node);
	case JSON_NULL:
		return new_scalar(m, "null", true, ret_node);
	default:
		canon_number(json_number_value(value), number);
		return new_scalar(m, number, true, ret_node);
	}
}

static int take_value(struct making *m, json_t *value, unsigned depth, struct node **ret_node);

static int
take_members(struct making *m, json_t *value, unsigned depth, struct node *node)
{
	size_t n = json_is_array(value) ? json_array_size(value) : json_object_size(value);
	const char *name;
	json_t *member;
	int r = 0;

	if (n > NODE_MEMBERS_MAX)
		return node_err(m->err, node, "this has more than %d members", NODE_MEMBERS_MAX);
	node->items = calloc(n + 1, sizeof(struct node *));
	node->values = calloc(n + 1, sizeof(struct node *));
	if (node->items == NULL || node->values == NULL)
		return no_memory(m->err);
	for (size_t i = 0; r == 0 && i < json_array_size(value); i++) {
		r = take_value(m, json_array_get(value, i), depth, &node->items[i]);
		node->n += r == 0;
	}
	json_object_foreach(value, name, member) {
		if (r < 0)
			break;
		/* A key has the place of its value, which comes next. */
		m->n_values++;
		r = new_scalar(m, name, false, &node->items[node->n]);
		m->n_values--;
		r = r == 0 ? take_value(m, member, depth, &node->values[node->n]) : r;
		node->n += r == 0;
	}
	return r;
}

static int
take_value(struct making *m, json_t *value, unsigned depth, struct node **ret_node)
{
	int r;

	m->n_values++;
	if (!json_is_object(value) && !json_is_array(value))
		return take_scalar(m, value, ret_node);
	r = new_node(m, json_is_object(value) ? NODE_MAP : NODE_LIST, ret_node);
	if (r == 0 && depth == NODE_DEPTH_MAX)
		return node_err(m->err, *ret_node, "this is nested too deeply");
	return r < 0 ? r : take_members(m, value, depth + 1, *ret_node);
}

int
object_to_nodes(json_t *value, struct node **ret_root, struct err *err)
{
	struct making m = { .err = err };
	struct node *root = NULL;
	int r = take_value(&m, value, 0, &root);

	if (r < 0)
		node_free(m.all);
	else
		*ret_root = root;
	return r;
}

/* ---- places in JSON ---- */

struct place {
	size_t left;                    /* values to go */
	char text[OBJECT_POINTER_MAX];
};

static size_t
append_name(char text[OBJECT_POINTER_MAX], size_t len, const char *name)
{
	const size_t start = len;

	if (len + 1 < OBJECT_POINTER_MAX)
		text[len++] = '/';
	for (; *name != '\0' && len + 3 < OBJECT_POINTER_MAX; name++) {
		if (*name == '~' || *name == '/') {
			text[len++] = '~';
			text[len++] = *name == '~' ? '0' : '1';
		} else {
			text[len++] = *name;
		}
	}
	/* Half a name would be a place that does not exist. */
	if (*name != '\0')
		len = start;
	text[len] = '\0';
	return len;
}

static bool
find_value(struct place *p, json_t *value, size_t len)
{
	const char *name;
	json_t *member;
	char index[24];

	if (--p->left == 0)
		return true;
	for (size_t i = 0; i < json_array_size(value); i++) {
		snprintf(index, sizeof(index), "%zu", i);
		if (find_value(p, json_array_get(value, i), append_name(p->text, len, index)))
			return true;
	}
	json_object_foreach(value, name, member)
		if (find_value(p, member, append_name(p->text, len, name)))
			return true;
	p->text[len] = '\0';
	return false;
}

/* "json:17:1", if TEXT begins with it: returns its length. */
static size_t
take_place(json_t *value, const char *text, char ret_pointer[OBJECT_POINTER_MAX])
{
	struct place p = {0};
	size_t n = strlen(object_json_file);
	char *end;

	if (strncmp(text, object_json_file, n) != 0 || text[n] != ':')
		return 0;
	p.left = strtoul(text + n + 1, &end, 10);
	if (end[0] != ':' || end[1] != '1' || p.left == 0 || !find_value(&p, value, 0))
		return 0;
	memcpy(ret_pointer, p.text, sizeof(p.text));
	return (size_t)(end + 2 - text);
}

void
object_find_pointer(json_t *value, char ret_pointer[OBJECT_POINTER_MAX], struct err *err)
{
	char text[ERR_TEXT_MAX], pointer[OBJECT_POINTER_MAX];
	const char *from = err->text;
	size_t n = take_place(value, from, ret_pointer), len = 0;

	if (n == 0)
		ret_pointer[0] = '\0';
	else
		from += n + strspn(from + n, ": ");
	/* The text may contain another place. */
	while (*from != '\0' && len + OBJECT_POINTER_MAX < sizeof(text)) {
		n = take_place(value, from, pointer);
		if (n == 0) {
			text[len++] = *from++;
			continue;
		}
		len += (size_t)snprintf(text + len, OBJECT_POINTER_MAX, "%s", pointer);
		from += n;
	}
	text[len] = '\0';
	memcpy(err->text, text, len + 1);
}

/* ---- nodes to JSON ---- */

static int
scalar_to_json(const struct node *node, json_t **ret_value, struct err *err)
{
	char canonical[CANON_NUMBER_MAX];
	double number;
	bool truth;

	if (node_is_null(node)) {
		*ret_value = json_null();
	} else if (node_is_absent(node)) {
		*ret_value = json_pack("{s:b}", "absent", 1);
	} else if (node_is_bool(node, &truth)) {
		*ret_value = json_boolean(truth);
		snprintf(canonical, sizeof(canonical), "%s", truth ? "true" : "false");
		if (strcmp(node->text, canonical) != 0)
			return node_err(err, node, "is this the text '%s', or %s? Write '%s' in quotes, or %s",
			                node->text, canonical, node->text, canonical);
	} else if (node_is_number(node, &number)) {
		*ret_value = json_real(number);
		canon_number(number, canonical);
		if (strcmp(node->text, canonical) != 0)
			return node_err(err, node, "is this the text '%s', or the number %s? Write '%s' in "
			                "quotes, or %s", node->text, canonical, node->text, canonical);
	} else {
		*ret_value = json_string(node->text);
	}
	return *ret_value == NULL ? no_memory(err) : 0;
}

int
object_from_node(const struct node *node, json_t **ret_value, struct err *err)
{
	OWN(json_decrefp) json_t *value = NULL;
	json_t *member;
	int r = 0;

	if (node->kind == NODE_SCALAR) {
		r = scalar_to_json(node, &value, err);
	} else {
		value = node->kind == NODE_MAP ? json_object() : json_array();
		for (size_t i = 0; r == 0 && i < node->n; i++) {
			member = NULL;
			r = object_from_node(node->kind == NODE_MAP ? node->values[i] : node->items[i],
			                     &member, err);
			if (r == 0 && (node->kind == NODE_MAP ?
			               json_object_set_new(value, node->items[i]->text, member) :
			               json_array_append_new(value, member)) < 0)
				r = no_memory(err);
		}
	}
	if (r == 0 && value == NULL)
		r = no_memory(err);
	if (r < 0)
		return r;
	*ret_value = TAKE(value);
	return 0;
}

int
object_read_text(const struct node *node, const char *what, size_t max, const char **ret_text,
                 struct err *err)
{
	if (node->kind != NODE_SCALAR)
		return node_err(err, node, "%s is text, not a %s", what,
		                node->kind == NODE_MAP ? "map" : "list");
	if (node_is_null(node))
		return node_err(err, node, "%s is missing here", what);
	if (node->plain && node->file == object_json_file)
		return node_err(err, node, "%s is text: write \"%s\" in quotes", what, node->text);
	if (strlen(node->text) > max)
		return node_err(err, node, "%s is longer than %zu bytes", what, max);
	*ret_text = node->text;
	return 0;
}
