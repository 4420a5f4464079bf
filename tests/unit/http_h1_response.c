/* http_h1_response.c - tests of reading HTTP/1.1 responses. */
#include "http_lab.h"

#define OK "HTTP/1.1 200 OK\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

static const struct {
	enum lab_kind kind;
	const char *bytes;
	size_t len;
	const char *want;
} good[] = {
	{ LAB_RESPONSES, BYTES(""), "EOF\n" },
	{ LAB_RESPONSES, BYTES(OK "Content-Length: 2\r\n\r\nhi"), "200|2|k\n<hi>\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK "Content-Length: 0\r\n\r\n"), "200|0|k\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK "Content-Length: 2\r\n\r\nh"), "200|2|k\n<h>\nEOF!\n" },
	{ LAB_RESPONSES, BYTES("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"), "200|0|k\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), "200|0|k\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES("HTTP/1.1 599 a\tb \xe4 !\r\nContent-Length: 0\r\n\r\n"),
	  "599|0|k\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK CHUNKED "\r\n2\r\nhi\r\n0\r\n\r\n"), "200|?|k\n<hi>\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK CHUNKED "\r\n0\r\nGrpc-Status: 0\r\n\r\n"),
	  "200|?|k\n+grpc-status=0\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK CHUNKED "Connection: close\r\n\r\n0\r\n\r\nmore"),
	  "200|?|\n.\nEOF\n" },
	/* what others bear, and is not passed on */
	{ LAB_RESPONSES, BYTES(OK CHUNKED "\r\n2;x=\"y;\";z\r\nhi\r\n0;a\r\n\r\n"), "200|?|k\n<hi>\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK CHUNKED "\r\n2  \r\nhi\r\n0 \r\n\r\n"), "200|?|k\n<hi>\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK CHUNKED "\r\n2\t ;x\r\nhi\r\n0\r\n\r\n"), "200|?|k\n<hi>\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi"), "200|2|k\n<hi>\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK "Content-Length: 2, 2\r\n\r\nhi"), "200|2|k\n<hi>\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK "Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\nhi"),
	  "200|2|k\n<hi>\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK "Transfer-Encoding: Identity\r\n\r\nhi"), "200|?|u\n<hi>\n.\nEOF\n" },
	/* until the connection ends */
	{ LAB_RESPONSES, BYTES(OK "\r\n"), "200|?|u\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK "Connection: keep-alive\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"),
	  "200|?|u\n<HTTP/1.1 200 OK\r\n\r\n>\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhi"),
	  "200|?|u0\n<hi>\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
	  "200|2|0\n<hi>\n.\nEOF\n" },
	{ LAB_RESPONSES,
	  BYTES("HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhi"),
	  "200|2|k0\n<hi>\n.\nEOF\n" },
	/* bodies that are not there */
	{ LAB_RESPONSES, BYTES("HTTP/1.1 204 No Content\r\n\r\n" OK "Content-Length: 0\r\n\r\n"),
	  "204|0|k\n.\n200|0|k\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"),
	  "204|0|k\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"),
	  "304|0|k\netag=\"x\"\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n" OK
	                       "Content-Length: 0\r\n\r\n"),
	  "304|5|k\n.\n200|0|k\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES("HTTP/1.1 304 Not Modified\r\n" CHUNKED "\r\n"),
	  "304|?|k\n.\nEOF\n" },
	{ LAB_ANSWERS_TO_HEAD, BYTES(OK "Content-Length: 5\r\n\r\n" OK "Content-Length: 2\r\n\r\nhi"),
	  "200|5|k\n.\n200|2|k\n<hi>\n.\nEOF\n" },
	{ LAB_ANSWERS_TO_HEAD, BYTES(OK CHUNKED "\r\n"), "200|?|k\n.\nEOF\n" },
	{ LAB_ANSWERS_TO_HEAD, BYTES(OK "\r\n"), "200|?|k\n.\nEOF\n" },
	{ LAB_ANSWERS_TO_HEAD, BYTES("HTTP/1.1 103 Early Hints\r\n\r\n" OK "Content-Length: 5\r\n\r\n"),
	  "103|0|k\n200|5|k\n.\nEOF\n" },
	/* interim responses */
	{ LAB_RESPONSES, BYTES("HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\nhi"),
	  "100|0|k\n200|2|k\n<hi>\n.\nEOF\n" },
	{ LAB_RESPONSES,
	  BYTES("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"),
	  "103|0|k\nlink=<x>\n100|0|k\nEOF!\n" },
	{ LAB_RESPONSES, BYTES("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 1"), "100|0|k\nEOF!\n" },
	/* switching */
	{ LAB_RESPONSES,
	  BYTES("HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n"
	        "Sec-WebSocket-Accept: x\r\n\r\n"),
	  "101|0|kw\nsec-websocket-accept=x\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK "Upgrade: h2,h2c\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n"),
	  "200|0|k\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES("HTTP/1.1 426 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	                       "Content-Length: 0\r\n\r\n"),
	  "426|0|k\n.\nEOF\n" },
	/* fields */
	{ LAB_RESPONSES, BYTES(OK "Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nKeep-Alive: timeout=5\r\n"
	                       "Proxy-Authenticate: Basic\r\nHost: x\r\nTE: trailers\r\n"
	                       "Content-Type: a/b\r\nContent-Type: c/d\r\nContent-Length: 0\r\n\r\n"),
	  "200|0|k\nset-cookie=a=b\nset-cookie=c=d\ncontent-type=a/b\ncontent-type=c/d\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK "X-A: 1\r\nConnection: x-a\r\nContent-Length: 0\r\n\r\n"),
	  "200|0|k\n.\nEOF\n" },
	{ LAB_RESPONSES, BYTES(OK "Expect: anything\r\nContent-Length: 0\r\n\r\n"),
	  "200|0|k\n.\nEOF\n" },
};

TEST(h1_response_good)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		lab_check(good[i].kind, good[i].bytes, good[i].len, good[i].want, __FILE__, __LINE__);
}

static const struct {
	const char *bytes;
	size_t len;
} bad[] = {
	{ BYTES("\r\n") },
	{ BYTES("\r\n" OK "Content-Length: 0\r\n\r\n") },
	{ BYTES("\n") },
	{ BYTES("HTTP/1.1 200 OK\n\n") },
	{ BYTES(OK "Content-Length: 0\n\r\n") },
	{ BYTES("HTTP/1.1 200 O\0K\r\n\r\n") },
	{ BYTES("HTTP/1.1 200 O\rK\r\n\r\n") },
	{ BYTES("HTTP/1.1 200\tOK\r\n\r\n") },
	{ BYTES("HTTP/1.1  200 OK\r\n\r\n") },
	{ BYTES("HTTP/1.1 20 OK\r\n\r\n") },
	{ BYTES("HTTP/1.1 2000 OK\r\n\r\n") },
	{ BYTES("HTTP/1.1 2x0 OK\r\n\r\n") },
	{ BYTES("HTTP/1.1 000 OK\r\n\r\n") },
	{ BYTES("HTTP/1.1 099 OK\r\n\r\n") },
	{ BYTES("HTTP/1.1 600 OK\r\n\r\n") },
	{ BYTES("HTTP/1.1 999 OK\r\n\r\n") },
	{ BYTES("HTTP/1.1 -20 OK\r\n\r\n") },
	{ BYTES("HTTP/1.1\r\n\r\n") },
	{ BYTES("HTTP/1.1 \r\n\r\n") },
	{ BYTES("HTTP/1.1 2\r\n\r\n") },
	{ BYTES("HTTP/2.0 200 OK\r\n\r\n") },
	{ BYTES("HTTP/1.2 200 OK\r\n\r\n") },
	{ BYTES("HTTP/2 200 OK\r\n\r\n") },
	{ BYTES("http/1.1 200 OK\r\n\r\n") },
	{ BYTES("ICY 200 OK\r\n\r\n") },
	{ BYTES("SSH-2.0-OpenSSH_9.2\r\n\r\n") },
	{ BYTES(" HTTP/1.1 200 OK\r\n\r\n") },
	{ BYTES("GET / HTTP/1.1\r\n\r\n") },
	/* framing */
	{ BYTES(OK "Content-Length: 2\r\n" CHUNKED "\r\n") },
	{ BYTES(OK CHUNKED "Content-Length: 2\r\n\r\n") },
	{ BYTES(OK "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi") },
	{ BYTES(OK "Content-Length: 0\r\nContent-Length: 2\r\n\r\nhi") },
	{ BYTES(OK "Content-Length: 2, 3\r\n\r\nhi") },
	{ BYTES(OK "Content-Length: 2, x\r\n\r\nhi") },
	{ BYTES(OK "Content-Length: \r\n\r\nhi") },
	{ BYTES(OK "Content-Length: 2\r\nContent-Length: 02\r\n\r\nhi") },
	{ BYTES(OK "Content-Length: x\r\n\r\n") },
	{ BYTES(OK "Content-Length: -1\r\n\r\n") },
	{ BYTES(OK "Transfer-Encoding: gzip, chunked\r\n\r\n") },
	{ BYTES(OK "Transfer-Encoding: identity, chunked\r\n\r\n") },
	{ BYTES(OK "Transfer-Encoding: identity;q=1\r\n\r\n") },
	{ BYTES(OK CHUNKED "Transfer-Encoding: identity\r\n\r\n") },
	{ BYTES(OK CHUNKED CHUNKED "\r\n") },
	{ BYTES("HTTP/1.0 200 OK\r\n" CHUNKED "\r\n0\r\n\r\n") },
	{ BYTES("HTTP/1.1 204 No Content\r\n" CHUNKED "\r\n") },
	{ BYTES("HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n") },
	{ BYTES("HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\n") },
	{ BYTES("HTTP/1.1 103 Early Hints\r\n" CHUNKED "\r\n") },
	{ BYTES(OK CHUNKED "\r\n2;x=y\nhi\r\n") },
	{ BYTES(OK CHUNKED "\r\n2;x\0y\r\nhi\r\n") },
	{ BYTES(OK CHUNKED "\r\n2;x\rhi\r\n") },
	{ BYTES(OK CHUNKED "\r\n2 x\r\nhi\r\n") },
	{ BYTES(OK CHUNKED "\r\n2 3\r\nhi\r\n") },
	{ BYTES(OK CHUNKED "\r\n;x\r\nhi\r\n") },
	{ BYTES(OK CHUNKED "\r\n 2\r\nhi\r\n") },
	{ BYTES(OK CHUNKED "\r\n2\r\nhi0\r\n") },
	{ BYTES(OK CHUNKED "\r\n0\r\nContent-Length: 5\r\n\r\n") },
	{ BYTES(OK CHUNKED "\r\n0\r\nSet-Cookie: a=b\r\n\r\n") },
	{ BYTES(OK CHUNKED "\r\n0\r\nLocation: /\r\n\r\n") },
	/* switching to what nobody asked for */
	{ BYTES("HTTP/1.1 101 X\r\n\r\n") },
	{ BYTES("HTTP/1.1 101 X\r\nUpgrade: websocket\r\n\r\n") },
	{ BYTES("HTTP/1.1 101 X\r\nConnection: upgrade\r\n\r\n") },
	{ BYTES("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n") },
	{ BYTES("HTTP/1.0 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n") },
	{ BYTES("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\n") },
	{ BYTES("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" CHUNKED "\r\n") },
	/* fields */
	{ BYTES(OK "X : y\r\n\r\n") },
	{ BYTES(OK "X: y\r\n z\r\n\r\n") },
	{ BYTES(OK "X: \0\r\n\r\n") },
	{ BYTES(OK "X\r\n\r\n") },
	{ BYTES(OK ": y\r\n\r\n") },
	{ BYTES(OK "Connection: content-length\r\n\r\n") },
	{ BYTES(OK "Connection: set-cookie\r\n\r\n") },
	{ BYTES(OK "Content_Length: 5\r\n\r\n") },
};

TEST(h1_response_bad)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		lab_check_refused(LAB_RESPONSES, bad[i].bytes, bad[i].len, 502);
}

static const struct {
	const char *data, *want;
} where_cases[] = {
	{ "", "" },
	{ "\x15\x03\x01", "" },
	{ "HTTP/1.1 200 O", "in the middle of the response's head" },
	{ "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "after 0 of 9 bytes" },
	{ "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nall", "after 3 of 9 bytes" },
	{ "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nall", "" },
	{ "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "before the last chunk of the response" },
	{ "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nall\r\n0\r\n",
	  "before the last chunk of the response" },
	{ "HTTP/1.1 200 OK\r\n\r\nall", "" },
};

TEST(h1_response_where)
{
	for (size_t i = 0; i < ARRAY_LEN(where_cases); i++) {
		const char *at = where_cases[i].data;
		size_t len = strlen(at), used;
		char text[H1_WHERE_MAX];
		struct http_text piece;
		struct h1_reader r;

		h1_reader_init(&r, H1_RESPONSES);
		while (h1_read(&r, at, len, &used, &piece, NULL) != H1_MORE) {
			at += used;
			len -= used;
		}
		h1_reader_where(&r, text);
		CHECK_STR(text, where_cases[i].want);
		h1_reader_free(&r);
	}
}
