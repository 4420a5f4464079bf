/* mux.h - carries many streams over one socket, or a virtual machine's port, between two processes.
 *
 * A frame is a header of three little-endian u32 (stream, type, length) and at most MUX_FRAME_MAX
 * bytes.  A sender needs credit from the receiver for the bytes of a stream (MUX_DATA), so neither
 * side holds more than MUX_WINDOW of a stream.  Other frames are small and need no credit.  Frames
 * are collected, and written at the end of each round of the loop, or sooner if there are many.  A
 * violation of these rules ends the channel (-EBADMSG).
 *
 * Only the loop calls handlers, never a function below.  Handlers may call everything here,
 * including mux_close() and mux_free(). */
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
#define MUX_OUT_FULL (512 * 1024)       /* bytes waiting to be written: producers pause */
#define MUX_OUT_MAX (8 * 1024 * 1024)   /* more than this means that the peer does not read: -ENOBUFS */

/* Types below 8 belong to the mux itself. */
enum mux_type { MUX_DATA = 1, MUX_CREDIT = 2, MUX_TYPES = 8 };

struct mux_stream {
	struct mux *mux;
	uint32_t id;
	uint32_t may_send;              /* credit left */
	uint32_t may_receive;           /* credit that the peer has left */
	uint32_t unreturned;            /* received, and not yet given back as credit */
	uint32_t told;                  /* private */
	void *arg;                      /* the owner's */
	struct mux_stream *next;        /* private */
};

struct mux_handler {
	/* A frame of the owner's own types.  STREAM is NULL if that id is not open here: the frame
	 * opens it (mux_open_as), or came too late.  BODY is borrowed until the return.  A negative
	 * return value ends the channel. */
	int (*frame)(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type,
	             struct buf *body);
	/* Bytes of a stream.  DATA is borrowed until the return.  The bytes count against the
	 * window until the receiver passes them to mux_consumed(). */
	int (*data)(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len);
	/* A stream without credit has some again, or a full mux no longer is.  In the latter case
	 * it is called for every stream with credit. */
	void (*writable)(void *arg, struct mux_stream *stream);
	/* The peer is gone (ERROR is 0, or the socket's error) or broke the rules (-EBADMSG, or a
	 * handler's return value).  No handler is called any more.  The mux stays valid until
	 * mux_free(), but drops everything that is sent. */
	void (*ended)(void *arg, int error);
};

/* FD is a connected SOCK_STREAM unix socket, borrowed.  HANDLER and ARG must outlive the mux.  Only
 * one side opens streams with mux_open(): ids count up from 1 and are reused only after they wrap.
 * Stream 0 is never open, but frames may be sent to it. */
int mux_new(struct loop *loop, int fd, const struct mux_handler *handler, void *arg,
            struct mux **ret_mux, struct err *err);
/* Frees all streams without calling handlers.  Closes no descriptor.  Unflushed frames are lost.
 * NULL is fine. */
/* The descriptor is not a socket, but a device that does not block. */
void mux_set_device(struct mux *mux);
void mux_free(struct mux *mux);

/* Open a stream with a new id of ours, or the one that the peer has just named.  NULL if there are
 * MUX_STREAMS_MAX, no memory, or the id is 0. */
struct mux_stream *mux_open(struct mux *mux, void *arg);
struct mux_stream *mux_open_as(struct mux *mux, uint32_t id, void *arg);
/* Free the stream.  Later frames for it are dropped, and their data gives no credit. */
void mux_close(struct mux_stream *stream);

/* Send a frame of one of the owner's types.  All of BODY is sent, whatever was read of it: at most
 * MUX_FRAME_MAX bytes.  BODY may be NULL. */
void mux_send(struct mux *mux, uint32_t id, uint32_t type, const struct buf *body);
/* Send as many of LEN bytes as credit allows; returns how many. */
size_t mux_send_data(struct mux_stream *stream, const void *data, size_t len);
/* The same without a copy.  Returns room to write into (*ret_room bytes, 1 to MUX_FRAME_MAX), or
 * NULL without credit or when full.  Call mux_commit() with the bytes written (0 is fine) before
 * any other call on this mux. */
unsigned char *mux_reserve(struct mux_stream *stream, size_t *ret_room);
void mux_commit(struct mux_stream *stream, size_t len);
/* LEN received bytes are freed: the peer gets credit for them, in portions. */
void mux_consumed(struct mux_stream *stream, size_t len);
/* Whether so much waits to be written that producers should pause.  Then data is not accepted;
 * other frames still are.  The handler's writable() is called when it is over. */
bool mux_is_full(const struct mux *mux);
/* Whether all frames are written. */
bool mux_is_flushed(const struct mux *mux);
/* From now on, only what was sent so far is written, until mux_release(). */
void mux_hold(struct mux *mux);
void mux_release(struct mux *mux);
/* Write all of them, however long that takes. */
void mux_finish(struct mux *mux);
/* Write the collected frames now, as far as the socket accepts them. */
void mux_flush(struct mux *mux);
#endif
