/* gate_h2.h - HTTP/2 with the agent: what its files share. */
#ifndef CLOISTER_GATE_H2_H
#define CLOISTER_GATE_H2_H
#include <nghttp2/nghttp2.h>

#include "proc/gate/gate.h"

#define H2_STREAMS_MAX 128              /* at once, on one connection */
#define H2_STREAM_WINDOW (256 * 1024)
#define H2_WINDOW (4 * 1024 * 1024)     /* of all its streams */
#define H2_UNWANTED_MAX (16 * 1024 * 1024)      /* of a request that has its answer */
#define H2_HEAD_BYTES_MAX (8 * HTTP_HEAD_MAX)   /* more than that is no mistake */

/* In one second, on one connection: what costs the sender next to nothing. */
#define H2_CHEAP_MAX 500                /* SETTINGS, PING, PRIORITY, empty DATA, ... */
#define H2_RESETS_MAX 500
#define H2_WINDOWS_MAX 50000
#define H2_CONTINUATIONS_MAX 100

/* ---- a head while it comes in: gate_h2_head.c ---- */

struct gate_h2_span {
	uint32_t at, len;
};
struct gate_h2_head {
	struct buf text;                /* what the spans are in */
	struct buf cookie;              /* RFC 9113, 8.2.3: its crumbs put together */
	struct gate_h2_span method, scheme, authority, path, host;
	struct gate_h2_span room;       /* for a path that needs more of it; empty otherwise */
	struct gate_h2_span written;    /* PATH once more, which is made canonical in its place */
	struct { struct gate_h2_span name, value; } fields[HTTP_FIELDS_MAX];
	size_t n_fields;
	size_t seen;                    /* bytes, also of what is not kept */
	uint64_t length;
	bool has_length, has_host, has_authority;
	bool is_trailers;
	uint16_t status;                /* what is wrong with it, or 0 */
	char canonical[HTTP_HOST_MAX + 1];
	struct gate_h2_head *next;      /* among the spare ones */
};

struct gate_h2_head *gate_h2_head_take(struct gate *g, bool is_trailers);
void gate_h2_head_give_back(struct gate *g, struct gate_h2_head *h);
/* false: there is so much of it that the connection should go. */
bool gate_h2_head_add(struct gate_h2_head *h, struct http_text name, struct http_text value);
/* What came, as a canonical head for GC's connection; valid as long as H is.  0, or the
 * status to refuse it with.  HAS_END: no body follows. */
uint16_t gate_h2_head_finish(struct gate_h2_head *h, struct gate_conn *gc, bool has_end,
                             struct http_head *ret_head, struct err *err);
/* The same for trailers: how many fields, or -1. */
int gate_h2_head_trailers(struct gate_h2_head *h, struct http_field ret_fields[HTTP_FIELDS_MAX]);

/* ---- connections and streams ---- */

/* Bytes that wait, for the courier or for the agent. */
struct gate_h2_queue {
	unsigned char *data;
	size_t at, len, cap;
};

struct gate_h2 {
	struct gate_conn *gc;
	nghttp2_session *session;
	struct gate_h2_head *head;      /* the one that is coming in */
	int32_t head_id;                /* and its stream */
	struct gate_h2_stream *streams;
	size_t n_streams;
	bool is_timed;                  /* it has to be complete in time */
	bool is_over;                   /* said goodbye */
	uint64_t second;
	unsigned cheap, resets, windows, continuations;
};

struct gate_h2_stream {
	struct gate_h2 *h2;
	int32_t id;
	struct gate_stream stream;
	bool has_body;                  /* the request: the courier awaits an EGRESS_END */
	bool has_answer;                /* its head was sent */
	bool answer_ended, is_deferred;
	bool is_local;                  /* the answer is the gate's own */
	bool is_stopped;                /* the rest of the request is not wanted */
	bool is_answered;               /* all of the answer was sent */
	size_t unwanted;                /* bytes that came nevertheless */
	struct gate_h2_queue in, out;
	unsigned char *end;             /* the EGRESS_END that waits behind IN */
	size_t n_end;
	unsigned char *trailers;        /* of the answer, as they came */
	size_t n_trailers;
	struct gate_h2_stream *prev, *next;
};

/* gate_h2_stream.c */
int gate_h2_request(struct gate_h2 *h2, int32_t id, bool has_end);
int gate_h2_request_data(struct gate_h2_stream *st, const unsigned char *data, size_t len);
int gate_h2_request_end(struct gate_h2_stream *st, const struct http_field *trailers, size_t n);
void gate_h2_stream_free(struct gate_h2_stream *st, bool is_done);
int gate_h2_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header,
                      size_t length, nghttp2_data_source *source, void *arg);
#endif
