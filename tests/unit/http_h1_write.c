/* http_h1_write.c - tests of writing HTTP/1.1. */
#include "http/h1.h"
#include "test.h"

#define TEXT(s) ((struct http_text){ s, sizeof(s) - 1 })
#define FIELD(n, v) { { n, sizeof(n) - 1 }, { v, sizeof(v) - 1 } }
#define REQUEST(m, p) .method = { m, sizeof(m) - 1 }, .host = { "a.example", 9 }, \
	.path = { p, sizeof(p) - 1 }, .port = 443, .scheme = HTTP_TLS
#define KEEP { .keep_alive = true }

static const struct {
	struct http_head head;
	struct h1_style style;
	const char *want;
} cases[] = {
	{ { REQUEST("GET", "/x?y") }, KEEP, "GET /x?y HTTP/1.1\r\nhost: a.example\r\n\r\n" },
	{ { REQUEST("GET", "/") }, {0},
	  "GET / HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n" },
	{ { REQUEST("POST", "/") }, KEEP,
	  "POST / HTTP/1.1\r\nhost: a.example\r\ncontent-length: 0\r\n\r\n" },
	{ { REQUEST("DELETE", "/") }, KEEP, "DELETE / HTTP/1.1\r\nhost: a.example\r\n\r\n" },
	{ { REQUEST("DELETE", "/"), .says_zero = true }, KEEP,
	  "DELETE / HTTP/1.1\r\nhost: a.example\r\ncontent-length: 0\r\n\r\n" },
	{ { REQUEST("GET", "/~"), .says_zero = true, .written = { "/%7e", 4 } }, KEEP,
	  "GET /~ HTTP/1.1\r\nhost: a.example\r\ncontent-length: 0\r\n\r\n" },
	{ { REQUEST("GET", "/"), .length = 18 }, KEEP,
	  "GET / HTTP/1.1\r\nhost: a.example\r\ncontent-length: 18\r\n\r\n" },
	{ { REQUEST("PUT", "/"), .length = HTTP_LENGTH_UNKNOWN }, KEEP,
	  "PUT / HTTP/1.1\r\nhost: a.example\r\ntransfer-encoding: chunked\r\n\r\n" },
	{ { REQUEST("GET", "/"), .fields = { FIELD("accept", "*/*"), FIELD("x", "") }, .n_fields = 2 },
	  KEEP, "GET / HTTP/1.1\r\nhost: a.example\r\naccept: */*\r\nx: \r\n\r\n" },
	{ { REQUEST("GET", "/"), .fields = { FIELD("cookie", "a=b"), FIELD("x", "y"),
	    FIELD("cookie", "c=d") }, .n_fields = 3 },
	  KEEP, "GET / HTTP/1.1\r\nhost: a.example\r\ncookie: a=b; c=d\r\nx: y\r\n\r\n" },
	{ { REQUEST("GET", "/"), .fields = { FIELD("te", "trailers") }, .n_fields = 1 }, KEEP,
	  "GET / HTTP/1.1\r\nhost: a.example\r\nte: trailers\r\nconnection: te\r\n\r\n" },
	{ { REQUEST("GET", "/"), .fields = { FIELD("te", "trailers") }, .n_fields = 1 }, {0},
	  "GET / HTTP/1.1\r\nhost: a.example\r\nte: trailers\r\nconnection: close, te\r\n\r\n" },
	{ { REQUEST("GET", "/"), .upgrade = { "websocket", 9 } }, KEEP,
	  "GET / HTTP/1.1\r\nhost: a.example\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n" },
	{ { .method = { "GET", 3 }, .host = { "[::1]", 5 }, .path = { "/", 1 }, .port = 8080 }, KEEP,
	  "GET / HTTP/1.1\r\nhost: [::1]:8080\r\n\r\n" },
	{ { .method = { "GET", 3 }, .host = { "a", 1 }, .path = { "/", 1 }, .port = 443 }, KEEP,
	  "GET / HTTP/1.1\r\nhost: a:443\r\n\r\n" },
	{ { .method = { "GET", 3 }, .host = { "a", 1 }, .path = { "/x", 2 }, .port = 80 },
	  { .keep_alive = true, .absolute_form = true }, "GET http://a/x HTTP/1.1\r\nhost: a\r\n\r\n" },
	{ { REQUEST("OPTIONS", "*") }, KEEP, "OPTIONS * HTTP/1.1\r\nhost: a.example\r\n\r\n" },
	{ { REQUEST("OPTIONS", "*") }, { .keep_alive = true, .absolute_form = true },
	  "OPTIONS https://a.example HTTP/1.1\r\nhost: a.example\r\n\r\n" },
	{ { REQUEST("CONNECT", "") }, KEEP,
	  "CONNECT a.example:443 HTTP/1.1\r\nhost: a.example:443\r\n\r\n" },
	/* responses */
	{ { .status = 200 }, KEEP, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" },
	{ { .status = 200, .length = UINT64_C(9223372036854775807) }, KEEP,
	  "HTTP/1.1 200 OK\r\ncontent-length: 9223372036854775807\r\n\r\n" },
	{ { .status = 404, .length = HTTP_LENGTH_UNKNOWN }, KEEP,
	  "HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n" },
	{ { .status = 200, .length = HTTP_LENGTH_UNKNOWN }, { .plain_body = true },
	  "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" },
	{ { .status = 200, .length = HTTP_LENGTH_UNKNOWN }, { .keep_alive = true, .no_body = true },
	  "HTTP/1.1 200 OK\r\n\r\n" },
	{ { .status = 200, .length = 7 }, { .keep_alive = true, .no_body = true },
	  "HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n" },
	{ { .status = 200, .length = 7 }, { .keep_alive = true, .to_http10 = true },
	  "HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: keep-alive\r\n\r\n" },
	{ { .status = 200, .fields = { FIELD("set-cookie", "a"), FIELD("set-cookie", "b"),
	    FIELD("cookie", "c"), FIELD("cookie", "d") }, .n_fields = 4 }, KEEP,
	  "HTTP/1.1 200 OK\r\nset-cookie: a\r\nset-cookie: b\r\ncookie: c\r\ncookie: d\r\n"
	  "content-length: 0\r\n\r\n" },
	{ { .status = 100 }, {0}, "HTTP/1.1 100 Continue\r\n\r\n" },
	{ { .status = 103 }, KEEP, "HTTP/1.1 103 Early Hints\r\n\r\n" },
	{ { .status = 204 }, KEEP, "HTTP/1.1 204 No Content\r\n\r\n" },
	{ { .status = 304 }, KEEP, "HTTP/1.1 304 Not Modified\r\n\r\n" },
	{ { .status = 304, .length = 5 }, KEEP,
	  "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n" },
	{ { .status = 304, .length = HTTP_LENGTH_UNKNOWN }, KEEP,
	  "HTTP/1.1 304 Not Modified\r\n\r\n" },
	{ { .status = 101, .upgrade = { "websocket", 9 } }, KEEP,
	  "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n" },
	{ { .status = 431 }, KEEP,
	  "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n" },
	{ { .status = 418 }, KEEP, "HTTP/1.1 418 \r\ncontent-length: 0\r\n\r\n" },
	{ { .status = 499 }, KEEP, "HTTP/1.1 499 \r\ncontent-length: 0\r\n\r\n" },
	{ { .status = 511 }, KEEP,
	  "HTTP/1.1 511 Network Authentication Required\r\ncontent-length: 0\r\n\r\n" },
	{ { .status = 599 }, KEEP, "HTTP/1.1 599 \r\ncontent-length: 0\r\n\r\n" },
};

TEST(h1_write_head)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(buf_free) struct buf b;

		buf_init(&b, 1 << 16);
		buf_put(&b, "before", 6);
		h1_write_head(&b, &cases[i].head, cases[i].style);
		buf_put(&b, "", 1);
		CHECK(!buf_failed(&b));
		CHECK_STR((char *)b.data + 6, cases[i].want);
		CHECK(b.len == 6 + strlen(cases[i].want) + 1);
	}
}

TEST(h1_write_head_without_room)
{
	OWN(buf_free) struct buf b;

	buf_init(&b, 100);
	h1_write_head(&b, &cases[0].head, cases[0].style);
	CHECK(buf_failed(&b) && b.len == 0);
}

TEST(h1_write_chunks)
{
	static const struct { size_t len; const char *want; } sizes[] = {
		{ 1, "1\r\n" }, { 15, "f\r\n" }, { 16, "10\r\n" }, { 0x12345, "12345\r\n" },
		{ SIZE_MAX, "ffffffffffffffff\r\n" },
	};
	static const struct http_field trailers[] = { FIELD("grpc-status", "0"), FIELD("x", "") };
	OWN(buf_free) struct buf b;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		char text[H1_CHUNK_MAX];
		size_t n = h1_chunk_begin(text, sizes[i].len);

		CHECK(n == strlen(sizes[i].want) && memcmp(text, sizes[i].want, n) == 0);
	}
	buf_init(&b, 4096);
	h1_write_end(&b, NULL, 0);
	h1_write_end(&b, trailers, 2);
	buf_put(&b, "", 1);
	CHECK_STR((char *)b.data, "0\r\n\r\n0\r\ngrpc-status: 0\r\nx: \r\n\r\n");
}

/* The value of NAME in TEXT, a head as it is sent; NULL if it is not there. */
static const char *
sent_value(const char *text, const char *name, char ret_value[256])
{
	char line[64];
	const char *at;
	size_t len;

	snprintf(line, sizeof(line), "\r\n%s: ", name);
	at = strstr(text, line);
	if (at == NULL)
		return NULL;
	at += strlen(line);
	len = strcspn(at, "\r");
	snprintf(ret_value, 256, "%.*s", (int)len, at);
	return ret_value;
}

/* What signers are told of a field is what is written, or they are told of none. */
TEST(http_sent)
{
	static const char *const names[] = { "host", "content-length", "connection", "te", "upgrade",
		"transfer-encoding", "cookie", "expect", "accept", "keep-alive", "x" };
	size_t told = 0;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(buf_free) struct buf b;

		if (cases[i].head.status != 0 || http_text_is(cases[i].head.method, "CONNECT"))
			continue;
		buf_init(&b, 4096);
		h1_write_head(&b, &cases[i].head, cases[i].style);
		buf_put(&b, "", 1);
		for (size_t j = 0; j < ARRAY_LEN(names); j++) {
			struct http_text name = { names[j], strlen(names[j]) }, value;
			struct http_sent sent;
			char is[256];

			http_sent_begin(&sent, &cases[i].head, name);
			if (!http_sent_next(&sent, &value))
				continue;
			told++;
			CHECK(sent_value((char *)b.data, names[j], is) != NULL);
			CHECK(http_text_is(value, is) && !http_sent_next(&sent, &value));
		}
	}
	CHECK(told > 20);
}

TEST(http_sent_cookies)
{
	const struct http_head head = { REQUEST("GET", "/"), .fields = { FIELD("cookie", "a=b"),
		FIELD("x", "1"), FIELD("cookie", "c=d"), FIELD("x", "2") }, .n_fields = 4 };
	struct http_text value;
	struct http_sent sent;

	/* They are joined for some servers only. */
	http_sent_begin(&sent, &head, TEXT("cookie"));
	CHECK(!http_sent_next(&sent, &value));
	http_sent_begin(&sent, &head, TEXT("x"));
	CHECK(http_sent_next(&sent, &value) && http_text_is(value, "1"));
	CHECK(http_sent_next(&sent, &value) && http_text_is(value, "2"));
	CHECK(!http_sent_next(&sent, &value));
}
