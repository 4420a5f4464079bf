/* link_link_token.c - tests link_token.c and link_hello.c. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "link/link_hello.h"
#include "link/link_token.h"
#include "test.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
	const char *text, *host;
	uint16_t port;
	bool listens, ok;
} addresses[] = {
	{ "a.example:7", "a.example", 7, false, true },       { "10.0.0.1:65535", "10.0.0.1", 65535, false, true },
	{ "[::1]:7", "::1", 7, false, true },                 { "0.0.0.0:0", "0.0.0.0", 0, true, true },
	{ "0.0.0.0:0", NULL, 0, false, false },               { "a.example", NULL, 0, false, false },
	{ ":7", NULL, 0, false, false },                      { "[]:7", NULL, 0, false, false },
	{ "::1:7", NULL, 0, false, false },                   { "a b:7", NULL, 0, false, false },
	{ "a.example:65536", NULL, 0, false, false },         { "a.example:07x", NULL, 0, false, false },
	{ "a/../b:7", NULL, 0, false, false },                { "", NULL, 0, false, false },
};

TEST(link_address_parse)
{
	for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
		struct link_address a;
		int r = link_address_parse(addresses[i].text, addresses[i].listens, &a, NULL);

		CHECK((r == 0) == addresses[i].ok);
		if (r == 0)
			CHECK(strcmp(a.host, addresses[i].host) == 0 && a.port == addresses[i].port);
	}
}

static const struct {
	const char *text;
	bool ok;
} tokens[] = {
	{ "cj1_" HEX "_" HEX "_a.example:7", true },   { "cj1_" HEX "_" HEX "_[::1]:7", true },
	{ "cj2_" HEX "_" HEX "_a.example:7", false },  { "cj1_" HEX "_" HEX "_a.example", false },
	{ "cj1_" HEX "_" HEX, false },                 { "cj1_" HEX HEX "__a.example:7", false },
	{ "cj1_X" HEX "_" HEX "_a.example:7", false }, { "", false },
	{ " cj1_" HEX "_" HEX "_a.example:7", false },
};

TEST(link_token_parse)
{
	for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
		char text[LINK_TOKEN_MAX];
		struct link_token t;
		int r = link_token_parse(tokens[i].text, &t, NULL);

		CHECK((r == 0) == tokens[i].ok);
		if (r < 0)
			continue;
		link_token_format(&t, text);
		CHECK(strcmp(text, tokens[i].text) == 0);
	}
}

static const struct {
	struct link_hello_message message;
	bool from_service, ok;
} hellos[] = {
	{ { .type = LINK_ENROL, .secret = HEX, .name = "n", .home = "h", .pool = "", .pem = "p" }, false, true },
	{ { .type = LINK_ENROL, .secret = HEX, .name = "n", .home = "h", .pool = "", .pem = "p" }, true, false },
	{ { .type = LINK_ENROL, .secret = "x", .name = "n", .home = "h", .pool = "", .pem = "p" }, false, false },
	{ { .type = LINK_ENROL, .secret = HEX, .name = "a b", .home = "h", .pool = "", .pem = "p" }, false, false },
	{ { .type = LINK_ENROL, .secret = HEX, .name = "n", .home = "../h", .pool = "", .pem = "p" }, false, false },
	{ { .type = LINK_ENROL, .secret = HEX, .name = "n", .home = "h", .pool = "/", .pem = "p" }, false, false },
	{ { .type = LINK_ENROLLED, .home = "h", .id = "0123456789abcdef", .pem = "p" }, true, true },
	{ { .type = LINK_ENROLLED, .home = "h", .id = "x", .pem = "p" }, true, false },
	{ { .type = LINK_WELCOME, .home = "h" }, true, true },
	{ { .type = LINK_WELCOME, .home = "h" }, false, false },
	{ { .type = LINK_REFUSED, .why = "no" }, true, true },
};

TEST(link_hello)
{
	for (size_t i = 0; i < ARRAY_LEN(hellos); i++) {
		OWN(buf_free) struct buf b = BUF(LINK_HELLO_MAX);
		struct link_hello_message got;
		struct buf part;
		size_t len = 0;

		link_hello_put(&b, &hellos[i].message);
		CHECK(!buf_failed(&b));
		/* Half of it is not enough, and what follows it is somebody else's. */
		buf_init_borrowed(&part, b.data, b.len - 1);
		CHECK(link_hello_get(&part, hellos[i].from_service, &got, &len) == 0);
		buf_put(&b, "more", 4);
		CHECK(link_hello_get(&b, hellos[i].from_service, &got, &len) == (hellos[i].ok ? 1 : -EBADMSG));
		if (hellos[i].ok)
			CHECK(len == b.len - 4 && got.type == hellos[i].message.type);
	}
}
