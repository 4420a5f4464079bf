/* policy_yaml.h - parses YAML into a tree of nodes with their positions.
 *
 * Accepts only the unsurprising part of YAML: one document of maps, lists and scalars.  It refuses
 * anchors, aliases, tags, merge keys and duplicate names in a map. */
#ifndef CLOISTER_POLICY_YAML_H
#define CLOISTER_POLICY_YAML_H
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"

struct buf;
struct err;

#define NODE_DEPTH_MAX 16
#define NODE_NODES_MAX 200000
#define NODE_MEMBERS_MAX 4096           /* of one map or list */

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node {
	enum node_kind kind;
	const char *file;               /* its name in errors */
	size_t line, column;            /* from 1 */
	/* scalars: UTF-8 without control characters but tab and newline */
	char *text;
	bool plain;                     /* not quoted: may be a number, true, null ... */
	/* lists: the items; maps: the keys, each with its value */
	struct node **items, **values;
	size_t n;
	struct node *next;         /* the list of all nodes, for node_free() */
};

/* The caller owns *ret_root; FILE must outlive it.  An empty text is an empty map. */
int node_parse(const char *file, const char *text, size_t len, struct node **ret_root,
               struct err *err);
void node_free(struct node *root);
OWN_BY(node_freep, struct node *, node_free)

/* Set "file:line:column: MESSAGE"; returns -EINVAL. */
int node_err(struct err *err, const struct node *node, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Append any TEXT as a scalar in single quotes. */
void node_put_quoted(struct buf *b, const char *text, size_t len);

/* Append NODE as JSON. */
void node_put_json(struct buf *b, const struct node *node);

bool node_is_null(const struct node *node);
bool node_is_bool(const struct node *node, bool *ret_truth);
bool node_is_number(const struct node *node, double *ret_number);
/* The word `absent` without quotes.  Where every word has quotes (JSON), {"absent": true}. */
bool node_is_absent(const struct node *node);
/* The value of KEY in MAP, or NULL. */
const struct node *node_get(const struct node *map, const char *key);
#endif
