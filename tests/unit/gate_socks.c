/* gate_socks.c - what SOCKS clients say to the gate. */
#include "proc/gate/gate_socks.c"

#include "test.h"

#define BYTES(s) (const unsigned char *)(s), sizeof(s) - 1

static const struct {
	const char *name;
	const unsigned char *data;
	size_t len;
	int want;
	const char *host;
	uint16_t port;
} five[] = {
	{ "name", BYTES("\5\1\0\3\13Example.COM\1\273"), 0, "example.com", 443 },
	{ "IPv4", BYTES("\5\1\0\1\1\2\3\4\0\120"), 0, "1.2.3.4", 80 },
	{ "IPv6", BYTES("\5\1\0\4\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1\0\120"), 0,
	  "[2001:db8::1]", 80 },
	{ "IPv4 as a name", BYTES("\5\1\0\3\0071.2.3.4\0\120"), 0, "1.2.3.4", 80 },
	{ "IPv6 as a name", BYTES("\5\1\0\3\3::1\0\120"), 0, "[::1]", 80 },
	{ "octal", BYTES("\5\1\0\3\7" "010.0.1\0\120"), -EINVAL, NULL, 0 },
	{ "brackets", BYTES("\5\1\0\3\5[::1]\0\120"), -EINVAL, NULL, 0 },
	{ "port in the name", BYTES("\5\1\0\3\6ab:443\0\120"), -EINVAL, NULL, 0 },
	{ "NUL in the name", BYTES("\5\1\0\3\3a\0b\0\120"), -EINVAL, NULL, 0 },
	{ "NUL behind an address", BYTES("\5\1\0\3\5::1\0b\0\120"), -EINVAL, NULL, 0 },
	{ "no name", BYTES("\5\1\0\3\0\0\120"), -EINVAL, NULL, 0 },
	{ "no port", BYTES("\5\1\0\3\1a\0\0"), -EINVAL, NULL, 0 },
	{ "bind", BYTES("\5\2\0\1\1\2\3\4\0\120"), -ENOTSUP, NULL, 0 },
	{ "UDP", BYTES("\5\3\0\1\1\2\3\4\0\120"), -ENOTSUP, NULL, 0 },
	{ "kind 2", BYTES("\5\1\0\2\1\2\3\4\0\120"), -EAFNOSUPPORT, NULL, 0 },
	{ "version", BYTES("\6\1\0\1\1\2\3\4\0\120"), -EBADMSG, NULL, 0 },
	{ "reserved", BYTES("\5\1\1\1\1\2\3\4\0\120"), -EBADMSG, NULL, 0 },
}, four[] = {
	{ "address", BYTES("\4\1\0\120\1\2\3\4me\0"), 0, "1.2.3.4", 80 },
	{ "nobody", BYTES("\4\1\0\120\1\2\3\4\0"), 0, "1.2.3.4", 80 },
	{ "4a", BYTES("\4\1\1\273\0\0\0\1\0a.example\0"), 0, "a.example", 443 },
	{ "4a, name empty", BYTES("\4\1\1\273\0\0\0\1\0\0"), -EINVAL, NULL, 0 },
	{ "bind", BYTES("\4\2\0\120\1\2\3\4\0"), -ENOTSUP, NULL, 0 },
	{ "no port", BYTES("\4\1\0\0\1\2\3\4\0"), -EINVAL, NULL, 0 },
};

typedef int reader(const unsigned char *, size_t, size_t *, struct gate_socks *);

/* Every shorter message asks for more, and never for a byte that is not its own. */
static void
check_message(reader *read, const unsigned char *data, size_t len, int want, const char *host,
              uint16_t port)
{
	struct gate_socks socks = {0};
	size_t need = 0;
	int r;

	for (size_t n = 0; n < len; n++) {
		r = read(data, n, &need, &socks);
		if (r != -EAGAIN) {     /* what is bad may be known before its end */
			CHECK(r < 0 && r == want);
			continue;
		}
		CHECK(need > n && need <= len);
	}
	CHECK(read(data, len, &need, &socks) == want);
	if (want == 0) {
		CHECK_STR(socks.host, host);
		CHECK_U64(socks.port, port);
	}
}

TEST(gate_socks_requests)
{
	for (size_t i = 0; i < ARRAY_LEN(five); i++)
		check_message(gate_socks5_request, five[i].data, five[i].len, five[i].want,
		              five[i].host, five[i].port);
	for (size_t i = 0; i < ARRAY_LEN(four); i++)
		check_message(gate_socks4_request, four[i].data, four[i].len, four[i].want,
		              four[i].host, four[i].port);
}

TEST(gate_socks_greeting)
{
	size_t need = 0;

	CHECK_ERR(gate_socks5_greeting(BYTES("\5"), &need), EAGAIN);
	CHECK_U64(need, 2);
	CHECK_ERR(gate_socks5_greeting(BYTES("\5\2\1"), &need), EAGAIN);
	CHECK_U64(need, 4);
	CHECK_OK(gate_socks5_greeting(BYTES("\5\2\2\0"), &need));
	CHECK_ERR(gate_socks5_greeting(BYTES("\5\1\2"), &need), EPERM);
	CHECK_ERR(gate_socks5_greeting(BYTES("\5\0"), &need), EPERM);
	CHECK_ERR(gate_socks5_greeting(BYTES("\4\1\0"), &need), EBADMSG);
}

TEST(gate_socks_endless)
{
	static unsigned char data[GATE_SOCKS_MAX] = { 4, 1, 0, 80, 1, 2, 3, 4 };
	struct gate_socks socks;
	size_t need = 0;

	memset(data + 8, 'x', sizeof(data) - 8);
	CHECK_ERR(gate_socks4_request(data, sizeof(data) - 1, &need, &socks), EAGAIN);
	CHECK_U64(need, sizeof(data));
	CHECK_ERR(gate_socks4_request(data, sizeof(data), &need, &socks), EBADMSG);
}
