/* conn.h - one connection, plain or TLS, in a loop; used by the gate and the courier.
 *
 * Never blocks.  While reading is on, which is the default, a handler reports that bytes may be
 * read.  Bytes that cannot be written at once are kept, up to CONN_OUT_MAX, and a handler reports
 * when there is room again.  The loop calls the handlers, and no function here does.  A handler may
 * call everything here, including conn_close(), and may free the memory of the conn. */
#ifndef CLOISTER_CONN_H
#define CLOISTER_CONN_H
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "loop/loop.h"

struct err;

#define CONN_OUT_MAX (512 * 1024)       /* beyond it a write is refused */
#define CONN_OUT_FULL (64 * 1024)       /* from here on the owner should pause */
#define CONN_IN_MAX (64 * 1024)         /* TLS bytes read ahead */

struct conn;
struct conn_handler {
	/* TLS only: the handshake is done. */
	void (*ready)(void *arg);
	/* Bytes may be read: call conn_read() until it returns -EAGAIN, or conn_pause_reading().
	 * Not called during a handshake, nor after the end. */
	void (*readable)(void *arg);
	/* The kept bytes are below CONN_OUT_FULL again, or all written. */
	void (*writable)(void *arg);
	/* The peer has ended its side while reading is paused; its earlier bytes can still be read.
	 * Called once; may be NULL. */
	void (*shut)(void *arg);
	/* The connection is broken.  ERROR has a sentence, and a code: EKEYREJECTED for a bad
	 * certificate, EPROTO for invalid TLS, or the socket's error.  The owner closes the conn,
	 * in here or later; no other handler is called. */
	void (*broken)(void *arg, const struct err *error);
};

struct conn {
	struct loop *loop;
	struct loop_source source;      /* owns source.fd */
	SSL *ssl;                       /* NULL: plain */
	const struct conn_handler *handler;
	void *arg;
	/* Closing the socket resets the connection, even if the process dies, so that the peer does
	 * not take that for an orderly end.  To be set after conn_init() if the socket has such an
	 * SO_LINGER.  Cleared once everything is written and the FIN is sent. */
	bool resets;
	struct buf out;                 /* bytes for the socket, kept until it takes them */
	size_t out_at;
	/* private */
	struct buf held;                /* plain bytes for TLS: corked, or before the handshake */
	unsigned char *in;              /* TLS bytes, read and not yet decrypted */
	size_t in_at, in_len;
	struct loop_round round;
	int fault;                      /* why it is broken: an errno, */
	const char *fault_text;         /* and NULL or a text for it */
	bool fault_due;                 /* broken() is still to be called */
	int fault_out;                  /* the peer takes nothing any more: an errno */
	bool asked;                     /* conn_read() was called since this was cleared */
	bool handshaking, reading, corked, ended_in, shut_out, dead;
	bool drained;                   /* the last read emptied the socket */
	bool more;                      /* TLS may have more bytes without reading the socket */
	bool met_end;                   /* the socket's bytes have ended */
	bool was_full;                  /* writable() is due when it no longer is */
	bool is_ready;                  /* the handshake is done; ready() is still to be called */
	bool said_end, sent_fin;
	bool shut_due, shut_told;       /* for shut() */
};

/* The conn takes over FD and SSL (may be NULL).  SSL has its state set (SSL_set_accept_state or
 * _connect_state), and the handshake starts.  C must not move. */
void conn_init(struct conn *c, struct loop *loop, int fd, SSL *ssl,
               const struct conn_handler *handler, void *arg);
/* Switch from plain to TLS on the same socket (after CONNECT).  Bytes written before are sent
 * before.  Bytes still in the socket are TLS; MSG_PEEK does not take them out. */
void conn_start_tls(struct conn *c, SSL *ssl);
/* Close it and free what it owns.  ABRUPT: with a reset instead of a FIN.  Otherwise corked bytes
 * and TLS's close_notify are sent, as far as the socket takes them now.  If some remain and RESETS
 * is set, it is a reset as well. */
void conn_close(struct conn *c, bool abrupt);

/* Read up to LEN bytes.  Returns:
 *
 * - >0: the number of bytes
 * - 0: an orderly end.  With TLS, that is close_notify; a bare FIN is -ECONNRESET, unless SSL has
 *   SSL_OP_IGNORE_UNEXPECTED_EOF.
 * - -EAGAIN: no bytes now; also during a handshake
 * - another negative errno; broken() is not called for it */
ssize_t conn_read(struct conn *c, void *data, size_t len);
/* Both are cheap. */
void conn_resume_reading(struct conn *c);
void conn_pause_reading(struct conn *c);
/* Takes all LEN bytes; or -ENOBUFS, and takes none; or another negative errno if the conn cannot be
 * written to.  During a handshake the bytes are kept.  It does not report that the peer has gone:
 * the peer's last bytes may be read first, and then conn_read() or broken() reports it. */
int conn_write(struct conn *c, const void *data, size_t len);
bool conn_is_full(const struct conn *c);
/* Nothing more will be written: half-close after the kept bytes are sent. */
void conn_shut(struct conn *c);
/* Collect writes: between cork and uncork no small piece goes to the socket. */
void conn_cork(struct conn *c);
void conn_uncork(struct conn *c);
#endif
