/* policy_yaml.h - YAML as a tree of nodes that know where they stand.
 *
 * The part of YAML that cannot surprise: one document of maps, lists and scalars.  No
 * anchors, aliases, tags or merge keys, no name twice in one map. */
#ifndef CLOISTER_POLICY_YAML_H
#define CLOISTER_POLICY_YAML_H
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

#define NODE_DEPTH_MAX 16
#define NODE_NODES_MAX 200000
#define NODE_MEMBERS_MAX 4096           /* of one map or list */

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node {
	enum node_kind kind;
	const char *file;               /* what errors call it */
	size_t line, column;            /* from 1 */
	/* a scalar's: UTF-8 without control characters but tab and newline */
	char *text;
	bool plain;                     /* not quoted: may be a number, true, null ... */
	/* a list's items; a map's keys, each with its value */
	struct node **items, **values;
	size_t n;
	struct node *next;         /* of all nodes, for node_free() */
};

/* The caller owns *ret_root; FILE must outlive it.  An empty text is an empty map. */
int node_parse(const char *file, const char *text, size_t len, struct node **ret_root,
               struct err *err);
void node_free(struct node *root);
void node_freep(struct node **root);

/* Set "file:line:column: MESSAGE"; returns -EINVAL. */
int node_err(struct err *err, const struct node *node, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* TEXT as a scalar, whatever is in it: in single quotes. */
void node_put_quoted(struct buf *b, const char *text, size_t len);

bool node_is_null(const struct node *node);
bool node_is_bool(const struct node *node, bool *ret_truth);
bool node_is_number(const struct node *node, double *ret_number);
/* The word `absent` without quotes, or where every word has quotes, {"absent": true}. */
bool node_is_absent(const struct node *node);
/* What KEY stands for in MAP, or NULL. */
const struct node *node_get(const struct node *map, const char *key);
#endif
