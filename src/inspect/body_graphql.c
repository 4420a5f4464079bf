/* body_graphql.c - finds the operations in a GraphQL request.
 *
 * The document is not fully parsed: only its definitions and their ends are recognised. */
#include "base/codec.h"
#include "inspect/body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "inspect/one_of.h"

/* ---- the document ---- */

enum token { TOKEN_END, TOKEN_BAD, TOKEN_NAME, TOKEN_OTHER, TOKEN_OPEN, TOKEN_CLOSE };

struct reader {
	const char *at, *end;
	const char *token;              /* the current one */
	size_t n_token;
	char brackets[BODY_NESTING_MAX];
	size_t n_brackets;
};

static bool
is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool
is_name(char c)
{
	return is_name_start(c) || (c >= '0' && c <= '9');
}

/* White space, commas, comments, and the byte order mark. */
static void
skip_ignored(struct reader *r)
{
	while (r->at < r->end) {
		if (is_one_of((unsigned char)*r->at, " \t\r\n,")) {
			r->at++;
		} else if (*r->at == '#') {
			while (r->at < r->end && *r->at != '\n' && *r->at != '\r')
				r->at++;
		} else if (r->end - r->at >= 3 && memcmp(r->at, "\xef\xbb\xbf", 3) == 0) {
			r->at += 3;
		} else {
			return;
		}
	}
}

/* Starts after the first quote.  False: it has no end. */
static bool
skip_block_string(struct reader *r)
{
	r->at += 2;
	while (r->end - r->at >= 3) {
		if (r->end - r->at >= 4 && memcmp(r->at, "\\\"\"\"", 4) == 0)
			r->at += 4;
		else if (memcmp(r->at, "\"\"\"", 3) == 0)
			return r->at += 3, true;
		else
			r->at++;
	}
	return false;
}

static bool
skip_string(struct reader *r)
{
	if (r->end - r->at >= 2 && memcmp(r->at, "\"\"", 2) == 0)
		return skip_block_string(r);
	while (r->at < r->end && *r->at != '\n' && *r->at != '\r') {
		char c = *r->at++;

		if (c == '"')
			return true;
		if (c == '\\' && r->at < r->end)
			r->at++;
	}
	return false;
}

static enum token
close_bracket(struct reader *r, char c)
{
	char open = c == ')' ? '(' : c == ']' ? '[' : '{';

	if (r->n_brackets == 0 || r->brackets[r->n_brackets - 1] != open)
		return TOKEN_BAD;
	r->n_brackets--;
	return TOKEN_CLOSE;
}

static enum token
read_bracket(struct reader *r, char c)
{
	if (is_one_of((unsigned char)c, ")]}"))
		return close_bracket(r, c);
	if (r->n_brackets == BODY_NESTING_MAX)
		return TOKEN_BAD;
	r->brackets[r->n_brackets++] = c;
	return TOKEN_OPEN;
}

static enum token
next_token(struct reader *r)
{
	char c;

	skip_ignored(r);
	if (r->at == r->end)
		return TOKEN_END;
	r->token = r->at;
	c = *r->at++;
	if (is_name_start(c)) {
		while (r->at < r->end && is_name(*r->at))
			r->at++;
		r->n_token = (size_t)(r->at - r->token);
		return TOKEN_NAME;
	}
	if (is_one_of((unsigned char)c, "()[]{}"))
		return read_bracket(r, c);
	if (c == '"')
		return skip_string(r) ? TOKEN_OTHER : TOKEN_BAD;
	/* Numbers and punctuation; the server checks their order. */
	return is_one_of((unsigned char)c, "0123456789+-.!$&:=@|") ? TOKEN_OTHER : TOKEN_BAD;
}

static bool
token_is(const struct reader *r, const char *word)
{
	return r->n_token == strlen(word) && memcmp(r->token, word, r->n_token) == 0;
}

static struct body_operation *
add_operation(struct body_operations *ops, enum policy_graphql type)
{
	if (ops->n == BODY_OPERATIONS_MAX)
		return NULL;
	ops->at[ops->n] = (struct body_operation){ type, "", 0 };
	return &ops->at[ops->n++];
}

/* Read to the end of the selection set; its "{" may have been read. */
static int
read_rest(struct reader *r, struct body_operation *op, bool inside)
{
	for (size_t i = 0;; i++) {
		enum token token = next_token(r);

		if (token == TOKEN_BAD || token == TOKEN_END)
			return -EBADMSG;
		if (i == 0 && token == TOKEN_NAME && op != NULL && !inside) {
			op->name = r->token;
			op->n_name = r->n_token;
		}
		if (token == TOKEN_OPEN && r->n_brackets == 1 && r->brackets[0] == '{')
			inside = true;
		if (token == TOKEN_CLOSE && r->n_brackets == 0 && inside)
			return 0;
	}
}

static int
read_definition(struct reader *r, enum token token, struct body_operations *ops)
{
	static const char *const words[] = { "query", "mutation", "subscription" };
	struct body_operation *op = NULL;

	if (token == TOKEN_OPEN && r->brackets[0] == '{') {
		op = add_operation(ops, POLICY_GRAPHQL_QUERY);
		return op != NULL ? read_rest(r, op, true) : -EBADMSG;
	}
	if (token != TOKEN_NAME)
		return -EBADMSG;
	if (token_is(r, "fragment"))
		return read_rest(r, NULL, false);
	for (unsigned i = 0; i < ARRAY_LEN(words) && op == NULL; i++)
		if (token_is(r, words[i]))
			op = add_operation(ops, (enum policy_graphql)(1u << i));
	return op != NULL ? read_rest(r, op, false) : -EBADMSG;
}

int
body_graphql_document(const char *text, size_t len, struct body_operations *ops)
{
	struct reader r = { .at = text, .end = text + len };
	size_t before = ops->n;
	enum token token;

	while ((token = next_token(&r)) != TOKEN_END)
		if (token == TOKEN_BAD || read_definition(&r, token, ops) < 0)
			return -EBADMSG;
	return ops->n > before ? 0 : -EBADMSG;
}

/* ---- the request ---- */

/* If a document has several operations, the server runs the named one, if exactly one has that
 * name. */
static void
select_operation(struct body_operations *ops, size_t first, const char *name, size_t len)
{
	size_t found = 0, at = 0;

	for (size_t i = first; i < ops->n; i++) {
		if (ops->at[i].n_name == len && memcmp(ops->at[i].name, name, len) == 0) {
			found++;
			at = i;
		}
	}
	if (found != 1 || len == 0)
		return;
	ops->at[first] = ops->at[at];
	ops->n = first + 1;
}

/* ---- persisted documents ---- */

/* Servers' names for it, without "_", "-" and case.  Beside a document, it is unclear which of the
 * two is run. */
static const char *const persisted_names[] = {
	"id", "queryid", "documentid", "docid", "operationid", "hash", "queryhash", "documenthash",
	"operationhash", "sha256hash", "persistedquery", "persistedqueryid", "persisteddocument",
	"persistedid", "persistedoperation", "apq",
};

static bool
is_persisted_name(const char *text, size_t len)
{
	char plain[32];
	size_t n = 0;

	for (size_t i = 0; i < len && n < sizeof(plain) - 1; i++) {
		char c = text[i];

		if (c == '[')
			break;
		if (is_name(c) && c != '_')
			plain[n++] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
	}
	plain[n] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(persisted_names); i++)
		if (strcmp(plain, persisted_names[i]) == 0)
			return true;
	return false;
}

static bool
is_extensions(const char *text, size_t len)
{
	return policy_param_is_like(text, len, "extensions");
}

/* Extensions as text: unparsed JSON, in which an escape may hide a name. */
static bool
extensions_text_persists(const char *text, size_t len)
{
	struct http_text all = { text, len };

	return http_text_has_nocase(all, "persisted") || http_text_has_nocase(all, "hash") ||
		(len > 0 && memchr(text, '\\', len) != NULL);
}

static bool
json_persists(const json_t *request)
{
	const json_t *value, *inner;
	const char *name, *inner_name;

	json_object_foreach((json_t *)(uintptr_t)request, name, value) {
		if (!json_is_null(value) && is_persisted_name(name, strlen(name)))
			return true;
		if (!is_extensions(name, strlen(name)))
			continue;
		if (json_is_string(value) &&
		    extensions_text_persists(json_string_value(value), json_string_length(value)))
			return true;
		json_object_foreach((json_t *)(uintptr_t)value, inner_name, inner)
			if (!json_is_null(inner) && is_persisted_name(inner_name, strlen(inner_name)))
				return true;
	}
	return false;
}

/* A request that only names a document on the server cannot be inspected. */
static int
read_request(const json_t *request, struct body_operations *ops)
{
	bool odd = false;
	const json_t *query = body_json_get(request, "query", &odd);
	const json_t *name = body_json_get(request, "operationName", &odd);
	size_t first = ops->n;

	if (odd || !json_is_string(query) || json_persists(request) ||
	    (name != NULL && !json_is_string(name) && !json_is_null(name)))
		return -EBADMSG;
	if (body_graphql_document(json_string_value(query), json_string_length(query), ops) < 0)
		return -EBADMSG;
	if (json_is_string(name))
		select_operation(ops, first, json_string_value(name), json_string_length(name));
	return 0;
}

static int
read_json(const json_t *root, struct body_operations *ops)
{
	size_t n = json_array_size(root);

	if (!json_is_array(root))
		return read_request(root, ops);
	for (size_t i = 0; i < n; i++)
		if (read_request(json_array_get(root, i), ops) < 0)
			return -EBADMSG;
	return n > 0 ? 0 : -EBADMSG;
}

/* Decodes in place; returns the new length. */
static size_t
form_decode(char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int byte = codec_percent_byte(text + i, len - i);

		text[n++] = byte >= 0 ? (char)byte : text[i] == '+' ? ' ' : text[i];
		i += byte >= 0 ? 2 : 0;
	}
	return n;
}

struct form {
	const char *query, *name;
	size_t n_query, n_name, queries, names;
	bool persists;
};

/* Fields that some servers take for one of the two: in other case, as a list, or after ";". */
static bool
has_odd_field(const char *text, size_t len)
{
	const char *end = text + len;

	for (const char *p = text; p < end;) {
		size_t n = 0, n_key = 0;

		while (p + n < end && p[n] != '&' && p[n] != ';')
			n++;
		while (n_key < n && p[n_key] != '=')
			n_key++;
		if ((policy_param_is_like(p, n_key, "query") ||
		     policy_param_is_like(p, n_key, "operationName")) &&
		    !((n_key == 5 && memcmp(p, "query", 5) == 0) ||
		      (n_key == 13 && memcmp(p, "operationName", 13) == 0)))
			return true;
		/* A plain field, but only for servers that split at ";". */
		if (p > text && p[-1] == ';' && (policy_param_is_like(p, n_key, "query") ||
		                                 policy_param_is_like(p, n_key, "operationName")))
			return true;
		p += n + 1;
	}
	return false;
}

/* Changes TEXT. */
static struct form
read_form_fields(char *text, size_t len)
{
	struct form f = {0};
	char *end = text + len;

	for (char *p = text; p < end;) {
		char *stop = memchr(p, '&', (size_t)(end - p)), *equals;
		size_t n_key, n_value;

		stop = stop != NULL ? stop : end;
		equals = memchr(p, '=', (size_t)(stop - p));
		equals = equals != NULL ? equals : stop;
		n_key = form_decode(p, (size_t)(equals - p));
		n_value = equals < stop ? form_decode(equals + 1, (size_t)(stop - equals - 1)) : 0;
		if (n_key == 5 && memcmp(p, "query", 5) == 0) {
			f.query = equals + 1;
			f.n_query = n_value;
			f.queries++;
		} else if (n_key == 13 && memcmp(p, "operationName", 13) == 0) {
			f.name = equals + 1;
			f.n_name = n_value;
			f.names++;
		} else if (is_persisted_name(p, n_key)) {
			f.persists = true;
		} else if (is_extensions(p, n_key) && equals < stop) {
			f.persists |= extensions_text_persists(equals + 1, n_value);
		}
		p = stop + 1;
	}
	return f;
}

static int
read_form(const char *data, size_t len, struct body_operations *ops)
{
	struct form f;
	size_t first = ops->n;

	ops->form = malloc(len + 1);
	if (ops->form == NULL)
		return -EBADMSG;
	memcpy(ops->form, data, len);
	ops->form[len] = '\0';
	if (has_odd_field(data, len))
		return -EBADMSG;
	f = read_form_fields(ops->form, len);
	/* If there are two, one server takes the first and another the last. */
	if (f.queries != 1 || f.names > 1 || f.persists || f.n_query == 0 ||
	    body_graphql_document(f.query, f.n_query, ops) < 0)
		return -EBADMSG;
	if (f.names == 1)
		select_operation(ops, first, f.name, f.n_name);
	return 0;
}

static bool
type_is(struct http_text type, const char *word)
{
	const char *stop = type.len > 0 ? memchr(type.at, ';', type.len) : NULL;

	if (stop != NULL)
		type.len = (size_t)(stop - type.at);
	while (type.len > 0 && is_one_of((unsigned char)type.at[type.len - 1], " \t"))
		type.len--;
	return http_text_is_nocase(type, word);
}

static struct http_text
query_of(struct http_text path)
{
	const char *mark = path.len > 0 ? memchr(path.at, '?', path.len) : NULL;

	if (mark == NULL)
		return (struct http_text){ "", 0 };
	return (struct http_text){ mark + 1, path.len - (size_t)(mark + 1 - path.at) };
}

/* PERSISTED: the name of a persisted document counts too. */
static bool
is_in_query(struct http_text path, bool persisted)
{
	struct http_text query = query_of(path);
	OWN(freep) char *copy = malloc(query.len + 1);
	struct form f;

	if (copy == NULL)
		return true;
	memcpy(copy, query.at, query.len);
	f = read_form_fields(copy, query.len);
	return f.queries + f.names > 0 || (persisted && f.persists) ||
		has_odd_field(query.at, query.len);
}

bool
body_graphql_in_query(struct http_text path)
{
	return is_in_query(path, false);
}

int
body_graphql_read(const struct body *body, const json_t *root,
                  struct body_operations *ret_ops)
{
	struct http_text query = query_of(body->path);

	ret_ops->n = 0;
	ret_ops->form = NULL;
	if (body->len == 0)
		return read_form(query.at, query.len, ret_ops);
	/* Some servers prefer the query, some the body. */
	if (is_in_query(body->path, true))
		return -EBADMSG;
	if (type_is(body->content_type, "application/graphql"))
		return body_graphql_document(body->data, body->len, ret_ops);
	if (type_is(body->content_type, "application/x-www-form-urlencoded"))
		return read_form(body->data, body->len, ret_ops);
	return http_type_is_json(body->content_type) ? read_json(root, ret_ops) : -EBADMSG;
}

void
body_graphql_free(struct body_operations *ops)
{
	free(ops->form);
}

enum body_fit
body_graphql_fits(const struct body_operations *ops, const struct policy_body *rule,
                  bool every)
{
	size_t fit = 0;

	for (size_t i = 0; i < ops->n; i++) {
		const struct body_operation *op = &ops->at[i];

		fit += (rule->graphql_types == 0 || (rule->graphql_types & op->type) != 0) &&
		       (rule->graphql_names.n == 0 ||
		        body_glob_any(&rule->graphql_names, op->name, op->n_name));
	}
	return (every ? fit == ops->n : fit > 0) ? BODY_FITS : BODY_MISFITS;
}
