/* gate_socks.h - what a SOCKS client says (RFC 1928; SOCKS4 and 4a).  Pure. */
#ifndef CLOISTER_GATE_SOCKS_H
#define CLOISTER_GATE_SOCKS_H
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"

#define GATE_SOCKS_MAX 600              /* of any message, with SOCKS4's two strings */

struct gate_socks {
	char host[HTTP_HOST_MAX + 1];   /* canonical, as http_authority_parse() gives it */
	uint16_t port;
};

/* Each looks at the LEN bytes that have come: 0 when the message is complete and good;
 * -EAGAIN when it is not, with *ret_need set to how many bytes there must be at least;
 * -EBADMSG for what is no such message.  No byte behind the message is ever asked for. */

/* SOCKS5, first: -EPERM if the client insists on proving who it is. */
int gate_socks5_greeting(const unsigned char *data, size_t len, size_t *ret_need);
/* SOCKS5, then.  -ENOTSUP: another command than CONNECT; -EAFNOSUPPORT: another kind of
 * address; -EINVAL: a host that is none. */
int gate_socks5_request(const unsigned char *data, size_t len, size_t *ret_need,
                        struct gate_socks *ret_socks);
/* SOCKS4: its only message; errors as above. */
int gate_socks4_request(const unsigned char *data, size_t len, size_t *ret_need,
                        struct gate_socks *ret_socks);
#endif
