/* gate_h2.h - HTTP/2 with the agent: declarations shared by its files. */
#ifndef CLOISTER_GATE_H2_H
#define CLOISTER_GATE_H2_H
#include <nghttp2/nghttp2.h>

#include "proc/gate/gate.h"

#define H2_STREAMS_MAX 128              /* at once, on one connection */
#define H2_STREAM_WINDOW (256 * 1024)
#define H2_WINDOW (4 * 1024 * 1024)     /* of all its streams */
#define H2_UNWANTED_MAX (16 * 1024 * 1024)      /* body bytes of a request that is already answered */
#define H2_HEAD_BYTES_MAX (8 * HTTP_HEAD_MAX)   /* a larger head is an attack, not a mistake */

/* Limits per second and connection, for frames that cost their sender almost nothing. */
#define H2_CHEAP_MAX 500                /* SETTINGS, PING, PRIORITY, empty DATA, ... */
#define H2_RESETS_MAX 500
#define H2_WINDOWS_MAX 50000
#define H2_CONTINUATIONS_MAX 100

/* ---- an incoming head: gate_h2_head.c ---- */

struct gate_h2_span {
	uint32_t at, len;
};
struct gate_h2_head {
	struct buf text;                /* the spans refer to this */
	struct buf cookie;              /* RFC 9113, 8.2.3: the cookie fields joined */
	struct gate_h2_span method, scheme, authority, path, host;
	struct gate_h2_span room;       /* for a path that grows; empty otherwise */
	struct gate_h2_span written;    /* a copy of PATH as it came; PATH itself is made canonical in place */
	struct { struct gate_h2_span name, value; } fields[HTTP_FIELDS_MAX];
	size_t n_fields;
	size_t seen;                    /* bytes, including those that are not kept */
	uint64_t length;
	bool has_length, has_host, has_authority;
	bool is_trailers;
	uint16_t status;                /* of the refusal, or 0 */
	char canonical[HTTP_HOST_MAX + 1];
	struct gate_h2_head *next;      /* in the list of spare ones */
};

struct gate_h2_head *gate_h2_head_take(struct gate *g, bool is_trailers);
void gate_h2_head_give_back(struct gate *g, struct gate_h2_head *h);
/* False: the head is so large that the connection should end. */
bool gate_h2_head_add(struct gate_h2_head *h, struct http_text name, struct http_text value);
/* Make a canonical head for GC's connection, valid as long as H is.  HAS_END: no body follows.
 * Returns 0, or the status of the refusal. */
uint16_t gate_h2_head_finish(struct gate_h2_head *h, struct gate_conn *gc, bool has_end,
                             struct http_head *ret_head, struct err *err);
/* As gate_h2_head_finish(), for trailers.  Returns the number of fields, or -1. */
int gate_h2_head_trailers(struct gate_h2_head *h, struct http_field ret_fields[HTTP_FIELDS_MAX]);

/* ---- connections and streams ---- */

/* Bytes that wait for the courier or for the agent. */
struct gate_h2_queue {
	unsigned char *data;
	size_t at, len, cap;
};

struct gate_h2 {
	struct gate_conn *gc;
	nghttp2_session *session;
	struct gate_h2_head *head;      /* the head that is coming in */
	int32_t head_id;                /* the stream of HEAD */
	struct gate_h2_stream *streams;
	size_t n_streams;
	bool is_timed;                  /* HEAD has a deadline */
	bool is_over;                   /* GOAWAY was sent */
	uint64_t second;
	unsigned cheap, resets, windows, continuations;
};

struct gate_h2_stream {
	struct gate_h2 *h2;
	int32_t id;
	struct gate_stream stream;
	bool has_body;                  /* of the request: the courier awaits an EGRESS_END */
	bool has_answer;                /* the head of the response was sent */
	bool answer_ended, is_deferred;
	bool is_local;                  /* the response is the gate's own */
	bool is_stopped;                /* the rest of the request is discarded */
	bool is_answered;               /* the whole response was sent */
	size_t unwanted;                /* bytes that came after that */
	struct gate_h2_queue in, out;
	unsigned char *end;             /* the EGRESS_END that waits behind IN */
	size_t n_end;
	unsigned char *trailers;        /* of the response, as they came */
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
