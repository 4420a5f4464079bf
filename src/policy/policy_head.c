/* policy_head.c - decides whether a rule matches the head of a request. */
#include <string.h>

#include "base/codec.h"
#include "base/own.h"
#include "policy/policy_parts.h"
#include "policy/policy_rewrite.h"

/* ---- the request ---- */

static char
lower_case(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool
is_alphanumeric(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

enum decoding { DECODE_PATH, DECODE_PATH_BUT_SLASH, DECODE_QUERY };

/* Decode escapes into OUT, which has room for LEN bytes. */
static size_t
decode(const char *text, size_t len, enum decoding how, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int byte = codec_percent_byte(text + i, len - i);
		bool escape = byte >= 0;
		char c = escape ? (char)byte : text[i];

		if (escape) {
			out[n++] = c == '/' && how == DECODE_PATH_BUT_SLASH ? POLICY_ESCAPED_SLASH : c;
			i += 2;
		} else {
			out[n++] = how == DECODE_QUERY && c == '+' ? ' ' : text[i];
		}
	}
	return n;
}

static bool
text_is(struct http_text text, const char *word)
{
	return text.len == strlen(word) && memcmp(text.at, word, text.len) == 0;
}

static bool
ends_with(const struct policy_facts *facts, const char *end)
{
	size_t n = strlen(end);

	return facts->path_len > n && memcmp(facts->path + facts->path_len - n, end, n) == 0;
}

static void
find_git(struct policy_facts *facts)
{
	static const struct {
		const char *method, *end, *query;
		enum policy_git_op op;
	} ops[] = {
		{ "GET", "/info/refs", "service=git-upload-pack", POLICY_GIT_FETCH },
		{ "GET", "/info/refs", "service=git-receive-pack", POLICY_GIT_PUSH_REFS },
		{ "POST", "/git-upload-pack", "", POLICY_GIT_FETCH },
		{ "POST", "/git-receive-pack", "", POLICY_GIT_PUSH },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (!ends_with(facts, ops[i].end) || !text_is(facts->head->method, ops[i].method))
			continue;
		/* A request that a server may treat as a push is one, whatever its query. */
		if (ops[i].op != POLICY_GIT_PUSH && !text_is(facts->query, ops[i].query))
			continue;
		facts->git = ops[i].op;
		facts->repo = facts->path + 1;
		facts->repo_len = facts->path_len - strlen(ops[i].end);
		facts->repo_len -= facts->repo_len > 0;
		if (facts->repo_len > 4 && memcmp(facts->repo + facts->repo_len - 4, ".git", 4) == 0)
			facts->repo_len -= 4;
		return;
	}
}

static bool
has_escaped_slash(const char *text, size_t len)
{
	for (size_t i = 0; i + 2 < len; i++)
		if (text[i] == '%' && text[i + 1] == '2' && (text[i + 2] | 0x20) == 'f')
			return true;
	return false;
}

bool
policy_wants_decoded(const struct http_head *head)
{
	return head->path.len > 0 && memchr(head->path.at, '%', head->path.len) != NULL;
}

static void
decode_path(struct policy_facts *facts, struct policy_decoded *decoded)
{
	const char *raw = facts->path;
	size_t len = facts->path_len;

	if (len == 0 || len > sizeof(decoded->text[0]) || memchr(raw, '%', len) == NULL)
		return;
	facts->path_len = decode(raw, len, DECODE_PATH, decoded->text[0]);
	facts->path = decoded->text[0];
	if (!has_escaped_slash(raw, len))
		return;
	facts->other_len = decode(raw, len, DECODE_PATH_BUT_SLASH, decoded->text[1]);
	facts->other = decoded->text[1];
}

void
policy_facts_init(struct policy_facts *facts, const struct http_head *head,
                  struct policy_decoded *decoded)
{
	const char *mark;
	size_t len = head->path.len;

	facts->head = head;
	facts->for_tools = false;
	facts->path = head->path.at;
	mark = len > 0 ? memchr(head->path.at, '?', len) : NULL;
	facts->has_query = mark != NULL;
	facts->query = (struct http_text){ "", 0 };
	if (mark != NULL) {
		facts->query.at = mark + 1;
		facts->query.len = len - (size_t)(mark + 1 - head->path.at);
		len = (size_t)(mark - head->path.at);
	}
	facts->path_len = len;
	facts->other = NULL;
	facts->other_len = 0;
	if (decoded != NULL)
		decode_path(facts, decoded);
	policy_find_overrides(facts);
	facts->git = POLICY_GIT_NONE;
	facts->repo = NULL;
	facts->repo_len = 0;
	find_git(facts);
}

/* ---- the matchers, each under the name of its key ---- */

static bool
list_has(const struct policy_list *list, struct http_text text)
{
	for (size_t i = 0; i < list->n; i++)
		if (text_is(text, list->at[i]))
			return true;
	return false;
}

static bool
fits_any(const struct policy_list *globs, const char *text, size_t len, char separator)
{
	for (size_t i = 0; i < globs->n; i++)
		if (policy_glob(globs->at[i], text, len, separator))
			return true;
	return false;
}

static bool
scheme_fits(const struct policy_rule *rule, const struct policy_facts *facts)
{
	unsigned scheme = facts->head->scheme == HTTP_TLS ? POLICY_SCHEME_TLS : POLICY_SCHEME_PLAIN;

	return (rule->schemes & scheme) != 0;
}

static bool
methods_fit(const struct policy_rule *rule, const struct policy_facts *facts)
{
	bool allows = rule->verb == POLICY_VERB_ALLOW, one = list_has(&rule->methods, facts->head->method);

	if (rule->methods.n == 0)
		return true;
	if (!facts->names_method || one != allows)
		return one;
	return policy_overrides_fit(facts, &rule->methods, allows);
}

/* Servers may read one path in two ways.  An `allow` rule must fit both readings; a rule that
 * refuses fits if one does. */
static bool
path_fits(const struct policy_rule *rule, const struct policy_facts *facts)
{
	bool one = fits_any(&rule->paths, facts->path, facts->path_len, '/');

	/* The server's reading of such a path is unknown. */
	if (facts->names_path)
		return rule->verb != POLICY_VERB_ALLOW;
	if (facts->other == NULL || one == (rule->verb != POLICY_VERB_ALLOW))
		return one;
	return fits_any(&rule->paths, facts->other, facts->other_len, '/');
}

static bool
paths_fit(const struct policy_rule *rule, const struct policy_facts *facts)
{
	return rule->paths.n == 0 || rule->grpc || path_fits(rule, facts);
}

/* Counts values of one name.  For a rule that allows, all of them must fit. */
struct tally { size_t found, fit; };

static bool
tally_fits(const struct policy_rule *rule, const struct policy_field *field,
           const struct tally *tally)
{
	if (field->absent)
		return tally->found == 0;
	if (rule->verb == POLICY_VERB_ALLOW)
		return tally->found > 0 && tally->fit == tally->found;
	return tally->fit > 0;
}

/* CGI-style servers keep letters and digits and turn all else into "_".  To them x_debug and
 * x.debug are X-Debug. */
bool
policy_header_is_like(struct http_text name, const char *want)
{
	size_t len = strlen(want);

	if (name.len != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (name.at[i] != want[i] && (is_alphanumeric(name.at[i]) || is_alphanumeric(want[i])))
			return false;
	return true;
}

bool
policy_mentions_header(const struct policy *p, struct http_text name)
{
	for (size_t i = 0; i < policy_n_rules(p); i++) {
		const struct policy_rule *rule = policy_rule_at(p, i);

		for (size_t k = 0; k < rule->n_headers; k++)
			if (policy_header_is_like(name, rule->headers[k].name))
				return true;
		if (rule->n_cookies > 0 && policy_header_is_like(name, "cookie"))
			return true;
		for (size_t k = 0; rule->rewrite != NULL && k < rule->rewrite->n; k++)
			if (policy_edit_part(&rule->rewrite->edits[k]) == POLICY_PART_HEADER &&
			    policy_header_is_like(name, rule->rewrite->edits[k].name))
				return true;
	}
	return false;
}

/* A name that only resembles the rule's is the same name to some servers and not to others.  It
 * never fits a rule that allows, and may fit one that refuses. */
static void
count_value(const struct policy_rule *rule, const struct policy_field *field, bool exact,
            bool fits, struct tally *tally)
{
	if (!exact && rule->verb != POLICY_VERB_ALLOW && field->absent)
		return;
	tally->found++;
	tally->fit += fits && (exact || rule->verb != POLICY_VERB_ALLOW);
}

static bool
header_fits(const struct policy_rule *rule, const struct policy_field *field,
            const struct http_head *head)
{
	struct tally tally = {0};

	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_text value = head->fields[i].value;

		if (policy_header_is_like(head->fields[i].name, field->name))
			count_value(rule, field, text_is(head->fields[i].name, field->name),
			            fits_any(&field->globs, value.at, value.len, '\0'), &tally);
	}
	return tally_fits(rule, field, &tally);
}

/* Separate from its caller, which seldom needs so much stack. */
__attribute__((noinline)) static bool
decoded_fits(const struct policy_list *globs, const char *text, size_t len)
{
	char decoded[HTTP_HEAD_MAX];

	return len <= sizeof(decoded) &&
	       fits_any(globs, decoded, decode(text, len, DECODE_QUERY, decoded), '\0');
}

static bool
value_fits(const struct policy_list *globs, const char *text, size_t len)
{
	if (memchr(text, '%', len) == NULL && memchr(text, '+', len) == NULL)
		return fits_any(globs, text, len, '\0');
	return decoded_fits(globs, text, len);
}

/* Names are short: a longer one cannot match. */
static bool
name_is(const char *text, size_t len, const char *name)
{
	char decoded[3 * POLICY_TEXT_MAX];

	if (len > sizeof(decoded))
		return false;
	len = decode(text, len, DECODE_QUERY, decoded);
	return len == strlen(name) && memcmp(decoded, name, len) == 0;
}

/* The next character of a name as the most lenient servers read it, '\0' at its end: lower case,
 * cut at "[" or a zero byte, with "." and blanks as "_". */
static char
lenient(const char *text, size_t len, size_t i)
{
	char c = i < len ? lower_case(text[i]) : '\0';

	return c == '[' ? '\0' : c == '.' || c == ' ' ? '_' : c;
}

bool
policy_param_is_like(const char *text, size_t len, const char *name)
{
	char decoded[3 * POLICY_TEXT_MAX];
	const char *at = decoded;
	size_t n = strlen(name), i = 0;

	len = decode(text, len < sizeof(decoded) ? len : sizeof(decoded), DECODE_QUERY, decoded);
	for (; len > 0 && (*at == ' ' || *at == '\t'); at++)
		len--;
	while (lenient(at, len, i) != '\0' && lenient(at, len, i) == lenient(name, n, i))
		i++;
	return lenient(at, len, i) == lenient(name, n, i);
}

static void
count_param(const struct policy_rule *rule, const struct policy_field *field, const char *at,
            const char *stop, struct tally *tally)
{
	const char *equals = memchr(at, '=', (size_t)(stop - at));
	const char *end = equals != NULL ? equals : stop, *value = equals != NULL ? equals + 1 : stop;
	bool exact = name_is(at, (size_t)(end - at), field->name);

	if (exact || policy_param_is_like(at, (size_t)(end - at), field->name))
		count_value(rule, field, exact,
		            value_fits(&field->globs, value, (size_t)(stop - value)), tally);
}

/* Some servers also separate parameters at ";". */
static void
count_parts(const struct policy_rule *rule, const struct policy_field *field, const char *at,
            const char *stop, struct tally *tally)
{
	const char *end;

	if (field->absent || memchr(at, ';', (size_t)(stop - at)) == NULL)
		return;
	for (; at <= stop; at = end + 1) {
		end = memchr(at, ';', (size_t)(stop - at));
		end = end != NULL ? end : stop;
		count_param(rule, field, at, end, tally);
	}
}

static bool
param_fits(const struct policy_rule *rule, const struct policy_field *field,
           const struct http_text *query)
{
	const char *at = query->at, *end = query->at + query->len;
	struct tally tally = {0};

	if (rule->verb == POLICY_VERB_ALLOW && memchr(at, ';', query->len) != NULL)
		return false;
	while (at < end) {
		const char *stop = memchr(at, '&', (size_t)(end - at));

		stop = stop != NULL ? stop : end;
		count_param(rule, field, at, stop, &tally);
		count_parts(rule, field, at, stop, &tally);
		at = stop + 1;
	}
	return tally_fits(rule, field, &tally);
}

static bool
whole_query_fits(const struct policy_rule *rule, const struct http_text *query)
{
	bool parted = query->len > 0 && memchr(query->at, ';', query->len) != NULL;

	for (size_t i = 0; i < rule->query.n; i++)
		if ((!parted || rule->verb != POLICY_VERB_ALLOW || strchr(rule->query.at[i], ';') != NULL) &&
		    policy_glob(rule->query.at[i], query->at, query->len, '&'))
			return true;
	return false;
}

static bool
query_fits(const struct policy_rule *rule, const struct policy_facts *facts)
{
	if (rule->has_query && !whole_query_fits(rule, &facts->query))
		return false;
	for (size_t i = 0; i < rule->n_params; i++)
		if (!param_fits(rule, &rule->params[i], &facts->query))
			return false;
	return true;
}

/* Without its parameters, in lower case: "application/json". */
static size_t
media_type(struct http_text value, char ret_type[POLICY_TEXT_MAX])
{
	const char *stop = value.len > 0 ? memchr(value.at, ';', value.len) : NULL;
	size_t n = stop != NULL ? (size_t)(stop - value.at) : value.len;

	if (n > POLICY_TEXT_MAX)
		n = POLICY_TEXT_MAX;
	while (n > 0 && (value.at[n - 1] == ' ' || value.at[n - 1] == '\t'))
		n--;
	for (size_t i = 0; i < n; i++)
		ret_type[i] = lower_case(value.at[i]);
	return n;
}

static bool
media_type_fits(const struct policy_rule *rule, const struct policy_list *globs,
                const struct http_head *head)
{
	static const struct policy_field field = { .name = "content-type" };
	char type[POLICY_TEXT_MAX];
	struct tally tally = {0};

	for (size_t i = 0; i < head->n_fields; i++) {
		if (!text_is(head->fields[i].name, field.name))
			continue;
		tally.found++;
		tally.fit += fits_any(globs, type, media_type(head->fields[i].value, type), '\0');
	}
	return tally_fits(rule, &field, &tally);
}

static bool
content_type_fits(const struct policy_rule *rule, const struct policy_facts *facts)
{
	return rule->content_types.n == 0 || media_type_fits(rule, &rule->content_types, facts->head);
}

static bool
grpc_fits(const struct policy_rule *rule, const struct policy_facts *facts)
{
	static const char *const types[] = { "application/grpc", "application/grpc+*" };
	static const struct policy_list list = { types, 2 };

	return !rule->grpc || (path_fits(rule, facts) && text_is(facts->head->method, "POST") &&
	                       media_type_fits(rule, &list, facts->head));
}

/* To many servers Acme/Site and acme/site are the same.  Rules that refuse therefore match in any
 * letter case; their globs are in lower case. */
static bool
repo_fits(const struct policy_rule *rule, const struct policy_facts *facts)
{
	char lower[POLICY_TEXT_MAX];

	if (rule->verb == POLICY_VERB_ALLOW || facts->repo_len > sizeof(lower))
		return fits_any(&rule->git.repos, facts->repo, facts->repo_len, '/');
	for (size_t i = 0; i < facts->repo_len; i++)
		lower[i] = lower_case(facts->repo[i]);
	return fits_any(&rule->git.repos, lower, facts->repo_len, '/');
}

static bool
git_fits(const struct policy_rule *rule, const struct policy_facts *facts)
{
	const struct policy_git *git = &rule->git;

	if (!git->present)
		return true;
	if (facts->git == POLICY_GIT_NONE ||
	    (facts->other != NULL && rule->verb == POLICY_VERB_ALLOW) ||
	    (git->repos.n > 0 && !repo_fits(rule, facts)))
		return false;
	if (facts->git == POLICY_GIT_FETCH)
		return git->fetch;
	/* A request for the refs comes before the push, whose refs are still unknown.  A rule that
	 * denies pushing some refs must not deny the others. */
	if (facts->git == POLICY_GIT_PUSH_REFS)
		return git->push.n > 0 && (rule->verb == POLICY_VERB_ALLOW ||
		                           rule->verb == POLICY_VERB_ASK);
	return git->push.n > 0;
}

static bool
upgrade_fits(const struct policy_rule *rule, const struct policy_facts *facts)
{
	if (facts->head->upgrade.len == 0)
		return rule->upgrade != POLICY_UPGRADE_ONLY;
	return rule->verb != POLICY_VERB_ALLOW || rule->upgrade != POLICY_UPGRADE_NO;
}

static bool
headers_fit(const struct policy_rule *rule, const struct policy_facts *facts)
{
	for (size_t i = 0; i < rule->n_headers; i++)
		if (!header_fits(rule, &rule->headers[i], facts->head))
			return false;
	return true;
}

/* A cookie is "name=value".  To some servers the value may be in quotes, and a comma or a quote
 * splits or joins cookies. */
static void
count_cookie(const struct policy_rule *rule, const struct policy_field *field, const char *at,
             const char *stop, struct tally *tally)
{
	const char *equals = memchr(at, '=', (size_t)(stop - at)), *value;
	struct http_text name;

	name = http_trim((struct http_text){ at, (size_t)((equals != NULL ? equals : stop) - at) });
	value = equals != NULL ? equals + 1 : stop;
	if (text_is(name, field->name) || policy_param_is_like(name.at, name.len, field->name)) {
		struct http_text text = http_trim((struct http_text){ value, (size_t)(stop - value) });

		count_value(rule, field, text_is(name, field->name),
		            fits_any(&field->globs, text.at, text.len, '\0'), tally);
	}
}

static void
count_cookies(const struct policy_rule *rule, const struct policy_field *field,
              struct http_text cookies, const char *separators, struct tally *tally)
{
	const char *at = cookies.at, *end = cookies.at + cookies.len, *stop;

	for (; at < end; at = stop + 1) {
		for (stop = at; stop < end && strchr(separators, *stop) == NULL; stop++)
			;
		count_cookie(rule, field, at, stop, tally);
	}
}

static bool
cookie_fits(const struct policy_rule *rule, const struct policy_field *field,
            const struct http_head *head)
{
	bool allows = rule->verb == POLICY_VERB_ALLOW;
	struct tally tally = {0};

	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_text value = head->fields[i].value;
		bool odd = value.len > 0 && (memchr(value.at, ',', value.len) != NULL ||
		                             memchr(value.at, '"', value.len) != NULL);

		if (!policy_header_is_like(head->fields[i].name, "cookie"))
			continue;
		if (odd && allows)
			return false;
		count_cookies(rule, field, value, ";", &tally);
		if (odd && !field->absent)
			count_cookies(rule, field, value, ";,\"", &tally);
	}
	return tally_fits(rule, field, &tally);
}

static bool
cookies_fit(const struct policy_rule *rule, const struct policy_facts *facts)
{
	for (size_t i = 0; i < rule->n_cookies; i++)
		if (!cookie_fits(rule, &rule->cookies[i], facts->head))
			return false;
	return true;
}

/* `allow: '*'` is for every host, and for no tool. */
static bool
call_fits(const struct policy_rule *rule, const struct policy_facts *facts)
{
	return !facts->for_tools || rule->call.present || rule->verb != POLICY_VERB_ALLOW;
}

static bool
any_fits(const struct policy_rule *rule, const struct policy_facts *facts)
{
	(void)rule, (void)facts;
	return true;
}

const char *
policy_head_differs(const struct policy_rule *rule, const struct policy_facts *facts)
{
	/* Calls that the compiler can see: this runs for every rule about a host. */
#define CONDITION(id, name, flags, read, fits, ...) \
	if (!fits(rule, facts)) \
		return name;
#define SETTING(...)
#include "policy/policy_table.h"
	return NULL;
}
