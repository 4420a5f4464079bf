/* gate_dns_ptr.h - reverse lookups: from an address to its name.  Pure. */
#ifndef CLOISTER_GATE_DNS_PTR_H
#define CLOISTER_GATE_DNS_PTR_H
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "http/dns.h"

/* Parse a name under in-addr.arpa or ip6.arpa.  -EINVAL: it is not one. */
int gate_dns_ptr_parse(const char *name, struct sockaddr_storage *ret_address);
/* Write the response with NAME, which is canonical.  Returns its length. */
size_t gate_dns_ptr_write(const unsigned char *query, const struct dns_question *question,
                          const char *name, uint32_t ttl, unsigned char ret_answer[DNS_MESSAGE_MAX]);
#endif
