/* gate_dns_ptr.c - see gate_dns_ptr.h. */
#include "proc/gate/gate_dns_ptr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/codec.h"

static const char v4_suffix[] = ".in-addr.arpa", v6_suffix[] = ".ip6.arpa";

static int
parse_v4(const char *name, size_t len, struct sockaddr_in *ret_in)
{
	char text[INET_ADDRSTRLEN];
	struct in_addr reversed;

	if (len >= sizeof(text))
		return -EINVAL;
	memcpy(text, name, len);
	text[len] = '\0';
	if (inet_pton(AF_INET, text, &reversed) != 1)
		return -EINVAL;
	ret_in->sin_family = AF_INET;
	ret_in->sin_addr.s_addr = __builtin_bswap32(reversed.s_addr);
	return 0;
}

/* 32 hex digits separated by dots, in reverse order. */
static int
parse_v6(const char *name, size_t len, struct sockaddr_in6 *ret_in6)
{
	int digit;

	if (len != 63)
		return -EINVAL;
	memset(ret_in6, 0, sizeof(*ret_in6));
	for (size_t i = 0; i < 32; i++) {
		digit = codec_hex_value(name[2 * i]);
		if (digit < 0 || (i < 31 && name[2 * i + 1] != '.'))
			return -EINVAL;
		ret_in6->sin6_addr.s6_addr[15 - i / 2] |=
			(unsigned char)(digit << (i % 2 == 0 ? 0 : 4));
	}
	ret_in6->sin6_family = AF_INET6;
	return 0;
}

int
gate_dns_ptr_parse(const char *name, struct sockaddr_storage *ret_address)
{
	size_t len = strlen(name), v4 = sizeof(v4_suffix) - 1, v6 = sizeof(v6_suffix) - 1;

	memset(ret_address, 0, sizeof(*ret_address));
	if (len > v4 && strcmp(name + len - v4, v4_suffix) == 0)
		return parse_v4(name, len - v4, (struct sockaddr_in *)ret_address);
	if (len > v6 && strcmp(name + len - v6, v6_suffix) == 0)
		return parse_v6(name, len - v6, (struct sockaddr_in6 *)ret_address);
	return -EINVAL;
}

static size_t
put_u16(unsigned char *at, size_t v)
{
	at[0] = (unsigned char)(v >> 8);
	at[1] = (unsigned char)v;
	return 2;
}

size_t
gate_dns_ptr_write(const unsigned char *query, const struct dns_question *question,
                   const char *name, uint32_t ttl, unsigned char ret_answer[DNS_MESSAGE_MAX])
{
	struct dns_question plain = *question;
	size_t len, label, left = strlen(name);

	/* Without EDNS nothing follows the question. */
	plain.has_edns = false;
	len = dns_write_answer(query, &plain, DNS_OK, NULL, ttl, ret_answer);
	if (len + 12 + left + 2 > DNS_MESSAGE_MAX)
		return len;
	put_u16(ret_answer + 6, 1);                     /* one answer */
	len += put_u16(ret_answer + len, 0xc00c);       /* for the question's name */
	len += put_u16(ret_answer + len, DNS_PTR);
	len += put_u16(ret_answer + len, 1);
	len += put_u16(ret_answer + len, ttl >> 16);
	len += put_u16(ret_answer + len, ttl & 0xffff);
	len += put_u16(ret_answer + len, left + 2);
	for (; left > 0; name += label, left -= label) {
		label = strcspn(name, ".");
		ret_answer[len++] = (unsigned char)label;
		memcpy(ret_answer + len, name, label);
		len += label;
		if (name[label] == '.')
			label++;
	}
	ret_answer[len++] = 0;
	return len;
}
