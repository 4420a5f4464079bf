/* ssh_hosts.h - known_hosts files (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT): which keys hosts have.
 *
 * Pure.  Lines that cannot be read are passed over, as ssh does.  Certificate authorities
 * are not keys of hosts. */
#ifndef CLOISTER_SSH_HOSTS_H
#define CLOISTER_SSH_HOSTS_H
#include "ssh/ssh_wire.h"

#define SSH_HOSTS_FILE_MAX (4 * 1024 * 1024)
#define SSH_HOSTS_LINE_MAX (16 * 1024)  /* what is longer is passed over */
#define SSH_HOST_MAX 280                /* "[host]:65535" and its NUL */
#define SSH_PORT 22

struct ssh_hosts_line {
	bool revoked;                   /* nobody may have this key any more */
	struct http_text names;         /* patterns with commas between them, or one hashed name */
	struct http_text key;           /* "ssh-ed25519 AAAA...", and perhaps a comment */
};

/* The next line of *REST that says something about a key. */
bool ssh_hosts_next(struct http_text *rest, struct ssh_hosts_line *ret_line);
/* Whether NAME, as ssh_hosts_name() writes it, is one of NAMES. */
bool ssh_hosts_match(struct http_text names, const char *name);
/* "host", or "[host]:2222" where the port is not the usual one; an IPv6 address comes without
 * brackets. */
void ssh_hosts_name(const char *host, uint16_t port, char ret_name[SSH_HOST_MAX]);
/* The next of NAMES that is neither a pattern nor hashed, taken apart; *NAMES moves on. */
bool ssh_hosts_plain(struct http_text *names, char ret_host[SSH_HOST_MAX], uint16_t *ret_port);
#endif
