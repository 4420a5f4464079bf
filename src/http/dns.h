/* dns.h - parses one DNS question and writes its answer. */
#ifndef CLOISTER_DNS_H
#define CLOISTER_DNS_H
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DNS_MESSAGE_MAX 1232
#define DNS_NAME_MAX 253

enum dns_type { DNS_A = 1, DNS_PTR = 12, DNS_AAAA = 28, DNS_HTTPS = 65 };
enum dns_rcode { DNS_OK, DNS_FORMERR, DNS_SERVFAIL, DNS_NXDOMAIN, DNS_NOTIMP, DNS_REFUSED };

struct dns_question {
	uint16_t id, type, class;
	bool recursion_desired, has_edns;
	char name[DNS_NAME_MAX + 1];    /* lower case, no final dot ("" for the root); labels of any
	                                 * printable ASCII but dots */
	size_t question_len;            /* bytes of the question section */
	enum dns_rcode deserves;        /* with -ENOTSUP: the code to answer with */
};
/* Returns 0 for a question of class IN.  -EBADMSG: do not answer (too short, or itself an answer).
 * -ENOTSUP: answer with NOTIMP or FORMERR; *ret_question is then valid for dns_write_answer(),
 * except its name. */
int dns_parse_query(const unsigned char *data, size_t len, struct dns_question *ret_question);

/* Write the answer to QUERY, the message as received.  ADDRESS has 4 or 16 bytes by the question's
 * type; NULL means no data.  Returns the answer's length. */
size_t dns_write_answer(const unsigned char *query, const struct dns_question *question,
                        enum dns_rcode code, const void *address, uint32_t ttl,
                        unsigned char ret_answer[DNS_MESSAGE_MAX]);
#endif
