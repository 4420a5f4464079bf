/* mux_carry.h - carries the bytes of one stream of a mux from a descriptor and to another.
 *
 * Both sides of the mux use it: each END that one sends is the end of what the other writes. */
#ifndef CLOISTER_MUX_CARRY_H
#define CLOISTER_MUX_CARRY_H
#include <stdbool.h>
#include <stddef.h>

#include "ipc/mux.h"

/* Frames of the owner's types, without a body. */
struct mux_carry_types {
	uint32_t end;                   /* the sender's descriptor has ended */
	uint32_t shut;                  /* the sender takes no more bytes */
};

struct mux_carry {
	struct loop *loop;
	struct mux_stream *stream;      /* NULL once it is closed */
	const struct mux_carry_types *types;
	struct loop_source from, to;    /* .fd is -1: none, or over */
	struct buf pending;             /* received and not yet written: MUX_WINDOW at most */
	bool ends;                      /* the other side has sent its end */
	bool hangs_up;                  /* then FROM is over too: it is a terminal */
	/* The callbacks free no carry.  With `last`, called once when FROM holds no more bytes for now, or is over. */
	bool last;
	void (*emptied)(void *arg);
	/* Called when all that was received is written, or thrown away. */
	void (*written)(void *arg);
	/* Called when both descriptors are over, unless it is NULL. */
	void (*over)(void *arg);
	void *arg;
};

/* Begins to carry.  Takes FROM and TO, either of which may be -1; both are non-blocking, or /dev/null.
 * Fill in `hangs_up` and the callbacks first.  STREAM->arg becomes CARRY. */
void mux_carry_start(struct mux_carry *carry, struct loop *loop, struct mux_stream *stream,
                     const struct mux_carry_types *types, int from, int to);
/* For the handler of a mux whose streams are all carried: its `data` and `writable`. */
int mux_carry_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len);
void mux_carry_writable(void *arg, struct mux_stream *stream);
/* The frames of such a stream. */
void mux_carry_ended(struct mux_carry *carry);
void mux_carry_shut(struct mux_carry *carry);
/* Closes the stream: FROM is over, and what was received is still written. */
void mux_carry_cut(struct mux_carry *carry);
/* Reads what FROM still holds: see `last`. */
void mux_carry_drain(struct mux_carry *carry);
/* Whether both descriptors are over. */
bool mux_carry_is_over(const struct mux_carry *carry);
/* Closes everything, the stream too; calls nothing. */
void mux_carry_drop(struct mux_carry *carry);
#endif
