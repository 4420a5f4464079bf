/* link_token.c - see link_token.h. */
#include "link/link_token.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"

#define FRONT "cj1_"
#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

bool
link_is_hex(const char *text, size_t len)
{
	return strspn(text, "0123456789abcdef") == len && text[len] == '\0';
}

bool
link_is_name(const char *text, size_t max)
{
	size_t len = strspn(text, ALNUM ".-_");

	return len > 0 && len <= max && text[len] == '\0' && strchr(".-_", text[0]) == NULL;
}

/* The part of TEXT before its port; brackets are for addresses of IPv6. */
static bool
take_host(const char *text, size_t len, char ret_host[LINK_HOST_MAX])
{
	bool six = len > 2 && text[0] == '[' && text[len - 1] == ']';

	if (six) {
		text++;
		len -= 2;
	}
	if (len == 0 || len >= LINK_HOST_MAX)
		return false;
	memcpy(ret_host, text, len);
	ret_host[len] = '\0';
	return strspn(ret_host, six ? "0123456789abcdefABCDEF:." : ALNUM ".-") == len;
}

bool
link_address_is_any(const struct link_address *a)
{
	static const unsigned char none[16], mapped[16] = { [10] = 0xff, [11] = 0xff };
	unsigned char bytes[16];
	struct in_addr four;

	/* As whoever dials it reads it: "0" and "0x0" are addresses, too. */
	if (strchr(a->host, ':') == NULL)
		return inet_aton(a->host, &four) != 0 && four.s_addr == 0;
	return inet_pton(AF_INET6, a->host, bytes) == 1 && (memcmp(bytes, none, 16) == 0 || memcmp(bytes, mapped, 16) == 0);
}

int
link_address_parse(const char *text, bool listens, struct link_address *ret_address, struct err *err)
{
	const char *colon = strrchr(text, ':');
	struct link_address a = {0};
	uint64_t port = 0;

	if (colon == NULL || num_parse_count(colon + 1, listens ? 0 : 1, UINT16_MAX, &port, NULL) < 0 ||
	    !take_host(text, (size_t)(colon - text), a.host))
		return err_set(err, EINVAL, "'%.128s' is no address: write HOST:PORT or [IPV6]:PORT", text);
	a.port = (uint16_t)port;
	if (!listens && link_address_is_any(&a))
		return err_set(err, EINVAL, "'%.128s' means all addresses of a machine, and nobody can dial that: write the name or the "
		               "address that workers dial", text);
	*ret_address = a;
	return 0;
}

int
link_token_parse(const char *text, struct link_token *ret_token, struct err *err)
{
	const size_t front = sizeof(FRONT) - 1, len = strlen(text);
	struct link_address address;
	struct link_token t = {0};

	if (len < front + 2 * (LINK_HEX + 1) || len >= LINK_TOKEN_MAX || strncmp(text, FRONT, front) != 0 ||
	    text[front + LINK_HEX] != '_' || text[front + 2 * LINK_HEX + 1] != '_')
		return err_set(err, EINVAL, "this is no token of `cloister worker token`: copy all of it");
	memcpy(t.secret, text + front, LINK_HEX);
	memcpy(t.print, text + front + LINK_HEX + 1, LINK_HEX);
	snprintf(t.address, sizeof(t.address), "%s", text + front + 2 * (LINK_HEX + 1));
	if (!link_is_hex(t.secret, LINK_HEX) || !link_is_hex(t.print, LINK_HEX) ||
	    link_address_parse(t.address, false, &address, NULL) < 0)
		return err_set(err, EINVAL, "this is no token of `cloister worker token`: copy all of it");
	*ret_token = t;
	return 0;
}

void
link_token_format(const struct link_token *t, char ret_text[LINK_TOKEN_MAX])
{
	snprintf(ret_text, LINK_TOKEN_MAX, FRONT "%s_%s_%s", t->secret, t->print, t->address);
}
