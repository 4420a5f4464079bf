/* address.h - internet addresses, and which of them a name may lead to.  Pure. */
#ifndef CLOISTER_UPSTREAM_ADDRESS_H
#define CLOISTER_UPSTREAM_ADDRESS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct address {
	int family;                     /* AF_INET (4 bytes) or AF_INET6 (16) */
	unsigned char bytes[16];
};

#define ADDRESS_TEXT_MAX 48

/* How an address may be used. */
enum address_kind {
	ADDRESS_PUBLIC,
	ADDRESS_PRIVATE,                /* private networks, this machine, and reserved ranges that
	                                 * people route to themselves */
	ADDRESS_LOCAL,                  /* link-local, and cloud metadata */
	ADDRESS_UNUSABLE,               /* multicast, unspecified, the cell's own */
};

/* TEXT is a plain address, IPv6 with or without brackets.  False: it is not an address. */
bool address_parse(const char *text, struct address *ret_address);
/* Without brackets.  Returns TEXT. */
char *address_format(const struct address *a, char text[ADDRESS_TEXT_MAX]);
bool address_is_same(const struct address *a, const struct address *b);
socklen_t address_to_socket(const struct address *a, uint16_t port,
                            struct sockaddr_storage *ret_socket);

/* An IPv4 address inside an IPv6 one (mapped, NAT64, 6to4, ISATAP) is judged as IPv4.  *RET_WHAT,
 * if not NULL, names the range: "link-local". */
enum address_kind address_judge(const struct address *a, const char **ret_what);
#define ADDRESS_EMBEDDED_MAX 3
/* Find the IPv4 addresses that A may lead to through a translator.  Returns their number. */
size_t address_embedded(const struct address *a, struct address ret_inner[ADDRESS_EMBEDDED_MAX]);
/* Whether a connection to A may be made.  MAY_USE_PRIVATE: a rule allows private addresses.  NAMED_BITS: a rule names a
 * network that A is in, with a prefix of this length (IPv4: 96 more); 0: it does not, or a name led here.  A rule for a
 * larger network than the reserved range of A does not mean that range. */
#define ADDRESS_BITS 128
bool address_is_allowed(const struct address *a, bool may_use_private, unsigned named_bits,
                        const char **ret_what);

/* Put N addresses into the order in which they are tried (RFC 8305): families take
 * turns, IPv6 first, each family in the order that it came in. */
void address_interleave(struct address *addresses, size_t n);
#endif
