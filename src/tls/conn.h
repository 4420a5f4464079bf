/* conn.h - one connection, plain or TLS, in a loop: what gate and courier speak over.
 *
 * Never blocks.  While reading is on (it is, to begin with) the owner is told when
 * something may be read; what cannot be written at once is kept, up to CONN_OUT_MAX, and
 * the owner is told when there is room again.  Handlers are called by the loop only,
 * never from within a call of the owner's, and may call everything here, conn_close()
 * included, and free the memory that the conn is in. */
#ifndef CLOISTER_CONN_H
#define CLOISTER_CONN_H
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "loop/loop.h"

struct err;

#define CONN_OUT_MAX (512 * 1024)       /* beyond it a write is refused */
#define CONN_OUT_FULL (64 * 1024)       /* from here on the owner should pause */
#define CONN_IN_MAX (64 * 1024)         /* of TLS, read and not yet asked for */

struct conn;
struct conn_handler {
	/* TLS only: the handshake is done. */
	void (*ready)(void *arg);
	/* Something may be read: call conn_read() until it gives -EAGAIN, or
	 * conn_pause_reading().  Not called during a handshake, nor after the end. */
	void (*readable)(void *arg);
	/* What was kept is below CONN_OUT_FULL again, or all written. */
	void (*writable)(void *arg);
	/* The peer has ended its side while nobody reads; what it sent before can still be read.
	 * Told once, and only where this is not NULL. */
	void (*shut)(void *arg);
	/* The connection is broken: ERROR says why in a sentence; its code is EKEYREJECTED
	 * for a certificate that is not good, EPROTO for what is no TLS, or what the socket
	 * said.  The owner frees it, in here or later; nothing more is called. */
	void (*broken)(void *arg, const struct err *error);
};

struct conn {
	struct loop *loop;
	struct loop_source source;      /* source.fd is the conn's own */
	SSL *ssl;                       /* NULL: plain */
	const struct conn_handler *handler;
	void *arg;
	/* Closing it is a reset, whoever does that: to be set after conn_init() where the socket
	 * has such an SO_LINGER, so that the peer of a process that dies does not take that for
	 * the end.  Off again once all is written and the FIN sent. */
	bool resets;
	struct buf out;                 /* as it goes to the socket, kept until it can */
	size_t out_at;
	/* private */
	struct buf held;                /* for TLS to encrypt: corked, or before the handshake */
	unsigned char *in;              /* of TLS, read and not yet decrypted */
	size_t in_at, in_len;
	struct loop_round round;
	int fault;                      /* why it is broken: an errno, */
	const char *fault_text;         /* and NULL or a text for it */
	bool fault_due;                 /* broken() is still to be called */
	int fault_out;                  /* the peer takes nothing any more: an errno */
	bool asked;                     /* conn_read() was called since this was cleared */
	bool handshaking, reading, corked, ended_in, shut_out, dead;
	bool drained;                   /* the socket had no more, the last time */
	bool more;                      /* TLS may have more without the socket's help */
	bool met_end;                   /* of the socket's bytes */
	bool was_full;                  /* and the owner was not told that it no longer is */
	bool is_ready;                  /* the handshake is done, ready() still to be called */
	bool said_end, sent_fin;
	bool shut_due, shut_told;       /* shut() */
};

/* FD becomes the conn's.  SSL (may be NULL) becomes the conn's too, with its state set
 * (SSL_set_accept_state or _connect_state): the handshake starts.  C must not move. */
void conn_init(struct conn *c, struct loop *loop, int fd, SSL *ssl,
               const struct conn_handler *handler, void *arg);
/* From plain to TLS on the same socket (after CONNECT).  What was written before goes
 * out before; what the socket still holds (MSG_PEEK takes nothing) is TLS. */
void conn_start_tls(struct conn *c, SSL *ssl);
/* Close and free what it owns.  ABRUPT: with a reset rather than a FIN.  Otherwise what
 * is corked is sent and TLS says goodbye, as far as the socket takes it now; if that is not
 * all and the conn resets, it is a reset as well. */
void conn_close(struct conn *c, bool abrupt);

/* Up to LEN bytes: >0, 0 at the orderly end (TLS: close_notify; a bare FIN under TLS is
 * -ECONNRESET, unless SSL has SSL_OP_IGNORE_UNEXPECTED_EOF), -EAGAIN, or a negative errno
 * (broken() is not called for it).  -EAGAIN during a handshake. */
ssize_t conn_read(struct conn *c, void *data, size_t len);
/* Both cost next to nothing. */
void conn_resume_reading(struct conn *c);
void conn_pause_reading(struct conn *c);
/* All of LEN or -ENOBUFS (nothing taken), or a negative errno where there is nothing to
 * write to.  During a handshake it is kept.  That the peer has gone is not told here: what
 * it said before it went may be read first, and then conn_read() or broken() tells. */
int conn_write(struct conn *c, const void *data, size_t len);
bool conn_is_full(const struct conn *c);
/* Nothing more will be written: half-close, once what is kept has gone. */
void conn_shut(struct conn *c);
/* Collect writes: between cork and uncork nothing small goes to the socket. */
void conn_cork(struct conn *c);
void conn_uncork(struct conn *c);
#endif
