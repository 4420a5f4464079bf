/* link_token.h - the one string by which a worker joins a service: an address, whom to expect there, and a secret.
 *
 * Pure.  "cj1_SECRET_PRINT_HOST:PORT", where SECRET and PRINT have 64 digits each. */
#ifndef CLOISTER_LINK_TOKEN_H
#define CLOISTER_LINK_TOKEN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define LINK_HEX 64                     /* digits of a secret, and of a fingerprint (SHA-256) */
#define LINK_HOST_MAX 254               /* with its NUL */
#define LINK_ADDRESS_MAX (LINK_HOST_MAX + 8)
#define LINK_TOKEN_MAX (4 + 2 * (LINK_HEX + 1) + LINK_ADDRESS_MAX)

/* A place in the network.  HOST is a name or an address, IPv6 without brackets. */
struct link_address {
	char host[LINK_HOST_MAX];
	uint16_t port;
};

struct link_token {
	char secret[LINK_HEX + 1];
	char print[LINK_HEX + 1];       /* of the service's authority */
	char address[LINK_ADDRESS_MAX];
};

/* Whether it stands for all addresses of a machine, in any spelling: one can listen there, and not dial it. */
bool link_address_is_any(const struct link_address *a);
/* "HOST:PORT" or "[IPV6]:PORT"; a port of 0 only if LISTENS. */
int link_address_parse(const char *text, bool listens, struct link_address *ret_address, struct err *err);
int link_token_parse(const char *text, struct link_token *ret_token, struct err *err);
void link_token_format(const struct link_token *t, char ret_text[LINK_TOKEN_MAX]);

/* Whether TEXT has LEN digits in lower case, and nothing behind. */
bool link_is_hex(const char *text, size_t len);
/* Whether TEXT is a name of at most MAX letters, digits, '.', '-' and '_', with a letter or digit first. */
bool link_is_name(const char *text, size_t max);
#endif
