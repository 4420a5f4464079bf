/* policy_field.c - reads and writes the fields of encoded policies and similar messages. */
#include <string.h>

#include "policy/policy_parts.h"

void
policy_put_list(struct buf *b, const struct policy_list *list)
{
	buf_put_u32(b, (uint32_t)list->n);
	for (size_t i = 0; i < list->n; i++)
		buf_put_str(b, list->at[i]);
}

uint32_t
policy_get_upto(struct policy_getting *g, uint32_t max)
{
	uint32_t v = 0;

	if (g->bad || buf_get_u32(g->b, &v) < 0 || v > max)
		g->bad = true;
	return g->bad ? 0 : v;
}

const char *
policy_get_text(struct policy_getting *g, size_t max)
{
	const char *text = "", *copy;
	size_t len;

	if (g->bad || buf_get_str(g->b, &text) < 0 || (len = strlen(text)) > max ||
	    (copy = policy_copy(g->p, text, len)) == NULL) {
		g->bad = true;
		return "";
	}
	return copy;
}

struct policy_list
policy_get_list(struct policy_getting *g, uint32_t max)
{
	size_t n = policy_get_upto(g, max);
	const char **at;

	if (n == 0)
		return (struct policy_list){0};
	at = policy_alloc(g->p, n, sizeof(*at));
	g->bad |= at == NULL;
	for (size_t i = 0; !g->bad && i < n; i++)
		at[i] = policy_get_text(g, POLICY_TEXT_MAX);
	return (struct policy_list){ at, g->bad ? 0 : n };
}

bool
policy_get_bool(struct policy_getting *g)
{
	return policy_get_upto(g, 1) != 0;
}

uint64_t
policy_get_u64(struct policy_getting *g)
{
	uint64_t v = 0;

	if (g->bad || buf_get_u64(g->b, &v) < 0)
		g->bad = true;
	return v;
}

void *
policy_get_room(struct policy_getting *g, size_t n, size_t size)
{
	void *room = g->bad ? NULL : policy_alloc(g->p, n, size);

	g->bad |= room == NULL;
	return room;
}
