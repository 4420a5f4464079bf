/* capture_xml.c - a small strict XML reader, for credentials in services' responses. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "sign/capture_parts.h"

static const struct {
	const char *name;
	char is;
} entities[] = {
	{ "&lt;", '<' }, { "&gt;", '>' }, { "&amp;", '&' }, { "&quot;", '"' }, { "&apos;", '\'' },
};

/* An open element. */
struct level {
	struct http_text name;
	const char *text;               /* where its content begins */
	bool has_children;
	struct capture_draft *draft;    /* for its children; NULL: none yet */
};

struct reader {
	const char *at, *end;
	struct capture_drafts *d;
	struct level levels[CAPTURE_DEPTH_MAX];
	size_t depth;
	bool had_root;
};

static int
malformed(const struct reader *r, const char *what)
{
	return err_set(r->d->err, EBADMSG, "the response is not the XML it should be: %s", what);
}

static bool
is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void
skip_space(struct reader *r)
{
	while (r->at < r->end && is_space(*r->at))
		r->at++;
}

static bool
begins(const struct reader *r, const char *with)
{
	size_t len = strlen(with);

	return (size_t)(r->end - r->at) >= len && memcmp(r->at, with, len) == 0;
}

static bool
take_name(struct reader *r, struct http_text *ret_name)
{
	const char *from = r->at;

	while (r->at < r->end &&
	       ((*r->at >= 'a' && *r->at <= 'z') || (*r->at >= 'A' && *r->at <= 'Z') ||
	        (*r->at >= '0' && *r->at <= '9') || *r->at == '_' || *r->at == '-' ||
	        *r->at == '.' || *r->at == ':'))
		r->at++;
	*ret_name = (struct http_text){ from, (size_t)(r->at - from) };
	return ret_name->len > 0;
}

static struct http_text
local_name(struct http_text name)
{
	const char *colon = memrchr(name.at, ':', name.len);

	if (colon == NULL)
		return name;
	return (struct http_text){ colon + 1, name.len - (size_t)(colon + 1 - name.at) };
}

/* Decode TEXT to the end of VALUES. */
static int
decode(struct reader *r, struct http_text text, struct http_text *ret_value)
{
	struct buf *values = &r->d->values;
	size_t from = values->len;

	for (size_t i = 0; i < text.len;) {
		size_t j = 0;

		if (text.at[i] != '&') {
			buf_put(values, &text.at[i++], 1);
			continue;
		}
		while (j < ARRAY_LEN(entities) &&
		       !scheme_begins((struct http_text){ text.at + i, text.len - i },
		                      entities[j].name))
			j++;
		if (j == ARRAY_LEN(entities))
			return malformed(r, "an entity is none of the five");
		buf_put(values, &entities[j].is, 1);
		i += strlen(entities[j].name);
	}
	*ret_value = (struct http_text){ (char *)values->data + from, values->len - from };
	return buf_failed(values) ? scheme_failed(r->d->err, "read a response") : 0;
}

/* A child without children has ended: check whether it is a secret or an expiry. */
static int
read_leaf(struct reader *r, struct http_text name, struct http_text text)
{
	const struct capture_rule *rule = capture_rule_find(r->d->kind, name);
	const char *expiry = capture_expiry_find(r->d->kind, name);
	struct http_text value;
	struct level *parent;
	int result;

	if ((rule == NULL && expiry == NULL) || r->depth < 2)
		return 0;
	parent = &r->levels[r->depth - 2];
	result = decode(r, text, &value);
	if (result == 0 && parent->draft == NULL)
		result = capture_draft_new(r->d, &parent->draft);
	if (result < 0)
		return result;
	if (rule != NULL)
		return capture_draft_add(r->d, parent->draft, rule, value, text);
	capture_draft_expiry(parent->draft, expiry, value);
	return 0;
}

static int
close_level(struct reader *r, const char *text_end)
{
	struct level *level = &r->levels[r->depth - 1];
	struct http_text text = { level->text, (size_t)(text_end - level->text) };
	int result = 0;

	if (!level->has_children)
		result = read_leaf(r, local_name(level->name), text);
	else if (capture_rule_find(r->d->kind, local_name(level->name)) != NULL)
		result = malformed(r, "a token has elements in it");
	r->depth--;
	return result;
}

static int
skip_attributes(struct reader *r)
{
	struct http_text name;

	for (;;) {
		const char *end;

		skip_space(r);
		if (r->at == r->end || *r->at == '>' || *r->at == '/')
			return 0;
		if (!take_name(r, &name) || r->at == r->end || *r->at++ != '=' || r->at == r->end ||
		    (*r->at != '"' && *r->at != '\''))
			return malformed(r, "an attribute is broken");
		end = memchr(r->at + 1, *r->at, (size_t)(r->end - r->at - 1));
		if (end == NULL || memchr(r->at, '<', (size_t)(end - r->at)) != NULL)
			return malformed(r, "an attribute is broken");
		r->at = end + 1;
	}
}

static int
open_tag(struct reader *r)
{
	struct level *level = &r->levels[r->depth];
	int result;

	if (r->depth == CAPTURE_DEPTH_MAX)
		return err_set(r->d->err, E2BIG, "the response's XML is too deep");
	if (r->depth == 0 && r->had_root)
		return malformed(r, "there are two roots");
	if (r->depth > 0)
		r->levels[r->depth - 1].has_children = true;
	r->had_root = true;
	r->at++;
	*level = (struct level){0};
	if (!take_name(r, &level->name))
		return malformed(r, "a tag has no name");
	result = skip_attributes(r);
	if (result < 0)
		return result;
	r->depth++;
	if (begins(r, "/>")) {
		r->at += 2;
		level->text = r->at;
		return close_level(r, r->at);
	}
	if (!begins(r, ">"))
		return malformed(r, "a tag does not end");
	level->text = ++r->at;
	return 0;
}

static int
close_tag(struct reader *r)
{
	const char *text_end = r->at;
	struct http_text name;

	r->at += 2;
	if (r->depth == 0 || !take_name(r, &name) ||
	    !scheme_same(name, r->levels[r->depth - 1].name))
		return malformed(r, "a closing tag is another's");
	skip_space(r);
	if (!begins(r, ">"))
		return malformed(r, "a tag does not end");
	r->at++;
	return close_level(r, text_end);
}

static int
skip_text(struct reader *r)
{
	const char *next = memchr(r->at, '<', (size_t)(r->end - r->at));

	if (next == NULL)
		next = r->end;
	for (; r->at < next; r->at++)
		if (r->depth == 0 && !is_space(*r->at))
			return malformed(r, "there is text outside of the root");
	return 0;
}

int
capture_read_xml(struct capture_drafts *d, struct http_text body)
{
	struct reader r = { .at = body.at, .end = body.at + body.len, .d = d };
	const char *end;
	int result = 0;

	if (begins(&r, "\xef\xbb\xbf"))
		r.at += 3;
	skip_space(&r);
	if (begins(&r, "<?xml")) {
		end = memmem(r.at, (size_t)(r.end - r.at), "?>", 2);
		if (end == NULL)
			return malformed(&r, "its first line does not end");
		r.at = end + 2;
	}
	while (result == 0 && r.at < r.end) {
		if (*r.at != '<')
			result = skip_text(&r);
		else if (begins(&r, "</"))
			result = close_tag(&r);
		else if (begins(&r, "<!") || begins(&r, "<?"))
			result = malformed(&r, "comments, CDATA, DOCTYPE and instructions are not read");
		else
			result = open_tag(&r);
	}
	if (result == 0 && (r.depth > 0 || !r.had_root))
		result = malformed(&r, "it ends too soon");
	return result;
}

void
capture_put_xml(struct buf *b, struct http_text text)
{
	for (size_t i = 0; i < text.len; i++) {
		size_t j = 0;

		while (j < ARRAY_LEN(entities) && entities[j].is != text.at[i])
			j++;
		if (j < ARRAY_LEN(entities))
			buf_put_text(b, entities[j].name);
		else
			buf_put(b, &text.at[i], 1);
	}
}
