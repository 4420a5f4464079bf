/* policy_read_head.c - reads a rule's matchers for the head of a request. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_load.h"

/* ---- the request line and the content type ---- */

int
policy_read_protocol(struct policy_draft *d, const struct node *node)
{
	static const char *const names[] = { "http", "tcp", "tls", NULL };
	const char *text;
	int r = policy_read_text(d, node, "a protocol", &text);

	if (r < 0)
		return r;
	for (unsigned i = 0; names[i] != NULL; i++) {
		if (strcmp(text, names[i]) == 0) {
			d->rule.protocols = 1u << i;
			return 0;
		}
	}
	if (strcmp(text, "https") == 0)
		return node_err(d->err, node, "write `scheme: https`; a protocol is http, tcp or tls");
	if (strcmp(text, "udp") == 0)
		return node_err(d->err, node, "UDP never leaves a cell: a protocol is http, tcp or tls");
	return node_err(d->err, node, "'%.32s' is not a protocol: http, tcp or tls", text);
}

int
policy_read_scheme(struct policy_draft *d, const struct node *node)
{
	struct policy_list list;
	int r = policy_read_list(d, node, "a scheme", NULL, &list);

	if (r < 0)
		return r;
	d->rule.schemes = 0;
	for (size_t i = 0; i < list.n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;

		if (strcmp(list.at[i], "http") == 0)
			d->rule.schemes |= POLICY_SCHEME_PLAIN;
		else if (strcmp(list.at[i], "https") == 0)
			d->rule.schemes |= POLICY_SCHEME_TLS;
		else
			return node_err(d->err, item, "'%.32s' is not a scheme: http or https", list.at[i]);
	}
	return 0;
}

/* Finds a method with two letters swapped or one missing.  Any word is a valid method, but a rule
 * for a typo would match nothing, and a `deny` would not deny. */
static const char *
find_slip(const char *word)
{
	static const char *const usual[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS" };
	size_t len = strlen(word);

	for (size_t i = 0; i < ARRAY_LEN(usual); i++) {
		const char *name = usual[i];
		size_t n = strlen(name), same = 0;

		while (same < len && word[same] == name[same])
			same++;
		if (len + 1 == n && strcmp(word + same, name + same + 1) == 0)
			return name;
		if (len == n && same + 1 < n && word[same] == name[same + 1] &&
		    word[same + 1] == name[same] && strcmp(word + same + 2, name + same + 2) == 0)
			return name;
	}
	return NULL;
}

static int
fix_method(struct policy_draft *d, const struct node *node, char *text)
{
	static const char others[] = "!#$%&'*+-.^_`|~0123456789";
	const char *meant;
	char upper[33];
	size_t n = 0;

	for (const char *c = text; *c != '\0'; c++) {
		if (!isalpha((unsigned char)*c) && strchr(others, *c) == NULL)
			return node_err(d->err, node, "'%.32s' is not a method such as GET", text);
		if (n < sizeof(upper) - 1)
			upper[n++] = (char)toupper((unsigned char)*c);
	}
	upper[n] = '\0';
	if (strcmp(text, "*") == 0)
		return node_err(d->err, node, "leave `methods` out to match all of them");
	if (strcmp(upper, "CONNECT") == 0)
		return node_err(d->err, node, "CONNECT is not a request that leaves a cell");
	if (strlen(text) > 32 || *text == '\0')
		return node_err(d->err, node, "'%.32s' is not a method such as GET", text);
	if (strcmp(upper, text) != 0)
		return node_err(d->err, node, "methods are in capitals: write %s", upper);
	meant = find_slip(text);
	if (meant != NULL)
		return node_err(d->err, node, "'%s' is not a method: did you mean '%s'?", text, meant);
	return 0;
}

int
policy_read_methods(struct policy_draft *d, const struct node *node)
{
	return policy_read_list(d, node, "a method", fix_method, &d->rule.methods);
}

/* Decode escapes in place: requests are compared decoded. */
static int
decode_path(struct policy_draft *d, const struct node *node, char *text)
{
	char *out = text;
	unsigned code;

	for (const char *c = text; *c != '\0'; c++, out++) {
		*out = *c;
		if (*c != '%')
			continue;
		if (!isxdigit((unsigned char)c[1]) || !isxdigit((unsigned char)c[2]))
			return node_err(d->err, node, "'%%' begins an escape of two hex digits: write %%25");
		sscanf(c + 1, "%2x", &code);
		if (code == 0 || code == '*' || code == '\\')
			return node_err(d->err, node, "'%.3s' in a path cannot be matched", c);
		*out = code == '/' ? POLICY_ESCAPED_SLASH : (char)code;
		c += 2;
	}
	*out = '\0';
	return 0;
}

static int
fix_path(struct policy_draft *d, const struct node *node, char *text)
{
	static const char separators[] = { '/', POLICY_ESCAPED_SLASH, '\0' };
	int r;

	if (*text != '/')
		return node_err(d->err, node, "a path begins with '/': write /%s%.64s",
		                strstr(text, "://") != NULL ? "..., without its host: " : "", text);
	if (strchr(text, '?') != NULL)
		return node_err(d->err, node, "what follows '?' goes under `query:`");
	if (strchr(text, '\\') != NULL)
		return node_err(d->err, node, "no path has a '\\' in it");
	if (strchr(text, '#') != NULL)
		return node_err(d->err, node, "'#' and what follows it is never sent");
	r = decode_path(d, node, text);
	for (const char *c = text; r == 0 && (c = strpbrk(c, separators)) != NULL; c++) {
		size_t n = strcspn(c + 1, separators);

		if ((n == 1 && c[1] == '.') || (n == 2 && c[1] == '.' && c[2] == '.'))
			return node_err(d->err, node, "'.' and '..' are resolved before rules are asked");
	}
	return r;
}

/* An allowed path must also fit as servers read it that decode %2F, and in that reading no path has
 * an escaped slash. */
static int
check_escaped_slashes(const struct policy_draft *d, const struct node *node)
{
	const struct policy_list *paths = &d->rule.paths;
	char other[POLICY_TEXT_MAX + 1];

	for (size_t i = 0; i < paths->n; i++)
		if (strchr(paths->at[i], POLICY_ESCAPED_SLASH) == NULL)
			return 0;
	snprintf(other, sizeof(other), "%s", paths->at[0]);
	for (char *c = other; (c = strchr(c, POLICY_ESCAPED_SLASH)) != NULL;)
		*c = '/';
	return node_err(d->err, node, "to some servers %%2F is '/', so this fits nothing alone: add %s",
	                other);
}

int
policy_read_paths(struct policy_draft *d, const struct node *node)
{
	int r = policy_read_list(d, node, "a path", fix_path, &d->rule.paths);

	return r == 0 && d->rule.verb == POLICY_VERB_ALLOW ? check_escaped_slashes(d, node) : r;
}

static int
fix_content_type(struct policy_draft *d, const struct node *node, char *text)
{
	if (strchr(text, ';') != NULL)
		return node_err(d->err, node, "parameters (what follows ';') are not looked at");
	if (strchr(text, '/') == NULL && strcmp(text, "*") != 0)
		return node_err(d->err, node, "'%.64s' is not a type such as application/json", text);
	for (char *c = text; *c != '\0'; c++)
		*c = (char)tolower((unsigned char)*c);
	return 0;
}

int
policy_read_content_type(struct policy_draft *d, const struct node *node)
{
	return policy_read_list(d, node, "a content type", fix_content_type,
	                        &d->rule.content_types);
}

/* ---- headers, and parameters of the query ---- */

static int
fix_header_name(struct policy_draft *d, const struct node *node, char *text)
{
	static const char *const hidden[] = { "host", "content-length", "connection",
		"transfer-encoding", "upgrade", "keep-alive", "te", "trailer", "proxy-authorization",
		"proxy-connection", NULL };

	for (char *c = text; *c != '\0'; c++) {
		if (!isalnum((unsigned char)*c) && strchr("!#$%&'*+-.^_`|~", *c) == NULL)
			return node_err(d->err, node, "'%.64s' is not the name of a header", text);
		*c = (char)tolower((unsigned char)*c);
	}
	if (*text == '\0')
		return node_err(d->err, node, "a header has a name");
	for (size_t i = 0; hidden[i] != NULL; i++)
		if (strcmp(text, hidden[i]) == 0)
			return node_err(d->err, node, "'%s' belongs to the connection and cannot be matched",
			                text);
	return 0;
}

static int
read_field(struct policy_draft *d, const struct node *key, const struct node *value,
           policy_fix *fix, struct policy_field *field)
{
	struct policy_list name;
	int r = policy_read_list(d, key, "a name", fix, &name);

	if (r < 0)
		return r;
	field->name = name.at[0];
	field->absent = node_is_absent(value);
	return field->absent ? 0 : policy_read_list(d, value, "a value", NULL, &field->globs);
}

static int
read_fields(struct policy_draft *d, const struct node *node, policy_fix *fix,
            const struct policy_field **ret_fields, size_t *ret_n)
{
	struct policy_field *fields;
	int r = 0;

	if (node->n == 0)
		return node_err(d->err, node, "an empty map matches everything: leave the key out");
	if (node->n > POLICY_LIST_MAX)
		return node_err(d->err, node, "a rule takes at most %d of these", POLICY_LIST_MAX);
	fields = policy_alloc(d->p, node->n, sizeof(*fields));
	if (fields == NULL)
		return policy_read_oom(d);
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		r = read_field(d, node->items[i], node->values[i], fix, &fields[i]);
		for (size_t j = 0; r == 0 && j < i; j++)
			if (strcmp(fields[i].name, fields[j].name) == 0)
				r = node_err(d->err, node->items[i], "'%.64s' is here twice", fields[i].name);
	}
	if (r < 0)
		return r;
	*ret_fields = fields;
	*ret_n = node->n;
	return 0;
}

/* A list of names: each must be present, with any value. */
static int
read_names(struct policy_draft *d, const struct node *node, policy_fix *fix,
           const struct policy_field **ret_fields, size_t *ret_n)
{
	static const char *const any[] = { "*" };
	struct policy_field *fields;
	struct policy_list names;
	int r = policy_read_list(d, node, "a name", fix, &names);

	if (r < 0)
		return r;
	fields = policy_alloc(d->p, names.n, sizeof(*fields));
	if (fields == NULL)
		return policy_read_oom(d);
	for (size_t i = 0; i < names.n; i++) {
		fields[i] = (struct policy_field){ .name = names.at[i], .globs = { any, 1 } };
		for (size_t k = 0; k < i; k++)
			if (strcmp(names.at[i], names.at[k]) == 0)
				return node_err(d->err, node->items[i], "'%.64s' is here twice", names.at[i]);
	}
	*ret_fields = fields;
	*ret_n = names.n;
	return 0;
}

/* As browsers and servers agree on it (RFC 6265). */
static int
fix_cookie_name(struct policy_draft *d, const struct node *node, char *text)
{
	for (const char *c = text; *c != '\0'; c++)
		if (!isalnum((unsigned char)*c) && strchr("!#$%&'*+-.^_`|~", *c) == NULL)
			return node_err(d->err, node, "'%.64s' is not the name of a cookie", text);
	return *text != '\0' ? 0 : node_err(d->err, node, "a cookie has a name");
}

int
policy_read_cookies(struct policy_draft *d, const struct node *node)
{
	if (node->kind != NODE_MAP)
		return read_names(d, node, fix_cookie_name, &d->rule.cookies, &d->rule.n_cookies);
	return read_fields(d, node, fix_cookie_name, &d->rule.cookies, &d->rule.n_cookies);
}

int
policy_read_headers(struct policy_draft *d, const struct node *node)
{
	if (node->kind != NODE_MAP)
		return read_names(d, node, fix_header_name, &d->rule.headers, &d->rule.n_headers);
	return read_fields(d, node, fix_header_name, &d->rule.headers, &d->rule.n_headers);
}

static int
fix_param_name(struct policy_draft *d, const struct node *node, char *text)
{
	return *text != '\0' ? 0 : node_err(d->err, node, "a parameter has a name");
}

static int
fix_query(struct policy_draft *d, const struct node *node, char *text)
{
	char sent[POLICY_TEXT_MAX + 3], plain[sizeof(sent)];
	struct err err = {0};
	size_t len, n;

	if (*text == '?')
		return node_err(d->err, node, "leave out the '?'");
	len = (size_t)snprintf(sent, sizeof(sent), "/?%s", text);
	if (http_path_normalise((struct http_text){ sent, len }, plain, sizeof(plain), &n, &err) < 0)
		return node_err(d->err, node, "%s: write an escape, such as %%20", err.text);
	/* Requests are normalised like this before they are compared. */
	if (n != len || memcmp(sent, plain, n) != 0)
		return node_err(d->err, node, "a query is sent in its plain form: write %.*s", (int)n - 2,
		                plain + 2);
	return 0;
}

/* Either a glob of the whole query, or a map of parameters. */
int
policy_read_query(struct policy_draft *d, const struct node *node)
{
	if (node->kind == NODE_MAP)
		return read_fields(d, node, fix_param_name, &d->rule.params, &d->rule.n_params);
	d->rule.has_query = true;
	return policy_read_list(d, node, "a query", fix_query, &d->rule.query);
}
