/* gate_sniff.h - recognises a connection's protocol by its first bytes.  Pure. */
#ifndef CLOISTER_GATE_SNIFF_H
#define CLOISTER_GATE_SNIFF_H
#include <stddef.h>

struct client_hello;

enum gate_sniffed {
	GATE_SNIFF_MORE,                /* more bytes are needed */
	GATE_SNIFF_TLS,                 /* a whole ClientHello, in *ret_hello */
	GATE_SNIFF_HTTP,                /* a request line */
	GATE_SNIFF_HTTP2,               /* the preface of HTTP/2 */
	GATE_SNIFF_OTHER,
};
enum gate_sniffed gate_sniff(const unsigned char *data, size_t len,
                             struct client_hello *ret_hello);
#endif
