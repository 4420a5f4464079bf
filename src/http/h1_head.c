/* h1_head.c - reads a complete HTTP/1.1 head. */
#include <stdlib.h>
#include <string.h>

#include "http/h1_parts.h"
#include "http/http_parts.h"

static const struct http_text nothing = { "", 0 };

/* ---- requests ------------------------------------------------------------------- */

static int
read_version(struct h1_parse *p)
{
	const char *at = p->at;

	if (p->end - at < 8 || memcmp(at, "HTTP/", 5) != 0 || !http_is_digit(at[5]) ||
	    at[6] != '.' || !http_is_digit(at[7]))
		return H1_REFUSE(p, 400, "the first line has no HTTP version where it should be");
	if (at[5] != '1' || at[7] > '1')
		return H1_REFUSE(p, 505, "the version is neither HTTP/1.0 nor HTTP/1.1");
	p->r->version = at[7] == '1' ? 11 : 10;
	p->at += 8;
	return 0;
}

static int
read_request_line(struct h1_parse *p)
{
	char *at = p->at, *space = memchr(at, ' ', (size_t)(p->end - at));
	int r;

	if (space == NULL)
		return H1_REFUSE(p, 400, "the request line is not three words");
	p->r->head.method = (struct http_text){ at, (size_t)(space - at) };
	if (!http_method_is_good(p->r->head.method))
		return H1_REFUSE(p, 400, "the method is not one word of capitals");
	at = space + 1;
	space = memchr(at, ' ', (size_t)(p->end - at));
	if (space == NULL || space == at)
		return H1_REFUSE(p, 400, "the request line is not three words");
	p->target = (struct http_text){ at, (size_t)(space - at) };
	p->at = space + 1;
	r = read_version(p);
	if (r == 0 && (p->at[0] != '\r' || p->at[1] != '\n'))
		r = H1_REFUSE(p, 400, "something follows the HTTP version");
	p->at += 2;
	return r;
}

/* Normalising overwrites the path as the client wrote it, which a signature may cover.  A path that
 * needs more room has bytes that no canonical path has, and is signed only in its canonical form. */
static int
keep_written(struct h1_reader *r, struct http_text path)
{
	if (path.len > HTTP_WRITTEN_MAX || memchr(path.at, '%', path.len) == NULL ||
	    http_path_is_canonical(path))
		return 0;
	free(r->written);
	r->written = malloc(path.len);
	if (r->written == NULL)
		return -ENOMEM;
	memcpy(r->written, path.at, path.len);
	r->head.written = (struct http_text){ r->written, path.len };
	return 0;
}

/* A path that grows is written behind the head: see make_room(). */
static int
set_path(struct h1_parse *p, char *at, size_t len)
{
	struct http_text path = { at, len };
	struct http_head *head = &p->r->head;
	size_t room = http_path_room(path);
	char *to = room > len ? p->r->text + p->r->text_len : at;
	int r = room > len ? 0 : keep_written(p->r, path);

	if (r < 0)
		return H1_REFUSE(p, 500, "there is no memory for the head");
	p->r->status = 400;
	if (room > len && room > p->r->text_cap - p->r->text_len)
		return H1_REFUSE(p, 431, "the path is too long");
	head->path.at = to;
	r = http_path_normalise(path, to, room, &head->path.len, p->err);
	if (r == 0 && head->written.len > 0 && !http_path_is_respelt(head->written, head->path))
		head->written = nothing;
	return r;
}

static int
set_authority(struct h1_parse *p, struct http_text text)
{
	p->r->status = 400;
	return http_authority_parse(text, p->r->host, &p->r->head.port, p->err);
}

/* "http://host:port/path" */
static int
take_absolute(struct h1_parse *p, size_t prefix)
{
	struct http_head *head = &p->r->head;
	char *at = p->r->text + (p->target.at - p->r->text) + prefix;
	char *end = at + (p->target.len - prefix), *path = at;
	int r;

	while (path < end && *path != '/' && *path != '?')
		path++;
	r = set_authority(p, (struct http_text){ at, (size_t)(path - at) });
	if (r < 0)
		return r;
	p->r->form = H1_ABSOLUTE;
	if (path == end) {
		bool all = http_text_is(head->method, "OPTIONS");

		head->path = (struct http_text){ all ? "*" : "/", 1 };
		return 0;
	}
	/* The authority was copied, so its last character can become the path's slash. */
	if (*path == '?')
		*--path = '/';
	return set_path(p, path, (size_t)(end - path));
}

static int
take_target(struct h1_parse *p)
{
	struct http_head *head = &p->r->head;
	struct http_text target = p->target;
	int r;

	if (http_text_is(head->method, "CONNECT")) {
		p->r->form = H1_AUTHORITY;
		r = set_authority(p, target);
		if (r == 0 && head->port == 0)
			r = H1_REFUSE(p, 400, "CONNECT names no port");
		return r;
	}
	if (target.at[0] == '/')
		return set_path(p, p->r->text + (target.at - p->r->text), target.len);
	if (http_text_is(target, "*")) {
		if (!http_text_is(head->method, "OPTIONS"))
			return H1_REFUSE(p, 400, "the target '*' is for OPTIONS only");
		p->r->form = H1_ASTERISK;
		head->path = (struct http_text){ "*", 1 };
		return 0;
	}
	if (target.len > 7 && http_text_is_nocase((struct http_text){ target.at, 7 }, "http://")) {
		head->scheme = HTTP_PLAIN;
		return take_absolute(p, 7);
	}
	if (target.len > 8 && http_text_is_nocase((struct http_text){ target.at, 8 }, "https://")) {
		head->scheme = HTTP_TLS;
		return take_absolute(p, 8);
	}
	return H1_REFUSE(p, 400, "the target is neither a path nor an http URL");
}

/* Parse the Host field, and compare it with the target. */
static int
take_host_field(struct h1_parse *p)
{
	struct h1_reader *r = p->r;
	char host[HTTP_HOST_MAX + 1];
	uint16_t port = 0, target_port = r->head.port;
	int ret;

	if (!p->has_host)
		return r->version == 11 ? H1_REFUSE(p, 400, "there is no Host field") : 0;
	if (r->form == H1_ORIGIN || r->form == H1_ASTERISK)
		return set_authority(p, p->host);
	r->status = 400;
	ret = http_authority_parse(p->host, host, &port, p->err);
	if (ret < 0)
		return ret;
	if (r->form == H1_ABSOLUTE) {
		if (port == 0)
			port = http_default_port(r->head.scheme);
		if (target_port == 0)
			target_port = http_default_port(r->head.scheme);
	} else if (port == 0) {
		/* Many clients leave the port out with CONNECT. */
		port = target_port;
	}
	if (strcmp(host, r->host) != 0 || port != target_port)
		return H1_REFUSE(p, 400, "the Host field and the target name different hosts");
	return 0;
}

static int
frame_request(struct h1_parse *p)
{
	struct http_head *head = &p->r->head;

	if (p->chunked && p->has_length)
		return H1_REFUSE(p, 400, "there are both a content-length and a transfer-encoding");
	if (p->chunked && p->r->version == 10)
		return H1_REFUSE(p, 400, "there is a transfer-encoding in HTTP/1.0");
	if (p->chunked)
		head->length = HTTP_LENGTH_UNKNOWN;
	head->says_zero = p->has_length && head->length == 0;
	if (head->length != 0 && (http_text_is(head->method, "CONNECT") ||
	                          http_text_is(head->method, "TRACE")))
		return H1_REFUSE(p, 400, "%.*s has no body", (int)head->method.len, head->method.at);
	/* Any other upgrade request is ignored. */
	if (p->upgrade && p->upgrades == 1 && p->r->version == 11 &&
	    http_text_is(head->method, "GET")) {
		if (head->length != 0)
			return H1_REFUSE(p, 400, "a request with a body asks for an upgrade");
		head->upgrade = (struct http_text){ "websocket", 9 };
	}
	return 0;
}

static void
add_field(struct http_head *head, const char *name, struct http_text value)
{
	head->fields[head->n_fields++] = (struct http_field){ { name, strlen(name) }, value };
}

static int
parse_request(struct h1_parse *p)
{
	struct h1_reader *r = p->r;
	int ret = read_request_line(p);

	if (ret == 0)
		ret = h1_parse_fields(p);
	if (ret == 0)
		ret = take_target(p);
	if (ret == 0)
		ret = take_host_field(p);
	if (ret == 0)
		ret = frame_request(p);
	if (ret < 0)
		return ret;
	r->head.host = (struct http_text){ r->host, strlen(r->host) };
	r->expects_continue = r->expects_continue && r->version == 11 && r->head.length != 0;
	/* There is room: their own lines were counted. */
	if (r->expects_continue)
		add_field(&r->head, "expect", p->expect);
	if (p->trailers)
		add_field(&r->head, "te", (struct http_text){ "trailers", 8 });
	return 0;
}

/* ---- responses ------------------------------------------------------------------ */

static int
read_status_line(struct h1_parse *p)
{
	const char *at;
	int r = read_version(p);

	if (r < 0)
		return r;
	at = p->at;
	if (p->end - at < 6 || at[0] != ' ' || !http_is_digit(at[1]) || !http_is_digit(at[2]) ||
	    !http_is_digit(at[3]) || (at[4] != ' ' && at[4] != '\r'))
		return H1_REFUSE(p, 502, "the status line has no status");
	p->r->head.status = (uint16_t)((at[1] - '0') * 100 + (at[2] - '0') * 10 + (at[3] - '0'));
	if (p->r->head.status < 100 || p->r->head.status > 599)
		return H1_REFUSE(p, 502, "%d is not a status", p->r->head.status);
	at = http_value_end(at + 4, p->end);
	if (p->end - at < 2 || at[0] != '\r' || at[1] != '\n')
		return H1_REFUSE(p, 502, "the status line has a control character");
	p->at = p->r->text + (at + 2 - p->r->text);
	return 0;
}

static int
frame_response(struct h1_parse *p)
{
	struct h1_reader *r = p->r;
	struct http_head *head = &r->head;
	bool bodiless = head->status < 200 || head->status == 204;

	if (p->chunked && p->has_length)
		return H1_REFUSE(p, 502, "there are both a content-length and a transfer-encoding");
	if (p->chunked && r->version == 10)
		return H1_REFUSE(p, 502, "there is a transfer-encoding in HTTP/1.0");
	if (bodiless && (p->chunked || head->length != 0))
		return H1_REFUSE(p, 502, "a %d response has a body", head->status);
	if (head->status == 101) {
		if (!p->upgrade || p->upgrades != 1 || r->version != 11)
			return H1_REFUSE(p, 502, "the connection is switched to something other than websocket");
		head->upgrade = (struct http_text){ "websocket", 9 };
	}
	if (bodiless)
		return 0;
	if (p->chunked || (!p->has_length && head->status != 304))
		head->length = HTTP_LENGTH_UNKNOWN;
	r->until_close = head->length == HTTP_LENGTH_UNKNOWN && !p->chunked && !r->head_only;
	return 0;
}

static int
parse_response(struct h1_parse *p)
{
	int ret = read_status_line(p);

	if (ret == 0)
		ret = h1_parse_fields(p);
	if (ret == 0)
		ret = frame_response(p);
	return ret;
}

/* ---- both ------------------------------------------------------------------------- */

/* Escaping can make the path longer.  Reserve room now: the text must not move later. */
static int
make_room(struct h1_reader *r, struct err *err)
{
	const char *lf = memchr(r->text, '\n', r->text_len);
	size_t line = lf != NULL ? (size_t)(lf - r->text) : r->text_len;
	size_t room = http_path_room((struct http_text){ r->text, line });
	char *text;

	if (r->kind == H1_RESPONSES || room == line || r->text_cap - r->text_len >= room)
		return 0;
	text = realloc(r->text, r->text_len + room);
	if (text == NULL) {
		r->status = 500;
		return err_set(err, ENOMEM, "there is no memory for the head");
	}
	r->text = text;
	r->text_cap = r->text_len + room;
	return 0;
}

int
h1_parse_head(struct h1_reader *r, struct err *err)
{
	struct h1_parse p = { .r = r, .err = err };
	struct http_head *head = &r->head;
	int ret = make_room(r, err);

	if (ret < 0)
		return ret;
	p.at = r->text;
	p.end = r->text + r->text_len;
	head->method = head->host = head->path = head->written = head->upgrade = nothing;
	head->says_zero = false;
	head->port = 0;
	head->scheme = HTTP_PLAIN;
	head->status = 0;
	head->length = 0;
	head->n_fields = 0;
	r->form = H1_ORIGIN;
	r->expects_continue = r->until_close = false;
	r->host[0] = '\0';
	ret = r->kind == H1_REQUESTS ? parse_request(&p) : parse_response(&p);
	if (ret < 0)
		return ret;
	r->keep_alive = !p.close && (r->version == 11 || p.keep_alive) && !r->until_close;
	return 0;
}
