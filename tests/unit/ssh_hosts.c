/* ssh_hosts.c - tests of ssh/ssh_hosts: whose names fit which lines. */
#include "ssh/ssh_hosts.h"

#include "test.h"

static const struct { const char *names, *name; bool fits; } cases[] = {
	{ "a.example", "a.example", true }, { "A.Example", "a.example", true },
	{ "a.example", "xa.example", false }, { "a.example", "a.exampl", false },
	{ "b,a.example", "a.example", true }, { "*.example", "a.example", true },
	{ "*.example", "example", false }, { "a?example", "a.example", true },
	{ "*,!a.example", "a.example", false }, { "!a.example,*", "b.example", true },
	{ "!a.example", "b.example", false }, { "[a.example]:2222", "[a.example]:2222", true },
	{ "[a.example]:2222", "a.example", false }, { "*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaa", false },
	/* By `ssh-keygen -H`. */
	{ "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=", "192.168.1.61", true },
	{ "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=", "192.168.1.62", false },
	{ "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|", "192.168.1.61", false }, { "|1|", "", false },
	{ "|2|x|y", "a.example", false },
};

TEST(ssh_hosts_match)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct http_text names = { cases[i].names, strlen(cases[i].names) };

		if (ssh_hosts_match(names, cases[i].name) != cases[i].fits)
			test_fail(__FILE__, __LINE__, "%s and %s", cases[i].names, cases[i].name);
	}
}

TEST(ssh_hosts_lines)
{
	static const char text[] = "# a comment\n\n  a.example ssh-ed25519 AAAA\r\n@revoked * ssh-rsa B\n"
	                           "@cert-authority * ssh-rsa C\n@other x ssh-rsa D\nlonely\nlast x y";
	struct http_text rest = { text, sizeof(text) - 1 };
	struct ssh_hosts_line line;

	CHECK(ssh_hosts_next(&rest, &line) && !line.revoked);
	CHECK(http_text_is(line.names, "a.example") && http_text_is(line.key, " ssh-ed25519 AAAA"));
	CHECK(ssh_hosts_next(&rest, &line) && line.revoked && http_text_is(line.names, "*"));
	CHECK(ssh_hosts_next(&rest, &line) && http_text_is(line.names, "last"));
	CHECK(!ssh_hosts_next(&rest, &line));
}

TEST(ssh_hosts_plain)
{
	static const char text[] = "*.x,[b.example]:2222,!n,a.example,[c]:0,[d]:99999,[e]x,[]:22,|1|x|y,f";
	static const struct { const char *host; uint16_t port; } want[] = {
		{ "b.example", 2222 }, { "a.example", 22 }, { "f", 22 },
	};
	struct http_text names = { text, sizeof(text) - 1 };
	char host[SSH_HOST_MAX];
	uint16_t port;

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		CHECK(ssh_hosts_plain(&names, host, &port));
		CHECK_STR(host, want[i].host);
		CHECK(port == want[i].port);
	}
	CHECK(!ssh_hosts_plain(&names, host, &port));
}
