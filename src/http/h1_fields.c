/* h1_fields.c - reads the fields of a message: keeps or drops them, and finds the framing. */
#include <string.h>

#include "http/h1_parts.h"
#include "http/http_parts.h"

/* One line "name: value CRLF"; the name is lower-cased in place. */
static int
read_field(struct h1_parse *p, struct http_field *ret_field)
{
	char *name = p->at, *at = name, *value, *end;
	unsigned char c;

	while ((c = http_name_lower[(unsigned char)*at]) != 0)
		*at++ = (char)c;
	if (*at != ':') {
		if (!http_is_blank(*at))
			return H1_REFUSE(p, 400, "a field's name has a character that it cannot have");
		return H1_REFUSE(p, 400, at == name ? "a field is folded, or begins with a blank" :
		           "a field's name is followed by a blank");
	}
	if (at == name)
		return H1_REFUSE(p, 400, "a field has no name");
	ret_field->name = (struct http_text){ name, (size_t)(at - name) };
	for (at++; http_is_blank(*at); at++)
		;
	value = at;
	end = value + (http_value_end(value, p->end) - value);
	if (end + 1 >= p->end || end[0] != '\r' || end[1] != '\n')
		return H1_REFUSE(p, 400, "a field's value has a control character");
	p->at = end + 2;
	while (end > value && http_is_blank(end[-1]))
		end--;
	ret_field->value = (struct http_text){ value, (size_t)(end - value) };
	return 0;
}

/* The next element of a comma-separated list, without blanks around it; false at the end.  Skips
 * empty elements. */
static bool
next_element(struct http_text *list, struct http_text *ret_element)
{
	while (list->len > 0) {
		const char *comma = memchr(list->at, ',', list->len);
		size_t len = comma != NULL ? (size_t)(comma - list->at) : list->len;
		struct http_text element = { list->at, len };

		list->at += len + (comma != NULL);
		list->len -= len + (comma != NULL);
		while (element.len > 0 && http_is_blank(element.at[0]))
			element.at++, element.len--;
		while (element.len > 0 && http_is_blank(element.at[element.len - 1]))
			element.len--;
		if (element.len > 0) {
			*ret_element = element;
			return true;
		}
	}
	return false;
}

/* `connection` names a field that is for this hop only. */
static int
nominate(struct h1_parse *p, struct http_text word)
{
	/* The word is in the reader's own text, so it may be changed. */
	char *at = p->r->text + (word.at - p->r->text);
	const struct http_known *known;

	for (size_t i = 0; i < word.len; i++) {
		unsigned char c = http_name_lower[(unsigned char)at[i]];

		if (c == 0)
			return H1_REFUSE(p, 400, "the connection field is not a list of words");
		at[i] = (char)c;
	}
	known = http_known_find(at, word.len);
	if (known != NULL && (known->flags & HTTP_KEEP) != 0)
		return H1_REFUSE(p, 400, "the connection field names '%s'", known->name);
	if (p->n_nominated == H1_NOMINATED_MAX)
		return H1_REFUSE(p, 400, "the connection field names too many fields");
	p->nominated[p->n_nominated++] = word;
	return 0;
}

static int
take_connection(struct h1_parse *p, struct http_text list)
{
	struct http_text word;
	int r = 0;

	while (r == 0 && next_element(&list, &word)) {
		if (http_text_is_nocase(word, "close"))
			p->close = true;
		else if (http_text_is_nocase(word, "keep-alive"))
			p->keep_alive = true;
		else if (http_text_is_nocase(word, "upgrade"))
			p->upgrade = true;
		else if (!http_text_is_nocase(word, "te"))
			r = nominate(p, word);
	}
	return r;
}

static int
take_coding(struct h1_parse *p, struct http_text value)
{
	struct http_text list = value, word;
	bool chunked = false;

	if (p->chunked)
		return H1_REFUSE(p, 400, "there are two transfer-encoding fields");
	if (http_text_is_nocase(value, "chunked")) {
		p->chunked = true;
		return 0;
	}
	/* RFC 7230 removed this name for "no coding".  A request with it might have been read in
	 * two ways before it reached us.  A response is written again before it is sent on. */
	if (p->r->kind == H1_RESPONSES && http_text_is_nocase(value, "identity"))
		return 0;
	/* Distinguish valid codings that we do not support from attempts to deceive. */
	while (next_element(&list, &word)) {
		for (size_t i = 0; i < word.len; i++)
			if (http_name_lower[(unsigned char)word.at[i]] == 0)
				return H1_REFUSE(p, 400, "the transfer-encoding cannot be read");
		if (chunked)
			return H1_REFUSE(p, 400, "something follows 'chunked' in the transfer-encoding");
		chunked = http_text_is_nocase(word, "chunked");
	}
	return H1_REFUSE(p, 501, "the transfer-encoding is not just 'chunked'");
}

/* RFC 9110, 8.6: a response may repeat the same length, in fields or in a list. */
static int
take_length(struct h1_parse *p, struct http_text value)
{
	bool is_answer = p->r->kind == H1_RESPONSES;
	struct http_text list = value, word;
	uint64_t length;

	if (p->has_length && !is_answer)
		return H1_REFUSE(p, 400, "there are two content-length fields");
	p->r->status = 400;
	if (!is_answer || !next_element(&list, &word))
		word = value;
	do {
		if (http_length_parse(word, &length, p->err) < 0)
			return -EBADMSG;
		if (p->has_length && length != p->r->head.length)
			return H1_REFUSE(p, 400, "there are two different content-lengths");
		p->r->head.length = length;
		p->has_length = true;
	} while (is_answer && next_element(&list, &word));
	return 0;
}

/* Only "trailers" is forwarded: gRPC needs it. */
static void
take_te(struct h1_parse *p, struct http_text list)
{
	struct http_text word;

	while (next_element(&list, &word))
		if (http_text_is_nocase(word, "trailers"))
			p->trailers = p->r->kind == H1_REQUESTS;
}

static int
take_expect(struct h1_parse *p, struct http_text value)
{
	if (p->r->kind == H1_RESPONSES)
		return 0;
	if (p->r->expects_continue || !http_text_is_nocase(value, "100-continue"))
		return H1_REFUSE(p, 417, "the request expects something other than '100-continue'");
	p->r->expects_continue = true;
	p->expect = value;
	return 0;
}

static int
take_host(struct h1_parse *p, struct http_text value)
{
	if (p->has_host)
		return H1_REFUSE(p, 400, "there are two Host fields");
	p->has_host = true;
	p->host = value;
	return 0;
}

static int
take_plain(struct h1_parse *p, const struct http_known *known, const struct http_field *field)
{
	struct http_head *head = &p->r->head;

	if (known == NULL) {
		if (http_known_alias(field->name.at, field->name.len) != NULL)
			return H1_REFUSE(p, 400, "a field's name looks like that of another one");
	} else if ((known->flags & HTTP_HOP) != 0) {
		return 0;
	} else if ((known->flags & HTTP_ONCE) != 0 && p->r->kind == H1_REQUESTS) {
		if ((p->seen & UINT32_C(1) << known->number) != 0)
			return H1_REFUSE(p, 400, "there are two '%s' fields", known->name);
		p->seen |= UINT32_C(1) << known->number;
	}
	head->fields[head->n_fields++] = *field;
	return 0;
}

static int
take_field(struct h1_parse *p, const struct http_field *field)
{
	const struct http_known *known = http_known_find(field->name.at, field->name.len);

	switch (known != NULL ? known->id : HTTP_OTHER) {
	case HTTP_CONNECTION:
		return take_connection(p, field->value);
	case HTTP_CONTENT_LENGTH:
		return take_length(p, field->value);
	case HTTP_EXPECT:
		return take_expect(p, field->value);
	case HTTP_HOST:
		return take_host(p, field->value);
	case HTTP_TE:
		take_te(p, field->value);
		return 0;
	case HTTP_TRANSFER_ENCODING:
		return take_coding(p, field->value);
	case HTTP_UPGRADE:
		p->upgrades = p->upgrades == 0 && http_text_is_nocase(field->value, "websocket") ? 1 : -1;
		return 0;
	default:
		return take_plain(p, known, field);
	}
}

/* Remove the fields that `connection` named. */
static void
drop_nominated(struct h1_parse *p)
{
	struct http_head *head = &p->r->head;
	size_t kept = 0;

	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_text name = head->fields[i].name;
		size_t j = 0;

		while (j < p->n_nominated &&
		       (p->nominated[j].len != name.len ||
		        memcmp(p->nominated[j].at, name.at, name.len) != 0))
			j++;
		if (j == p->n_nominated)
			head->fields[kept++] = head->fields[i];
	}
	head->n_fields = kept;
}

static int
read_lines(struct h1_parse *p, int (*take)(struct h1_parse *, const struct http_field *))
{
	struct http_field field;
	int r;

	while (*p->at != '\r') {
		if (++p->lines > HTTP_FIELDS_MAX)
			return H1_REFUSE(p, 431, "there are more than %d fields", HTTP_FIELDS_MAX);
		r = read_field(p, &field);
		if (r == 0)
			r = take(p, &field);
		if (r < 0)
			return r;
	}
	/* The empty line.  Every LF has a CR before it, but not every CR has an LF behind it. */
	return p->at + 2 == p->end ? 0 : H1_REFUSE(p, 400, "a line has a CR that does not end it");
}

int
h1_parse_fields(struct h1_parse *p)
{
	int r = read_lines(p, take_field);

	if (r == 0 && p->n_nominated > 0)
		drop_nominated(p);
	return r;
}

static int
take_trailer(struct h1_parse *p, const struct http_field *field)
{
	p->r->head.fields[p->r->head.n_fields++] = *field;
	return 0;
}

int
h1_parse_trailers(struct h1_reader *r, struct err *err)
{
	struct h1_parse p = { .r = r, .at = r->text, .end = r->text + r->text_len, .err = err };
	int ret;

	r->head.n_fields = 0;
	ret = read_lines(&p, take_trailer);
	if (ret < 0)
		return ret;
	r->status = 400;
	return http_trailers_check(r->head.fields, r->head.n_fields, err);
}
