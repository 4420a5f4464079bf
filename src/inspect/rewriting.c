/* rewriting.c - see rewriting.h. */
#include "inspect/rewriting.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_rewrite.h"

static char *
copy(struct http_text text)
{
	return strndup(text.at, text.len);
}

int
rewriting_new(const struct rewriting_order *order, struct rewriting **ret_rewriting)
{
	struct rewriting *w = calloc(1, sizeof(*w));
	const struct policy_rewrite *own = policy_rewrite_of(order->policy, order->rule);
	int r = 0;

	if (w == NULL)
		return -ENOMEM;
	buf_init(&w->in, REWRITING_MAX);
	buf_init(&w->out, REWRITING_MAX);
	w->type = copy(order->content_type);
	w->coding = copy(order->content_coding);
	if (w->type == NULL || w->coding == NULL)
		r = -ENOMEM;
	if (r == 0 && order->answer.len > 0)
		r = policy_hook_get(order->answer.at, order->answer.len, &w->hook, NULL);
	if (r < 0) {
		rewriting_free(w);
		return r;
	}
	if (w->hook.rewrite != NULL)
		w->at[w->n++] = w->hook.rewrite;
	if (own != NULL)
		w->at[w->n++] = own;
	*ret_rewriting = w;
	return 0;
}

void
rewriting_free(struct rewriting *w)
{
	if (w == NULL)
		return;
	policy_hook_answer_free(&w->hook);
	buf_free(&w->in);
	buf_free(&w->out);
	free(w->type);
	free(w->coding);
	free(w);
}

bool
rewriting_feed(struct rewriting *w, const void *data, size_t len)
{
	if (w->done)
		return false;
	buf_put(&w->in, data, len);
	return !buf_failed(&w->in);
}

void
rewriting_finish(struct rewriting *w)
{
	struct http_head head = { .length = w->in.len };
	struct err err = {0};

	if (w->done)
		return;
	w->done = true;
	if (w->type[0] != '\0')
		head.fields[head.n_fields++] = (struct http_field){ { "content-type", 12 },
			{ w->type, strlen(w->type) } };
	if (w->coding[0] != '\0')
		head.fields[head.n_fields++] = (struct http_field){ { "content-encoding", 16 },
			{ w->coding, strlen(w->coding) } };
	for (size_t i = 0; i < w->n; i++) {
		buf_reset(&w->out);
		if (policy_rewrite_body(w->at[i], &head, w->in.data == NULL ? "" : (char *)w->in.data,
		                        w->in.len, &w->out, &w->changed[i], &err) < 0) {
			snprintf(w->why, sizeof(w->why), "%.200s", err.text);
			return;
		}
		if (i + 1 < w->n) {
			struct buf next = w->in;

			w->in = w->out;
			w->out = next;
		}
	}
}
