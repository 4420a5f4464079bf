/* mux_parts.h - shared by the files of mux. */
#ifndef CLOISTER_MUX_PARTS_H
#define CLOISTER_MUX_PARTS_H
#include "ipc/mux.h"

#define MUX_HEADER 12
#define MUX_BUCKETS 256
#define MUX_IN_SIZE (256 * 1024)
#define MUX_READS_MAX 4                 /* of MUX_IN_SIZE, before other sources get a turn */
#define MUX_OUT_MIN (16 * 1024)
#define MUX_FLUSH_AT (64 * 1024)        /* pending bytes that are written before the round's end */
#define MUX_IDLE_MS 1000                /* buffers are freed after this long without traffic */

struct mux {
	struct loop *loop;
	struct loop_source source;
	struct loop_round round;
	struct loop_timer idle;
	const struct mux_handler *handler;
	void *arg;

	unsigned char *in;              /* MUX_IN_SIZE, or NULL */
	size_t in_at, in_len;
	uint32_t data_id, data_left;    /* of the MUX_DATA frame being read */

	unsigned char *out;
	size_t out_at, out_len, out_cap;
	size_t reserved;                /* room that mux_reserve() gave, 0 if none */
	bool is_device;                 /* a character device, which does not block */
	bool blocked;                   /* the socket accepts no more for now */
	bool was_full;                  /* and writable() has not been called since */
	bool cannot_write;
	bool held;                      /* only so many of the bytes that wait may be written */
	size_t passes;

	bool used;                      /* since the idle timer last checked */
	bool over;                      /* nothing is sent or received any more */
	bool telling_end;               /* call ended() with ERROR when the round is over */
	int error;
	bool busy;                      /* handlers may be running */
	bool freed;                     /* free the memory when they return */

	uint32_t last_id, telling;
	size_t n_streams;
	struct mux_stream *streams[MUX_BUCKETS];
};

/* ---- mux_out.c ---- */

/* Bytes waiting to be written. */
static inline size_t
mux_pending(const struct mux *mux)
{
	return mux->out_len - mux->out_at;
}

/* End the channel; the handler's ended() is called at the end of the round. */
void mux_fail(struct mux *mux, int error);
/* Mark the mux as used, so that it keeps its buffers for a while. */
void mux_touch(struct mux *mux);
/* Write as much as the socket accepts. */
void mux_write(struct mux *mux);
#endif
