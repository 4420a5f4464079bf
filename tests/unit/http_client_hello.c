/* http_client_hello.c - tests of reading a ClientHello. */
#include "http/client_hello.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/io.h"
#include "test.h"

#define SEEDS "tests/seeds/client_hello/"

/* What real clients said; captured. */
static const struct {
	const char *file, *sni;
	bool ech, h2, h1;
} real[] = {
	{ SEEDS "openssl", "api.example.com", false, true, true },
	{ SEEDS "openssl_no_sni", "", false, false, false },
	{ SEEDS "openssl_tls12", "api.example.com", false, false, false },
	{ SEEDS "curl", "api.example.com", false, true, true },
	{ SEEDS "curl_h1", "api.example.com", false, false, true },
	{ SEEDS "node", "api.example.com", false, true, true },
	{ SEEDS "python", "api.example.com", false, false, false },
	{ SEEDS "java", "api.example.com", false, true, true },
	{ SEEDS "git", "localhost", false, true, true },
	{ SEEDS "chromium", "api.example.com", true, true, true },
};

static int
parse(const unsigned char *data, size_t len, struct client_hello *ret_hello)
{
	/* Exactly as long as it is, for the sanitizer. */
	OWN(freep) unsigned char *copy = malloc(len);

	memcpy(copy, data, len);
	return client_hello_parse(copy, len, ret_hello);
}

/* The message of the one record in DATA, in records of at most SIZE bytes. */
static void
split_records(const unsigned char *data, size_t len, size_t size, struct buf *out)
{
	for (size_t at = 5; at < len; at += size) {
		size_t n = len - at < size ? len - at : size;

		buf_put(out, (unsigned char[]){ 22, 3, 1, (unsigned char)(n >> 8), (unsigned char)n }, 5);
		buf_put(out, data + at, n);
	}
}

TEST(client_hello_real)
{
	for (size_t i = 0; i < ARRAY_LEN(real); i++) {
		OWN(freep) char *text = NULL;
		struct client_hello hello = {0}, again = {0};
		size_t len;

		CHECK_OK(read_file_at(AT_FDCWD, real[i].file, CLIENT_HELLO_MAX, &text, &len, NULL));
		CHECK_OK(parse((unsigned char *)text, len, &hello));
		CHECK_STR(hello.sni, real[i].sni);
		CHECK(hello.has_ech == real[i].ech);
		CHECK(hello.offers_h2 == real[i].h2 && hello.offers_h1 == real[i].h1);
		for (size_t n = 0; n < len; n++)
			CHECK_ERR(parse((unsigned char *)text, n, &again), EAGAIN);
		for (size_t size = 1; size < 600; size += size < 8 ? 1 : 101) {
			OWN(buf_free) struct buf b;

			buf_init(&b, 1 << 16);
			split_records((unsigned char *)text, len, size, &b);
			CHECK_OK(parse(b.data, b.len, &again));
			CHECK(memcmp(&again, &hello, sizeof(hello)) == 0);
			CHECK_ERR(parse(b.data, b.len - 1, &again), EAGAIN);
			/* What follows is not ours. */
			buf_put(&b, "\x17\x03\x03", 3);
			CHECK_OK(parse(b.data, b.len, &again));
		}
	}
}

/* Bytes as they are written in a test: one literal for each part. */
struct part { const char *bytes; size_t len; };
#define PART(literal) { literal, sizeof(literal) - 1 }

#define VERSION "\x03\x03"
#define RANDOM "0123456789abcdef0123456789abcdef"
#define START VERSION RANDOM "\0" "\0\2\x13\x01" "\1\0"
#define SNI(n3, n1, n0, name) "\0\0" "\0" n3 "\0" n1 "\0" "\0" n0 name

static const struct {
	struct part body;
	int want;
	const char *sni;
} hellos[] = {
	{ PART(START), 0, "" },                         /* no extensions at all */
	{ PART(START "\0\0"), 0, "" },
	{ PART(START "\0\x0d" SNI("\x09", "\7", "\4", "A.b.")), 0, "a.b" },
	{ PART(START "\0\x10" SNI("\x0c", "\x0a", "\7", "1.2.3.4")), 0, "1.2.3.4" },
	{ PART("\x02\x00" RANDOM "\0" "\0\2\x13\x01" "\1\0"), -EBADMSG, "" },
	{ PART(VERSION "short"), -EBADMSG, "" },
	{ PART(VERSION RANDOM), -EBADMSG, "" },
	{ PART(VERSION RANDOM "\x21" "0123456789abcdef0123456789abcdef0" "\0\2\x13\x01" "\1\0"),
	  -EBADMSG, "" },
	{ PART(VERSION RANDOM "\0" "\0\0" "\1\0"), -EBADMSG, "" },
	{ PART(VERSION RANDOM "\0" "\0\3\x13\x01\x13" "\1\0"), -EBADMSG, "" },
	{ PART(VERSION RANDOM "\0" "\0\2\x13\x01" "\0"), -EBADMSG, "" },
	{ PART(VERSION RANDOM "\0" "\0\2\x13\x01" "\2\0"), -EBADMSG, "" },
	{ PART(START "\0"), -EBADMSG, "" },
	{ PART(START "\0\1"), -EBADMSG, "" },
	{ PART(START "\0\1\0"), -EBADMSG, "" },
	{ PART(START "\0\0x"), -EBADMSG, "" },          /* something behind the extensions */
	{ PART(START "\0\4\x12\x34\0\1"), -EBADMSG, "" },
	{ PART(START "\0\4\x12\x34\0\0"), 0, "" },
	/* twice a name */
	{ PART(START "\0\x14" SNI("\6", "\4", "\1", "a") SNI("\6", "\4", "\1", "b")), -EBADMSG, "" },
	{ PART(START "\0\x14" SNI("\6", "\4", "\1", "a") SNI("\6", "\4", "\1", "a")), -EBADMSG, "" },
	{ PART(START "\0\x0e" "\0\0\0\x0a" "\0\x08" "\0\0\1a" "\0\0\1b"), -EBADMSG, "" },
	/* names that are none */
	{ PART(START "\0\x0a" SNI("\6", "\4", "\1", "\0")), -EBADMSG, "" },
	{ PART(START "\0\x0a" SNI("\6", "\4", "\1", "*")), -EBADMSG, "" },
	{ PART(START "\0\x0a" SNI("\6", "\4", "\1", ".")), -EBADMSG, "" },
	{ PART(START "\0\x0a" SNI("\6", "\4", "\1", "1")), -EBADMSG, "" },
	{ PART(START "\0\x09" SNI("\5", "\3", "\0", "")), -EBADMSG, "" },
	{ PART(START "\0\x0d" SNI("\x09", "\7", "\4", "a:80")), -EBADMSG, "" },
	{ PART(START "\0\x0e" SNI("\x0a", "\x08", "\5", "[::1]")), -EBADMSG, "" },
	{ PART(START "\0\x0b" SNI("\7", "\5", "\2", "a\0")), -EBADMSG, "" },
	{ PART(START "\0\x0a" "\0\0\0\6" "\0\4" "\1" "\0\1a"), -EBADMSG, "" },  /* another kind */
	{ PART(START "\0\x0a" "\0\0\0\6" "\0\3" "\0" "\0\1a"), -EBADMSG, "" },
	{ PART(START "\0\x0a" "\0\0\0\6" "\0\5" "\0" "\0\1a"), -EBADMSG, "" },
	{ PART(START "\0\x04" "\0\0\0\0"), -EBADMSG, "" },
	{ PART(START "\0\x06" "\0\0\0\2\0\0"), -EBADMSG, "" },
	/* ALPN */
	{ PART(START "\0\x09" "\0\x10\0\5" "\0\3\2h2"), 0, "" },
	{ PART(START "\0\x06" "\0\x10\0\2" "\0\0"), -EBADMSG, "" },
	{ PART(START "\0\x07" "\0\x10\0\3" "\0\1\0"), -EBADMSG, "" },
	{ PART(START "\0\x08" "\0\x10\0\4" "\0\2\2h"), -EBADMSG, "" },
	{ PART(START "\0\x0a" "\0\x10\0\6" "\0\3\2h2x"), -EBADMSG, "" },
	{ PART(START "\0\x12" "\0\x10\0\5\0\3\2h2" "\0\x10\0\5\0\3\2h2"), -EBADMSG, "" },
};

static void
put_hello(struct buf *b, struct part body, size_t extra)
{
	size_t n = body.len, record = n + 4 + extra;

	buf_put(b, (unsigned char[]){ 22, 3, 1, (unsigned char)(record >> 8), (unsigned char)record,
	                              1, 0, (unsigned char)(n >> 8), (unsigned char)n }, 9);
	buf_put(b, body.bytes, n);
}

TEST(client_hello_cases)
{
	for (size_t i = 0; i < ARRAY_LEN(hellos); i++) {
		struct client_hello hello = { .sni = "untouched" };
		OWN(buf_free) struct buf b;
		int r;

		buf_init(&b, 1 << 16);
		put_hello(&b, hellos[i].body, 0);
		r = parse(b.data, b.len, &hello);
		if (r != hellos[i].want)
			test_fail(__FILE__, __LINE__, "case %zu gives %d", i, r);
		CHECK_STR(hello.sni, r == 0 ? hellos[i].sni : "untouched");
	}
}

TEST(client_hello_hidden_name)
{
	static const struct part ech = PART(START "\0\4" "\xfe\x0d\0\0"),
	                         esni = PART(START "\0\4" "\xff\xce\0\0");
	struct client_hello hello;
	OWN(buf_free) struct buf b;

	buf_init(&b, 4096);
	put_hello(&b, ech, 0);
	CHECK_OK(parse(b.data, b.len, &hello));
	CHECK(hello.has_ech);
	buf_reset(&b);
	put_hello(&b, esni, 0);
	CHECK_OK(parse(b.data, b.len, &hello));
	CHECK(hello.has_ech);
}

/* Nothing else may be in its record, even if it would pass for a part of it. */
TEST(client_hello_alone_in_its_record)
{
	static const struct part body = PART(START);
	struct client_hello hello;
	OWN(buf_free) struct buf b;

	buf_init(&b, 4096);
	put_hello(&b, body, 2);
	buf_put(&b, "\0\0", 2);
	CHECK_ERR(parse(b.data, b.len, &hello), EBADMSG);
}

static const struct {
	struct part bytes;
	int want;
} records[] = {
	{ PART(""), -EAGAIN },
	{ PART("\x16"), -EAGAIN },
	{ PART("\x16\x03"), -EAGAIN },
	{ PART("\x16\x03\x01\x00"), -EAGAIN },
	{ PART("\x16\x03\x01\x00\x04"), -EAGAIN },
	{ PART("\x15"), -EBADMSG },
	{ PART("\x17\x03\x03"), -EBADMSG },
	{ PART("GET / HTTP/1.1\r\n"), -EBADMSG },
	{ PART("\x80\x2e\x01"), -EBADMSG },                     /* SSL 2 */
	{ PART("\x16\x02"), -EBADMSG },
	{ PART("\x16\x03\x01\x00\x00"), -EBADMSG },             /* nothing in it */
	{ PART("\x16\x03\x01\x40\x01"), -EBADMSG },             /* too long a record */
	{ PART("\x16\x03\x01\x00\x01\x02"), -EBADMSG },         /* a ServerHello */
	{ PART("\x16\x03\x01\x00\x01\x01"), -EAGAIN },
	{ PART("\x16\x03\x01\x00\x01\x01\x17"), -EBADMSG },     /* another kind between */
	{ PART("\x16\x03\x01\x00\x04\x01\x00\x40\x00"), -EBADMSG },     /* too long a message */
	{ PART("\x16\x03\x01\x00\x04\x01\xff\xff\xff"), -EBADMSG },
	{ PART("\x16\x03\x01\x00\x05\x01\x00\x00\x00\x01"), -EBADMSG }, /* a second message */
};

TEST(client_hello_records)
{
	struct client_hello hello;

	for (size_t i = 0; i < ARRAY_LEN(records); i++)
		if (parse((const unsigned char *)records[i].bytes.bytes, records[i].bytes.len, &hello) !=
		    records[i].want)
			test_fail(__FILE__, __LINE__, "case %zu is judged wrongly", i);
}

/* It cannot make us wait for ever. */
TEST(client_hello_has_a_maximum)
{
	OWN(freep) unsigned char *data = calloc(1, CLIENT_HELLO_MAX);
	struct client_hello hello;

	memcpy(data, "\x16\x03\x01\x40\x00\x01\x00\x3f\xfc", 9);
	CHECK_ERR(parse(data, CLIENT_HELLO_MAX - 1, &hello), EAGAIN);
	CHECK_ERR(parse(data, CLIENT_HELLO_MAX, &hello), EBADMSG);
	for (size_t at = 0; at + 6 <= CLIENT_HELLO_MAX; at += 6)
		memcpy(data + at, "\x16\x03\x01\x00\x01\x00", 6);
	memcpy(data, "\x16\x03\x01\x00\x04\x01\x00\x3f\xf0", 9);
	memcpy(data + 9, "\x16\x03\x01\x3f\xf0", 5);
	CHECK_ERR(parse(data, CLIENT_HELLO_MAX, &hello), EBADMSG);
}
