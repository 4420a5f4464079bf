/* exec_stream.h - a stream of events for a command in a sandbox, or for the terminal of a cell's agent.
 *
 * A command ends with its stream: if the client hangs up, the command is killed.  A terminal is only left.  Output is
 * read no faster than the client takes it. */
#ifndef CLOISTER_EXEC_STREAM_H
#define CLOISTER_EXEC_STREAM_H
#include "base/err.h"
#include "cell/cell_spec.h"
#include "proc/serve/api.h"
#include "proc/serve/inside.h"

#define EXEC_TAIL_MAX 3                 /* of a character that is not complete yet */
#define EXEC_SIZE_MAX 1000              /* rows or columns */

/* What a stream carries, and so the names of its events and who finds it. */
enum exec_kind { EXEC_COMMAND, EXEC_SANDBOX_TERMINAL, EXEC_CELL_TERMINAL };

struct exec_stream {
	struct exec_stream *next, **at;
	struct api *api;
	struct serve_request *q;
	struct inside *inside;
	enum exec_kind kind;
	char of[API_ID_MAX];            /* its dispatch; of EXEC_CELL_TERMINAL: its cell */
	char id[CELL_ID_LEN + 1];
	bool sse;
	struct loop_source out[INSIDE_STREAMS], in;
	struct loop_timer late, ping;
	uint64_t timeout_ms;
	/* Output. */
	uint64_t n, offset[INSIDE_STREAMS];
	char tail[INSIDE_STREAMS][EXEC_TAIL_MAX];
	size_t tail_len[INSIDE_STREAMS];
	bool full;                      /* the client takes no more for now */
	/* Input: what is left of the first, or of the request that brings more. */
	void *owned;
	const unsigned char *input;
	size_t input_len;
	struct serve_request *feeder;
	bool keeps_open, ends;          /* more may come; this was the last */
	bool exited, timed_out;
	unsigned last[INSIDE_STREAMS];  /* pieces read after its end */
	int status;
	struct err lost;                /* code 0: it exited */
};

/* Of C, whose INSIDE and text (the first input) it takes, and whose request it will answer.  NULL: the call has
 * failed. */
struct exec_stream *exec_stream_new(struct api_call *c, enum exec_kind kind);
/* The command is watched, and begins the stream when it runs; a terminal's stream begins now, with the C->text that
 * was given as its first output.  On failure the stream is gone, and the request answered. */
void exec_stream_start(struct exec_stream *e);
/* The one of KIND in the path's second parameter, for what C->id is; otherwise the call has failed. */
struct exec_stream *exec_stream_find(struct api_call *c, enum exec_kind kind);
/* Takes the request as input, END: the last; the call may fail. */
void exec_stream_feed(struct exec_stream *e, struct api_call *c, bool end);

/* ---- shared by the requests (api_exec.c) ---- */

/* Whether ROWS and COLUMNS of the body are a size; otherwise the call has failed. */
int api_exec_read_size(struct api_call *c);
void api_exec_resize(struct api_call *c, enum exec_kind kind);
#endif
