/* gate_socks.c - see gate_socks.h. */
#include "proc/gate/gate_socks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SOCKS5_NO_PROOF 0
#define SOCKS_CONNECT 1
enum socks5_kind { SOCKS5_IPV4 = 1, SOCKS5_NAME = 3, SOCKS5_IPV6 = 4 };

static uint16_t
get_port(const unsigned char *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static int
need(size_t bytes, size_t *ret_need)
{
	*ret_need = bytes;
	return -EAGAIN;
}

/* Some clients send an address as a name, and IPv6 without brackets. */
static int
set_name(struct gate_socks *socks, const unsigned char *name, size_t len)
{
	char text[HTTP_HOST_MAX + 3];
	unsigned char address[16];
	uint16_t port;

	if (len == 0 || len > HTTP_HOST_MAX || memchr(name, '\0', len) != NULL)
		return -EINVAL;
	memcpy(text, name, len);
	text[len] = '\0';
	if (inet_pton(AF_INET6, text, address) == 1)
		len = (size_t)snprintf(text, sizeof(text), "[%.*s]", (int)len, (const char *)name);
	if (http_authority_parse((struct http_text){ text, len }, socks->host, &port, NULL) < 0 ||
	    port != 0 || name[0] == '[')
		return -EINVAL;
	return 0;
}

static void
set_address(struct gate_socks *socks, int family, const unsigned char *address)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(family, address, text, sizeof(text));
	snprintf(socks->host, sizeof(socks->host), family == AF_INET6 ? "[%s]" : "%s", text);
}

int
gate_socks5_greeting(const unsigned char *data, size_t len, size_t *ret_need)
{
	if (len < 2)
		return need(2, ret_need);
	if (data[0] != 5)
		return -EBADMSG;
	if (len < 2 + (size_t)data[1])
		return need(2 + (size_t)data[1], ret_need);
	return memchr(data + 2, SOCKS5_NO_PROOF, data[1]) != NULL ? 0 : -EPERM;
}

/* 05, command, 00, kind, address, port */
int
gate_socks5_request(const unsigned char *data, size_t len, size_t *ret_need,
                    struct gate_socks *ret_socks)
{
	size_t at = 4, size;
	int r = 0;

	if (len < 5)
		return need(5, ret_need);
	if (data[0] != 5 || data[2] != 0)
		return -EBADMSG;
	switch (data[3]) {
	case SOCKS5_IPV4:
		size = 4;
		break;
	case SOCKS5_IPV6:
		size = 16;
		break;
	case SOCKS5_NAME:
		size = data[at++];
		break;
	default:
		return -EAFNOSUPPORT;
	}
	if (len < at + size + 2)
		return need(at + size + 2, ret_need);
	if (data[1] != SOCKS_CONNECT)
		return -ENOTSUP;
	if (data[3] == SOCKS5_NAME)
		r = set_name(ret_socks, data + at, size);
	else
		set_address(ret_socks, data[3] == SOCKS5_IPV4 ? AF_INET : AF_INET6, data + at);
	ret_socks->port = get_port(data + at + size);
	return r == 0 && ret_socks->port == 0 ? -EINVAL : r;
}

/* The length of the string at DATA[AT], or -EAGAIN. */
static int
socks4_string(const unsigned char *data, size_t len, size_t at, size_t *ret_len,
              size_t *ret_need)
{
	const unsigned char *end = at < len ? memchr(data + at, '\0', len - at) : NULL;

	if (end == NULL)
		return len < GATE_SOCKS_MAX ? need(len + 1, ret_need) : -EBADMSG;
	*ret_len = (size_t)(end - data) - at;
	return 0;
}

/* 04, command, port, address, user, 00; with an address of 0.0.0.x: name, 00 */
int
gate_socks4_request(const unsigned char *data, size_t len, size_t *ret_need,
                    struct gate_socks *ret_socks)
{
	size_t user, name;
	int r;

	if (len < 9)
		return need(9, ret_need);
	if (data[0] != 4)
		return -EBADMSG;
	r = socks4_string(data, len, 8, &user, ret_need);
	if (r < 0)
		return r;
	ret_socks->port = get_port(data + 2);
	if (data[4] == 0 && data[5] == 0 && data[6] == 0 && data[7] != 0) {
		r = socks4_string(data, len, 8 + user + 1, &name, ret_need);
		if (r == 0)
			r = set_name(ret_socks, data + 8 + user + 1, name);
	} else {
		set_address(ret_socks, AF_INET, data + 4);
	}
	if (r == 0 && data[1] != SOCKS_CONNECT)
		r = -ENOTSUP;
	return r == 0 && ret_socks->port == 0 ? -EINVAL : r;
}
