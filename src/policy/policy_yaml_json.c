/* policy_yaml_json.c - writes nodes as JSON: see policy_yaml.h. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "canon/canon_text.h"
#include "policy/policy_yaml.h"

/* Nodes are at most NODE_DEPTH_MAX deep. */
void
node_put_json(struct buf *b, const struct node *node)
{
	double number;
	bool truth;

	if (node->kind == NODE_SCALAR) {
		if (node_is_null(node))
			buf_put_text(b, "null");
		else if (node_is_bool(node, &truth))
			buf_put_text(b, truth ? "true" : "false");
		else if (node_is_number(node, &number)) {
			char text[64];

			snprintf(text, sizeof(text), "%.17g", number);
			buf_put_text(b, text);
		} else
			canon_put_string(b, node->text, strlen(node->text));
		return;
	}
	buf_put_text(b, node->kind == NODE_MAP ? "{" : "[");
	for (size_t i = 0; i < node->n; i++) {
		buf_put_text(b, i > 0 ? "," : "");
		if (node->kind == NODE_MAP) {
			canon_put_string(b, node->items[i]->text, strlen(node->items[i]->text));
			buf_put_text(b, ":");
		}
		node_put_json(b, node->kind == NODE_MAP ? node->values[i] : node->items[i]);
	}
	buf_put_text(b, node->kind == NODE_MAP ? "}" : "]");
}
