/* gate_dns_ptr.h - from an address back to its name.  Pure. */
#ifndef CLOISTER_GATE_DNS_PTR_H
#define CLOISTER_GATE_DNS_PTR_H
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "http/dns.h"

/* The address that a name under in-addr.arpa or ip6.arpa stands for, or -EINVAL. */
int gate_dns_ptr_parse(const char *name, struct sockaddr_storage *ret_address);
/* The answer to a question for it: NAME is canonical.  Returns its length. */
size_t gate_dns_ptr_write(const unsigned char *query, const struct dns_question *question,
                          const char *name, uint32_t ttl, unsigned char ret_answer[DNS_MESSAGE_MAX]);
#endif
