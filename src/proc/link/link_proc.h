/* link_proc.h - shared by the files of cloister-link. */
#ifndef CLOISTER_LINK_PROC_H
#define CLOISTER_LINK_PROC_H
#include "base/buf.h"
#include "base/err.h"
#include "link/link_hello.h"
#include "loop/loop.h"
#include "tls/conn.h"

struct args;

#define LINK_PENDING_MAX (64 * 1024)

/* ---- link_pump.c: one connection ---- */

/* A TLS connection, and later the stream that another process has the other end of. */
struct link_pump {
	struct loop *loop;
	struct conn conn;
	bool is_open;                   /* CONN is */
	struct loop_source near;        /* owns near.fd; 0: there is none yet */
	struct buf in;                  /* the peer's hello, then bytes that NEAR does not take yet */
	bool ended;                     /* pump_end() was called */
	/* The handshake is done. */
	void (*ready)(void *arg);
	/* More of a hello is in IN; not called once it is joined. */
	void (*heard)(void *arg);
	/* It is over, and WHY is a sentence.  The owner calls pump_close(), in here or later. */
	void (*over)(void *arg, const char *why);
	void *arg;
};
/* Takes over FD and SSL.  The callbacks and ARG are set. */
void pump_open(struct link_pump *p, struct loop *loop, int fd, SSL *ssl);
void pump_close(struct link_pump *p);   /* twice is fine */
/* Sends a hello. */
int pump_say(struct link_pump *p, const struct link_hello_message *message);
/* From now on carries bytes between the peer, the first of which are behind LEN bytes of IN, and a new socket, whose other
 * end it returns. */
int pump_join(struct link_pump *p, size_t len, struct err *err);

/* ---- link_serve.c, link_dial.c, link_admin.c: each is what the process does ---- */

int link_serve(const char *address, struct err *err);
int link_dial(struct err *err);
int link_join(const char *token, const char *home, const char *pool, struct err *err);
int link_admin(const struct args *args, struct err *err);

/* ---- main.c ---- */

/* Only the descriptors that are open now, and a network. */
int link_lock_down(const char *const *readable, const char *const *writable, struct err *err);
/* Ends LOOP when the process at LINK_CHANNEL_FD closes its end. */
int link_watch_parent(struct loop *loop, struct err *err);
#endif
