/* mux_parts.h - between the files of mux. */
#ifndef CLOISTER_MUX_PARTS_H
#define CLOISTER_MUX_PARTS_H
#include "ipc/mux.h"

#define MUX_HEADER 12
#define MUX_BUCKETS 256
#define MUX_IN_SIZE (256 * 1024)
#define MUX_READS_MAX 4                 /* of MUX_IN_SIZE, before others have their turn */
#define MUX_OUT_MIN (16 * 1024)
#define MUX_FLUSH_AT (64 * 1024)        /* is written without waiting for the round's end */
#define MUX_IDLE_MS 1000                /* buffers go when nothing came or went so long */

struct mux {
	struct loop *loop;
	struct loop_source source;
	struct loop_round round;
	struct loop_timer idle;
	const struct mux_handler *handler;
	void *arg;

	unsigned char *in;              /* MUX_IN_SIZE, or NULL */
	size_t in_at, in_len;
	uint32_t data_id, data_left;    /* of the MUX_DATA frame that is being read */

	unsigned char *out;
	size_t out_at, out_len, out_cap;
	size_t reserved;                /* room that mux_reserve() gave, 0 if none */
	bool blocked;                   /* the socket takes no more for now */
	bool was_full;                  /* and nobody was told yet that it no longer is */
	bool cannot_write;

	bool used;                      /* since the idle timer looked last */
	bool over;                      /* nothing is sent or taken in any more */
	bool telling_end;               /* with ERROR, when the round is over */
	int error;
	bool busy;                      /* handlers may be running: */
	bool freed;                     /* the memory goes when they are done */

	uint32_t last_id, telling;
	size_t n_streams;
	struct mux_stream *streams[MUX_BUCKETS];
};

/* ---- mux_out.c ---- */

/* What waits to be written. */
static inline size_t
mux_pending(const struct mux *mux)
{
	return mux->out_len - mux->out_at;
}

/* It is over; the handler hears of it at the end of the round. */
void mux_fail(struct mux *mux, int error);
/* It is used: its buffers stay for a while. */
void mux_touch(struct mux *mux);
/* As much as the socket takes. */
void mux_write(struct mux *mux);
#endif
