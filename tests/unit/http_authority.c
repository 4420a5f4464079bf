/* http_authority.c - tests of hosts and ports. */
#include <errno.h>

#include "base/err.h"
#include "http/http_parts.h"
#include "test.h"

#define LABEL_63 "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz-123456789a"
#define NAME_253 LABEL_63 "." LABEL_63 "." LABEL_63 "." \
	"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz123456789"

static const struct {
	const char *text, *host;
	int port;
} good[] = {
	{ "a", "a", 0 },
	{ "A.Example.COM", "a.example.com", 0 },
	{ "a.example.", "a.example", 0 },
	{ "a.example.:80", "a.example", 80 },
	{ "a:1", "a", 1 },
	{ "a:65535", "a", 65535 },
	{ "_dmarc.a-b.example", "_dmarc.a-b.example", 0 },
	{ "xn--mgbh0fb.xn--kgbechtv", "xn--mgbh0fb.xn--kgbechtv", 0 },
	{ "-a-.b", "-a-.b", 0 },
	{ "1.2.3.4", "1.2.3.4", 0 },
	{ "1.2.3.4.", "1.2.3.4", 0 },
	{ "0.0.0.0:80", "0.0.0.0", 80 },
	{ "255.255.255.255", "255.255.255.255", 0 },
	{ "1.2.3.4.example", "1.2.3.4.example", 0 },
	{ "0x7f.example", "0x7f.example", 0 },
	{ "0x7f.0xg", "0x7f.0xg", 0 },
	{ "1a", "1a", 0 },
	{ "a1", "a1", 0 },
	{ "f00", "f00", 0 },
	{ "[::]", "[::]", 0 },
	{ "[::1]:443", "[::1]", 443 },
	{ "[0:0:0:0:0:0:0:1]", "[::1]", 0 },
	{ "[2001:DB8::00ff]", "[2001:db8::ff]", 0 },
	{ "[2001:db8:0:1:1:1:1:1]", "[2001:db8:0:1:1:1:1:1]", 0 },
	{ "[::ffff:1.2.3.4]", "[::ffff:1.2.3.4]", 0 },
	{ "[::FFFF:102:304]", "[::ffff:1.2.3.4]", 0 },
	{ "[0000:0000:0000:0000:0000:ffff:255.255.255.255]", "[::ffff:255.255.255.255]", 0 },
	{ LABEL_63, LABEL_63, 0 },
	{ NAME_253, NAME_253, 0 },
	{ NAME_253 ".:65535", NAME_253, 65535 },
};

static const char *const bad[] = {
	"", ".", "..", "a..", ".a", "a..b", ":80", "a:", "a:0", "a:00", "a:080", "a:65536", "a:123456",
	"a:-1", "a:+1", "a: 1", "a:1 ", "a:x", "a:0x50", "a:80:80", "a::80", " a", "a ", "a b", "a\tb",
	"a,b", "a/b", "a\\b", "a?b", "a#b", "u@a", "u:p@a", "@a", "a@", "a%b", "%61", "a%2eb", "a*",
	"*.a", "a;b", "a'b", "a\"b", "(a)", "a|b", "a~b", "a!b", "a$b", "a&b", "a=b", "a+b", "<a>", "{a}",
	"\xc3\xa4", "a\x7f", "a\x80", "\xe3\x80\x82", "\xef\xbd\x8e",
	/* addresses otherwise written */
	"1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7F.0.0.1", "0x", "a.0x", "0177.0.0.1",
	"017700000001", "01.2.3.4", "1.2.3.04", "1.2.3.256", "1.2.3.1000", "1.2.3", "1.2.3.4.5",
	"1.2.3.4:", "256.256.256.256", "a.1", "a.0x1", "1.2.3.0x4", "1.2.3.4..", "00.0.0.0",
	"1.2.3.99999999999999999999",
	"::1", "::1:80", "[", "]", "[]", "[]:80", "[::1", "::1]", "[::1]a", "[::1]:", "[::1]:0", "[::1]]",
	"[[::1]]", "[1.2.3.4]", "[a]", "[::1%lo]", "[fe80::1%25lo]", "[v1.x]", "[::1 ]", "[ ::1]",
	"[1:2:3:4:5:6:7]", "[1:2:3:4:5:6:7:8:9]", "[::12345]", "[1::2::3]", "[::ffff:1.2.3]", "[::ffff:01.2.3.4]",
	"a.[::1]",
	LABEL_63 "x", "a." LABEL_63 "x.b", NAME_253 "x",
};

static int
parse(const char *text, size_t len, char *host, uint16_t *port)
{
	/* Exactly as long as it is, for the sanitizer. */
	OWN(freep) char *copy = malloc(len);

	memcpy(copy, text, len);
	return http_authority_parse((struct http_text){ copy, len }, host, port, NULL);
}

TEST(http_authority_good)
{
	char host[HTTP_HOST_MAX + 1], again[HTTP_HOST_MAX + 1];
	uint16_t port;

	CHECK(strlen(LABEL_63) == 63 && strlen(NAME_253) == 253);
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		CHECK_OK(parse(good[i].text, strlen(good[i].text), host, &port));
		CHECK_STR(host, good[i].host);
		CHECK(port == good[i].port);
		CHECK(http_host_is_canonical((struct http_text){ host, strlen(host) }));
		CHECK(http_host_is_canonical((struct http_text){ good[i].text, strlen(good[i].text) }) ==
		      (strcmp(good[i].text, good[i].host) == 0));
		CHECK_OK(parse(host, strlen(host), again, &port));
		CHECK_STR(again, host);
		CHECK(port == 0);
	}
}

TEST(http_authority_bad)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char host[HTTP_HOST_MAX + 1] = "untouched";
		uint16_t port = 7;

		if (parse(bad[i], strlen(bad[i]), host, &port) != -EBADMSG)
			test_fail(__FILE__, __LINE__, "'%s' is taken for '%s'", bad[i], host);
		CHECK_STR(host, "untouched");
		CHECK(port == 7);
		CHECK(!http_host_is_canonical((struct http_text){ bad[i], strlen(bad[i]) }));
	}
}

TEST(http_authority_zero_bytes)
{
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;

	CHECK_ERR(parse("a\0", 2, host, &port), EBADMSG);
	CHECK_ERR(parse("\0", 1, host, &port), EBADMSG);
	CHECK_ERR(parse("[::1\0]", 6, host, &port), EBADMSG);
	CHECK_ERR(parse("a:8\0", 4, host, &port), EBADMSG);
}
