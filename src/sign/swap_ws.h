/* swap_ws.h - needles in the messages of a WebSocket: one direction of it, bytes in, bytes
 * out (RFC 6455).
 *
 * Messages, text or binary, go through a swap_stream of their own, fragments joined, and
 * leave as one frame or, what is longer than SWAP_WS_FRAME, as several.  Frames of control
 * pass between them, each searched by itself.  Refused, with -EPROTO: what no extension was agreed on for, lengths
 * not in their shortest form, a frame that is masked or not as its side must, fragments out
 * of order. */
#ifndef CLOISTER_SWAP_WS_H
#define CLOISTER_SWAP_WS_H
#include "sign/swap.h"

#define SWAP_WS_FRAME (32 * 1024)       /* the longest frame that is written */
#define SWAP_WS_HEAD_MAX 14
#define SWAP_WS_CONTROL_MAX 125

struct swap_ws {
	bool from_client;               /* its frames are masked; they are again, alike */
	struct swap_stream stream;      /* SET, LENGTHS, JUDGE, SINK, ARG, MISSED and STEADY are the caller's;
	                                 * offsets are of the message */
	/* private: */
	unsigned char head[SWAP_WS_HEAD_MAX];
	size_t n_head;
	uint64_t left;                  /* of the frame's payload; with IN_FRAME */
	bool in_frame, in_message, closed;
	bool has_begun;                 /* a frame of the message has been written */
	unsigned char opcode, mask[4];  /* OPCODE: of the message */
	unsigned mask_at;
	unsigned char control[SWAP_WS_CONTROL_MAX];     /* payload of a frame of control */
	size_t n_control;
	swap_sink *sink;                /* the caller's: */
	swap_judge *judge;
	void (*missed)(void *arg);
	void *arg;
	unsigned char out[SWAP_WS_HEAD_MAX + SWAP_WS_FRAME];    /* a frame, behind its head */
	size_t n_out;
};

/* After the members named above were set, and the rest to zero. */
void swap_ws_init(struct swap_ws *ws);
int swap_ws_feed(struct swap_ws *ws, const void *data, size_t len, struct err *err);
void swap_ws_free(struct swap_ws *ws);  /* wipes what it holds */
#endif
