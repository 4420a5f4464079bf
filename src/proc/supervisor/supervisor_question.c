/* supervisor_question.c - parses COURIER_ASK: the courier's description of a request that waits for
 * approval. */
#include <errno.h>
#include <string.h>

#include "proc/supervisor/supervisor_approvals.h"

static int
get_text(struct buf *b, size_t max, const char **ret_text)
{
	return buf_get_str(b, ret_text) < 0 || strlen(*ret_text) > max ? -EBADMSG : 0;
}

static int
get_texts(struct buf *b, size_t each, const char **texts, uint32_t max, uint32_t *ret_n)
{
	int r = buf_get_u32(b, ret_n) < 0 || *ret_n > max ? -EBADMSG : 0;

	for (uint32_t i = 0; r == 0 && i < *ret_n; i++)
		r = get_text(b, each, &texts[i]);
	return r;
}

static int
get_head(struct buf *b, struct approval_question *q)
{
	if (get_text(b, 8, &q->protocol) < 0 || get_text(b, 64, &q->method) < 0 ||
	    get_text(b, 8, &q->scheme) < 0 || get_text(b, 300, &q->host) < 0 ||
	    buf_get_u32(b, &q->port) < 0 || q->port > UINT16_MAX ||
	    get_text(b, COURIER_ASK_PATH, &q->path) < 0 ||
	    get_text(b, COURIER_ASK_SHAPE, &q->query) < 0)
		return -EBADMSG;
	return 0;
}

int
approval_question_get(struct buf *b, struct approval_question *q)
{
	if (buf_get_u64(b, &q->number) < 0 || q->number == 0 || buf_get_u64(b, &q->ms) < 0 ||
	    q->ms == 0 || q->ms > COURIER_ASK_MS || buf_get_u32(b, &q->needs) < 0 || q->needs == 0 ||
	    q->needs > COURIER_ASK_APPROVALS || buf_get_u32(b, &q->freeze) < 0 || q->freeze > 1 ||
	    buf_left(b) < COURIER_ASK_RULE)
		return -EBADMSG;
	q->rule = b->data + b->pos;
	b->pos += COURIER_ASK_RULE;
	if (get_head(b, q) < 0 || get_text(b, COURIER_ASK_TEXT, &q->text) < 0 ||
	    get_text(b, COURIER_ASK_TEXT, &q->place) < 0 ||
	    get_text(b, COURIER_ASK_TEXT, &q->reason) < 0 ||
	    get_text(b, COURIER_ASK_TYPE, &q->type) < 0 || buf_get_u64(b, &q->size) < 0 ||
	    get_text(b, COURIER_ASK_SHAPE, &q->shape) < 0 ||
	    get_texts(b, COURIER_ASK_APPROVER, q->secrets, COURIER_ASK_SECRETS, &q->n_secrets) < 0 ||
	    get_texts(b, COURIER_ASK_APPROVER, q->approvers, COURIER_ASK_APPROVERS,
	              &q->n_approvers) < 0 || get_text(b, COURIER_ASK_SHAPE, &q->headers) < 0)
		return -EBADMSG;
	return buf_left(b) == 0 ? 0 : -EBADMSG;
}
