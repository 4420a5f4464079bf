/* link_hello.h - the first messages inside TLS between a worker and a service: see ipc/link_channel.h.
 *
 * Pure: bytes in, meaning out. */
#ifndef CLOISTER_LINK_HELLO_H
#define CLOISTER_LINK_HELLO_H
#include "base/buf.h"
#include "ipc/link_channel.h"
#include "link/link_cert.h"

#define LINK_NAME_MAX 64
#define LINK_HOME_MAX 32
#define LINK_POOL_MAX 32

/* Texts point into what was read. */
struct link_hello_message {
	enum link_hello type;
	const char *secret, *name, *home, *pool, *id, *pem, *why;       /* those of TYPE */
};

/* Appends MESSAGE with its length. */
void link_hello_put(struct buf *out, const struct link_hello_message *message);
/* Reads one from the start of IN.  1: it is there, and *ret_len bytes long; 0: more bytes are needed; -EBADMSG: it is none
 * that a service (FROM_SERVICE) or a worker may send. */
int link_hello_get(const struct buf *in, bool from_service, struct link_hello_message *ret_message, size_t *ret_len);
#endif
