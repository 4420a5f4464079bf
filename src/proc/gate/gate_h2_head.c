/* gate_h2_head.c - turns the fields of an HTTP/2 request into a canonical head. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "proc/gate/gate_h2.h"

/* ---- allocation ---- */

struct gate_h2_head *
gate_h2_head_take(struct gate *g, bool is_trailers)
{
	struct gate_h2_head *h = g->spare_heads;
	struct buf text, cookie;

	if (h == NULL) {
		h = calloc(1, sizeof(*h));
		if (h == NULL)
			return NULL;
		buf_init(&h->text, HTTP_HEAD_MAX + HTTP_WRITTEN_MAX);
		buf_init(&h->cookie, HTTP_HEAD_MAX);
		h->is_trailers = is_trailers;
		return h;
	}
	g->spare_heads = h->next;
	g->n_spare_heads--;
	text = h->text;
	cookie = h->cookie;
	memset(h, 0, sizeof(*h));
	h->text = text;
	h->cookie = cookie;
	h->is_trailers = is_trailers;
	return h;
}

static void
h2_head_free(struct gate_h2_head *h)
{
	buf_free(&h->text);
	buf_free(&h->cookie);
	free(h);
}

void
gate_h2_head_give_back(struct gate *g, struct gate_h2_head *h)
{
	if (g->n_spare_heads == GATE_SPARE_MAX || buf_failed(&h->text) || buf_failed(&h->cookie)) {
		h2_head_free(h);
		return;
	}
	buf_reset(&h->text);
	buf_reset(&h->cookie);
	h->next = g->spare_heads;
	g->spare_heads = h;
	g->n_spare_heads++;
}

void
gate_h2_trim(struct gate *g)
{
	struct gate_h2_head *h;

	while ((h = g->spare_heads) != NULL) {
		g->spare_heads = h->next;
		h2_head_free(h);
	}
	g->n_spare_heads = 0;
}

/* ---- receiving ---- */

static struct gate_h2_span
keep(struct gate_h2_head *h, struct http_text text)
{
	struct gate_h2_span span = { (uint32_t)h->text.len, (uint32_t)text.len };

	buf_put(&h->text, text.at, text.len);
	return span;
}

static void
add_pseudo(struct gate_h2_head *h, struct http_text name, struct http_text value)
{
	struct gate_h2_span span = keep(h, value);

	/* The library ensures that each occurs once, and that there are no others. */
	if (http_text_is(name, ":method"))
		h->method = span;
	else if (http_text_is(name, ":scheme"))
		h->scheme = span;
	else if (http_text_is(name, ":path")) {
		h->path = span;
		if (value.len <= HTTP_WRITTEN_MAX && memchr(value.at, '%', value.len) != NULL)
			h->written = keep(h, value);
	}
	else if (http_text_is(name, ":authority")) {
		h->authority = span;
		h->has_authority = true;
	}
}

static void
add_field(struct gate_h2_head *h, struct http_text name, struct http_text value)
{
	if (http_text_is(name, "cookie") && !h->is_trailers) {
		if (h->cookie.len > 0)
			buf_put(&h->cookie, "; ", 2);
		buf_put(&h->cookie, value.at, value.len);
		return;
	}
	if (http_text_is(name, "host") && !h->is_trailers) {
		if (h->has_host)
			h->status = 400;
		h->host = keep(h, value);
		h->has_host = true;
		return;
	}
	if (http_text_is(name, "content-length") && !h->is_trailers) {
		if (h->has_length || http_length_parse(value, &h->length, NULL) < 0)
			h->status = 400;
		h->has_length = true;
		return;
	}
	if (http_field_is_hop(name))
		return;
	if (h->n_fields == HTTP_FIELDS_MAX) {
		h->status = 431;
		return;
	}
	h->fields[h->n_fields].name = keep(h, name);
	h->fields[h->n_fields++].value = keep(h, value);
}

bool
gate_h2_head_add(struct gate_h2_head *h, struct http_text name, struct http_text value)
{
	h->seen += name.len + value.len + 32;           /* RFC 9113, 6.5.2 */
	if (h->seen > H2_HEAD_BYTES_MAX)
		return false;
	if (h->status != 0)
		return true;
	if (name.len > 0 && name.at[0] == ':')
		add_pseudo(h, name, value);
	else
		add_field(h, name, value);
	if (buf_failed(&h->text) || buf_failed(&h->cookie))
		h->status = 431;
	return true;
}

/* ---- the complete head ---- */

static struct http_text
get(const struct gate_h2_head *h, struct gate_h2_span span)
{
	return (struct http_text){ (const char *)h->text.data + span.at, span.len };
}

/* RFC 9113, 8.3.1: a Host beside the authority has to be equal to it. */
static int
finish_authority(struct gate_h2_head *h, struct http_head *head, struct err *err)
{
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;
	int r;

	if (!h->has_authority && !h->has_host)
		return err_set(err, EBADMSG, "the request has no authority");
	r = http_authority_parse(get(h, h->has_authority ? h->authority : h->host), h->canonical,
	                         &head->port, err);
	if (r == 0 && h->has_authority && h->has_host) {
		r = http_authority_parse(get(h, h->host), host, &port, err);
		if (r == 0 && (strcmp(host, h->canonical) != 0 || port != head->port))
			r = err_set(err, EBADMSG, "the Host field and the authority differ");
	}
	head->host = (struct http_text){ h->canonical, strlen(h->canonical) };
	return r;
}

static int
finish_path(struct gate_h2_head *h, struct http_head *head, struct err *err)
{
	struct http_text path = get(h, h->path);
	char *to;
	int r;

	head->path = path;
	head->written = (struct http_text){ "", 0 };
	if (http_text_is(path, "*") && http_text_is(head->method, "OPTIONS"))
		return 0;
	to = (char *)h->text.data + (h->room.len > 0 ? h->room.at : h->path.at);
	head->path.at = to;
	r = http_path_normalise(path, to, h->room.len > 0 ? h->room.len : path.len, &head->path.len, err);
	if (r == 0 && h->room.len == 0 && h->written.len > 0 &&
	    http_path_is_respelt(get(h, h->written), head->path))
		head->written = get(h, h->written);
	return r;
}

/* Make room for a path that becomes longer.  The text may move now, and not later. */
static int
make_room(struct gate_h2_head *h, struct err *err)
{
	size_t room = http_path_room(get(h, h->path));

	if (room == h->path.len)
		return 0;
	h->room = (struct gate_h2_span){ (uint32_t)h->text.len, (uint32_t)room };
	return buf_add(&h->text, room) != NULL ? 0 : err_set(err, EMSGSIZE, "the path is too long");
}

static int
finish_fields(struct gate_h2_head *h, struct http_head *head, struct err *err)
{
	for (size_t i = 0; i < h->n_fields; i++)
		head->fields[i] = (struct http_field){ get(h, h->fields[i].name),
		                                       get(h, h->fields[i].value) };
	head->n_fields = h->n_fields;
	if (h->cookie.len == 0)
		return 0;
	if (head->n_fields == HTTP_FIELDS_MAX)
		return err_set(err, EBADMSG, "there are more than %d fields", HTTP_FIELDS_MAX);
	head->fields[head->n_fields++] = (struct http_field){
		{ "cookie", 6 }, { (const char *)h->cookie.data, h->cookie.len } };
	return 0;
}

static int
finish_request(struct gate_h2_head *h, const struct gate_conn *gc, bool has_end,
               struct http_head *head, struct err *err)
{
	const char *scheme = gc->conn.ssl != NULL ? "https" : "http";
	int r = make_room(h, err);

	if (r < 0)
		return r;
	head->method = get(h, h->method);
	if (http_text_is(head->method, "CONNECT"))
		return err_set(err, EBADMSG, "CONNECT is for proxies, on port 3128 of "
		               "gate.cloister.internal");
	if (!http_text_is_nocase(get(h, h->scheme), scheme))
		return err_set(err, EBADMSG, "the scheme differs from the connection's, '%s'", scheme);
	r = finish_authority(h, head, err);
	if (r == 0)
		r = finish_path(h, head, err);
	if (r == 0)
		r = finish_fields(h, head, err);
	head->length = has_end ? 0 : h->has_length ? h->length : HTTP_LENGTH_UNKNOWN;
	head->says_zero = h->has_length && head->length == 0;
	return r;
}

uint16_t
gate_h2_head_finish(struct gate_h2_head *h, struct gate_conn *gc, bool has_end,
                    struct http_head *ret_head, struct err *err)
{
	ret_head->status = 0;
	ret_head->port = 0;
	ret_head->upgrade = (struct http_text){ "", 0 };
	if (h->status != 0) {
		err_set(err, EBADMSG, h->status == 431 ? "the head is too large" :
		        "the head has a field twice, or one that cannot be read");
		return h->status;
	}
	if (finish_request(h, gc, has_end, ret_head, err) < 0)
		return 400;
	return gate_request_complete(gc, ret_head, false, err);
}

int
gate_h2_head_trailers(struct gate_h2_head *h, struct http_field ret_fields[HTTP_FIELDS_MAX])
{
	if (h->status != 0)
		return -1;
	for (size_t i = 0; i < h->n_fields; i++)
		ret_fields[i] = (struct http_field){ get(h, h->fields[i].name),
		                                     get(h, h->fields[i].value) };
	return http_trailers_check(ret_fields, h->n_fields, NULL) < 0 ? -1 : (int)h->n_fields;
}
