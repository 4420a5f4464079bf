/* gate_h1.h - HTTP/1.1 with the agent: declarations shared by its files. */
#ifndef CLOISTER_GATE_H1_H
#define CLOISTER_GATE_H1_H
#include "http/h1.h"
#include "proc/gate/gate.h"

enum h1_request { REQUEST_HEAD, REQUEST_BODY, REQUEST_DONE };
enum h1_answer { ANSWER_NONE, ANSWER_WAIT, ANSWER_BODY, ANSWER_DONE };

/* The state of one exchange; a connection between requests has none. */
struct gate_h1 {
	struct gate_conn *gc;
	struct h1_reader reader;
	struct gate_stream stream;
	enum h1_request request;
	enum h1_answer answer;
	uint16_t version;
	bool keep_alive;
	bool is_head, is_upgrade, is_connect, has_body;
	bool waits_for_100;             /* its body may never come */
	bool is_timed;                  /* a head has begun, and its deadline is set */
	bool is_chunked;                /* the response is chunked */
	size_t unreturned;              /* bytes received and not yet written */
	/* Bytes read but not parsed: they follow a request without response, or the stuck bytes. */
	unsigned char *ahead;
	size_t n_ahead;
	/* Bytes of the body that the courier did not take. */
	unsigned char *stuck;
	size_t n_stuck;
	struct gate_h1 *next;           /* in the list of spare ones */
};

/* gate_h1.c */
/* The response is complete: continue with bytes that the agent sent meanwhile. */
void gate_h1_answered(struct gate_h1 *h);
/* Parse the bytes that were read before. */
void gate_h1_feed_ahead(struct gate_h1 *h);
/* Send the gate's own response and end the connection.  HINT as for gate_request_refusal(). */
void gate_h1_refuse(struct gate_h1 *h, uint16_t status, const char *reason, const char *hint);
/* IS_CLEAN: its reader is between two messages. */
void gate_h1_give_back(struct gate_h1 *h, bool is_clean);

/* gate_h1_answer.c */
extern const struct gate_stream_handler gate_h1_handler;
/* Give credit for bytes that were written. */
void gate_h1_return(struct gate_h1 *h);
#endif
