/* client_hello.h - parses a TLS ClientHello without answering it. */
#ifndef CLOISTER_CLIENT_HELLO_H
#define CLOISTER_CLIENT_HELLO_H
#include <stdbool.h>
#include <stddef.h>

#include "http/http_head.h"

#define CLIENT_HELLO_MAX 16384

struct client_hello {
	char sni[HTTP_HOST_MAX + 1];    /* canonical; "" if there is none */
	bool has_ech;                   /* the true name may be hidden; browsers also send it as a
	                                 * decoy, which looks the same */
	bool offers_h2, offers_h1;      /* ALPN; both false: no ALPN, or neither of them */
};
/* Returns 0; -EAGAIN if more bytes are needed (up to CLIENT_HELLO_MAX); -EBADMSG if this is not a
 * ClientHello, or too long.  The message may span records.  Bytes behind it are ignored.
 * *ret_hello is untouched unless 0 is returned. */
int client_hello_parse(const unsigned char *data, size_t len, struct client_hello *ret_hello);
#endif
