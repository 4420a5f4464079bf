/* policy_rewrite.c - the edits of a rewrite, and those that change a request's head. */
#include "policy/policy_rewrite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_edit.h"
#include "policy/policy_parts.h"

/* ---- rewrites of a policy ---- */

const struct policy_rewrite *
policy_rewrite_of(const struct policy *p, int rule)
{
	return rule < 0 ? NULL : policy_rule_at(p, (size_t)rule)->rewrite;
}

bool
policy_rewrites(const struct policy *p)
{
	for (size_t i = 0; i < policy_n_rules(p); i++)
		if (policy_rule_at(p, i)->rewrite != NULL)
			return true;
	return false;
}

bool
policy_rewrite_may_use_private(const struct policy *p, int rule, const struct policy_rewrite *rw)
{
	unsigned char address[16];

	if (rule >= 0 && policy_rule_at(p, (size_t)rule)->private)
		return true;
	for (size_t i = 0; i < rw->n; i++)
		if (rw->edits[i].kind == POLICY_EDIT_HOST)
			return policy_address(rw->edits[i].name, address) ||
			       strcmp(rw->edits[i].name, POLICY_HOST_OF_MACHINE) == 0;
	return false;
}

enum policy_part
policy_edit_part(const struct policy_edit *edit)
{
	switch (edit->kind) {
	case POLICY_EDIT_HOST:
		return POLICY_PART_HOST;
	case POLICY_EDIT_PATH:
		return POLICY_PART_PATH;
	case POLICY_EDIT_QUERY_SET:
	case POLICY_EDIT_QUERY_REMOVE:
		return POLICY_PART_QUERY;
	case POLICY_EDIT_HEADER_SET:
	case POLICY_EDIT_HEADER_REMOVE:
		return POLICY_PART_HEADER;
	default:
		return POLICY_PART_BODY;
	}
}

const char *
policy_edit_text(const struct policy_edit *edit, char ret_text[POLICY_EDIT_TEXT_MAX])
{
	static const char *const forms[POLICY_EDIT_KINDS] = {
		[POLICY_EDIT_HOST] = "host %s%s%s",
		[POLICY_EDIT_PATH] = "path %s%s%s",
		[POLICY_EDIT_QUERY_SET] = "query %s%s%s",
		[POLICY_EDIT_QUERY_REMOVE] = "query %s%s%s removed",
		[POLICY_EDIT_HEADER_SET] = "header %s%s%s",
		[POLICY_EDIT_HEADER_REMOVE] = "header %s%s%s removed",
		[POLICY_EDIT_JSON_SET] = "json %s%s%s",
		[POLICY_EDIT_JSON_DEFAULT] = "json %s%sdefault %s",
		[POLICY_EDIT_JSON_MAX] = "json %s%smax %s",
		[POLICY_EDIT_JSON_REMOVE] = "json %s%s%s removed",
	};
	const char *between = edit->kind == POLICY_EDIT_HOST ? ":" :
	                      edit->kind == POLICY_EDIT_PATH ? " to " :
	                      edit->kind >= POLICY_EDIT_JSON_DEFAULT ? " " : "=";

	snprintf(ret_text, POLICY_EDIT_TEXT_MAX, forms[edit->kind], edit->name,
	         *edit->value != '\0' ? between : "", edit->value);
	return ret_text;
}

/* ---- the path and the query ---- */

/* Append TEXT as a part of a query, in its canonical spelling. */
static void
put_escaped(struct buf *b, const char *text)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    c == '-' || c == '.' || c == '_' || c == '~')
			buf_put(b, text, 1);
		else
			buf_put(b, (char[]){ '%', hex[c >> 4], hex[c & 15] }, 3);
	}
}

static void
put_param(struct buf *b, const struct policy_edit *edit)
{
	put_escaped(b, edit->name);
	buf_put(b, "=", 1);
	put_escaped(b, edit->value);
}

/* Append QUERY with the parameter set or removed.  A parameter that only resembles the name is
 * removed: some servers confuse both. */
static void
edit_query(const struct policy_edit *edit, struct http_text query, struct buf *out)
{
	bool is_set = edit->kind == POLICY_EDIT_QUERY_REMOVE, first = true;
	const char *at = query.at, *end = query.at + query.len, *stop;

	for (; query.len > 0 && at <= end; at = stop + 1) {
		const char *equals;
		size_t n;

		stop = memchr(at, '&', (size_t)(end - at));
		stop = stop != NULL ? stop : end;
		equals = memchr(at, '=', (size_t)(stop - at));
		n = (size_t)((equals != NULL ? equals : stop) - at);
		if (policy_param_is_like(at, n, edit->name)) {
			if (is_set)
				continue;
			is_set = true;
			buf_put(out, "&", first ? 0 : 1);
			put_param(out, edit);
		} else {
			buf_put(out, "&", first ? 0 : 1);
			buf_put(out, at, (size_t)(stop - at));
		}
		first = false;
	}
	if (!is_set) {
		buf_put(out, "&", first ? 0 : 1);
		put_param(out, edit);
	}
}

static struct http_text
text_of(const struct buf *b)
{
	return (struct http_text){ b->len > 0 ? (const char *)b->data : "", b->len };
}

static bool
same_text(struct http_text a, struct http_text b)
{
	return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

static int
edit_path(const struct policy_edit *edit, struct buf *path, uint64_t bit, uint64_t *changed,
          struct err *err)
{
	OWN(buf_free) struct buf old = *path;
	size_t n = strlen(edit->name);

	buf_init(path, HTTP_HEAD_MAX);
	if (old.len < n || memcmp(old.data, edit->name, n) != 0)
		return err_set(err, EINVAL, "the path does not begin with '%s', which the rule rewrites: add "
		               "`paths` to the rule", edit->name);
	buf_put_text(path, edit->value);
	buf_put(path, old.data + n, old.len - n);
	*changed |= strcmp(edit->name, edit->value) != 0 ? bit : 0;
	return 0;
}

/* Make the edits of the path and the query.  *RET_PATH is NULL if nothing changes. */
static int
edit_target(const struct policy_rewrite *rw, struct http_text target, char **ret_path,
            size_t *ret_len, uint64_t *changed, struct err *err)
{
	const char *mark = target.len > 0 ? memchr(target.at, '?', target.len) : NULL;
	size_t n = mark != NULL ? (size_t)(mark - target.at) : target.len;
	OWN(buf_free) struct buf path, query;
	uint64_t before = *changed;
	char *copy;
	int r = 0;

	buf_init(&path, HTTP_HEAD_MAX);
	buf_init(&query, HTTP_HEAD_MAX);
	buf_put(&path, target.at, n);
	if (mark != NULL)
		buf_put(&query, mark + 1, target.len - n - 1);
	for (size_t i = 0; r == 0 && i < rw->n; i++) {
		const struct policy_edit *edit = &rw->edits[i];
		OWN(buf_free) struct buf old = {0};

		if (edit->kind == POLICY_EDIT_PATH)
			r = edit_path(edit, &path, 1ULL << i, changed, err);
		if (policy_edit_part(edit) != POLICY_PART_QUERY)
			continue;
		if (query.len > 0 && memchr(query.data, ';', query.len) != NULL)
			return err_set(err, EINVAL, "the query has a ';', which servers read in different ways: "
			               "the rule cannot rewrite it");
		old = query;
		buf_init(&query, HTTP_HEAD_MAX);
		edit_query(edit, text_of(&old), &query);
		*changed |= same_text(text_of(&old), text_of(&query)) ? 0 : 1ULL << i;
	}
	if (r < 0 || *changed == before)
		return r;
	if (buf_failed(&path) || buf_failed(&query) ||
	    path.len + query.len + 1 > HTTP_HEAD_MAX || (copy = malloc(path.len + query.len + 2)) == NULL)
		return err_set(err, E2BIG, "the path is too long after rewriting");
	memcpy(copy, path.data, path.len);
	n = path.len;
	if (query.len > 0) {
		copy[n++] = '?';
		memcpy(copy + n, query.data, query.len);
		n += query.len;
	}
	copy[n] = '\0';
	*ret_path = copy;
	*ret_len = n;
	return 0;
}

/* ---- headers ---- */

static bool
edit_header(const struct policy_edit *edit, struct http_head *head, bool *ret_changed)
{
	struct http_text name = { edit->name, strlen(edit->name) };
	struct http_text value = { edit->value, strlen(edit->value) };
	bool is_set = edit->kind == POLICY_EDIT_HEADER_REMOVE, changed = false;
	size_t n = 0;

	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_field field = head->fields[i];

		/* To some servers "x_debug" is x-debug. */
		if (policy_header_is_like(field.name, edit->name)) {
			changed |= is_set || !same_text(field.name, name) || !same_text(field.value, value);
			if (is_set)
				continue;
			is_set = true;
			field = (struct http_field){ name, value };
		}
		head->fields[n++] = field;
	}
	head->n_fields = n;
	if (!is_set) {
		if (n == HTTP_FIELDS_MAX)
			return false;
		head->fields[head->n_fields++] = (struct http_field){ name, value };
		changed = true;
	}
	*ret_changed = changed;
	return true;
}

/* ---- the head ---- */

static void
edit_host(const struct policy_edit *edit, struct http_head *head, bool *ret_changed)
{
	uint64_t port = head->port;

	if (*edit->value != '\0')
		(void)num_parse_count(edit->value, 1, UINT16_MAX, &port, NULL);
	*ret_changed = !http_text_is(head->host, edit->name) || port != head->port;
	head->host = (struct http_text){ edit->name, strlen(edit->name) };
	head->port = (uint16_t)port;
}

int
policy_rewrite_head(const struct policy_rewrite *rw, struct http_head *head, char **ret_path,
                    uint64_t *ret_changed, struct err *err)
{
	OWN(freep) char *path = NULL;
	struct http_head copy;
	uint64_t changed = 0;
	size_t len = 0;
	int r;

	http_head_copy(&copy, head);
	r = edit_target(rw, copy.path, &path, &len, &changed, err);
	if (r < 0)
		return r;
	if (path != NULL) {
		copy.path = (struct http_text){ path, len };
		copy.written = (struct http_text){ "", 0 };
	}
	for (size_t i = 0; i < rw->n; i++) {
		bool is_changed = false;

		if (policy_edit_part(&rw->edits[i]) == POLICY_PART_HOST)
			edit_host(&rw->edits[i], &copy, &is_changed);
		else if (policy_edit_part(&rw->edits[i]) == POLICY_PART_HEADER &&
		         !edit_header(&rw->edits[i], &copy, &is_changed))
			return err_set(err, E2BIG, "the request has too many headers for the rule to add '%s'",
			               rw->edits[i].name);
		changed |= is_changed ? 1ULL << i : 0;
	}
	r = http_head_check(&copy, err);
	if (r < 0)
		return err_wrap(err, "the rule rewrites the request into an invalid one");
	http_head_copy(head, &copy);
	*ret_path = TAKE(path);
	*ret_changed = changed;
	return 0;
}

bool
policy_rewrite_needs_body(const struct policy_rewrite *rw, const struct http_head *head)
{
	for (size_t i = 0; i < rw->n; i++)
		if (policy_edit_part(&rw->edits[i]) == POLICY_PART_BODY)
			return head->length != 0;
	return false;
}

/* ---- checking edits ---- */

static int
check_host(const struct policy_edit *edit, struct err *err)
{
	struct http_text text = { edit->name, strlen(edit->name) };
	char host[HTTP_HOST_MAX + 1];
	uint64_t number;
	uint16_t port;
	int r = http_authority_parse(text, host, &port, err);

	if (r < 0)
		return r;
	if (strcmp(host, edit->name) != 0 || port != 0)
		return err_set(err, EINVAL, "the host '%.64s' is written %.64s", edit->name, host);
	if (strcmp(host, POLICY_HOST_OF_GATE) == 0)
		return err_set(err, EINVAL, "no request can be sent to %s", host);
	return *edit->value == '\0' ? 0 : num_parse_count(edit->value, 1, UINT16_MAX, &number, err);
}

static int
check_prefix(const char *text, struct err *err)
{
	char plain[POLICY_TEXT_MAX + 1];
	size_t len = strlen(text), n;
	int r;

	if (*text != '/' || text[len - 1] != '/')
		return err_set(err, EINVAL, "the prefix '%.64s' of a path begins and ends with '/'", text);
	if (strpbrk(text, "?#*") != NULL)
		return err_set(err, EINVAL, "the prefix '%.64s' of a path has a '%c': leave it out", text,
		               *strpbrk(text, "?#*"));
	if (http_path_room((struct http_text){ text, len }) > sizeof(plain))
		return err_set(err, EINVAL, "the prefix '%.64s' of a path is too long", text);
	r = http_path_normalise((struct http_text){ text, len }, plain, sizeof(plain), &n, err);
	if (r < 0)
		return err_wrap(err, "the prefix '%.64s' of a path", text);
	return n == len && memcmp(plain, text, n) == 0 ? 0 :
	       err_set(err, EINVAL, "the prefix '%.64s' is sent in its plain form: write %.*s", text,
	               (int)(n < 64 ? n : 64), plain);
}

/* Fields that frame or route the request, or describe how its body is read. */
static bool
is_fixed_header(struct http_text name)
{
	static const char *const fixed[] = { "host", "content-length", "transfer-encoding",
		"connection", "keep-alive", "upgrade", "te", "trailer", "expect", "proxy-connection",
		"proxy-authorization", "proxy-authenticate", "content-type", "content-encoding",
		"content-range", "http2-settings" };

	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		if (policy_header_is_like(name, fixed[i]))
			return true;
	return false;
}

static int
check_header(const struct policy_edit *edit, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";
	struct http_text name = { edit->name, strlen(edit->name) };
	size_t n = strlen(edit->value);

	if (*edit->name == '\0' || strspn(edit->name, letters) != name.len)
		return err_set(err, EINVAL, "'%.64s' is not the name of a header in lower case", edit->name);
	if (is_fixed_header(name))
		return err_set(err, EINVAL, "the header '%s' frames the request or its body: a rule cannot "
		               "rewrite it", edit->name);
	if (edit->kind == POLICY_EDIT_HEADER_SET &&
	    (policy_header_is_like(name, "authorization") || policy_header_is_like(name, "cookie")))
		return err_set(err, EINVAL, "the header '%s' carries a credential: define a secret, which sets "
		               "it", edit->name);
	for (const char *c = edit->value; *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return err_set(err, EINVAL, "the value of the header '%s' has a control character",
			               edit->name);
	if (n > 0 && (edit->value[0] == ' ' || edit->value[n - 1] == ' '))
		return err_set(err, EINVAL, "the value of the header '%s' begins or ends with a blank",
		               edit->name);
	return 0;
}

static int
check_param(const struct policy_edit *edit, struct err *err)
{
	return *edit->name != '\0' ? 0 : err_set(err, EINVAL, "a parameter of the query has a name");
}

int
policy_edit_check(const struct policy_edit *edit, struct err *err)
{
	bool has_value = edit->kind != POLICY_EDIT_QUERY_REMOVE &&
	                 edit->kind != POLICY_EDIT_HEADER_REMOVE && edit->kind != POLICY_EDIT_JSON_REMOVE;
	int r;

	if (strlen(edit->name) > POLICY_TEXT_MAX || strlen(edit->value) > POLICY_TEXT_MAX)
		return err_set(err, EINVAL, "a name or value is longer than %d bytes", POLICY_TEXT_MAX);
	if (!has_value && *edit->value != '\0')
		return err_set(err, EINVAL, "'%.64s' is removed, so it has no value", edit->name);
	switch (policy_edit_part(edit)) {
	case POLICY_PART_HOST:
		return check_host(edit, err);
	case POLICY_PART_PATH:
		r = check_prefix(edit->name, err);
		return r == 0 ? check_prefix(edit->value, err) : r;
	case POLICY_PART_QUERY:
		return check_param(edit, err);
	case POLICY_PART_HEADER:
		return check_header(edit, err);
	case POLICY_PART_BODY:
		return policy_edit_check_json(edit, err);
	}
	return err_set(err, EINVAL, "this is not an edit");
}
