/* gate_dns_ptr.c - questions for the name of an address. */
#include "proc/gate/gate_dns_ptr.c"

#include "test.h"

static const struct {
	const char *name, *want;        /* NULL: none */
} cases[] = {
	{ "16.0.18.198.in-addr.arpa", "198.18.0.16" },
	{ "1.0.0.127.in-addr.arpa", "127.0.0.1" },
	{ "01.0.0.127.in-addr.arpa", NULL },
	{ "0.0.127.in-addr.arpa", NULL },
	{ "1.1.0.0.127.in-addr.arpa", NULL },
	{ "in-addr.arpa", NULL },
	{ ".in-addr.arpa", NULL },
	{ "a.example", NULL },
	{ "0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.5.6.4.7.3.7.9.6.f.6.c.6.3.6.d.f.ip6.arpa",
	  "fd63:6c6f:6973:7465::10" },
	{ "0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.5.6.4.7.3.7.9.6.f.6.c.6.3.6.d.g.ip6.arpa", NULL },
	{ "0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.5.6.4.7.3.7.9.6.f.6.c.6.3.6.d.f.0.ip6.arpa", NULL },
	{ "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.5.6.4.7.3.7.9.6.f.6.c.6.3.6.d.f.ip6.arpa", NULL },
	{ "0x1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.5.6.4.7.3.7.9.6.f.6.c.6.3.6.d.f.ip6.arpa", NULL },
};

TEST(gate_dns_ptr_parse)
{
	struct sockaddr_storage address;
	char text[INET6_ADDRSTRLEN];
	int r;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		r = gate_dns_ptr_parse(cases[i].name, &address);
		CHECK((r == 0) == (cases[i].want != NULL));
		if (r < 0)
			continue;
		inet_ntop(address.ss_family, address.ss_family == AF_INET ?
		          (void *)&((struct sockaddr_in *)&address)->sin_addr :
		          (void *)&((struct sockaddr_in6 *)&address)->sin6_addr, text, sizeof(text));
		CHECK_STR(text, cases[i].want);
	}
}

TEST(gate_dns_ptr_write)
{
	static const unsigned char query[] =
		"\x12\x34\x01\0\0\1\0\0\0\0\0\0\2" "16\1" "0\2" "18\3" "198\7in-addr\4arpa\0\0\14\0\1";
	static const unsigned char rdata[] = "\xc0\x0c\0\14\0\1\0\0\0\36\0\13\1a\7example\0";
	unsigned char answer[DNS_MESSAGE_MAX];
	struct dns_question question;
	size_t len;

	CHECK_OK(dns_parse_query(query, sizeof(query) - 1, &question));
	len = gate_dns_ptr_write(query, &question, "a.example", 30, answer);
	CHECK_U64(len, sizeof(query) - 1 + sizeof(rdata) - 1);
	CHECK(memcmp(answer + sizeof(query) - 1, rdata, sizeof(rdata) - 1) == 0);
	CHECK_U64(answer[7], 1);
}
