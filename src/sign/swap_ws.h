/* swap_ws.h - searches the messages of one direction of a WebSocket (RFC 6455): bytes in, bytes
 * out.
 *
 * Each message, text or binary, goes through a swap_stream of its own, with its fragments joined.
 * It leaves as one frame, or if it is longer than SWAP_WS_FRAME, as several.  Control frames pass
 * in between, and each is searched by itself.
 *
 * Refused with -EPROTO: bits of an extension that was not agreed on, lengths that are not in their
 * shortest form, a frame with the wrong masking for its side, fragments out of order. */
#ifndef CLOISTER_SWAP_WS_H
#define CLOISTER_SWAP_WS_H
#include "sign/swap.h"

#define SWAP_WS_FRAME (32 * 1024)       /* the longest frame that is written */
#define SWAP_WS_HEAD_MAX 14
#define SWAP_WS_CONTROL_MAX 125

struct swap_ws {
	bool from_client;               /* its frames are masked, and get the same mask again */
	struct swap_stream stream;      /* the caller sets SET, LENGTHS, JUDGE, SINK, ARG, MISSED and
	                                 * STEADY; offsets are in the message */
	/* private: */
	unsigned char head[SWAP_WS_HEAD_MAX];
	size_t n_head;
	uint64_t left;                  /* bytes left of the frame's payload; with IN_FRAME */
	bool in_frame, in_message, closed;
	bool has_begun;                 /* a frame of the message has been written */
	unsigned char opcode, mask[4];  /* OPCODE: of the message */
	unsigned mask_at;
	unsigned char control[SWAP_WS_CONTROL_MAX];     /* payload of a control frame */
	size_t n_control;
	swap_sink *sink;                /* the caller's: */
	swap_judge *judge;
	void (*missed)(void *arg);
	void *arg;
	unsigned char out[SWAP_WS_HEAD_MAX + SWAP_WS_FRAME];    /* a frame's payload, with room for its head */
	size_t n_out;
};

/* Call after setting the members named above, and the rest to zero. */
void swap_ws_init(struct swap_ws *ws);
int swap_ws_feed(struct swap_ws *ws, const void *data, size_t len, struct err *err);
void swap_ws_free(struct swap_ws *ws);  /* wipes its memory */
#endif
