/* http_dns.c - tests of DNS questions and answers. */
#include "http/dns.h"

#include <errno.h>

#include "test.h"

#define BYTES(literal) literal, sizeof(literal) - 1
#define ID "\x12\x34"
#define PLAIN ID "\1\0" "\0\1\0\0\0\0\0\0"
#define EXTRA(n) ID "\1\0" "\0\1\0\0\0\0\0" n
#define NAME "\3Api\7eXample\3com\0"
#define A "\0\1\0\1"
#define AAAA "\0\x1c\0\1"
#define OPT "\0\0\x29\x04\xd0\0\0\0\0\0\0"
#define COOKIE "\0\0\x29\x04\xd0\0\0\0\0\0\x0c\0\x0a\0\x08" "cookie00"
#define LABEL_63 "\x3f" "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0"
#define LABEL_61 "\x3d" "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxy"

static const struct {
	const char *bytes;
	size_t len;
	int want;
	const char *name;       /* of a good one */
	int type;               /* or what a bad one deserves */
	bool edns;
} cases[] = {
	{ BYTES(PLAIN NAME A), 0, "api.example.com", DNS_A, false },
	{ BYTES(PLAIN NAME AAAA), 0, "api.example.com", DNS_AAAA, false },
	{ BYTES(PLAIN NAME "\0\x41\0\1"), 0, "api.example.com", DNS_HTTPS, false },
	{ BYTES(PLAIN "\1""1\1""2\1""3\1""4\7in-addr\4arpa\0" "\0\x0c\0\1"), 0,
	  "1.2.3.4.in-addr.arpa", DNS_PTR, false },
	{ BYTES(PLAIN "\0" "\0\2\0\1"), 0, "", 2, false },
	{ BYTES(PLAIN "\1a\0" A), 0, "a", DNS_A, false },
	{ BYTES(PLAIN "\5!~_*/\0" A), 0, "!~_*/", DNS_A, false },
	{ BYTES(ID "\1\x20" "\0\1\0\0\0\0\0\1" NAME A OPT), 0, "api.example.com", DNS_A, true },
	{ BYTES(EXTRA("\1") NAME A COOKIE), 0, "api.example.com", DNS_A, true },
	{ BYTES(EXTRA("\2") NAME A COOKIE "\1k\0\0\xfa\0\xff\0\0\0\0\0\2xx"), 0, "api.example.com",
	  DNS_A, true },
	/* not worth an answer */
	{ BYTES(""), -EBADMSG, NULL, 0, false },
	{ BYTES(ID "\1\0\0\1\0\0\0\0\0"), -EBADMSG, NULL, 0, false },
	{ BYTES(ID "\x81\x80\0\1\0\0\0\0\0\0" NAME A), -EBADMSG, NULL, 0, false },
	/* worth a refusal */
	{ BYTES(ID "\x09\0\0\1\0\0\0\0\0\0" NAME A), -ENOTSUP, NULL, DNS_NOTIMP, false },
	{ BYTES(ID "\x28\0\0\1\0\0\0\0\0\0" NAME A), -ENOTSUP, NULL, DNS_NOTIMP, false },
	{ BYTES(PLAIN NAME "\0\1\0\3"), -ENOTSUP, NULL, DNS_NOTIMP, false },
	{ BYTES(PLAIN NAME "\0\x10\0\xff"), -ENOTSUP, NULL, DNS_NOTIMP, false },
	{ BYTES(ID "\3\0\0\1\0\0\0\0\0\0" NAME A), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(ID "\1\0\0\0\0\0\0\0\0\0"), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(ID "\1\0\0\2\0\0\0\0\0\0" NAME A NAME AAAA), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(ID "\1\0\0\1\0\1\0\0\0\0" NAME A), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(ID "\1\0\0\1\0\0\0\1\0\0" NAME A), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(ID "\1\0\0\1\0\0\0\0\xff\xff" NAME A), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN "\3Api"), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN "\4Api"), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN NAME), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN NAME "\0\1\0"), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN NAME A "x"), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN "\xc0\x0c" A), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN "\x40" "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz01\0" A),
	  -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN LABEL_63 LABEL_63 LABEL_63 LABEL_63 "\0" A), -ENOTSUP, NULL, DNS_FORMERR,
	  false },
	{ BYTES(PLAIN LABEL_63 LABEL_63 LABEL_63 LABEL_61 "\1a\0" A), -ENOTSUP, NULL, DNS_FORMERR,
	  false },
	{ BYTES(PLAIN "\3a.b\0" A), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN "\3a b\0" A), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN "\3a\0b\0" A), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN "\2\xc3\xa4\0" A), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(PLAIN "\2a\x7f\0" A), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(EXTRA("\1") NAME A), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(EXTRA("\1") NAME A "\0\0\x29\x04\xd0\0\0\0\0\0"), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(EXTRA("\1") NAME A "\0\0\x29\x04\xd0\0\0\0\0\0\1"), -ENOTSUP, NULL, DNS_FORMERR,
	  false },
	{ BYTES(EXTRA("\1") NAME A OPT "x"), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(EXTRA("\2") NAME A OPT OPT), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(EXTRA("\1") NAME A "\1a" OPT), -ENOTSUP, NULL, DNS_FORMERR, false },
	{ BYTES(EXTRA("\x09") NAME A OPT), -ENOTSUP, NULL, DNS_FORMERR, false },
};

TEST(dns_parse_query)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) unsigned char *data = malloc(cases[i].len);
		struct dns_question q = {0};
		int r;

		memcpy(data, cases[i].bytes, cases[i].len);
		r = dns_parse_query(data, cases[i].len, &q);
		if (r != cases[i].want)
			test_fail(__FILE__, __LINE__, "case %zu gives %d", i, r);
		if (r == -EBADMSG)
			continue;
		CHECK(q.id == 0x1234);
		if (r == -ENOTSUP) {
			CHECK((int)q.deserves == cases[i].type);
			continue;
		}
		CHECK_STR(q.name, cases[i].name);
		CHECK(q.type == cases[i].type && q.class == 1);
		CHECK(q.recursion_desired && q.has_edns == cases[i].edns);
	}
}

TEST(dns_longest_name)
{
	static const char query[] = PLAIN LABEL_63 LABEL_63 LABEL_63 LABEL_61 "\0" A;
	unsigned char out[DNS_MESSAGE_MAX];
	struct dns_question q;

	CHECK_OK(dns_parse_query((const unsigned char *)query, sizeof(query) - 1, &q));
	CHECK(strlen(q.name) == DNS_NAME_MAX && q.question_len == 255 + 4);
	CHECK(dns_write_answer((const unsigned char *)query, &q, DNS_OK, "1234", 1, out) ==
	      12 + 255 + 4 + 16);
}

static size_t
answer(const char *bytes, size_t len, enum dns_rcode code, const void *address,
       unsigned char *out)
{
	struct dns_question q;
	int r = dns_parse_query((const unsigned char *)bytes, len, &q);

	return dns_write_answer((const unsigned char *)bytes, &q, r == 0 ? code : q.deserves, address,
	                        300, out);
}

#define CHECK_ANSWER(query, code, address, want)                                    \
	do {                                                                            \
		unsigned char out_[DNS_MESSAGE_MAX];                                        \
		size_t n_ = answer(BYTES(query), code, address, out_);                      \
		CHECK(n_ == sizeof(want) - 1 && memcmp(out_, want, n_) == 0);               \
	} while (0)

TEST(dns_write_answer)
{
	static const unsigned char four[] = { 198, 18, 0, 7 };
	static const unsigned char sixteen[] = "0123456789abcdef";

	/* The name comes back in the case in which it was asked: some resolvers check it. */
	CHECK_ANSWER(PLAIN NAME A, DNS_OK, four,
	             ID "\x81\x80\0\1\0\1\0\0\0\0" NAME A "\xc0\x0c" A "\0\0\1\x2c\0\4\xc6\x12\0\7");
	CHECK_ANSWER(PLAIN NAME AAAA, DNS_OK, sixteen,
	             ID "\x81\x80\0\1\0\1\0\0\0\0" NAME AAAA "\xc0\x0c" AAAA
	             "\0\0\1\x2c\0\x10" "0123456789abcdef");
	CHECK_ANSWER(PLAIN NAME AAAA, DNS_OK, NULL, ID "\x81\x80\0\1\0\0\0\0\0\0" NAME AAAA);
	CHECK_ANSWER(PLAIN NAME "\0\x41\0\1", DNS_OK, four,
	             ID "\x81\x80\0\1\0\0\0\0\0\0" NAME "\0\x41\0\1");
	CHECK_ANSWER(PLAIN NAME A, DNS_NXDOMAIN, NULL, ID "\x81\x83\0\1\0\0\0\0\0\0" NAME A);
	CHECK_ANSWER(PLAIN NAME A, DNS_REFUSED, four, ID "\x81\x85\0\1\0\0\0\0\0\0" NAME A);
	CHECK_ANSWER(ID "\0\0\0\1\0\0\0\0\0\1" NAME A COOKIE, DNS_OK, four,
	             ID "\x80\x80\0\1\0\1\0\0\0\1" NAME A "\xc0\x0c" A "\0\0\1\x2c\0\4\xc6\x12\0\7" OPT);
	CHECK_ANSWER(ID "\x28\0\0\1\0\0\0\0\0\0" NAME A, DNS_OK, four,
	             ID "\xa8\x84\0\0\0\0\0\0\0\0");
	CHECK_ANSWER(PLAIN NAME "\0\1\0\3", DNS_OK, four,
	             ID "\x81\x84\0\1\0\0\0\0\0\0" NAME "\0\1\0\3");
	CHECK_ANSWER(PLAIN "\xc0\x0c" A, DNS_OK, four, ID "\x81\x81\0\0\0\0\0\0\0\0");
}
