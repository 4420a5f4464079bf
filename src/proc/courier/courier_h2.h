/* courier_h2.h - declarations shared by the files of HTTP/2. */
#ifndef CLOISTER_COURIER_H2_H
#define CLOISTER_COURIER_H2_H
#include <nghttp2/nghttp2.h>

#include "proc/courier/courier_upstream.h"

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
	struct exchange *reading;       /* its exchange; NULL: it has ended */
	size_t n;                       /* exchanges, in up->exchange */
	bool goes_away;
};

/* ---- courier_h2.c ---- */

/* The exchange on stream ID.  NULL: it has left the connection. */
struct exchange *h2_find(const struct upstream *up, int32_t id);
/* EX is no longer on the connection. */
void h2_unlink(struct upstream *up, struct exchange *ex);
void h2_cancel(struct upstream *up, struct exchange *ex);

/* ---- courier_h2_answer.c ---- */

void h2_set_answer_callbacks(nghttp2_session_callbacks *callbacks);
/* The gate took bytes of EX's response that were kept for it. */
void h2_given(struct upstream *up, struct exchange *ex);
#endif
