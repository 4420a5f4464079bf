/* gate_sniff.c - what the first bytes of a connection are taken for. */
#include "proc/gate/gate_sniff.c"

#include "test.h"

static const struct {
	const char *text;
	enum gate_sniffed want;
} cases[] = {
	{ "", GATE_SNIFF_MORE },
	{ "GET / HTTP/1.1\r\n", GATE_SNIFF_HTTP },
	{ "GET /", GATE_SNIFF_HTTP },
	{ "G", GATE_SNIFF_MORE },
	{ "GET", GATE_SNIFF_MORE },
	{ "GET ", GATE_SNIFF_MORE },
	{ "M-SEARCH * HTTP/1.1", GATE_SNIFF_HTTP },
	{ "OPTIONS *", GATE_SNIFF_HTTP },
	{ "GET h", GATE_SNIFF_MORE },
	{ "GET HTTP://a/", GATE_SNIFF_HTTP },
	{ "GET https://a/", GATE_SNIFF_HTTP },
	{ "CONNECT a:443 HTTP/1.1", GATE_SNIFF_HTTP },
	{ "EHLO host", GATE_SNIFF_OTHER },
	{ "EHLO mail", GATE_SNIFF_OTHER },
	{ "PING\r\n", GATE_SNIFF_OTHER },
	{ "*1\r\n$4\r\nPING\r\n", GATE_SNIFF_OTHER },
	{ "get key\r\n", GATE_SNIFF_OTHER },
	{ "SSH-2.0-OpenSSH_9.2\r\n", GATE_SNIFF_OTHER },
	{ "P", GATE_SNIFF_MORE },
	{ "PRI * HTTP/2.0\r\n\r\nSM\r\n", GATE_SNIFF_MORE },
	{ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", GATE_SNIFF_HTTP2 },
	{ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n123", GATE_SNIFF_HTTP2 },
	{ "PRI * HTTP/1.1\r\n", GATE_SNIFF_HTTP },
	{ "POST /", GATE_SNIFF_HTTP },
	{ "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", GATE_SNIFF_MORE },
	{ "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", GATE_SNIFF_OTHER },
	{ "-A /", GATE_SNIFF_OTHER },
	{ " /", GATE_SNIFF_OTHER },
	{ "\r\nGET / HTTP/1.1", GATE_SNIFF_OTHER },
	{ "\x16", GATE_SNIFF_MORE },
	{ "\x16\x02", GATE_SNIFF_OTHER },
	{ "\x16\x03\x01", GATE_SNIFF_MORE },
	{ "\x80\x2e\x01\x03\x01", GATE_SNIFF_OTHER },
};

TEST(gate_sniff_texts)
{
	struct client_hello hello;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (gate_sniff((const unsigned char *)cases[i].text, strlen(cases[i].text), &hello) !=
		    cases[i].want)
			test_fail(__FILE__, __LINE__, "'%s' is taken for something else", cases[i].text);
	CHECK(gate_sniff((const unsigned char *)"\0\0\0\x08", 4, &hello) == GATE_SNIFF_OTHER);
	/* A record of a handshake, but not the client's first message. */
	CHECK(gate_sniff((const unsigned char *)"\x16\3\1\0\4\2\0\0\0", 9, &hello) ==
	      GATE_SNIFF_OTHER);
}

/* A ClientHello that never becomes complete is not waited for without end. */
TEST(gate_sniff_long_hello)
{
	static unsigned char data[CLIENT_HELLO_MAX] = { 0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff };
	struct client_hello hello;

	CHECK(gate_sniff(data, sizeof(data), &hello) == GATE_SNIFF_OTHER);
}
