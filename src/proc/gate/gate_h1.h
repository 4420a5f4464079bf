/* gate_h1.h - HTTP/1.1 with the agent: what its files share. */
#ifndef CLOISTER_GATE_H1_H
#define CLOISTER_GATE_H1_H
#include "http/h1.h"
#include "proc/gate/gate.h"

enum h1_request { REQUEST_HEAD, REQUEST_BODY, REQUEST_DONE };
enum h1_answer { ANSWER_NONE, ANSWER_WAIT, ANSWER_BODY, ANSWER_DONE };

/* A connection that is between requests has none of these. */
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
	bool is_timed;                  /* a head has begun, and has to end in time */
	bool is_chunked;                /* the answer */
	size_t unreturned;              /* received and not written yet */
	/* Read but not looked at: behind the request before it was answered, or behind
	 * what is stuck. */
	unsigned char *ahead;
	size_t n_ahead;
	/* Of the body, when the courier did not take all of it. */
	unsigned char *stuck;
	size_t n_stuck;
	struct gate_h1 *next;           /* among the spare ones */
};

/* gate_h1.c */
/* The answer is complete: go on with what the agent sent meanwhile. */
void gate_h1_answered(struct gate_h1 *h);
/* Look at what was read before. */
void gate_h1_feed_ahead(struct gate_h1 *h);
/* The gate's own answer, and the end.  HINT as for gate_request_refusal(). */
void gate_h1_refuse(struct gate_h1 *h, uint16_t status, const char *reason, const char *hint);
/* IS_CLEAN: its reader stands between two messages. */
void gate_h1_give_back(struct gate_h1 *h, bool is_clean);

/* gate_h1_answer.c */
extern const struct gate_stream_handler gate_h1_handler;
/* Credit for what has been written. */
void gate_h1_return(struct gate_h1 *h);
#endif
