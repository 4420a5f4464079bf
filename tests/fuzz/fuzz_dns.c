/* fuzz_dns.c - a DNS question, and every answer to it. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "http/dns.h"

/* Made a question again, the answer asks the same. */
static void
check_answer(const struct dns_question *q, const unsigned char *answer, size_t len,
             bool has_address)
{
	unsigned char question[DNS_MESSAGE_MAX];
	struct dns_question again;
	size_t end = 12 + q->question_len;

	assert(len <= DNS_MESSAGE_MAX && (answer[2] & 0x80) != 0);
	assert(dns_parse_query(answer, len, &again) == -EBADMSG);
	assert(answer[7] == has_address);
	memcpy(question, answer, len);
	question[2] &= 0x01;
	question[3] = question[7] = 0;
	/* Without what was answered. */
	if (has_address) {
		size_t size = q->type == DNS_A ? 16 : 28;

		memmove(question + end, question + end + size, len - end - size);
		len -= size;
	}
	assert(dns_parse_query(question, len, &again) == 0);
	assert(again.id == q->id && again.type == q->type && again.class == q->class);
	assert(again.has_edns == q->has_edns && again.question_len == q->question_len);
	assert(again.recursion_desired == q->recursion_desired && strcmp(again.name, q->name) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned char address[] = "0123456789abcdef";
	unsigned char answer[DNS_MESSAGE_MAX];
	struct dns_question q = {0};
	int r = dns_parse_query(data, size, &q);
	size_t len;

	assert(r == 0 || r == -EBADMSG || r == -ENOTSUP);
	if (r == -EBADMSG)
		return 0;
	if (r == -ENOTSUP) {
		assert(q.deserves == DNS_FORMERR || q.deserves == DNS_NOTIMP);
		len = dns_write_answer(data, &q, q.deserves, NULL, 0, answer);
		assert(len >= 12 && len <= DNS_MESSAGE_MAX && memcmp(answer, data, 2) == 0);
		return 0;
	}
	assert(strlen(q.name) <= DNS_NAME_MAX);
	for (const char *c = q.name; *c != '\0'; c++)
		assert(*c > ' ' && *c <= '~' && !(*c >= 'A' && *c <= 'Z'));
	for (int code = DNS_OK; code <= DNS_REFUSED; code++) {
		len = dns_write_answer(data, &q, (enum dns_rcode)code, NULL, 60, answer);
		check_answer(&q, answer, len, false);
	}
	len = dns_write_answer(data, &q, DNS_OK, address, 60, answer);
	check_answer(&q, answer, len, q.type == DNS_A || q.type == DNS_AAAA);
	return 0;
}
