/* rewriting.h - changes a request's body as a rule and a hook ask (policy_rewrite.h). */
#ifndef CLOISTER_INSPECT_REWRITING_H
#define CLOISTER_INSPECT_REWRITING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/http_head.h"
#include "policy/policy_hook.h"

#define REWRITING_MAX ((size_t)64 * 1024 * 1024)        /* bytes of a body */

struct rewriting_order {
	struct http_text content_type, content_coding;
	const struct policy *policy;    /* borrowed until rewriting_free() */
	int rule;                       /* whose rewrite is made last; -1: none */
	struct http_text answer;        /* of a hook, whose rewrite is made first; empty: none */
};

struct rewriting {
	char *type, *coding;
	struct policy_hook_answer hook;
	const struct policy_rewrite *at[2];     /* what is made, in this order */
	size_t n;
	struct buf in;
	/* With DONE: */
	bool done;
	struct buf out;                 /* the changed body */
	uint64_t changed[2];            /* bits of the edits that changed something */
	char why[256];                  /* why it cannot be changed, or "" */
};

/* -EINVAL: the answer is not valid; -ENOMEM. */
int rewriting_new(const struct rewriting_order *order, struct rewriting **ret_rewriting);
void rewriting_free(struct rewriting *w);       /* NULL is fine */
/* False: the body is too large. */
bool rewriting_feed(struct rewriting *w, const void *data, size_t len);
void rewriting_finish(struct rewriting *w);
#endif
