/* address.c - see address.h. */
#include "upstream/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <string.h>

#include "base/own.h"

#define ADDRESSES_MAX 64                /* that can be put into order */

struct range {
	unsigned char bytes[16];
	unsigned bits;
	enum address_kind kind;
	const char *what;
};

/* The first matching range counts; an address in none of them is public. */
static const struct range ranges4[] = {
	{ { 0 },                8, ADDRESS_UNUSABLE, "unspecified" },
	{ { 10 },               8, ADDRESS_PRIVATE,  "private" },
	/* Alibaba's metadata, inside the range that carriers share. */
	{ { 100, 100, 100, 200 }, 32, ADDRESS_LOCAL, "metadata" },
	{ { 100, 64 },         10, ADDRESS_PRIVATE,  "shared by carriers" },
	{ { 127 },              8, ADDRESS_PRIVATE,  "loopback" },
	/* Azure's metadata, at an address that looks public. */
	{ { 168, 63, 129, 16 }, 32, ADDRESS_LOCAL,   "metadata" },
	{ { 169, 254 },        16, ADDRESS_LOCAL,    "link-local" },
	{ { 172, 16 },         12, ADDRESS_PRIVATE,  "private" },
	/* This range includes Oracle's metadata. */
	{ { 192, 0, 0 },       24, ADDRESS_LOCAL,    "reserved for protocols" },
	/* People route these to themselves: in labs, behind resolvers that invent addresses. */
	{ { 192, 0, 2 },       24, ADDRESS_PRIVATE,  "for documentation" },
	{ { 192, 88, 99 },     24, ADDRESS_UNUSABLE, "a relay" },
	{ { 192, 168 },        16, ADDRESS_PRIVATE,  "private" },
	{ { 198, 18 },         15, ADDRESS_PRIVATE,  "for benchmarks" },
	{ { 198, 51, 100 },    24, ADDRESS_PRIVATE,  "for documentation" },
	{ { 203, 0, 113 },     24, ADDRESS_PRIVATE,  "for documentation" },
	{ { 224 },              4, ADDRESS_UNUSABLE, "multicast" },
	{ { 240 },              4, ADDRESS_UNUSABLE, "reserved" },
};
static const struct range ranges6[] = {
	{ { [15] = 1 },       128, ADDRESS_PRIVATE,  "loopback" },
	{ { 0 },              128, ADDRESS_UNUSABLE, "unspecified" },
	/* Private NAT64 translators use this range. */
	{ { 0, 0x64, 0xff, 0x9b, 0, 1 }, 48, ADDRESS_PRIVATE, "translated" },
	/* Metadata of AWS, Scaleway, Oracle, Alibaba, Akamai and Google; OpenStack's and others'
	 * are link-local. */
	{ { 0xfd, 0, 0x0e, 0xc2 }, 32, ADDRESS_LOCAL, "metadata" },
	{ { 0xfd, 0, 0, 0x42 },    64, ADDRESS_LOCAL, "metadata" },
	{ { 0xfd, 0, 0, 0xc1 },    64, ADDRESS_LOCAL, "metadata" },
	{ { 0xfd, 0, 0x01, 0 },    64, ADDRESS_LOCAL, "metadata" },
	{ { 0xfd, 0, 0xa9, 0xfe, 0xa9, 0xfe }, 64, ADDRESS_LOCAL, "metadata" },
	{ { 0xfd, 0x20, 0, 0xce }, 64, ADDRESS_LOCAL, "metadata" },
	{ { 0xfd, 0x63, 0x6c, 0x6f, 0x69, 0x73, 0x74, 0x65 }, 64, ADDRESS_UNUSABLE,
	  "of the cell's own network" },
	{ { 0xfc },             7, ADDRESS_PRIVATE,  "private" },
	{ { 0xfe, 0x80 },      10, ADDRESS_LOCAL,    "link-local" },
	{ { 0xfe, 0xc0 },      10, ADDRESS_PRIVATE,  "private" },
	{ { 0xff },             8, ADDRESS_UNUSABLE, "multicast" },
	/* Teredo: an IPv4 address in two layers of encoding. */
	{ { 0x20, 0x01, 0, 0 }, 32, ADDRESS_UNUSABLE, "a tunnel" },
	{ { 0x20, 0x01, 0, 2, 0, 0 }, 48, ADDRESS_PRIVATE, "for benchmarks" },
	{ { 0x20, 0x01, 0, 0x10 }, 28, ADDRESS_UNUSABLE, "not routed" },
	{ { 0x20, 0x01, 0, 0x20 }, 28, ADDRESS_UNUSABLE, "not routed" },
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32, ADDRESS_PRIVATE, "for documentation" },
	{ { 0x3f, 0xff },      20, ADDRESS_PRIVATE,  "for documentation" },
	/* In the rest of the space, only 2000::/3 is allocated. */
	{ { 0x20 },             3, ADDRESS_PUBLIC,   "public" },
	{ { 0 },                0, ADDRESS_UNUSABLE, "reserved" },
};

/* IPv4 addresses in IPv6 ones: at byte AT, if the first BITS are these. */
static const struct {
	unsigned char bytes[16];
	unsigned bits, at;
} embeddings[] = {
	{ { [10] = 0xff, [11] = 0xff }, 96, 12 },       /* mapped */
	{ { [8] = 0xff, [9] = 0xff },   96, 12 },       /* translated, RFC 2765 */
	{ { 0, 0x64, 0xff, 0x9b },      96, 12 },       /* NAT64 */
	{ { 0x20, 0x02 },               16, 2 },        /* 6to4 */
};

static bool
has_prefix(const unsigned char *bytes, const unsigned char *prefix, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(bytes, prefix, whole) != 0)
		return false;
	return rest == 0 || ((bytes[whole] ^ prefix[whole]) >> (8 - rest)) == 0;
}

/* ISATAP defines the lower half, under any prefix.  Bits of its first byte mark whether the IPv4
 * address is unique; they are ignored. */
static bool
has_isatap(const unsigned char *bytes)
{
	static const unsigned char isatap[] = { 0, 0, 0x5e, 0xfe };

	return (bytes[8] & 0xfc) == isatap[0] && memcmp(bytes + 9, isatap + 1, 3) == 0;
}

static void
take_inner(struct address *inner, const unsigned char *high, const unsigned char *low)
{
	*inner = (struct address){ .family = AF_INET };
	memcpy(inner->bytes, high, 2);
	memcpy(inner->bytes + 2, low, 2);
}

size_t
address_embedded(const struct address *a, struct address ret_inner[ADDRESS_EMBEDDED_MAX])
{
	/* RFC 8215: a private NAT64 puts the address here as RFC 6052 defines, or at the end. */
	static const unsigned char own_nat64[] = { 0, 0x64, 0xff, 0x9b, 0, 1 };
	const unsigned char *bytes = a->bytes;
	size_t n = 0;

	if (a->family != AF_INET6)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(embeddings) && n == 0; i++)
		if (has_prefix(bytes, embeddings[i].bytes, embeddings[i].bits))
			take_inner(&ret_inner[n++], bytes + embeddings[i].at, bytes + embeddings[i].at + 2);
	if (memcmp(bytes, own_nat64, sizeof(own_nat64)) == 0) {
		take_inner(&ret_inner[n++], bytes + 6, bytes + 9);
		take_inner(&ret_inner[n++], bytes + 12, bytes + 14);
	}
	if (has_isatap(bytes))
		take_inner(&ret_inner[n++], bytes + 12, bytes + 14);
	return n;
}

struct judged {
	enum address_kind kind;
	const char *what;
	unsigned bits;                  /* of the range's prefix */
};

/* SKIP: the bits before the address that BYTES is. */
static struct judged
judge_by(const struct range *ranges, size_t n, const unsigned char *bytes, unsigned skip)
{
	for (size_t i = 0; i < n; i++)
		if (has_prefix(bytes, ranges[i].bytes, ranges[i].bits))
			return (struct judged){ ranges[i].kind, ranges[i].what, skip + ranges[i].bits };
	return (struct judged){ ADDRESS_PUBLIC, "public", 0 };
}

static struct judged
judge4(const unsigned char *bytes, unsigned skip)
{
	return judge_by(ranges4, ARRAY_LEN(ranges4), bytes, skip);
}

static struct judged
judge6(const unsigned char *bytes)
{
	struct address a = { .family = AF_INET6 }, embedded[ADDRESS_EMBEDDED_MAX];
	struct judged outer, inner = { .kind = ADDRESS_PUBLIC };
	size_t n;

	for (size_t i = 0; i < ARRAY_LEN(embeddings); i++)
		if (has_prefix(bytes, embeddings[i].bytes, embeddings[i].bits))
			return judge4(bytes + embeddings[i].at, 8 * embeddings[i].at);
	outer = judge_by(ranges6, ARRAY_LEN(ranges6), bytes, 0);
	if (has_isatap(bytes))
		inner = judge4(bytes + 12, 96);
	if (inner.kind > outer.kind)
		return inner;
	/* Metadata addresses remain forbidden behind a private translator. */
	memcpy(a.bytes, bytes, sizeof(a.bytes));
	n = outer.kind == ADDRESS_PRIVATE ? address_embedded(&a, embedded) : 0;
	for (size_t i = 0; i < n; i++) {
		inner = judge4(embedded[i].bytes, 0);
		if (inner.kind == ADDRESS_LOCAL)
			return (struct judged){ ADDRESS_LOCAL, inner.what, ADDRESS_BITS };
	}
	return outer;
}

static struct judged
judge(const struct address *a)
{
	return a->family == AF_INET ? judge4(a->bytes, 96) : judge6(a->bytes);
}

enum address_kind
address_judge(const struct address *a, const char **ret_what)
{
	const struct judged judged = judge(a);

	if (ret_what != NULL)
		*ret_what = judged.what;
	return judged.kind;
}

bool
address_is_allowed(const struct address *a, bool may_use_private, unsigned named_bits,
                   const char **ret_what)
{
	const struct judged judged = judge(a);
	const bool named = named_bits >= judged.bits && named_bits > 0;

	if (ret_what != NULL)
		*ret_what = judged.what;
	switch (judged.kind) {
	case ADDRESS_PUBLIC:
		return true;
	case ADDRESS_PRIVATE:
		return may_use_private || named;
	case ADDRESS_LOCAL:
		/* A name is not enough for these: its owner may point it anywhere. */
		return named;
	case ADDRESS_UNUSABLE:
		return false;
	}
	return false;
}

bool
address_parse(const char *text, struct address *ret_address)
{
	struct address a = { .family = AF_INET };
	char bare[ADDRESS_TEXT_MAX];
	size_t len = strlen(text);

	if (inet_pton(AF_INET, text, a.bytes) == 1) {
		*ret_address = a;
		return true;
	}
	if (text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	if (len >= sizeof(bare))
		return false;
	memcpy(bare, text, len);
	bare[len] = '\0';
	a.family = AF_INET6;
	if (inet_pton(AF_INET6, bare, a.bytes) != 1)
		return false;
	*ret_address = a;
	return true;
}

char *
address_format(const struct address *a, char text[ADDRESS_TEXT_MAX])
{
	if (inet_ntop(a->family, a->bytes, text, ADDRESS_TEXT_MAX) == NULL)
		text[0] = '\0';
	return text;
}

bool
address_is_same(const struct address *a, const struct address *b)
{
	return a->family == b->family &&
	       memcmp(a->bytes, b->bytes, a->family == AF_INET ? 4 : 16) == 0;
}

socklen_t
address_to_socket(const struct address *a, uint16_t port, struct sockaddr_storage *ret_socket)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret_socket;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_socket;

	memset(ret_socket, 0, sizeof(*ret_socket));
	if (a->family == AF_INET) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, a->bytes, 4);
		return sizeof(*in);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, a->bytes, 16);
	return sizeof(*in6);
}

void
address_interleave(struct address *addresses, size_t n)
{
	struct address ordered[ADDRESSES_MAX] = {0};
	size_t at[2] = { 0, 0 }, done = 0;
	const int families[2] = { AF_INET6, AF_INET };

	assert(n <= ADDRESSES_MAX);
	for (size_t turn = 0; done < n; turn ^= 1) {
		size_t *i = &at[turn];

		while (*i < n && addresses[*i].family != families[turn])
			(*i)++;
		if (*i < n)
			ordered[done++] = addresses[(*i)++];
	}
	memcpy(addresses, ordered, n * sizeof(*addresses));
}
