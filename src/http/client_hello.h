/* client_hello.h - what a TLS client says first, read without answering it. */
#ifndef CLOISTER_CLIENT_HELLO_H
#define CLOISTER_CLIENT_HELLO_H
#include <stdbool.h>
#include <stddef.h>

#include "http/http_head.h"

#define CLIENT_HELLO_MAX 16384

struct client_hello {
	char sni[HTTP_HOST_MAX + 1];    /* canonical; "" if there is none */
	bool has_ech;                   /* its true name may be hidden (browsers also send
	                                 * this as a decoy: it cannot be told apart) */
	bool offers_h2, offers_h1;      /* ALPN; both false: no ALPN, or neither of them */
};
/* 0, -EAGAIN if more bytes are needed (up to CLIENT_HELLO_MAX), -EBADMSG if this is no
 * ClientHello, or none that fits.  It may be spread over records; what follows it is
 * not looked at.  *ret_hello is untouched unless 0. */
int client_hello_parse(const unsigned char *data, size_t len, struct client_hello *ret_hello);
#endif
