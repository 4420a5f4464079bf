/* http_sent.c - iterates over the fields of a request as servers receive them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "http/http_parts.h"

bool
http_head_has_length(const struct http_head *head)
{
	if (head->length == HTTP_LENGTH_UNKNOWN)
		return false;
	/* Without a body, a length is sent only if the method usually has a body, or if the client
	 * sent one. */
	return head->length > 0 || head->says_zero || http_text_is(head->method, "POST") ||
		http_text_is(head->method, "PUT") || http_text_is(head->method, "PATCH");
}

void
http_sent_begin(struct http_sent *sent, const struct http_head *head, struct http_text name)
{
	size_t cookies = 0;

	sent->head = head;
	sent->name = name;
	sent->next = 0;
	if (!http_text_is(name, "cookie"))
		return;
	/* HTTP/1.1 joins them, HTTP/2 does not. */
	for (size_t i = 0; i < head->n_fields; i++)
		cookies += http_text_is(head->fields[i].name, "cookie");
	if (cookies > 1)
		sent->next = head->n_fields + 1;
}

/* Fields that are members of a canonical head; 0: NAME is not one. */
static int
put_member(struct http_sent *sent)
{
	const struct http_head *head = sent->head;

	if (http_text_is(sent->name, "host"))
		return head->port == http_default_port(head->scheme) ?
			snprintf(sent->member, sizeof(sent->member), "%.*s", (int)head->host.len,
			         head->host.at) :
			snprintf(sent->member, sizeof(sent->member), "%.*s:%u", (int)head->host.len,
			         head->host.at, head->port);
	if (http_text_is(sent->name, "content-length") && http_head_has_length(head))
		return snprintf(sent->member, sizeof(sent->member), "%" PRIu64, head->length);
	return 0;
}

bool
http_sent_next(struct http_sent *sent, struct http_text *ret_value)
{
	const struct http_head *head = sent->head;
	int n;

	if (sent->next == 0) {
		sent->next = 1;
		n = put_member(sent);
		if (n > 0) {
			*ret_value = (struct http_text){ sent->member, (size_t)n };
			return true;
		}
	}
	for (; sent->next <= head->n_fields; sent->next++) {
		const struct http_field *field = &head->fields[sent->next - 1];

		if (field->name.len != sent->name.len ||
		    memcmp(field->name.at, sent->name.at, sent->name.len) != 0)
			continue;
		sent->next++;
		*ret_value = field->value;
		return true;
	}
	return false;
}
