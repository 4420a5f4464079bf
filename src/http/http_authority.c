/* http_authority.c - parses hosts and ports as people and programs write them. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "http/http_parts.h"

#define LABEL_MAX 63
#define NAME_MAX_LEN 253

static bool
is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || http_is_digit(c) || c == '-' || c == '_';
}

/* Whether URL parsers or inet_aton() would read a name that ends in this label as an address:
 * digits, or "0x" and hex digits. */
static bool
is_number(const char *label, size_t len)
{
	size_t i = 0;

	if (len >= 2 && label[0] == '0' && label[1] == 'x') {
		for (i = 2; i < len && codec_hex_value(label[i]) >= 0; i++)
			;
		return i == len;
	}
	while (i < len && http_is_digit(label[i]))
		i++;
	return i == len;
}

/* Four numbers from 0 to 255 without leading zeros. */
static bool
is_ipv4(const char *at, size_t len)
{
	const char *end = at + len;

	for (int part = 0; part < 4; part++) {
		const char *from = at;
		int n = 0;

		while (at < end && http_is_digit(*at) && at - from < 4)
			n = n * 10 + (*at++ - '0');
		if (at == from || n > 255 || (*from == '0' && at - from > 1))
			return false;
		if (part < 3 && (at == end || *at++ != '.'))
			return false;
	}
	return at == end;
}

/* A name in lower case, LEN at least 1. */
static int
check_name(const char *name, size_t len, struct err *err)
{
	size_t label = 0;

	for (size_t i = 0; i <= len; i++) {
		if (i < len && name[i] != '.') {
			if (!is_name_char(name[i]))
				return err_set(err, EBADMSG, "the host has a character that it cannot have");
			continue;
		}
		if (i == label)
			return err_set(err, EBADMSG, "the host has an empty label");
		if (i - label > LABEL_MAX)
			return err_set(err, EBADMSG, "the host has a label of more than 63 characters");
		if (i == len && is_number(name + label, i - label) && !is_ipv4(name, len))
			return err_set(err, EBADMSG,
			               "the host is an address, but not written as four plain numbers");
		label = i + 1;
	}
	return 0;
}

static int
parse_name(struct http_text text, char *ret_host, struct err *err)
{
	char host[HTTP_HOST_MAX + 1];
	size_t len = text.len;
	int r;

	if (len > 0 && text.at[len - 1] == '.')
		len--;
	if (len == 0)
		return err_set(err, EBADMSG, "there is no host");
	if (len > NAME_MAX_LEN)
		return err_set(err, EBADMSG, "the host has more than %d characters", NAME_MAX_LEN);
	for (size_t i = 0; i < len; i++)
		host[i] = http_lower(text.at[i]);
	host[len] = '\0';
	r = check_name(host, len, err);
	if (r == 0)
		memcpy(ret_host, host, len + 1);
	return r;
}

/* TEXT is the part between the brackets. */
static int
parse_ipv6(struct http_text text, char *ret_host, struct err *err)
{
	char plain[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (text.len > 0 && text.len < sizeof(plain)) {
		memcpy(plain, text.at, text.len);
		plain[text.len] = '\0';
		if (strlen(plain) == text.len && inet_pton(AF_INET6, plain, &address) == 1) {
			ret_host[0] = '[';
			inet_ntop(AF_INET6, &address, ret_host + 1, INET6_ADDRSTRLEN);
			memcpy(ret_host + strlen(ret_host), "]", 2);
			return 0;
		}
	}
	return err_set(err, EBADMSG, "the host in brackets is not an IPv6 address");
}

static int
parse_port(const char *at, const char *end, uint16_t *ret_port, struct err *err)
{
	uint32_t n = 0;

	for (const char *p = at; p < end; p++) {
		if (!http_is_digit(*p) || p - at >= 5)
			return err_set(err, EBADMSG, "the port is not a number from 1 to 65535");
		n = n * 10 + (uint32_t)(*p - '0');
	}
	if (n == 0 || n > UINT16_MAX || *at == '0')
		return err_set(err, EBADMSG, "the port is not a number from 1 to 65535");
	*ret_port = (uint16_t)n;
	return 0;
}

int
http_authority_parse(struct http_text text, char ret_host[HTTP_HOST_MAX + 1],
                     uint16_t *ret_port, struct err *err)
{
	const char *end, *host_end;
	uint16_t port = 0;
	int r;

	if (text.len == 0)
		return err_set(err, EBADMSG, "there is no host");
	end = text.at + text.len;
	if (text.at[0] == '[') {
		host_end = memchr(text.at, ']', text.len);
		if (host_end == NULL)
			return err_set(err, EBADMSG, "the host has a bracket that is not closed");
		host_end++;
	} else {
		host_end = memchr(text.at, ':', text.len);
		if (host_end == NULL)
			host_end = end;
	}
	if (host_end < end) {
		if (*host_end != ':')
			return err_set(err, EBADMSG, "the host has a character that it cannot have");
		r = parse_port(host_end + 1, end, &port, err);
		if (r < 0)
			return r;
	}
	if (text.at[0] == '[')
		r = parse_ipv6((struct http_text){ text.at + 1, (size_t)(host_end - text.at) - 2 },
		               ret_host, err);
	else
		r = parse_name((struct http_text){ text.at, (size_t)(host_end - text.at) },
		               ret_host, err);
	if (r == 0)
		*ret_port = port;
	return r;
}

bool
http_host_is_canonical(struct http_text host)
{
	char again[HTTP_HOST_MAX + 1];

	if (host.len == 0 || host.len > NAME_MAX_LEN)
		return false;
	if (host.at[0] != '[')
		return host.at[host.len - 1] != '.' && check_name(host.at, host.len, NULL) == 0;
	return host.at[host.len - 1] == ']' &&
		parse_ipv6((struct http_text){ host.at + 1, host.len - 2 }, again, NULL) == 0 &&
		http_text_is(host, again);
}
