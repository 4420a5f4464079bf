/* conn_parts.h - shared by the files of conn: the socket's side (conn.c) and OpenSSL's side
 * (conn_tls.c). */
#ifndef CLOISTER_CONN_PARTS_H
#define CLOISTER_CONN_PARTS_H
#include "tls/conn.h"

/* ---- conn.c ---- */

/* Record a fault; the first one counts.  broken() reports it when the round is over, unless a
 * return value did before. */
void conn_fail(struct conn *c, int code, const char *text);
/* Send LEN bytes to the socket, or keep them. */
void conn_send(struct conn *c, const unsigned char *data, size_t len);

/* ---- conn_tls.c ---- */

/* Connect SSL to the socket through our buffers. */
void conn_tls_attach(struct conn *c, SSL *ssl);
void conn_tls_detach(struct conn *c);
/* One step of the handshake; a fault is recorded in C. */
void conn_tls_handshake(struct conn *c);
/* As conn_read(). */
ssize_t conn_tls_read(struct conn *c, void *data, size_t len);
/* Encrypt all bytes, and send, keep, or while C is corked collect them; a fault is recorded in C. */
void conn_tls_write(struct conn *c, const void *data, size_t len);
/* Send the collected bytes to the socket. */
void conn_tls_send(struct conn *c);
void conn_tls_say_end(struct conn *c);
/* Whether a read could return bytes although the socket has none. */
bool conn_tls_has_more(const struct conn *c);
#endif
