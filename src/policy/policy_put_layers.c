/* policy_put_layers.c - encodes what a policy's layers have each, behind their number. */
#include "policy/policy_parts.h"

void
policy_put_layers(struct buf *b, const struct policy *p, void (*put)(struct buf *b, const struct policy *layer))
{
	uint32_t layers = 0;

	for (const struct policy *at = p; at != NULL; at = at->within)
		layers++;
	buf_put_u32(b, layers);
	for (; p != NULL; p = p->within)
		put(b, p);
}

void
policy_get_layers(struct policy_getting *g, bool layers, void (*get)(struct policy_getting *g))
{
	uint32_t n = policy_get_upto(g, POLICY_LAYERS_MAX);
	struct policy *p = g->p, *first = g->p;

	for (uint32_t i = 0; !g->bad && i < n; i++) {
		if (i > 0 && p->within == NULL && !layers)
			p->within = policy_new_empty();
		p = i > 0 ? p->within : p;
		g->bad |= p == NULL;
		g->p = p;
		if (!g->bad)
			get(g);
	}
	g->p = first;
	g->bad |= n == 0 || (layers && p != NULL && p->within != NULL);
}
