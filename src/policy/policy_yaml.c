/* policy_yaml.c - builds nodes from libyaml's events. */
#include "policy/policy_yaml.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "policy/policy_yaml_explain.h"

struct parsing {
	yaml_parser_t yaml;
	yaml_event_t event;
	bool has_event;
	const char *file, *text;
	size_t len;
	struct node *all;
	size_t n_nodes;
	struct err *err;
};

void
node_free(struct node *root)
{
	struct node *next;

	for (; root != NULL; root = next) {
		next = root->next;
		free(root->text);
		free(root->items);
		free(root->values);
		free(root);
	}
}

int
node_err(struct err *err, const struct node *node, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return err_set(err, EINVAL, "%s:%zu:%zu: %s", node->file, node->line, node->column, text);
}

/* ---- types of scalars ---- */

static bool
is_one_of(const struct node *node, const char *const *words)
{
	if (node->kind != NODE_SCALAR || !node->plain)
		return false;
	for (; *words != NULL; words++)
		if (strcmp(node->text, *words) == 0)
			return true;
	return false;
}

void
node_put_quoted(struct buf *b, const char *text, size_t len)
{
	buf_put(b, "'", 1);
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\'')
			buf_put(b, "'", 1);
		buf_put(b, text + i, 1);
	}
	buf_put(b, "'", 1);
}

bool
node_is_null(const struct node *node)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };

	return is_one_of(node, nulls);
}

bool
node_is_bool(const struct node *node, bool *ret_truth)
{
	static const char *const truths[] = { "true", "True", "TRUE", NULL };
	static const char *const lies[] = { "false", "False", "FALSE", NULL };

	if (!is_one_of(node, truths) && !is_one_of(node, lies))
		return false;
	*ret_truth = is_one_of(node, truths);
	return true;
}

bool
node_is_number(const struct node *node, double *ret_number)
{
	const char *c = node->text;
	char *end;
	double number;

	/* As in JSON: strtod takes more, such as "inf" and "0x10". */
	if (node->kind != NODE_SCALAR || !node->plain)
		return false;
	c += *c == '-';
	if (*c < '0' || *c > '9' || strspn(c, "0123456789.eE+-") != strlen(c))
		return false;
	number = strtod(node->text, &end);
	if (*end != '\0' || end[-1] == '.' || !isfinite(number) || strlen(c) > 64)
		return false;
	*ret_number = number;
	return true;
}

bool
node_is_absent(const struct node *node)
{
	static const char *const words[] = { "absent", NULL };
	bool truth = false;

	if (node->kind != NODE_MAP)
		return is_one_of(node, words);
	return node->n == 1 && strcmp(node->items[0]->text, "absent") == 0 &&
	       node_is_bool(node->values[0], &truth) && truth;
}

const struct node *
node_get(const struct node *map, const char *key)
{
	for (size_t i = 0; map->kind == NODE_MAP && i < map->n; i++)
		if (strcmp(map->items[i]->text, key) == 0)
			return map->values[i];
	return NULL;
}

/* ---- events ---- */

static void
drop_event(struct parsing *p)
{
	if (p->has_event)
		yaml_event_delete(&p->event);
	p->has_event = false;
}

static int
fail_at(struct parsing *p, yaml_mark_t mark, const char *text)
{
	return err_set(p->err, EINVAL, "%s:%zu:%zu: %s", p->file, mark.line + 1, mark.column + 1,
	               text);
}

static int
fail_yaml(struct parsing *p)
{
	yaml_parser_t *yaml = &p->yaml;
	yaml_mark_t mark = yaml->problem_mark;
	char text[POLICY_YAML_TEXT_MAX];

	if (yaml->error == YAML_MEMORY_ERROR)
		return err_set(p->err, ENOMEM, "out of memory");
	/* libyaml's reader only gives an offset.  The cause is nearly always the text's encoding. */
	if (yaml->error == YAML_READER_ERROR) {
		mark.line = mark.column = 0;
		for (size_t i = 0; i < yaml->problem_offset; i++) {
			mark.column = p->text[i] == '\n' ? 0 : mark.column + 1;
			mark.line += p->text[i] == '\n';
		}
		snprintf(text, sizeof(text), "this is not UTF-8 text (%s)", yaml->problem);
		return fail_at(p, mark, text);
	}
	policy_yaml_explain(yaml, p->text, p->len, &mark, text);
	return fail_at(p, mark, text);
}

static int
next_event(struct parsing *p)
{
	drop_event(p);
	if (yaml_parser_parse(&p->yaml, &p->event) == 0)
		return fail_yaml(p);
	p->has_event = true;
	return 0;
}

/* Refuse YAML features that make a file mean something other than it seems to. */
static int
refuse_tricks(struct parsing *p)
{
	const yaml_event_t *e = &p->event;
	const yaml_char_t *anchor = NULL, *tag = NULL;

	if (e->type == YAML_ALIAS_EVENT)
		return fail_at(p, e->start_mark, "'*' begins an alias here, which is not taken: a pattern "
		               "stands in quotes, '*.example.com'");
	if (e->type == YAML_SCALAR_EVENT) {
		anchor = e->data.scalar.anchor;
		tag = e->data.scalar.tag;
	} else if (e->type == YAML_SEQUENCE_START_EVENT) {
		anchor = e->data.sequence_start.anchor;
		tag = e->data.sequence_start.tag;
	} else if (e->type == YAML_MAPPING_START_EVENT) {
		anchor = e->data.mapping_start.anchor;
		tag = e->data.mapping_start.tag;
	}
	if (anchor != NULL)
		return fail_at(p, e->start_mark, "anchors (&name) are not taken: write it out again");
	if (tag != NULL)
		return fail_at(p, e->start_mark, "tags (!name) are not taken: leave it out");
	return 0;
}

/* ---- nodes ---- */

static int
new_node(struct parsing *p, enum node_kind kind, struct node **ret_node)
{
	struct node *node;

	if (p->n_nodes == NODE_NODES_MAX)
		return fail_at(p, p->event.start_mark, "there is too much in this file");
	node = calloc(1, sizeof(*node));
	if (node == NULL)
		return err_set(p->err, ENOMEM, "out of memory");
	node->kind = kind;
	node->file = p->file;
	node->line = p->event.start_mark.line + 1;
	node->column = p->event.start_mark.column + 1;
	/* The root stays first: callers pass it to node_free(). */
	if (p->all == NULL) {
		p->all = node;
	} else {
		node->next = p->all->next;
		p->all->next = node;
	}
	p->n_nodes++;
	*ret_node = node;
	return 0;
}

static int
take_scalar(struct parsing *p, struct node **ret_node)
{
	const char *text = (const char *)p->event.data.scalar.value;
	size_t len = p->event.data.scalar.length, step;
	struct node *node;
	uint32_t code;
	int r;

	for (size_t i = 0; i < len; i += step) {
		step = utf8_next(text + i, len - i, &code);
		if (step == 0 || (utf8_is_control(code) && code != '\n' && code != '\t'))
			return fail_at(p, p->event.start_mark,
			               "there is a control character in this text");
	}
	r = new_node(p, NODE_SCALAR, &node);
	if (r < 0)
		return r;
	node->plain = p->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	node->text = strndup(text, len);
	if (node->text == NULL)
		return err_set(p->err, ENOMEM, "out of memory");
	*ret_node = node;
	return 0;
}

static int
grow(struct parsing *p, struct node *node)
{
	struct node **items, **values;
	size_t cap = node->n == 0 ? 4 : node->n * 2;

	if (node->n == NODE_MEMBERS_MAX)
		return node_err(p->err, node, "this has more than %d members", NODE_MEMBERS_MAX);
	if (node->n != 0 && (node->n < 4 || (node->n & (node->n - 1)) != 0))
		return 0;
	items = realloc(node->items, cap * sizeof(struct node *));
	if (items != NULL)
		node->items = items;
	values = realloc(node->values, cap * sizeof(struct node *));
	if (values != NULL)
		node->values = values;
	return items == NULL || values == NULL ? err_set(p->err, ENOMEM, "out of memory") : 0;
}

static int
check_key(struct parsing *p, const struct node *map, const struct node *key)
{
	if (key->kind != NODE_SCALAR)
		return node_err(p->err, key, "a key is a word, not a list or a map");
	if (strcmp(key->text, "<<") == 0)
		return node_err(p->err, key, "merge keys (<<) are not taken: write it out again");
	for (size_t i = 0; i < map->n; i++)
		if (strcmp(map->items[i]->text, key->text) == 0)
			return node_err(p->err, key, "'%s' is here twice: it was said on line %zu",
			                key->text, map->items[i]->line);
	return 0;
}

static int take_node(struct parsing *p, unsigned depth, struct node **ret_node);

static int
take_members(struct parsing *p, struct node *node, unsigned depth)
{
	yaml_event_type_t end = node->kind == NODE_MAP ? YAML_MAPPING_END_EVENT :
	                                                 YAML_SEQUENCE_END_EVENT;
	struct node *item = NULL, *value = NULL;
	int r;

	for (;;) {
		r = next_event(p);
		if (r < 0 || p->event.type == end)
			return r;
		r = take_node(p, depth, &item);
		if (r == 0 && node->kind == NODE_MAP) {
			r = check_key(p, node, item);
			r = r == 0 ? next_event(p) : r;
			r = r == 0 ? take_node(p, depth, &value) : r;
		}
		r = r == 0 ? grow(p, node) : r;
		if (r < 0)
			return r;
		node->items[node->n] = item;
		node->values[node->n++] = value;
	}
}

/* Build the node that begins with the current event. */
static int
take_node(struct parsing *p, unsigned depth, struct node **ret_node)
{
	struct node *node;
	int r = refuse_tricks(p);

	if (r < 0)
		return r;
	if (depth == NODE_DEPTH_MAX)
		return fail_at(p, p->event.start_mark, "this is nested too deeply");
	if (p->event.type == YAML_SCALAR_EVENT)
		return take_scalar(p, ret_node);
	r = new_node(p, p->event.type == YAML_MAPPING_START_EVENT ? NODE_MAP : NODE_LIST, &node);
	if (r < 0)
		return r;
	*ret_node = node;
	return take_members(p, node, depth + 1);
}

static int
take_document(struct parsing *p)
{
	struct node *root;
	int r = next_event(p);          /* the stream's start */

	r = r == 0 ? next_event(p) : r;
	if (r == 0 && p->event.type == YAML_STREAM_END_EVENT)
		return new_node(p, NODE_MAP, &root);
	r = r == 0 ? next_event(p) : r;
	r = r == 0 ? take_node(p, 0, &root) : r;
	r = r == 0 ? next_event(p) : r; /* the document's end */
	r = r == 0 ? next_event(p) : r;
	if (r == 0 && p->event.type != YAML_STREAM_END_EVENT)
		return fail_at(p, p->event.start_mark, "a second document begins here: a file has one");
	return r;
}

int
node_parse(const char *file, const char *text, size_t len, struct node **ret_root,
           struct err *err)
{
	static const char mark[3] = { '\xef', '\xbb', '\xbf' };
	struct parsing p = { .file = file, .err = err };
	int r;

	if (len >= sizeof(mark) && memcmp(text, mark, sizeof(mark)) == 0) {
		text += sizeof(mark);
		len -= sizeof(mark);
	}
	p.text = text;
	p.len = len;
	if (yaml_parser_initialize(&p.yaml) == 0)
		return err_set(err, ENOMEM, "out of memory");
	yaml_parser_set_encoding(&p.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&p.yaml, (const unsigned char *)text, len);
	r = take_document(&p);
	drop_event(&p);
	yaml_parser_delete(&p.yaml);
	if (r < 0)
		node_free(p.all);
	else
		*ret_root = p.all;
	return r;
}
