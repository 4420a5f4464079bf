/* gate_sniff.c - see gate_sniff.h. */
#include "proc/gate/gate_sniff.h"

#include <errno.h>
#include <string.h>

#include "http/client_hello.h"

#define TLS_HANDSHAKE 0x16
#define TLS_MAJOR 3

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static enum gate_sniffed
sniff_tls(const unsigned char *data, size_t len, struct client_hello *ret_hello)
{
	int r;

	if (len > 1 && data[1] != TLS_MAJOR)
		return GATE_SNIFF_OTHER;
	r = client_hello_parse(data, len, ret_hello);
	if (r == 0)
		return GATE_SNIFF_TLS;
	return r == -EAGAIN && len < CLIENT_HELLO_MAX ? GATE_SNIFF_MORE : GATE_SNIFF_OTHER;
}

static bool
is_letter(unsigned char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* A method, a space, and the beginning of a target.  Commands of other protocols have the first two
 * as well. */
static enum gate_sniffed
sniff_http(const unsigned char *data, size_t len)
{
	static const char connect[] = "CONNECT ", http[] = "http";
	size_t word = 0, n;

	while (word < len && word <= HTTP_METHOD_MAX &&
	       (is_letter(data[word]) || (word > 0 && (data[word] == '-' || data[word] == '_'))))
		word++;
	if (word == len && word <= HTTP_METHOD_MAX)
		return GATE_SNIFF_MORE;
	if (word == 0 || word > HTTP_METHOD_MAX || data[word] != ' ')
		return GATE_SNIFF_OTHER;
	data += word + 1;
	len -= word + 1;
	if (len == 0)
		return GATE_SNIFF_MORE;
	if (data[0] == '/' || data[0] == '*' ||
	    (word + 1 == sizeof(connect) - 1 && memcmp(data - word - 1, connect, word + 1) == 0))
		return GATE_SNIFF_HTTP;
	n = len < sizeof(http) - 1 ? len : sizeof(http) - 1;
	for (size_t i = 0; i < n; i++)
		if ((data[i] | 0x20) != http[i])
			return GATE_SNIFF_OTHER;
	return n == sizeof(http) - 1 ? GATE_SNIFF_HTTP : GATE_SNIFF_MORE;
}

enum gate_sniffed
gate_sniff(const unsigned char *data, size_t len, struct client_hello *ret_hello)
{
	size_t n = len < sizeof(preface) - 1 ? len : sizeof(preface) - 1;

	if (len == 0)
		return GATE_SNIFF_MORE;
	if (data[0] == TLS_HANDSHAKE)
		return sniff_tls(data, len, ret_hello);
	if (memcmp(data, preface, n) == 0)
		return n == sizeof(preface) - 1 ? GATE_SNIFF_HTTP2 : GATE_SNIFF_MORE;
	return sniff_http(data, len);
}
