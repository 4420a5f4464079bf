/* gate_socks.h - parses messages of a SOCKS client (RFC 1928; SOCKS4 and 4a).  Pure. */
#ifndef CLOISTER_GATE_SOCKS_H
#define CLOISTER_GATE_SOCKS_H
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"

#define GATE_SOCKS_MAX 600              /* bytes of any message, with SOCKS4's two strings */

struct gate_socks {
	char host[HTTP_HOST_MAX + 1];   /* canonical, as from http_authority_parse() */
	uint16_t port;
};

/* Each function parses the LEN bytes that have come.  0: the message is complete and valid.
 * -EAGAIN: it is incomplete, and *ret_need is the least total number of bytes.  -EBADMSG: it is no
 * such message.  A function never asks for bytes behind the message. */

/* The first message of SOCKS5.  -EPERM: the client insists on authentication. */
int gate_socks5_greeting(const unsigned char *data, size_t len, size_t *ret_need);
/* The second message of SOCKS5.  -ENOTSUP: a command other than CONNECT; -EAFNOSUPPORT: an unknown
 * kind of address; -EINVAL: an invalid host. */
int gate_socks5_request(const unsigned char *data, size_t len, size_t *ret_need,
                        struct gate_socks *ret_socks);
/* The only message of SOCKS4; errors as above. */
int gate_socks4_request(const unsigned char *data, size_t len, size_t *ret_need,
                        struct gate_socks *ret_socks);
#endif
