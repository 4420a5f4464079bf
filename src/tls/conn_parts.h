/* conn_parts.h - what the files of conn share: the socket's side (conn.c) and OpenSSL's
 * (conn_tls.c). */
#ifndef CLOISTER_CONN_PARTS_H
#define CLOISTER_CONN_PARTS_H
#include "tls/conn.h"

/* ---- conn.c ---- */

/* The first thing that went wrong counts; the owner hears of it when the round is over,
 * unless it is told before. */
void conn_fail(struct conn *c, int code, const char *text);
/* LEN bytes for the socket: sent, or kept. */
void conn_send(struct conn *c, const unsigned char *data, size_t len);
size_t conn_pending(const struct conn *c);

/* ---- conn_tls.c ---- */

/* Let TLS use the socket through us. */
void conn_tls_attach(struct conn *c, SSL *ssl);
void conn_tls_detach(struct conn *c);
/* One step; a fault is in C. */
void conn_tls_handshake(struct conn *c);
/* As conn_read(). */
ssize_t conn_tls_read(struct conn *c, void *data, size_t len);
/* All of it is encrypted and sent or kept, or collected while C is corked; a fault is in
 * C. */
void conn_tls_write(struct conn *c, const void *data, size_t len);
/* What was collected goes to the socket. */
void conn_tls_send(struct conn *c);
void conn_tls_say_end(struct conn *c);
/* Whether a read could give something though the socket has nothing. */
bool conn_tls_has_more(const struct conn *c);
#endif
