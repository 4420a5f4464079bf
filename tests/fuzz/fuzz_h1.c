/* fuzz_h1.c - a stream of HTTP/1.1 messages.
 *
 * The first byte says whether they are requests or responses (and to HEAD), the second
 * how the stream is cut.  However it is cut, the same must come of it; what is accepted
 * must be fit to be sent on, and written again it must be read as the same. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "http/h1.h"

#define RECORD_MAX (8 << 20)

enum { RECORD_HEAD = 1, RECORD_END, RECORD_BAD, RECORD_EOF };

struct pass {
	struct h1_reader reader;
	bool to_head;           /* responses have no body */
	struct buf record;      /* what came of it */
	struct buf body;        /* of the message that is being read */
	struct buf again;       /* complete messages, as we write them */
	size_t complete;        /* how much of RECORD is of complete messages */
	size_t again_complete;
	struct h1_style style;
	bool chunked, dead;
};

/* The head as it would go on, without what is written differently for good reasons. */
static void
record_head(struct pass *p)
{
	struct http_head *head = malloc(sizeof(*head));
	bool interim;
	size_t n = 0;

	assert(head != NULL);
	*head = p->reader.head;
	interim = head->status >= 100 && head->status < 200 && head->status != 101;
	if (head->status == 0 && head->port == 0)
		head->port = head->scheme == HTTP_TLS ? 443 : 80;
	head->scheme = HTTP_PLAIN;
	if (head->host.len == 0)
		head->host = (struct http_text){ "h", 1 };
	assert(http_text_is(head->method, "CONNECT") || http_head_check(head, NULL) == 0);

	p->style = (struct h1_style){ .keep_alive = p->reader.keep_alive,
		.plain_body = p->reader.until_close, .no_body = p->to_head };
	p->chunked = head->length == HTTP_LENGTH_UNKNOWN && !p->reader.until_close &&
		head->status != 304 && !p->to_head;
	h1_write_head(&p->again, head, p->style);

	if (head->status == 304 && head->length == HTTP_LENGTH_UNKNOWN)
		head->length = 0;
	head->written = (struct http_text){ "", 0 };
	head->says_zero = head->length == 0 && http_head_has_length(head);
	/* Cookies are joined. */
	for (size_t i = 0; i < head->n_fields; i++)
		if (head->status != 0 || !http_text_is(head->fields[i].name, "cookie"))
			head->fields[n++] = head->fields[i];
	head->n_fields = n;
	buf_put_u32(&p->record, RECORD_HEAD);
	http_head_encode(&p->record, head);
	buf_put_u32(&p->record, (uint32_t)(p->reader.expects_continue | p->reader.until_close << 1 |
	                                   (p->reader.keep_alive && !interim) << 2));
	free(head);
}

static void
record_body(struct pass *p, struct http_text piece)
{
	char size[H1_CHUNK_MAX];

	assert(piece.len > 0);
	buf_put(&p->body, piece.at, piece.len);
	if (p->chunked)
		buf_put(&p->again, size, h1_chunk_begin(size, piece.len));
	buf_put(&p->again, piece.at, piece.len);
	if (p->chunked)
		buf_put(&p->again, "\r\n", 2);
}

static void
record_end(struct pass *p)
{
	const struct http_head *head = &p->reader.head;

	assert(http_trailers_check(head->fields, head->n_fields, NULL) == 0);
	assert(p->chunked || head->n_fields == 0);
	buf_put_u32(&p->record, RECORD_END);
	buf_put_u32(&p->record, (uint32_t)p->body.len);
	buf_put(&p->record, p->body.data, p->body.len);
	http_fields_encode(&p->record, head->fields, head->n_fields);
	buf_reset(&p->body);
	p->complete = p->record.len;
	if (p->chunked)
		h1_write_end(&p->again, head->fields, head->n_fields);
	p->again_complete = p->again.len;
	h1_reader_expect(&p->reader, p->to_head);
}

static void
record_bad(struct pass *p, const struct err *err)
{
	assert(p->reader.status >= 400 && p->reader.status <= 599);
	assert(err->text[0] != '\0');
	buf_put_u32(&p->record, RECORD_BAD);
	buf_put_u32(&p->record, p->reader.status);
	buf_put_str(&p->record, err->text);
	buf_put(&p->record, p->body.data, p->body.len);
	p->dead = true;
}

static void
feed(struct pass *p, const uint8_t *data, size_t len)
{
	OWN(freep) char *copy = malloc(len);
	struct http_text piece = {0};
	size_t at = 0, used;
	enum h1_event event;
	struct err err;

	assert(copy != NULL || len == 0);
	if (len > 0)
		memcpy(copy, data, len);
	while (!p->dead) {
		err = (struct err){0};
		event = h1_read(&p->reader, copy + at, len - at, &used, &piece, &err);
		assert(used <= len - at);
		at += used;
		switch (event) {
		case H1_MORE:
			assert(at == len);
			h1_reader_rest(&p->reader);
			return;
		case H1_HEAD:
			record_head(p);
			break;
		case H1_BODY:
			assert(piece.at + piece.len == copy + at);
			record_body(p, piece);
			break;
		case H1_END:
			record_end(p);
			break;
		case H1_BAD:
			record_bad(p, &err);
			break;
		}
	}
}

static void
feed_eof(struct pass *p)
{
	struct err err = {0};
	enum h1_event event;

	if (p->dead)
		return;
	event = h1_read_eof(&p->reader, &err);
	assert(event == H1_MORE || event == H1_END || event == H1_BAD);
	if (event == H1_END)
		record_end(p);
	if (event == H1_BAD)
		record_bad(p, &err);
	buf_put_u32(&p->record, RECORD_EOF);
}

static struct pass *
pass_new(uint8_t kind)
{
	struct pass *p = calloc(1, sizeof(*p));

	assert(p != NULL);
	h1_reader_init(&p->reader, (kind & 1) != 0 ? H1_RESPONSES : H1_REQUESTS);
	p->to_head = (kind & 3) == 3;
	h1_reader_expect(&p->reader, p->to_head);
	buf_init(&p->record, RECORD_MAX);
	buf_init(&p->body, RECORD_MAX);
	buf_init(&p->again, RECORD_MAX);
	return p;
}

static void
pass_free(struct pass *p)
{
	h1_reader_free(&p->reader);
	buf_free(&p->record);
	buf_free(&p->body);
	buf_free(&p->again);
	free(p);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pass *whole, *cut, *again;
	unsigned random;
	size_t piece;
	uint8_t kind;

	if (size < 2)
		return 0;
	kind = data[0];
	random = data[1];
	data += 2;
	size -= 2;

	whole = pass_new(kind);
	feed(whole, data, size);
	feed_eof(whole);

	cut = pass_new(kind);
	for (size_t at = 0; at < size; at += piece) {
		random = random * 1103515245 + 12345;
		piece = 1 + (random >> 16) % 24;
		if (piece > size - at)
			piece = size - at;
		feed(cut, data + at, piece);
	}
	feed_eof(cut);
	assert(!buf_failed(&whole->record) && !buf_failed(&cut->record));
	assert(whole->record.len == cut->record.len);
	assert(whole->record.len == 0 ||
	       memcmp(whole->record.data, cut->record.data, cut->record.len) == 0);

	again = pass_new(kind);
	feed(again, whole->again.data, whole->again_complete);
	feed_eof(again);
	assert(again->complete == whole->complete);
	assert(again->complete == 0 ||
	       memcmp(again->record.data, whole->record.data, again->complete) == 0);

	pass_free(whole);
	pass_free(cut);
	pass_free(again);
	return 0;
}
