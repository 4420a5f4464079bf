/* h2_client.h - declarations shared by the files of HTTP/2. */
#ifndef CLOISTER_UPSTREAM_H2_CLIENT_H
#define CLOISTER_UPSTREAM_H2_CLIENT_H
#include <nghttp2/nghttp2.h>

#include "upstream/upstream.h"

/* The block of fields that is being read; one at a time on a connection. */
struct h2_block {
	struct http_head head;
	bool has_status, is_bad;
	size_t len;
	char text[HTTP_HEAD_MAX];
};

struct h2 {
	nghttp2_session *session;
	struct h2_block *block;         /* allocated while needed */
	struct transfer *reading;       /* its transfer; NULL: it has ended */
	size_t n;                       /* transfers, in up->transfer */
	bool goes_away;
};

/* ---- h2_client.c ---- */

/* The transfer on stream ID.  NULL: it has left the connection. */
struct transfer *h2_find(const struct upstream *up, int32_t id);
/* T is no longer on the connection. */
void h2_unlink(struct upstream *up, struct transfer *t);
void h2_cancel(struct upstream *up, struct transfer *t);

/* ---- h2_answer.c ---- */

void h2_set_answer_callbacks(nghttp2_session_callbacks *callbacks);
/* The owner passed on bytes of T's response that were kept for it. */
void h2_given(struct upstream *up, struct transfer *t);
#endif
