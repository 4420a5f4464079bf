/* ssh_hosts.h - reads the keys of hosts from known_hosts files (sshd(8), SSH_KNOWN_HOSTS FILE
 * FORMAT).
 *
 * Pure.  Lines that cannot be read are skipped, as in ssh.  Certificate authorities are not keys of
 * hosts. */
#ifndef CLOISTER_SSH_HOSTS_H
#define CLOISTER_SSH_HOSTS_H
#include "ssh/ssh_wire.h"

#define SSH_HOSTS_FILE_MAX (4 * 1024 * 1024)
#define SSH_HOSTS_LINE_MAX (16 * 1024)  /* a longer line is skipped */
#define SSH_HOST_MAX 280                /* "[host]:65535" and its NUL */
#define SSH_PORT 22

struct ssh_hosts_line {
	bool revoked;                   /* no host may use this key any more */
	struct http_text names;         /* patterns separated by commas, or one hashed name */
	struct http_text key;           /* "ssh-ed25519 AAAA...", possibly with a comment */
};

/* Read the next line of *REST that has a key. */
bool ssh_hosts_next(struct http_text *rest, struct ssh_hosts_line *ret_line);
/* Whether NAME, as written by ssh_hosts_name(), is one of NAMES. */
bool ssh_hosts_match(struct http_text names, const char *name);
/* Write "host", or "[host]:2222" if the port is not the default.  An IPv6 address is given without
 * brackets. */
void ssh_hosts_name(const char *host, uint16_t port, char ret_name[SSH_HOST_MAX]);
/* Parse the next of NAMES that is neither a pattern nor hashed; *NAMES is advanced. */
bool ssh_hosts_plain(struct http_text *names, char ret_host[SSH_HOST_MAX], uint16_t *ret_port);
#endif
