/* challenge.h - what a registry asks for before it answers: WWW-Authenticate (RFC 7235), and where a
 * token may be fetched with a password.
 *
 * Pure. */
#ifndef CLOISTER_IMAGE_CHALLENGE_H
#define CLOISTER_IMAGE_CHALLENGE_H
#include <stdbool.h>
#include <stddef.h>

struct err;

#define CHALLENGE_FIELD_MAX (8 * 1024)  /* bytes of one header field */
#define CHALLENGE_REALM_MAX 1024
#define CHALLENGE_WORD_MAX 512

enum challenge_kind { CHALLENGE_NONE, CHALLENGE_BASIC, CHALLENGE_BEARER };

struct challenge {
	enum challenge_kind kind;
	/* Bearer only; without control characters. */
	char realm[CHALLENGE_REALM_MAX + 1];
	char service[CHALLENGE_WORD_MAX + 1], scope[CHALLENGE_WORD_MAX + 1];
};

/* Read the value of one field, which may hold several challenges: Bearer counts before Basic, and unknown
 * schemes are passed over.  -EBADMSG if it is malformed. */
int challenge_parse(const char *text, size_t len, struct challenge *ret_challenge, struct err *err);

/* An address as https://host[:port]/path, without a login and a fragment. */
#define CHALLENGE_HOST_MAX 255
struct challenge_url {
	bool is_tls;
	char host[CHALLENGE_HOST_MAX + 1];      /* in lower case; IPv6 without brackets */
	unsigned port;
};
/* -EINVAL if it is not such an address. */
int challenge_parse_url(const char *url, struct challenge_url *ret_url);
/* Whether NAME means this machine: "localhost" and names in it, 127.0.0.0/8, ::1. */
bool challenge_is_loopback(const char *name);

/* Whether a token may be asked for at REALM, which REGISTRY named.  PLAIN: the operator allows plain HTTP to
 * the registry.  *RET_TRUSTED: the password for the registry may go there, because it is the registry's own
 * host, a host of the same domain, or GRANTED, the host that the operator named (NULL: none). */
int challenge_check_realm(const char *realm, const struct challenge_url *registry, bool plain,
                          const char *granted, bool *ret_trusted, struct err *err);
#endif
