/* http_head.c - tests of canonical heads, and of how they are carried. */
#include "http/http_head.h"

#include <errno.h>

#include "base/err.h"
#include "http/http_parts.h"
#include "test.h"

#define TEXT(s) ((struct http_text){ s, sizeof(s) - 1 })
#define FIELD(n, v) { { n, sizeof(n) - 1 }, { v, sizeof(v) - 1 } }

static struct http_head *
request(void)
{
	struct http_head *head = calloc(1, sizeof(*head));

	head->method = TEXT("GET");
	head->host = TEXT("a.example");
	head->path = TEXT("/x?y");
	head->port = 443;
	head->scheme = HTTP_TLS;
	return head;
}

static struct http_head *
response(void)
{
	struct http_head *head = calloc(1, sizeof(*head));

	head->status = 200;
	return head;
}

/* The same verdict whether it is checked here or behind the channel. */
static int
check(const struct http_head *head)
{
	struct http_head *again = malloc(sizeof(*again));
	OWN(buf_free) struct buf b;
	struct err err = {0};
	int r = http_head_check(head, &err), carried;

	CHECK((r == 0) == (err.text[0] == '\0'));
	buf_init(&b, 1 << 20);
	http_head_encode(&b, head);
	carried = http_head_decode(&b, again, NULL);
	CHECK((carried == 0) == (r == 0));
	free(again);
	return r;
}

static int
check_field(struct http_head *base, struct http_field field, int times)
{
	OWN(freep) struct http_head *head = base;

	for (int i = 0; i < times; i++)
		head->fields[head->n_fields++] = field;
	return check(head);
}

static const struct {
	struct http_field field;
	bool in_request, twice, in_response, trailer;
} fields[] = {
	{ FIELD("accept", "*/*"), true, true, true, true },
	{ FIELD("x", ""), true, true, true, true },
	{ FIELD("x", "a\tb \x80\xff"), true, true, true, true },
	{ FIELD("x_y", "a"), true, true, true, true },
	{ FIELD("cookie", "a"), true, true, true, false },
	{ FIELD("te", "trailers"), true, false, false, false },
	{ FIELD("te", "gzip"), false, false, false, false },
	{ FIELD("te", "Trailers"), false, false, false, false },
	{ FIELD("expect", "100-continue"), true, false, false, false },
	{ FIELD("expect", "100-Continue"), true, false, false, false },
	{ FIELD("content-type", "a"), true, false, true, false },
	{ FIELD("content-encoding", "a"), true, false, true, false },
	{ FIELD("content-range", "a"), true, false, true, false },
	{ FIELD("authorization", "a"), true, false, true, false },
	{ FIELD("origin", "a"), true, false, true, false },
	{ FIELD("range", "a"), true, false, true, false },
	{ FIELD("referer", "a"), true, false, true, false },
	{ FIELD("sec-websocket-key", "a"), true, false, true, false },
	{ FIELD("sec-websocket-version", "a"), true, false, true, false },
	{ FIELD("sec-websocket-accept", "a"), true, false, true, false },
	{ FIELD("x-http-method", "a"), true, false, true, false },
	{ FIELD("x-http-method-override", "a"), true, false, true, false },
	{ FIELD("x-method-override", "a"), true, false, true, false },
	{ FIELD("set-cookie", "a"), true, true, true, false },
	{ FIELD("trailer", "a"), true, true, true, false },
	{ FIELD("age", "a"), true, true, true, false },
	{ FIELD("via", "a"), true, true, true, false },
	{ FIELD("date", "a"), true, true, true, false },
	{ FIELD("vary", "a"), true, true, true, false },
	{ FIELD("pragma", "a"), true, true, true, false },
	{ FIELD("expires", "a"), true, true, true, false },
	{ FIELD("if-match", "a"), true, true, true, false },
	{ FIELD("if-range", "a"), true, true, true, false },
	{ FIELD("location", "a"), true, true, true, false },
	{ FIELD("forwarded", "a"), true, true, true, false },
	{ FIELD("retry-after", "a"), true, true, true, false },
	{ FIELD("max-forwards", "a"), true, true, true, false },
	{ FIELD("cache-control", "a"), true, true, true, false },
	{ FIELD("if-none-match", "a"), true, true, true, false },
	{ FIELD("www-authenticate", "a"), true, true, true, false },
	{ FIELD("if-modified-since", "a"), true, true, true, false },
	{ FIELD("if-unmodified-since", "a"), true, true, true, false },
	{ FIELD("authentication-info", "a"), true, true, true, false },
	{ FIELD("content-disposition", "a"), true, true, true, false },
	/* never */
	{ FIELD("host", "a"), false, false, false, false },
	{ FIELD("connection", "close"), false, false, false, false },
	{ FIELD("keep-alive", "x"), false, false, false, false },
	{ FIELD("proxy-connection", "x"), false, false, false, false },
	{ FIELD("proxy-authorization", "x"), false, false, false, false },
	{ FIELD("proxy-authenticate", "x"), false, false, false, false },
	{ FIELD("proxy-x", "x"), false, false, false, false },
	{ FIELD("transfer-encoding", "chunked"), false, false, false, false },
	{ FIELD("content-length", "0"), false, false, false, false },
	{ FIELD("upgrade", "websocket"), false, false, false, false },
	{ FIELD("http2-settings", "x"), false, false, false, false },
	{ FIELD("content_length", "5"), false, false, false, false },
	{ FIELD("transfer_encoding", "chunked"), false, false, false, false },
	{ FIELD("content_type", "a"), false, false, false, false },
	{ FIELD("", "a"), false, false, false, false },
	{ FIELD("X", "a"), false, false, false, false },
	{ FIELD("x y", "a"), false, false, false, false },
	{ FIELD("x:", "a"), false, false, false, false },
	{ FIELD(":path", "a"), false, false, false, false },
	{ FIELD("x\0", "a"), false, false, false, false },
	{ FIELD("x\x80", "a"), false, false, false, false },
	{ FIELD("x\r\n", "a"), false, false, false, false },
	{ FIELD("x", " a"), false, false, false, false },
	{ FIELD("x", "a "), false, false, false, false },
	{ FIELD("x", "\ta"), false, false, false, false },
	{ FIELD("x", " "), false, false, false, false },
	{ FIELD("x", "a\rb"), false, false, false, false },
	{ FIELD("x", "a\nb"), false, false, false, false },
	{ FIELD("x", "a\0b"), false, false, false, false },
	{ FIELD("x", "a\x1f"), false, false, false, false },
	{ FIELD("x", "0123456789\x7f" "0123456789"), false, false, false, false },
};

TEST(http_head_fields)
{
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const struct http_field *f = &fields[i].field;
		struct http_field got[HTTP_FIELDS_MAX];
		OWN(buf_free) struct buf b;
		size_t n;

		if ((check_field(request(), *f, 1) == 0) != fields[i].in_request ||
		    (check_field(request(), *f, 2) == 0) != fields[i].twice ||
		    (check_field(response(), *f, 2) == 0) != fields[i].in_response ||
		    (http_trailers_check(f, 1, NULL) == 0) != fields[i].trailer)
			test_fail(__FILE__, __LINE__, "'%s: %s' is judged wrongly", f->name.at, f->value.at);
		buf_init(&b, 4096);
		http_fields_encode(&b, f, 1);
		CHECK((http_fields_decode(&b, got, &n, NULL) == 0) == fields[i].trailer);
		if (fields[i].trailer)
			CHECK(n == 1 && got[0].name.len == f->name.len && got[0].value.len == f->value.len);
	}
}

static const struct {
	const char *first, *second;     /* of content-encoding; NULL: there is none */
	bool want;
} packed_cases[] = {
	{ NULL, NULL, false },
	{ "", NULL, false },
	{ "identity", NULL, false },
	{ "Identity", "", false },
	{ "gzip", NULL, true },
	{ "identity", "gzip", true },
	{ "identity, gzip", NULL, true },
	{ "aws-chunked", NULL, true },
};

TEST(http_head_is_packed)
{
	for (size_t i = 0; i < ARRAY_LEN(packed_cases); i++) {
		const char *values[] = { packed_cases[i].first, packed_cases[i].second };
		struct http_head head = {0};

		for (size_t k = 0; k < ARRAY_LEN(values) && values[k] != NULL; k++)
			head.fields[head.n_fields++] = (struct http_field){
				{ "content-encoding", 16 }, { values[k], strlen(values[k]) } };
		CHECK(http_head_is_packed(&head) == packed_cases[i].want);
	}
}

TEST(http_field_is_hop)
{
	static const char *const hops[] = { "host", "connection", "keep-alive", "upgrade",
		"transfer-encoding", "content-length", "http2-settings", "proxy-connection", "proxy-x" };
	static const char *const others[] = { "te", "trailer", "x-host", "proxy", "proxy-", "hosts", "" };

	for (size_t i = 0; i < ARRAY_LEN(hops); i++)
		CHECK(http_field_is_hop((struct http_text){ hops[i], strlen(hops[i]) }));
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		CHECK(!http_field_is_hop((struct http_text){ others[i], strlen(others[i]) }));
}

/* Every byte in every place where it might go wrong, also within the eight that are
 * looked at together. */
TEST(http_value_end_sees_every_byte)
{
	for (int c = 0; c < 256; c++) {
		bool good = (c >= 0x20 && c != 0x7f) || c == '\t';

		for (size_t len = 1; len < 20; len++)
			for (size_t at = 0; at < len; at++) {
				OWN(freep) char *text = malloc(len);
				const char *end;

				memset(text, (c & 1) != 0 ? 'a' : 0xe4, len);
				text[at] = (char)c;
				end = http_value_end(text, text + len);
				CHECK(end == (good ? text + len : text + at));
			}
	}
}

static const struct {
	const char *method, *host, *path, *upgrade;
	uint16_t port, status;
	uint64_t length;
	bool good;
} heads[] = {
	{ "GET", "a", "/", "", 80, 0, 0, true },
	{ "GET", "a", "/", "", 80, 0, 5, true },
	{ "GET", "a", "/", "", 80, 0, HTTP_LENGTH_UNKNOWN, true },
	{ "GET", "a", "/", "", 80, 0, HTTP_LENGTH_MAX, true },
	{ "GET", "a", "/", "", 80, 0, HTTP_LENGTH_MAX + 1, false },
	{ "GET", "a", "/", "", 80, 0, HTTP_LENGTH_UNKNOWN - 1, false },
	{ "GET", "a", "/", "websocket", 80, 0, 0, true },
	{ "GET", "a", "/", "WebSocket", 80, 0, 0, false },
	{ "GET", "a", "/", "h2c", 80, 0, 0, false },
	{ "GET", "a", "/", "websocket", 80, 0, 1, false },
	{ "GET", "a", "/", "websocket", 80, 0, HTTP_LENGTH_UNKNOWN, false },
	{ "POST", "a", "/", "websocket", 80, 0, 0, false },
	{ "OPTIONS", "a", "*", "", 80, 0, 0, true },
	{ "GET", "a", "*", "", 80, 0, 0, false },
	{ "OPTIONS", "a", "**", "", 80, 0, 0, false },
	{ "CONNECT", "a", "", "", 80, 0, 0, false },
	{ "CONNECT", "a", "/", "", 80, 0, 0, false },
	{ "TRACE", "a", "/", "", 80, 0, 0, true },
	{ "TRACE", "a", "/", "", 80, 0, 1, false },
	{ "M-SEARCH", "a", "/", "", 80, 0, 0, true },
	{ "A_1", "a", "/", "", 80, 0, 0, true },
	{ "", "a", "/", "", 80, 0, 0, false },
	{ "get", "a", "/", "", 80, 0, 0, false },
	{ "1GET", "a", "/", "", 80, 0, 0, false },
	{ "GET ", "a", "/", "", 80, 0, 0, false },
	{ "G\r\nT", "a", "/", "", 80, 0, 0, false },
	{ "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "a", "/", "", 80, 0, 0, true },
	{ "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "a", "/", "", 80, 0, 0, false },
	{ "GET", "", "/", "", 80, 0, 0, false },
	{ "GET", "A", "/", "", 80, 0, 0, false },
	{ "GET", "a.", "/", "", 80, 0, 0, false },
	{ "GET", "a:80", "/", "", 80, 0, 0, false },
	{ "GET", "[::1]", "/", "", 80, 0, 0, true },
	{ "GET", "[0::1]", "/", "", 80, 0, 0, false },
	{ "GET", "::1", "/", "", 80, 0, 0, false },
	{ "GET", "127.1", "/", "", 80, 0, 0, false },
	{ "GET", "a", "/", "", 0, 0, 0, false },
	{ "GET", "a", "", "", 80, 0, 0, false },
	{ "GET", "a", "x", "", 80, 0, 0, false },
	{ "GET", "a", "/../x", "", 80, 0, 0, false },
	{ "GET", "a", "/%2e", "", 80, 0, 0, false },
	{ "GET", "a", "/%c3", "", 80, 0, 0, false },
	{ "GET", "a", "/a b", "", 80, 0, 0, false },
	{ "GET", "a", "/?a\r\n", "", 80, 0, 0, false },
	/* responses */
	{ "", "", "", "", 0, 200, 0, true },
	{ "", "", "", "", 0, 200, HTTP_LENGTH_UNKNOWN, true },
	{ "", "", "", "", 0, 100, 0, true },
	{ "", "", "", "", 0, 100, 1, false },
	{ "", "", "", "", 0, 101, 0, false },
	{ "", "", "", "websocket", 0, 101, 0, true },
	{ "", "", "", "websocket", 0, 101, 1, false },
	{ "", "", "", "websocket", 0, 200, 0, false },
	{ "", "", "", "", 0, 204, 0, true },
	{ "", "", "", "", 0, 204, HTTP_LENGTH_UNKNOWN, false },
	{ "", "", "", "", 0, 304, 17, true },
	{ "", "", "", "", 0, 99, 0, false },
	{ "", "", "", "", 0, 599, 0, true },
	{ "", "", "", "", 0, 600, 0, false },
	{ "", "", "", "", 0, 65535, 0, false },
	/* a response is not judged by what belongs to a request */
	{ "nonsense", "NONSENSE", "nonsense", "", 0, 200, 0, true },
};

TEST(http_head_check)
{
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		OWN(freep) struct http_head *head = calloc(1, sizeof(*head));

		head->method = (struct http_text){ heads[i].method, strlen(heads[i].method) };
		head->host = (struct http_text){ heads[i].host, strlen(heads[i].host) };
		head->path = (struct http_text){ heads[i].path, strlen(heads[i].path) };
		head->upgrade = (struct http_text){ heads[i].upgrade, strlen(heads[i].upgrade) };
		head->port = heads[i].port;
		head->status = heads[i].status;
		head->length = heads[i].length;
		if ((check(head) == 0) != heads[i].good)
			test_fail(__FILE__, __LINE__, "case %zu is judged wrongly", i);
	}
}

TEST(http_head_has_a_maximum)
{
	OWN(freep) struct http_head *head = request();
	OWN(freep) char *big = malloc(HTTP_HEAD_MAX + 1);
	size_t others = 3 + 9 + 4 + 1;

	memset(big, 'x', HTTP_HEAD_MAX + 1);
	head->fields[0] = (struct http_field){ { "x", 1 }, { big, HTTP_HEAD_MAX - others } };
	head->n_fields = 1;
	CHECK_OK(check(head));
	head->fields[0].value.len++;
	CHECK_ERR(check(head), EMSGSIZE);
	head->fields[0].value.len = HTTP_HEAD_MAX + 1;
	CHECK_ERR(check(head), EMSGSIZE);
	CHECK_ERR(http_trailers_check(head->fields, 1, NULL), EMSGSIZE);
	head->n_fields = 0;
	head->path = (struct http_text){ big, HTTP_HEAD_MAX + 1 };
	CHECK_ERR(check(head), EMSGSIZE);
	head->path = TEXT("/");
	for (size_t i = 0; i < HTTP_FIELDS_MAX; i++)
		head->fields[i] = (struct http_field)FIELD("x", "y");
	head->n_fields = HTTP_FIELDS_MAX;
	CHECK_OK(check(head));
	CHECK_OK(http_trailers_check(head->fields, HTTP_FIELDS_MAX, NULL));
	head->n_fields++;
	CHECK_ERR(http_head_check(head, NULL), EMSGSIZE);
	CHECK_ERR(http_trailers_check(head->fields, HTTP_FIELDS_MAX + 1, NULL), EMSGSIZE);
}

static void
check_text(struct http_text got, const char *want)
{
	CHECK(http_text_is(got, want));
}

TEST(http_head_is_carried)
{
	OWN(freep) struct http_head *head = request(), *got = malloc(sizeof(*got));
	OWN(buf_free) struct buf b;

	head->length = 0x123456789a;
	head->fields[0] = (struct http_field)FIELD("accept", "text/html");
	head->fields[1] = (struct http_field)FIELD("x", "");
	head->n_fields = 2;
	buf_init(&b, 4096);
	buf_put_u32(&b, 7);
	http_head_encode(&b, head);
	buf_put_u32(&b, 8);
	CHECK(!buf_failed(&b));
	CHECK_OK(buf_get_u32(&b, &(uint32_t){0}));
	CHECK_OK(http_head_decode(&b, got, NULL));
	CHECK(buf_left(&b) == 4);
	check_text(got->method, "GET");
	check_text(got->host, "a.example");
	check_text(got->path, "/x?y");
	check_text(got->upgrade, "");
	CHECK(got->port == 443 && got->scheme == HTTP_TLS && got->status == 0);
	CHECK_U64(got->length, 0x123456789a);
	CHECK(got->n_fields == 2);
	check_text(http_head_get(got, "accept"), "text/html");
	check_text(http_head_get(got, "x"), "");
	check_text(http_head_get(got, "y"), "");
	/* It points into the message. */
	CHECK((const unsigned char *)got->host.at > b.data &&
	      (const unsigned char *)got->host.at < b.data + b.len);
}

/* Cut anywhere, it is refused; and nothing is read past its end. */
TEST(http_head_cut_short)
{
	OWN(freep) struct http_head *head = request(), *got = malloc(sizeof(*got));
	OWN(buf_free) struct buf b;

	head->fields[0] = (struct http_field)FIELD("accept", "text/html");
	head->n_fields = 1;
	buf_init(&b, 4096);
	http_head_encode(&b, head);
	for (size_t len = 0; len < b.len; len++) {
		OWN(freep) unsigned char *copy = malloc(len);
		struct buf cut;

		memcpy(copy, b.data, len);
		buf_init_borrowed(&cut, copy, len);
		CHECK_ERR(http_head_decode(&cut, got, NULL), EBADMSG);
	}
}

TEST(http_length_parse)
{
	static const char *const bad_lengths[] = { "", " ", "+1", "-1", "1 ", " 1", "0x1", "1a", "01", "00",
		"1,1", "1.0", "9223372036854775808", "18446744073709551616", "99999999999999999999" };
	uint64_t n;

	CHECK_OK(http_length_parse(TEXT("0"), &n, NULL));
	CHECK_U64(n, 0);
	CHECK_OK(http_length_parse(TEXT("9223372036854775807"), &n, NULL));
	CHECK_U64(n, HTTP_LENGTH_MAX);
	for (size_t i = 0; i < ARRAY_LEN(bad_lengths); i++) {
		n = 7;
		CHECK_ERR(http_length_parse((struct http_text){ bad_lengths[i], strlen(bad_lengths[i]) },
		                            &n, NULL), EBADMSG);
		CHECK_U64(n, 7);
	}
}

TEST(http_text_is_nocase)
{
	CHECK(http_text_is_nocase(TEXT("WebSocket"), "websocket"));
	CHECK(!http_text_is_nocase(TEXT("WebSocket"), "websockets"));
	CHECK(!http_text_is_nocase(TEXT("@"), "`"));
	CHECK(!http_text_is_nocase(TEXT("[x]"), "{x}"));
	CHECK(!http_text_is(TEXT("A"), "a"));
	CHECK(http_text_is((struct http_text){ NULL, 0 }, ""));
}

TEST(http_head_as_it_was_written)
{
	OWN(freep) struct http_head *head = request(), *got = malloc(sizeof(*got));
	OWN(buf_free) struct buf b;

	head->path = TEXT("/~x?y");
	head->written = TEXT("/%7ex?y");
	head->says_zero = true;
	buf_init(&b, 4096);
	http_head_encode(&b, head);
	CHECK_OK(http_head_decode(&b, got, NULL));
	CHECK(got->says_zero && got->scheme == HTTP_TLS && http_text_is(got->written, "/%7ex?y"));
	head->length = 1;
	CHECK_ERR(check(head), EBADMSG);
	head->says_zero = false;
	CHECK_OK(check(head));
	head->written = TEXT("/%7fx?y");
	CHECK_ERR(check(head), EBADMSG);
	head->written = head->path;
	CHECK_ERR(check(head), EBADMSG);
}
