/* mux.h - many streams over one socket between two processes.
 *
 * A frame is a header of three little-endian u32 (stream, type, length) and at most
 * MUX_FRAME_MAX bytes.  Bytes of a stream (MUX_DATA) are sent only against credit that
 * the receiver gave, so that neither side ever holds more than MUX_WINDOW of a stream;
 * other frames are small and free.  Frames are collected and written at the end of
 * each round of the loop, or sooner when there are many.  Whatever breaks these rules
 * ends the channel (-EBADMSG).
 *
 * Handlers are called by the loop only, never from within a call of the owner's, and
 * may call everything here, mux_close() and mux_free() included. */
#ifndef CLOISTER_MUX_H
#define CLOISTER_MUX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "loop/loop.h"

struct err;
struct mux;                             /* opaque */

#define MUX_FRAME_MAX (64 * 1024)
#define MUX_WINDOW (256 * 1024)         /* credit of a new stream, each way */
#define MUX_STREAMS_MAX 2048            /* at once; more is a broken peer */
#define MUX_OUT_FULL (512 * 1024)       /* waiting to be written: producers pause */
#define MUX_OUT_MAX (8 * 1024 * 1024)   /* beyond it the peer does not read: -ENOBUFS */

/* Types below 8 belong to the mux itself. */
enum mux_type { MUX_DATA = 1, MUX_CREDIT = 2, MUX_TYPES = 8 };

struct mux_stream {
	struct mux *mux;
	uint32_t id;
	uint32_t may_send;              /* credit left */
	uint32_t may_receive;           /* credit the peer has left */
	uint32_t unreturned;            /* taken in, and not yet given back */
	uint32_t told;                  /* private */
	void *arg;                      /* the owner's */
	struct mux_stream *next;        /* private */
};

struct mux_handler {
	/* A frame of the owner's own types.  STREAM is NULL if that id is not open here:
	 * the frame opens it (mux_open_as), or came too late.  BODY is borrowed until the
	 * return.  The return value, if negative, ends the channel. */
	int (*frame)(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type,
	             struct buf *body);
	/* Bytes of a stream.  All of them are the receiver's now (DATA itself only until
	 * the return); it calls mux_consumed() as it gets rid of them. */
	int (*data)(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len);
	/* A stream that had no credit has some again, or a mux that was full no longer is
	 * (then every stream with credit is told). */
	void (*writable)(void *arg, struct mux_stream *stream);
	/* The peer is gone (ERROR is 0 if in order, or what the socket said) or broke the
	 * rules (-EBADMSG, or what a handler returned); nothing more is called.  The mux
	 * stays until mux_free(); what is sent to it goes nowhere. */
	void (*ended)(void *arg, int error);
};

/* FD is a connected SOCK_STREAM unix socket, borrowed; HANDLER and ARG must outlive
 * the mux.  Only one side opens streams with mux_open(): ids count up from 1 and are
 * not used again until they wrap.  Stream 0 is never open; frames may go to it. */
int mux_new(struct loop *loop, int fd, const struct mux_handler *handler, void *arg,
            struct mux **ret_mux, struct err *err);
/* Closes no descriptor; frees all streams; calls nobody; what was not flushed is lost.
 * NULL is fine. */
void mux_free(struct mux *mux);

/* Open a stream of our own numbering, or the one that the peer has just named.  NULL
 * when there are MUX_STREAMS_MAX (or no memory); also for the number 0. */
struct mux_stream *mux_open(struct mux *mux, void *arg);
struct mux_stream *mux_open_as(struct mux *mux, uint32_t id, void *arg);
/* Free it; frames that still come for it are dropped (data is credited to nobody). */
void mux_close(struct mux_stream *stream);

/* A frame of the owner's types; BODY, all of it whatever was read of it, is at most
 * MUX_FRAME_MAX bytes and may be NULL. */
void mux_send(struct mux *mux, uint32_t id, uint32_t type, const struct buf *body);
/* As many of LEN bytes as credit allows; returns how many were taken. */
size_t mux_send_data(struct mux_stream *stream, const void *data, size_t len);
/* The same without a copy: room to write into (at least 1 byte, *ret_room of them at
 * most MUX_FRAME_MAX), or NULL without credit or when full; then mux_commit() what was
 * written (0 is fine), before any other call on this mux. */
unsigned char *mux_reserve(struct mux_stream *stream, size_t *ret_room);
void mux_commit(struct mux_stream *stream, size_t len);
/* LEN of the received bytes are gone from our memory: the peer gets credit, in
 * portions. */
void mux_consumed(struct mux_stream *stream, size_t len);
/* Whether so much is waiting to be written that producers should pause: data is not
 * taken then, other frames still are.  writable() tells when it is over. */
bool mux_is_full(const struct mux *mux);
/* Write now what is collected, as far as the socket takes it. */
void mux_flush(struct mux *mux);
#endif
