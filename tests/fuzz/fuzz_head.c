/* fuzz_head.c - a head (or, after an odd first byte, trailers) as the gate would send it.
 *
 * What is taken must be written with the same bytes again, and as HTTP/1.1 be read as the
 * same head. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "http/h1.h"

/* What the reader would find too long or too much, for the lines that are added. */
#define FIELDS_SURE (HTTP_FIELDS_MAX - 8)

static bool
same(struct http_text a, struct http_text b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* What the reader leaves out or moves to the end. */
static bool
is_moved(const struct http_head *head, struct http_text name)
{
	return head->status == 0 && (http_text_is(name, "cookie") || http_text_is(name, "te") ||
	                             http_text_is(name, "expect"));
}

static void
check_same(const struct http_head *a, const struct http_head *b)
{
	size_t j = 0;

	assert(a->status == b->status && same(a->upgrade, b->upgrade));
	assert(a->length == b->length ||
	       (a->status == 304 && a->length == HTTP_LENGTH_UNKNOWN && b->length == 0));
	if (a->status == 0) {
		assert(same(a->method, b->method) && same(a->host, b->host) && same(a->path, b->path));
		assert(b->says_zero || !a->says_zero);
		assert(b->port == (a->port == (a->scheme == HTTP_TLS ? 443 : 80) ? 0 : a->port));
	}
	for (size_t i = 0; i < a->n_fields; i++) {
		if (is_moved(a, a->fields[i].name))
			continue;
		while (j < b->n_fields && is_moved(b, b->fields[j].name))
			j++;
		assert(j < b->n_fields);
		assert(same(a->fields[i].name, b->fields[j].name));
		assert(same(a->fields[i].value, b->fields[j].value));
		j++;
	}
}

static void
check_h1(const struct http_head *head)
{
	struct h1_reader *r = malloc(sizeof(*r));
	OWN(buf_free) struct buf b;
	struct http_text piece;
	size_t used;

	assert(r != NULL);
	buf_init(&b, 1 << 20);
	h1_write_head(&b, head, (struct h1_style){ .keep_alive = true });
	assert(!buf_failed(&b));
	if (b.len <= HTTP_HEAD_MAX && head->n_fields <= FIELDS_SURE) {
		h1_reader_init(r, head->status == 0 ? H1_REQUESTS : H1_RESPONSES);
		assert(h1_read(r, (char *)b.data, b.len, &used, &piece, NULL) == H1_HEAD);
		assert(used == b.len);
		check_same(head, &r->head);
		h1_reader_free(r);
	}
	free(r);
}

static void
check_head(const uint8_t *data, size_t size)
{
	struct http_head *head = malloc(sizeof(*head));
	OWN(buf_free) struct buf again;
	struct buf b;

	assert(head != NULL);
	buf_init_borrowed(&b, data, size);
	buf_init(&again, size);
	if (http_head_decode(&b, head, NULL) == 0) {
		http_head_encode(&again, head);
		assert(!buf_failed(&again) && again.len == b.pos);
		assert(memcmp(again.data, data, b.pos) == 0);
		check_h1(head);
	}
	free(head);
}

static void
check_trailers(const uint8_t *data, size_t size)
{
	struct http_field fields[HTTP_FIELDS_MAX];
	OWN(buf_free) struct buf again;
	struct buf b;
	size_t n;

	buf_init_borrowed(&b, data, size);
	buf_init(&again, size);
	if (http_fields_decode(&b, fields, &n, NULL) == 0) {
		http_fields_encode(&again, fields, n);
		assert(!buf_failed(&again) && again.len == b.pos);
		assert(memcmp(again.data, data, b.pos) == 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if ((data[0] & 1) == 0)
		check_head(data + 1, size - 1);
	else
		check_trailers(data + 1, size - 1);
	return 0;
}
