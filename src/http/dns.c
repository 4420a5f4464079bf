/* dns.c - see dns.h.  RFC 1035, 4.1 and RFC 6891. */
#include "http/dns.h"

#include <errno.h>
#include <string.h>

enum { HEADER = 12, LABEL_MAX = 63, WIRE_NAME_MAX = 255, EXTRA_MAX = 8 };
enum { FLAG_ANSWER = 0x8000, OPCODE = 0x7800, FLAG_TRUNCATED = 0x0200,
       FLAG_RECURSION = 0x0100, FLAG_CAN_RECURSE = 0x0080 };
enum { CLASS_IN = 1, TYPE_OPT = 41 };

static uint16_t
number_at(const unsigned char *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* Read the name at *AT, which must not be compressed.  False if it is invalid, or NAME
 * (DNS_NAME_MAX + 1 bytes, may be NULL) cannot hold it. */
static bool
read_name(const unsigned char *data, size_t len, size_t *at, char *name)
{
	size_t i = *at, n = 0, label;

	for (;;) {
		if (i >= len)
			return false;
		label = data[i++];
		if (label == 0)
			break;
		if (label > LABEL_MAX || label > len - i || i + label - *at >= WIRE_NAME_MAX)
			return false;
		if (name != NULL && n > 0)
			name[n++] = '.';
		for (; label > 0; label--, i++) {
			unsigned char c = data[i];

			if (name == NULL)
				continue;
			if (c <= ' ' || c > '~' || c == '.')
				return false;
			name[n++] = (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
		}
	}
	if (name != NULL)
		name[n] = '\0';
	*at = i;
	return true;
}

/* Records that may follow a question: EDNS options, a signature. */
static bool
read_extra(const unsigned char *data, size_t len, size_t at, unsigned n, bool *ret_edns)
{
	bool edns = false;

	while (n-- > 0) {
		size_t start = at, size;

		if (!read_name(data, len, &at, NULL) || len - at < 10)
			return false;
		if (number_at(data + at) == TYPE_OPT) {
			if (edns || at != start + 1)
				return false;
			edns = true;
		}
		size = number_at(data + at + 8);
		at += 10;
		if (len - at < size)
			return false;
		at += size;
	}
	*ret_edns = edns;
	return at == len;
}

static int
deserves(struct dns_question *q, enum dns_rcode code)
{
	q->deserves = code;
	return -ENOTSUP;
}

int
dns_parse_query(const unsigned char *data, size_t len, struct dns_question *ret_question)
{
	struct dns_question *q = ret_question;
	size_t at = HEADER;
	uint16_t flags;

	if (len < HEADER)
		return -EBADMSG;
	flags = number_at(data + 2);
	/* Answering an answer could loop forever. */
	if ((flags & FLAG_ANSWER) != 0)
		return -EBADMSG;
	*q = (struct dns_question){ .id = number_at(data),
	                            .recursion_desired = (flags & FLAG_RECURSION) != 0 };
	if ((flags & OPCODE) != 0)
		return deserves(q, DNS_NOTIMP);
	if ((flags & FLAG_TRUNCATED) != 0 || number_at(data + 4) != 1 || number_at(data + 6) != 0 ||
	    number_at(data + 8) != 0 || number_at(data + 10) > EXTRA_MAX)
		return deserves(q, DNS_FORMERR);
	if (!read_name(data, len, &at, q->name) || len - at < 4)
		return deserves(q, DNS_FORMERR);
	q->type = number_at(data + at);
	q->class = number_at(data + at + 2);
	if (!read_extra(data, len, at + 4, number_at(data + 10), &q->has_edns))
		return deserves(q, DNS_FORMERR);
	q->question_len = at + 4 - HEADER;
	return q->class == CLASS_IN ? 0 : deserves(q, DNS_NOTIMP);
}

static unsigned char *
put_number(unsigned char *at, unsigned n)
{
	*at++ = (unsigned char)(n >> 8);
	*at++ = (unsigned char)n;
	return at;
}

static unsigned char *
put_address(unsigned char *at, const struct dns_question *q, const void *address,
            uint32_t ttl)
{
	unsigned size = q->type == DNS_A ? 4 : 16;

	at = put_number(at, 0xc000 | HEADER);   /* a pointer to the question's name */
	at = put_number(at, q->type);
	at = put_number(at, CLASS_IN);
	at = put_number(at, ttl >> 16);
	at = put_number(at, ttl & 0xffff);
	at = put_number(at, size);
	memcpy(at, address, size);
	return at + size;
}

size_t
dns_write_answer(const unsigned char *query, const struct dns_question *question,
                 enum dns_rcode code, const void *address, uint32_t ttl,
                 unsigned char ret_answer[DNS_MESSAGE_MAX])
{
	static const unsigned char edns[] = { 0, 0, TYPE_OPT, DNS_MESSAGE_MAX >> 8,
		DNS_MESSAGE_MAX & 0xff, 0, 0, 0, 0, 0, 0 };
	bool has_address = address != NULL && code == DNS_OK && question->question_len > 0 &&
		(question->type == DNS_A || question->type == DNS_AAAA);
	unsigned char *at = ret_answer;

	at = put_number(at, question->id);
	at = put_number(at, FLAG_ANSWER | (number_at(query + 2) & (OPCODE | FLAG_RECURSION)) |
	                FLAG_CAN_RECURSE | (unsigned)code);
	at = put_number(at, question->question_len > 0);
	at = put_number(at, has_address);
	at = put_number(at, 0);
	at = put_number(at, question->has_edns);
	memcpy(at, query + HEADER, question->question_len);
	at += question->question_len;
	if (has_address)
		at = put_address(at, question, address, ttl);
	if (question->has_edns) {
		memcpy(at, edns, sizeof(edns));
		at += sizeof(edns);
	}
	return (size_t)(at - ret_answer);
}
