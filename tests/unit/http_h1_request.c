/* http_h1_request.c - tests of reading HTTP/1.1 requests. */
#include "http_lab.h"

#define GET "GET / HTTP/1.1\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"
#define HOST "Host: a\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

static const struct {
	const char *bytes;
	size_t len;
	const char *want;
} good[] = {
	{ BYTES(""), "EOF\n" },
	{ BYTES("\r\n"), "EOF\n" },
	{ BYTES("\r"), "EOF!\n" },
	{ BYTES(GET HOST "\r\n"), "GET |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES("\r\n" GET HOST "\r\n"), "GET |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES(GET HOST "\r\n\r\n" GET HOST "\r\n"),
	  "GET |a|0|/|0|k\n.\nGET |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES(GET "host:EXAMPLE.com.:8080\r\n\r\n"), "GET |example.com|8080|/|0|k\n.\nEOF\n" },
	{ BYTES("GET / HTTP/1.0\r\n\r\n"), "GET ||0|/|0|0\n.\nEOF\n" },
	{ BYTES("GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n"),
	  "GET |a|0|/|0|k0\n.\nEOF\n" },
	{ BYTES("GET /a/../%7eb/./c%2fd?x=%2E&y=%c3%a4+z HTTP/1.1\r\n" HOST "\r\n"),
	  "GET |a|0|/~b/c%2Fd?x=.&y=%C3%A4+z|0|k\n.\nEOF\n" },
	/* values: tabs and blanks inside, obs-text, none at the ends */
	{ BYTES("GET /\xc3\xa4?50% HTTP/1.1\r\n" HOST "X-A: b\r\n\r\n"),
	  "GET |a|0|/%C3%A4?50%25|0|k\nx-a=b\n.\nEOF\n" },
	{ BYTES("GET http://a?\x80 HTTP/1.1\r\n" HOST "\r\n"), "GET absolute|a|0|/?%80|0|k\n.\nEOF\n" },
	{ BYTES(GET HOST "X-A: \t b\tc  d \t \r\nX-E:\r\nX-B: \x80\xff\r\nX-A:e\r\n\r\n"),
	  "GET |a|0|/|0|k\nx-a=b\tc  d\nx-e=\nx-b=\x80\xff\nx-a=e\n.\nEOF\n" },
	{ BYTES(GET HOST "!#$%&'*+-.^_`|~09AZaz: 1\r\n\r\n"),
	  "GET |a|0|/|0|k\n!#$%&'*+-.^_`|~09azaz=1\n.\nEOF\n" },
	/* bodies */
	{ BYTES(POST "Content-Length: 5\r\n\r\nhello"), "POST |a|0|/|5|k\n<hello>\n.\nEOF\n" },
	{ BYTES(POST "Content-Length: 0\r\n\r\n"), "POST |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES(POST "Content-Length: 5\r\n\r\nhell"), "POST |a|0|/|5|k\n<hell>\nEOF!\n" },
	{ BYTES(POST "Content-Length: 5\r\n\r\nhello\r\n" GET HOST "\r\n"),
	  "POST |a|0|/|5|k\n<hello>\n.\nGET |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi"), "POST ||0|/|2|0\n<hi>\n.\nEOF\n" },
	{ BYTES(CHUNKED "5\r\nhello\r\n0\r\n\r\n"), "POST |a|0|/|?|k\n<hello>\n.\nEOF\n" },
	{ BYTES(CHUNKED "0\r\n\r\n"), "POST |a|0|/|?|k\n.\nEOF\n" },
	{ BYTES(CHUNKED "000\r\n\r\n"), "POST |a|0|/|?|k\n.\nEOF\n" },
	{ BYTES(CHUNKED "a\r\n0123456789\r\n0000A\r\n0123456789\r\n0\r\n\r\n" GET HOST "\r\n"),
	  "POST |a|0|/|?|k\n<01234567890123456789>\n.\nGET |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES(CHUNKED "3\r\n\r\n\n\r\n0\r\n\r\n"), "POST |a|0|/|?|k\n<\r\n\n>\n.\nEOF\n" },
	{ BYTES(CHUNKED "5\r\nhello\r\n0\r\nX-Sum: 1\r\nGrpc-Status: 0\r\n\r\n"),
	  "POST |a|0|/|?|k\n<hello>\n+x-sum=1\n+grpc-status=0\n.\nEOF\n" },
	{ BYTES(CHUNKED "5\r\nhello\r\n0\r\n"), "POST |a|0|/|?|k\n<hello>\nEOF!\n" },
	{ BYTES(CHUNKED "7fffffffffffffff\r\nhello"), "POST |a|0|/|?|k\n<hello>\nEOF!\n" },
	{ BYTES(POST "Transfer-Encoding:\t ChunKed \r\n\r\n0\r\n\r\n"),
	  "POST |a|0|/|?|k\n.\nEOF\n" },
	{ BYTES(POST "Content-Length: 9223372036854775807\r\n\r\n"),
	  "POST |a|0|/|9223372036854775807|k\nEOF!\n" },
	/* what belongs to one connection is gone */
	{ BYTES(GET HOST "Connection: close\r\n\r\n"), "GET |a|0|/|0|\n.\nEOF\n" },
	{ BYTES(GET HOST "Connection: close\t ,keep-alive\r\n\r\n" GET), "GET |a|0|/|0|\n.\nEOF\n" },
	{ BYTES(GET HOST "Connection: keep-alive\r\nConnection: ,close,\r\n\r\nanything\n\n"),
	  "GET |a|0|/|0|\n.\nEOF\n" },
	{ BYTES(GET HOST "X-Hop: 1\r\nConnection: x-hop, X-Two\r\nX-two: 2\r\nX-Three: 3\r\n\r\n"),
	  "GET |a|0|/|0|k\nx-three=3\n.\nEOF\n" },
	{ BYTES(GET HOST "X-A: 1\r\nConnection: a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p\r\nP: 2\r\n\r\n"),
	  "GET |a|0|/|0|k\nx-a=1\n.\nEOF\n" },
	{ BYTES(GET HOST "Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n"
	        "Proxy-Authorization: Basic eA==\r\nProxy-X: 1\r\nAccept: */*\r\n\r\n"),
	  "GET |a|0|/|0|k\naccept=*/*\n.\nEOF\n" },
	{ BYTES(GET HOST "TE: gzip, Trailers;q=1\r\nTE: trailers\r\nConnection: TE\r\n\r\n"),
	  "GET |a|0|/|0|k\nte=trailers\n.\nEOF\n" },
	{ BYTES(GET HOST "TE: deflate;q=0.5\r\n\r\n"), "GET |a|0|/|0|k\n.\nEOF\n" },
	/* expectations */
	{ BYTES(POST "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\nhi"),
	  "POST |a|0|/|2|kc\nexpect=100-Continue\n<hi>\n.\nEOF\n" },
	{ BYTES(POST "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n"),
	  "POST |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES("POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi"),
	  "POST ||0|/|2|0\n<hi>\n.\nEOF\n" },
	/* upgrades */
	{ BYTES(GET HOST "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"
	        "Sec-WebSocket-Key: k\r\n\r\n"),
	  "GET |a|0|/|0|kw\nsec-websocket-key=k\n.\nEOF\n" },
	{ BYTES(GET HOST "Upgrade: websocket\r\n\r\n"), "GET |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES(GET HOST "Connection: upgrade\r\n\r\n"), "GET |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES(GET HOST "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
	        "Connection: Upgrade, HTTP2-Settings\r\n\r\n"),
	  "GET |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES(GET HOST "Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n\r\n"),
	  "GET |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES(GET HOST "Upgrade: websocket\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"),
	  "GET |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES(GET HOST "Upgrade: websocket\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
	  "GET |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES(POST "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
	  "POST |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES("GET / HTTP/1.0\r\n" HOST "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
	  "GET |a|0|/|0|0\n.\nEOF\n" },
	/* other forms of target */
	{ BYTES("GET http://B.example/x?y HTTP/1.1\r\nHost: b.example:80\r\n\r\n"),
	  "GET absolute|b.example|0|/x?y|0|k\n.\nEOF\n" },
	{ BYTES("GET HTTPS://b.example:443/ HTTP/1.1\r\nHost: b.example\r\n\r\n"),
	  "GET absolutes|b.example|443|/|0|k\n.\nEOF\n" },
	{ BYTES("GET http://b:8080 HTTP/1.1\r\nHost: b:8080\r\n\r\n"),
	  "GET absolute|b|8080|/|0|k\n.\nEOF\n" },
	{ BYTES("GET http://b?a/../b HTTP/1.1\r\nHost: b\r\n\r\n"),
	  "GET absolute|b|0|/?a/../b|0|k\n.\nEOF\n" },
	{ BYTES("GET http://b/ HTTP/1.0\r\n\r\n"), "GET absolute|b|0|/|0|0\n.\nEOF\n" },
	{ BYTES("OPTIONS http://b HTTP/1.1\r\nHost: b\r\n\r\n"),
	  "OPTIONS absolute|b|0|*|0|k\n.\nEOF\n" },
	{ BYTES("OPTIONS * HTTP/1.1\r\nHost: b:1\r\n\r\n"), "OPTIONS all|b|1|*|0|k\n.\nEOF\n" },
	{ BYTES("CONNECT B.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n"),
	  "CONNECT authority|b.example|443||0|k\n.\nEOF\n" },
	{ BYTES("CONNECT b.example:443 HTTP/1.1\r\nHost: b.example\r\n"
	        "Proxy-Connection: keep-alive\r\n\r\n"),
	  "CONNECT authority|b.example|443||0|k\n.\nEOF\n" },
	{ BYTES("CONNECT b.example:443 HTTP/1.0\r\n\r\n"),
	  "CONNECT authority|b.example|443||0|0\n.\nEOF\n" },
	{ BYTES("CONNECT [::1]:443 HTTP/1.0\r\n\r\n"), "CONNECT authority|[::1]|443||0|0\n.\nEOF\n" },
	{ BYTES("GET / HTTP/1.1\r\nHost: [::FFFF:a0b:c0d]:1\r\n\r\n"),
	  "GET |[::ffff:10.11.12.13]|1|/|0|k\n.\nEOF\n" },
	{ BYTES("VERSION-CONTROL //x//y HTTP/1.1\r\n" HOST "\r\n"),
	  "VERSION-CONTROL |a|0|//x//y|0|k\n.\nEOF\n" },
	{ BYTES("TRACE / HTTP/1.1\r\n" HOST "\r\n"), "TRACE |a|0|/|0|k\n.\nEOF\n" },
	{ BYTES(GET HOST "Cookie: a=b\r\nCookie: c=d\r\n\r\n"),
	  "GET |a|0|/|0|k\ncookie=a=b\ncookie=c=d\n.\nEOF\n" },
	{ BYTES(GET HOST "X_Custom: 1\r\n\r\n"), "GET |a|0|/|0|k\nx_custom=1\n.\nEOF\n" },
};

TEST(h1_request_good)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		lab_check(LAB_REQUESTS, good[i].bytes, good[i].len, good[i].want, __FILE__, __LINE__);
}

static const struct {
	int status;
	const char *bytes;
	size_t len;
} bad[] = {
	/* lines */
	{ 400, BYTES("\r\n\r\n") },
	{ 400, BYTES("\n") },
	{ 400, BYTES("\r\n\n") },
	{ 400, BYTES("GET / HTTP/1.1\n") },
	{ 400, BYTES("GET / HTTP/1.1\nHost: a\n\n") },
	{ 400, BYTES("GET / HTTP/1.1\r\nHost: a\n\r\n") },
	{ 400, BYTES("GET / HTTP/1.1\r\nHost: a\r\n\n") },
	{ 400, BYTES("GET / HTTP/1.1\r\rHost: a\r\n\r\n") },
	{ 400, BYTES(GET HOST "X: a\rb\r\n\r\n") },
	{ 400, BYTES(GET HOST "X: a\r\r\n\r\n") },
	{ 400, BYTES(GET HOST "X: a\r\rX: b\r\n\r\n") },
	{ 400, BYTES(GET HOST "\rX: a\r\n\r\n") },
	{ 400, BYTES(GET HOST "\r\r\n\r\n") },
	{ 400, BYTES(GET HOST "X: a\0b\r\n\r\n") },
	{ 400, BYTES(GET HOST "X: a\x0b" "b\r\n\r\n") },
	{ 400, BYTES(GET HOST "X: a\x7f\r\n\r\n") },
	{ 400, BYTES(GET HOST "X: \x01 0123456789\r\n\r\n") },
	{ 400, BYTES(GET HOST "X: a\r\n b\r\n\r\n") },
	{ 400, BYTES(GET HOST "X: a\r\n\tb\r\n\r\n") },
	{ 400, BYTES(GET " Host: a\r\n\r\n") },
	{ 400, BYTES(GET "\tHost: a\r\n\r\n") },
	{ 400, BYTES(GET "Host : a\r\n\r\n") },
	{ 400, BYTES(GET "Host\t: a\r\n\r\n") },
	{ 400, BYTES(GET HOST ": a\r\n\r\n") },
	{ 400, BYTES(GET HOST "X\r\n\r\n") },
	{ 400, BYTES(GET HOST "X Y: a\r\n\r\n") },
	{ 400, BYTES(GET HOST "X\0: a\r\n\r\n") },
	{ 400, BYTES(GET HOST "X\x80: a\r\n\r\n") },
	{ 400, BYTES(GET HOST "X(: a\r\n\r\n") },
	{ 400, BYTES(GET HOST "X@: a\r\n\r\n") },
	{ 400, BYTES(GET HOST "\"X\": a\r\n\r\n") },
	/* the first line */
	{ 400, BYTES("\r\nX\r\n\r\n") },
	{ 400, BYTES("GET\r\n\r\n") },
	{ 400, BYTES("GET /\r\n\r\n") },
	{ 400, BYTES("GET /\r\n" HOST "\r\n") },
	{ 400, BYTES("GET / \r\n" HOST "\r\n") },
	{ 400, BYTES(" GET / HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET  / HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /  HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET / HTTP/1.1 \r\n" HOST "\r\n") },
	{ 400, BYTES("GET\t/ HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /\tHTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /a b HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET / HTTP/1.1\r\r\n" HOST "\r\n") },
	{ 400, BYTES("GET / http/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET / HTTP/1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET / HTTP/1.10\r\n" HOST "\r\n") },
	{ 400, BYTES("GET / HTTP/11\r\n" HOST "\r\n") },
	{ 400, BYTES("GET / HTTP/x.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET / HTTP/1,1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET / HTTPS/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET / XTTP/1.1\r\n" HOST "\r\n") },
	{ 505, BYTES("GET / HTTP/1.2\r\n" HOST "\r\n") },
	{ 505, BYTES("GET / HTTP/0.9\r\n" HOST "\r\n") },
	{ 505, BYTES("GET / HTTP/2.0\r\n" HOST "\r\n") },
	{ 505, BYTES("GET / HTTP/9.1\r\n" HOST "\r\n") },
	{ 505, BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") },
	{ 400, BYTES("get / HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("Get / HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GE\0T / HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("G@T / HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("-GET / HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET: / HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("\x16\x03\x01\x02 / HTTP/1.1\r\n" HOST "\r\n") },
	/* targets */
	{ 400, BYTES("GET * HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("OPTIONS ** HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("OPTIONS *?x HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET x HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET ?x HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET a:80 HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /# HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /a#b HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /\0 HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /a/..%09/b HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET http://a/%252e%252e/b HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /\xef\xbc\x8e./b HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /\x7f HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /a\rb HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /a\\b HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /%00 HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /%5c HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET /a/..%2fb HTTP/1.1\r\n" HOST "\r\n") },
	{ 400, BYTES("GET http:// HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("GET http:/a/ HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("GET http:a HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("GET //a/ HTTP/1.1\r\n\r\n") },
	{ 400, BYTES("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("GET ws://a/ HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n") },
	{ 400, BYTES("GET http://a/ HTTP/1.1\r\nHost: a:81\r\n\r\n") },
	{ 400, BYTES("GET https://a/ HTTP/1.1\r\nHost: a:80\r\n\r\n") },
	{ 400, BYTES("GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("GET http://a/ HTTP/1.1\r\n\r\n") },
	{ 400, BYTES("GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n") },
	{ 400, BYTES("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n") },
	{ 400, BYTES("GET http://a#b/ HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("GET http://a:/ HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("GET http://%61/ HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("CONNECT a:0 HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("CONNECT a:70000 HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("CONNECT http://a:1/ HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("CONNECT a:1/ HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("CONNECT u@a:1 HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES("CONNECT a:1 HTTP/1.1\r\nHost: b\r\n\r\n") },
	{ 400, BYTES("CONNECT a:1 HTTP/1.1\r\nHost: a:2\r\n\r\n") },
	{ 400, BYTES("CONNECT a:1 HTTP/1.1\r\n\r\n") },
	{ 400, BYTES("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 3\r\n\r\nabc") },
	{ 400, BYTES("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nTransfer-Encoding: chunked\r\n\r\n") },
	{ 400, BYTES("CONNECT * HTTP/1.1\r\nHost: a:1\r\n\r\n") },
	/* hosts */
	{ 400, BYTES(GET "\r\n") },
	{ 400, BYTES(GET "X: a\r\n\r\n") },
	{ 400, BYTES(GET "Host:\r\n\r\n") },
	{ 400, BYTES(GET "Host: \t\r\n\r\n") },
	{ 400, BYTES(GET HOST HOST "\r\n") },
	{ 400, BYTES(GET HOST "Host: b\r\n\r\n") },
	{ 400, BYTES("GET / HTTP/1.0\r\n" HOST HOST "\r\n") },
	{ 400, BYTES(GET "Host: a b\r\n\r\n") },
	{ 400, BYTES(GET "Host: a,b\r\n\r\n") },
	{ 400, BYTES(GET "Host: a/b\r\n\r\n") },
	{ 400, BYTES(GET "Host: http://a\r\n\r\n") },
	{ 400, BYTES(GET "Host: u@a\r\n\r\n") },
	{ 400, BYTES(GET "Host: a#b\r\n\r\n") },
	{ 400, BYTES(GET "Host: a?b\r\n\r\n") },
	{ 400, BYTES(GET "Host: a:\r\n\r\n") },
	{ 400, BYTES(GET "Host: a:x\r\n\r\n") },
	{ 400, BYTES(GET "Host: a:80:80\r\n\r\n") },
	{ 400, BYTES(GET "Host: a..b\r\n\r\n") },
	{ 400, BYTES(GET "Host: .\r\n\r\n") },
	{ 400, BYTES(GET "Host: ::1\r\n\r\n") },
	{ 400, BYTES(GET "Host: [::1\r\n\r\n") },
	{ 400, BYTES(GET "Host: [::1]x\r\n\r\n") },
	{ 400, BYTES(GET "Host: 0x7f.1\r\n\r\n") },
	{ 400, BYTES(GET "Host: 2130706433\r\n\r\n") },
	{ 400, BYTES(GET "Host: 0177.0.0.1\r\n\r\n") },
	{ 400, BYTES(GET "Host: \xc3\xa4.example\r\n\r\n") },
	{ 400, BYTES(GET HOST "H_ost: a\r\nHost: b\r\n\r\n") },
	/* lengths */
	{ 400, BYTES(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 0\r\nContent-Length: 0\r\n\r\n") },
	{ 400, BYTES(POST "Content-Length: 5, 5\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 5,\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: +5\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: -5\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: -0\r\n\r\n") },
	{ 400, BYTES(POST "Content-Length: 5 5\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 0x5\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 5a\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: a\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 05\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 5.0\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 5e0\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: \"5\"\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 5\0\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: \xb2\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length:\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 9223372036854775808\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 18446744073709551615\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 18446744073709551621\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length: 99999999999999999999999\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length : 5\r\n\r\nhello") },
	{ 400, BYTES(POST " Content-Length: 5\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length:\r\n 5\r\n\r\nhello") },
	{ 400, BYTES(POST "Content_Length: 5\r\n\r\nhello") },
	{ 400, BYTES(POST "Content-Length\x00: 5\r\n\r\nhello") },
	{ 400, BYTES("TRACE / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello") },
	/* codings */
	{ 400, BYTES(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n") },
	{ 501, BYTES(POST "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n") },
	{ 501, BYTES(POST "Transfer-Encoding: identity\r\n\r\n") },
	{ 501, BYTES(POST "Transfer-Encoding: gzip\r\n\r\n") },
	{ 501, BYTES(POST "Transfer-Encoding: gzip, chunked\r\n\r\n") },
	{ 501, BYTES(POST "Transfer-Encoding: xchunked\r\n\r\n") },
	{ 501, BYTES(POST "Transfer-Encoding: chunke\r\n\r\n") },
	{ 501, BYTES(POST "Transfer-Encoding: chunkedd\r\n\r\n") },
	{ 501, BYTES(POST "Transfer-Encoding: ,chunked\r\n\r\n") },
	{ 501, BYTES(POST "Transfer-Encoding: chunked,\r\n\r\n") },
	{ 501, BYTES(POST "Transfer-Encoding:\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chunked, chunked\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chunked, identity\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chunked, gzip\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chunked;a=b\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: \"chunked\"\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: 'chunked' \"\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chun ked\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: \x0b" "chunked\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chunked\0\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chunked\x0c\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding: chunked\x80\r\n\r\n") },
	{ 501, BYTES(POST "Transfer-Encoding:\r\n chunked\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding : chunked\r\n\r\n") },
	{ 400, BYTES(POST " Transfer-Encoding: chunked\r\n\r\n") },
	{ 400, BYTES(POST "Transfer_Encoding: chunked\r\n\r\n") },
	{ 400, BYTES(POST "Transfer-Encoding\x0b: chunked\r\n\r\n") },
	{ 400, BYTES(POST "X: y\rTransfer-Encoding: chunked\r\n\r\n") },
	{ 400, BYTES(POST "X: y\nTransfer-Encoding: chunked\r\n\r\n") },
	{ 400, BYTES("POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n") },
	/* chunks */
	{ 400, BYTES(CHUNKED "\r\n") },
	{ 400, BYTES(CHUNKED "g\r\n") },
	{ 400, BYTES(CHUNKED " 5\r\nhello\r\n") },
	{ 400, BYTES(CHUNKED "5 \r\nhello\r\n") },
	{ 400, BYTES(CHUNKED "\t5\r\nhello\r\n") },
	{ 400, BYTES(CHUNKED "+5\r\nhello\r\n") },
	{ 400, BYTES(CHUNKED "-5\r\nhello\r\n") },
	{ 400, BYTES(CHUNKED "0x5\r\nhello\r\n") },
	{ 400, BYTES(CHUNKED "5h\r\nhello\r\n") },
	{ 400, BYTES(CHUNKED "5;a\r\nhello\r\n0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "5;a=b\r\nhello\r\n0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "5;\r\nhello\r\n0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0;a\r\n\r\n") },
	{ 400, BYTES(CHUNKED "5\nhello\r\n0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "5\rhello\r\n0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "5\r\r\nhello\r\n0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "5\r\nhello0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "5\r\nhello\n0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "5\r\nhello\r0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "5\r\nhello!\r\n0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "5\r\nhello!\n0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "4\r\nhello\r\n0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "6\r\nhello\r\n0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n") },
	{ 400, BYTES(CHUNKED "8000000000000000\r\n") },
	{ 400, BYTES(CHUNKED "ffffffffffffffff\r\n") },
	{ 400, BYTES(CHUNKED "10000000000000005\r\nhello\r\n") },
	{ 400, BYTES(CHUNKED "00000000000000005\r\nhello\r\n") },
	{ 400, BYTES(CHUNKED "0\n\n") },
	{ 400, BYTES(CHUNKED "0\r\n\n") },
	/* trailers */
	{ 400, BYTES(CHUNKED "0\r\nX\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nX : a\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nX: a\r\n b\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nX: a\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nX: \0\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nContent-Length: 5\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nTransfer-Encoding: chunked\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nHost: b\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nConnection: close\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nTE: trailers\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nTrailer: x\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nUpgrade: websocket\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nAuthorization: x\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nProxy-Authorization: x\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nCookie: x\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nContent-Type: x\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nContent-Encoding: x\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nExpect: 100-continue\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nX-HTTP-Method-Override: DELETE\r\n\r\n") },
	{ 400, BYTES(CHUNKED "0\r\nContent_Length: 5\r\n\r\n") },
	/* what matters is there once, and cannot be hidden */
	{ 400, BYTES(POST "Content-Type: a/b\r\nContent-Type: c/d\r\n\r\n") },
	{ 400, BYTES(POST "Content-Encoding: gzip\r\nContent-Encoding: br\r\n\r\n") },
	{ 400, BYTES(GET HOST "Authorization: a\r\nAuthorization: b\r\n\r\n") },
	{ 400, BYTES(GET HOST "X-HTTP-Method-Override: A\r\nX-HTTP-Method-Override: B\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: Host\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: close, content-length\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: transfer-encoding\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: Authorization\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: cookie\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: content-type\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: content-encoding\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: expect\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: connection\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: a b\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: a;b\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q\r\n\r\n") },
	{ 400, BYTES(GET HOST "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\n") },
	{ 417, BYTES(POST "Expect: 200-ok\r\nContent-Length: 1\r\n\r\na") },
	{ 417, BYTES(POST "Expect:\r\nContent-Length: 1\r\n\r\na") },
	{ 417, BYTES(POST "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n") },
	{ 417, BYTES(POST "Expect: 100-continue, x\r\nContent-Length: 1\r\n\r\na") },
};

TEST(h1_request_bad)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		lab_check_refused(LAB_REQUESTS, bad[i].bytes, bad[i].len, bad[i].status);
}

/* After a good one on the same connection just the same. */
TEST(h1_request_bad_behind_a_good_one)
{
	static const char before[] = POST "Content-Length: 3\r\n\r\nabc";

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		size_t len = sizeof(before) - 1 + bad[i].len;
		OWN(freep) char *bytes = malloc(len);

		memcpy(bytes, before, sizeof(before) - 1);
		memcpy(bytes + sizeof(before) - 1, bad[i].bytes, bad[i].len);
		lab_check_refused(LAB_REQUESTS, bytes, len, bad[i].status);
	}
}

/* A head of N fields "x: y", and one of SIZE bytes of value. */
static char *
big_head(size_t n, size_t size, size_t *ret_len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	fputs(GET HOST, out);
	for (size_t i = 0; i < n; i++)
		fputs("x: y\r\n", out);
	if (size > 0)
		fprintf(out, "z: %0*d\r\n", (int)size, 0);
	fputs("\r\n", out);
	fclose(out);
	return text;
}

TEST(h1_request_limits)
{
	static const struct { size_t n, size; int status; } cases[] = {
		{ HTTP_FIELDS_MAX - 1, 0, 0 },
		{ HTTP_FIELDS_MAX, 0, 431 },
		{ 0, HTTP_HEAD_MAX - 32, 0 },
		{ 0, HTTP_HEAD_MAX - 31, 431 },
		{ 0, HTTP_HEAD_MAX + 5000, 431 },
		{ 3, 20000, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len;
		OWN(freep) char *text = big_head(cases[i].n, cases[i].size, &len);

		if (cases[i].size == HTTP_HEAD_MAX - 32)
			CHECK(len == HTTP_HEAD_MAX);
		lab_check_refused(LAB_REQUESTS, text, len, cases[i].status);
	}
}

/* Lines without end, and trailers without end. */
TEST(h1_request_endless)
{
	OWN(freep) char *text = malloc(HTTP_HEAD_MAX + 100);

	memset(text, 'A', HTTP_HEAD_MAX + 100);
	lab_check_refused(LAB_REQUESTS, text, HTTP_HEAD_MAX, 0);
	lab_check_refused(LAB_REQUESTS, text, HTTP_HEAD_MAX + 1, 431);
	/* A bare LF is seen before the size is. */
	text[HTTP_HEAD_MAX - 1] = '\n';
	lab_check_refused(LAB_REQUESTS, text, HTTP_HEAD_MAX + 100, 400);
	text[HTTP_HEAD_MAX - 1] = 'A';
	text[HTTP_HEAD_MAX + 1] = '\n';
	lab_check_refused(LAB_REQUESTS, text, HTTP_HEAD_MAX + 100, 431);
	memset(text, 'A', HTTP_HEAD_MAX + 100);
	memcpy(text, BYTES(CHUNKED "0\r\n"));
	lab_check_refused(LAB_REQUESTS, text, HTTP_HEAD_MAX + sizeof(CHUNKED "0\r\n") - 1, 0);
	lab_check_refused(LAB_REQUESTS, text, HTTP_HEAD_MAX + sizeof(CHUNKED "0\r\n"), 431);
}

TEST(h1_reader_rests_only_between_messages)
{
	static const char bytes[] = POST "Content-Length: 5\r\n\r\nhello";
	struct h1_reader r;
	struct http_text piece;
	size_t used, at = 0;

	h1_reader_init(&r, H1_REQUESTS);
	h1_reader_rest(&r);
	CHECK(h1_read(&r, bytes, 10, &used, &piece, NULL) == H1_MORE && used == 10);
	h1_reader_rest(&r);
	CHECK(r.text != NULL);
	at += used;
	CHECK(h1_read(&r, bytes + at, sizeof(bytes) - 1 - at, &used, &piece, NULL) == H1_HEAD);
	h1_reader_rest(&r);
	CHECK(r.text != NULL && http_text_is(r.head.method, "POST"));
	at += used;
	CHECK(h1_read(&r, bytes + at, sizeof(bytes) - 1 - at, &used, &piece, NULL) == H1_BODY);
	CHECK(h1_read(&r, "", 0, &used, &piece, NULL) == H1_END);
	h1_reader_rest(&r);
	CHECK(r.text == NULL);
	CHECK(h1_read(&r, bytes, sizeof(bytes) - 1, &used, &piece, NULL) == H1_HEAD);
	h1_reader_free(&r);
	CHECK(h1_read(&r, bytes, sizeof(bytes) - 1, &used, &piece, NULL) == H1_BAD);
}
