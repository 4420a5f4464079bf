/* policy_match.c - matches globs, hosts and ports. */
#include <arpa/inet.h>
#include <string.h>

#include "policy/policy_parts.h"

/* ---- globs ---- */

#define STEPS_MAX 4096                  /* then switch to the bounded algorithm */

struct glob_star {
	const char *resume;             /* the glob behind the star; NULL: no star yet */
	size_t at;                      /* how far the star reaches in the text */
};

/* If GLOB is at a "*" or "**", return the glob behind it and set the least number of characters
 * that it takes.  NULL for any other character. */
static const char *
glob_star_at(const char *start, const char *glob, char separator, bool *ret_deep,
             size_t *ret_least)
{
	bool first = glob > start && glob[-1] == separator && separator != '\0';
	const char *behind = glob;

	if (*glob != '*')
		return NULL;
	while (*behind == '*')
		behind++;
	*ret_deep = separator == '\0' || behind - glob > 1;
	*ret_least = !*ret_deep && first && (*behind == separator || *behind == '\0');
	return behind;
}

/* "/" and "**" and "/": together they may match a single "/". */
static bool
glob_is_folder_skip(const char *start, const char *glob, const char *behind, char separator)
{
	return separator != '\0' && glob > start && glob[-1] == separator &&
	       behind - glob > 1 && *behind == separator;
}

/* Tracks, for each position in the text, all positions in the glob that lead there. */
__attribute__((noinline)) static bool
glob_slowly(const char *glob, const char *text, size_t len, char separator)
{
	/* The loader refuses longer globs. */
	bool now[POLICY_TEXT_MAX + 2] = { true }, next[POLICY_TEXT_MAX + 2];
	const char *behind;
	size_t n = strlen(glob), least;
	bool deep;

	if (n > POLICY_TEXT_MAX)
		return false;
	for (size_t i = 0;; i++) {
		memset(next, 0, n + 1);
		for (size_t g = 0; g < n; g++) {
			if (!now[g])
				continue;
			behind = glob_star_at(glob, glob + g, separator, &deep, &least);
			if (behind == NULL) {
				next[g + 1] |= i < len && text[i] == glob[g];
				continue;
			}
			if (least == 0)
				now[behind - glob] = true;
			if (glob_is_folder_skip(glob, glob + g, behind, separator))
				now[behind - glob + 1] = true;
			if (i < len && (deep || text[i] != separator)) {
				next[g] = true;
				next[behind - glob] = true;
			}
		}
		if (i == len)
			return now[n];
		memcpy(now, next, n + 1);
	}
}

bool
policy_glob(const char *glob, const char *text, size_t len, char separator)
{
	struct glob_star shallow = { NULL, 0 }, deep = { NULL, 0 };
	const char *start = glob, *behind;
	size_t at = 0, least, steps = 0;
	bool is_deep;

	for (;;) {
		if (++steps > STEPS_MAX)
			return glob_slowly(start, text, len, separator);
		behind = glob_star_at(start, glob, separator, &is_deep, &least);
		/* The separator before the star also serves as the one behind it. */
		if (behind != NULL && glob_is_folder_skip(start, glob, behind, separator))
			at--;
		if (behind != NULL && at + least <= len && (least == 0 || text[at] != separator)) {
			at += least;
			glob = behind;
			if (is_deep && *glob == '\0')
				return true;
			if (is_deep)
				shallow.resume = NULL;
			*(is_deep ? &deep : &shallow) = (struct glob_star){ behind, at };
			continue;
		}
		if (behind == NULL && at == len && *glob == '\0')
			return true;
		if (behind == NULL && at < len && *glob == text[at] && *glob != '\0') {
			glob++;
			at++;
			continue;
		}
		/* The last star takes one more character; a "*" stops at a separator. */
		if (shallow.resume != NULL && shallow.at < len && text[shallow.at] != separator) {
			glob = shallow.resume;
			at = ++shallow.at;
		} else if (deep.resume != NULL && deep.at < len) {
			shallow.resume = NULL;
			glob = deep.resume;
			at = ++deep.at;
		} else {
			return false;
		}
	}
}

bool
policy_glob_path(const char *glob, const char *text, size_t len)
{
	return policy_glob(glob, text, len, '/');
}

bool
policy_glob_text(const char *glob, const char *text, size_t len)
{
	return policy_glob(glob, text, len, '\0');
}

bool
policy_glob_is_plain(const char *glob)
{
	return strchr(glob, '*') == NULL;
}

/* ---- hosts ---- */

static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

bool
policy_address(const char *text, unsigned char ret_address[16])
{
	char bare[INET6_ADDRSTRLEN];
	size_t len = strlen(text);
	unsigned char v4[4];

	if (inet_pton(AF_INET, text, v4) == 1) {
		memcpy(ret_address, mapped, sizeof(mapped));
		memcpy(ret_address + sizeof(mapped), v4, sizeof(v4));
		return true;
	}
	if (text[0] != '[')
		return strchr(text, ':') != NULL && inet_pton(AF_INET6, text, ret_address) == 1;
	if (len < 2 || text[len - 1] != ']' || len - 2 >= sizeof(bare))
		return false;
	memcpy(bare, text + 1, len - 2);
	bare[len - 2] = '\0';
	return inet_pton(AF_INET6, bare, ret_address) == 1;
}

static bool
is_ipv4(const unsigned char address[16])
{
	return memcmp(address, mapped, sizeof(mapped)) == 0;
}

bool
policy_net_is_ipv4(const struct policy_host *net)
{
	return net->bits >= 96 && is_ipv4(net->address);
}

bool
policy_net_has(const struct policy_host *net, const unsigned char address[16])
{
	size_t whole = net->bits / 8u, rest = net->bits % 8u;

	/* ::/0 is all of IPv6, but no IPv4-mapped address. */
	if (is_ipv4(address) != policy_net_is_ipv4(net))
		return false;
	if (memcmp(address, net->address, whole) != 0)
		return false;
	return rest == 0 || (address[whole] ^ net->address[whole]) >> (8 - rest) == 0;
}

bool
policy_host_fits(const struct policy_host *pattern, const char *host)
{
	size_t len = strlen(host), n = strlen(pattern->name);
	unsigned char address[16];

	if (policy_address(host, address))
		return pattern->kind == POLICY_HOST_NET && policy_net_has(pattern, address);
	if (pattern->kind == POLICY_HOST_NAME)
		return strcmp(pattern->name, host) == 0;
	/* Patterns never match the machine itself, only its exact name does. */
	if (pattern->kind == POLICY_HOST_NET || strcmp(host, POLICY_HOST_OF_MACHINE) == 0)
		return false;
	if (pattern->kind == POLICY_HOST_ANY)
		return true;
	if (len < n + 2 || host[len - n - 1] != '.' || strcmp(host + len - n, pattern->name) != 0)
		return false;
	return pattern->kind == POLICY_HOST_UNDER || memchr(host, '.', len - n - 1) == NULL;
}

bool
policy_port_fits(const struct policy_rule *rule, const struct policy_host *host, uint16_t port)
{
	if (host->port != 0)
		return host->port == port;
	for (size_t i = 0; i < rule->n_ports; i++)
		if (port >= rule->ports[i].first && port <= rule->ports[i].last)
			return true;
	return rule->n_ports == 0;
}
