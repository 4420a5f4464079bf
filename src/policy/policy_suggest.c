/* policy_suggest.c - writes one rule for one request; policy_learn.c writes rules for many. */
#include "policy/policy_suggest.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_load.h"
#include "policy/policy_suggest_parts.h"

#define PATH_SAID_MAX 1000              /* bytes; events cut longer ones */

void
suggest_put(struct buf *b, const char *fmt, ...)
{
	char text[2 * POLICY_TEXT_MAX];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(text))
		b->failed = true;
	else
		buf_put(b, text, (size_t)n);
}

/* Without quotes if the word cannot be mistaken for something else. */
void
suggest_put_word(struct buf *b, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"0123456789-_./~+$*:";
	size_t len = strlen(word);
	bool quote = strspn(word, plain) != len || len == 0 || strchr("*-:~", *word) != NULL ||
	             word[len - 1] == ':';

	if (quote)
		buf_put(b, "'", 1);
	for (; *word != '\0'; word++)
		buf_put(b, *word == '\'' ? "''" : word, *word == '\'' ? 2 : 1);
	if (quote)
		buf_put(b, "'", 1);
}

int
suggest_take(struct buf *b, char **ret_text, struct err *err)
{
	buf_put(b, "", 1);
	if (buf_failed(b))
		return err_set(err, E2BIG, "the rules are too long");
	*ret_text = (char *)TAKE(b->data);
	b->len = b->cap = 0;
	return 0;
}

/* ---- parts of a request ---- */

static bool
can_say_method(const char *method)
{
	size_t len = method != NULL ? strlen(method) : 1;

	return method == NULL || (len > 0 && len <= 32 && strcmp(method, "CONNECT") != 0 &&
	                          strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == len);
}

static bool
must_escape(char c)
{
	return (unsigned char)c <= ' ' || (unsigned char)c >= 0x7f;
}

/* In a rule, a star matches any text.  The rest of a cut path is unknown. */
static bool
can_say_path(const char *path)
{
	size_t n = 0;

	if (path == NULL || path[0] != '/')
		return true;
	for (const char *c = path; *c != '\0' && *c != '?'; c++) {
		n += must_escape(*c) ? 3 : 1;
		if (*c == '*' || *c == '#' || *c == '\\' || strncasecmp(c, "%2A", 3) == 0 ||
		    strncasecmp(c, "%5C", 3) == 0 || strncmp(c, "%00", 3) == 0 ||
		    n > PATH_SAID_MAX)
			return false;
	}
	return true;
}

const char *
suggest_call(const struct policy_seen *seen, const char **ret_kind)
{
	const char *const names[POLICY_CALL_KINDS] = { seen->tool, seen->prompt, seen->resource };

	for (size_t k = 0; k < POLICY_CALL_KINDS; k++) {
		if (names[k] == NULL || strpbrk(names[k], "*?") != NULL || strlen(names[k]) > POLICY_TEXT_MAX / 2)
			continue;
		if (ret_kind != NULL)
			*ret_kind = policy_call_kinds[k];
		return names[k];
	}
	return NULL;
}

bool
suggest_can_say(const struct policy_seen *seen)
{
	OWN(policy_freep) struct policy *scratch = policy_new_empty();
	struct policy_host host;
	char text[HTTP_HOST_MAX + 16];

	if (seen->host != NULL && policy_is_tools_host(seen->host))
		return suggest_call(seen, NULL) != NULL;
	if (seen->host == NULL || seen->port == 0 || strlen(seen->host) > HTTP_HOST_MAX ||
	    !can_say_method(seen->method))
		return false;
	suggest_host(seen, text);
	return scratch != NULL && strchr(seen->host, '*') == NULL &&
	       (seen->protocol != POLICY_HTTP || can_say_path(seen->path)) &&
	       policy_parse_host(scratch, text, &host, NULL) == 0;
}

/* "api.github.com", "db.x:5432", "[fd00::1]:8443": with the port, unless it is the default. */
void
suggest_host(const struct policy_seen *seen, char ret_text[HTTP_HOST_MAX + 16])
{
	bool usual = seen->protocol == POLICY_HTTP ?
	             seen->port == (seen->plain ? 80 : 443) :
	             seen->protocol == POLICY_TLS && seen->port == 443;
	bool bare = strchr(seen->host, ':') != NULL && seen->host[0] != '[';

	if (usual)
		snprintf(ret_text, HTTP_HOST_MAX + 16, "%s", seen->host);
	else
		snprintf(ret_text, HTTP_HOST_MAX + 16, bare ? "[%s]:%d" : "%s:%d", seen->host,
		         seen->port);
}

bool
suggest_names_port(const struct policy_seen *seen)
{
	return seen->protocol == POLICY_HTTP && seen->port != 0 && seen->port != (seen->plain ? 80 : 443);
}

void
suggest_put_scheme(struct buf *b, const struct policy_seen *seen)
{
	if (suggest_names_port(seen))
		suggest_put(b, "    scheme: %s\n", seen->plain ? "http" : "https");
}

enum suggest_git
suggest_git(const struct policy_seen *seen, char ret_repo[POLICY_TEXT_MAX + 1])
{
	static const struct {
		const char *method, *end;
		enum suggest_git op;
	} ops[] = {
		{ "GET", "/info/refs?service=git-receive-pack", SUGGEST_GIT_PUSH },
		{ "GET", "/info/refs?service=git-upload-pack", SUGGEST_GIT_FETCH },
		{ "GET", "/info/refs", SUGGEST_GIT_MAYBE },
		{ "POST", "/git-upload-pack", SUGGEST_GIT_FETCH },
		{ "POST", "/git-receive-pack", SUGGEST_GIT_PUSH },
	};

	if (seen->protocol != POLICY_HTTP || seen->path == NULL || seen->method == NULL)
		return SUGGEST_GIT_NO;
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		size_t len = strlen(seen->path), n = strlen(ops[i].end);

		if (len <= n + 1 || len - n > POLICY_TEXT_MAX || seen->path[0] != '/' ||
		    strcmp(seen->path + len - n, ops[i].end) != 0 ||
		    strcmp(seen->method, ops[i].method) != 0)
			continue;
		len -= n + 1;
		if (len > 4 && memcmp(seen->path + 1 + len - 4, ".git", 4) == 0)
			len -= 4;
		if (memchr(seen->path + 1, '%', len) != NULL || memchr(seen->path + 1, '*', len) != NULL ||
		    seen->path[1] == '/')
			return SUGGEST_GIT_NO;
		memcpy(ret_repo, seen->path + 1, len);
		ret_repo[len] = '\0';
		return ops[i].op;
	}
	return SUGGEST_GIT_NO;
}

bool
suggest_path(const char *path, char ret_glob[POLICY_TEXT_MAX + 1])
{
	size_t n = 0;

	if (path == NULL || path[0] != '/' || !can_say_path(path))
		return false;
	for (const char *c = path; *c != '\0' && *c != '?'; c++) {
		if (must_escape(*c))
			n += (size_t)snprintf(ret_glob + n, 4, "%%%02X", (unsigned char)*c);
		else
			ret_glob[n++] = *c;
	}
	ret_glob[n] = '\0';
	return true;
}

bool
suggest_other_path(const char *glob, char ret_glob[POLICY_TEXT_MAX + 1])
{
	size_t n = 0;

	for (const char *c = glob; *c != '\0'; c++) {
		bool slash = strncasecmp(c, "%2F", 3) == 0;

		ret_glob[n++] = slash ? '/' : *c;
		c += slash ? 2 : 0;
	}
	ret_glob[n] = '\0';
	return strlen(glob) != n;
}

/* Round N bytes up to a readable limit: 12M. */
static void
put_max(struct buf *b, uint64_t n)
{
	unsigned long long mib = (n >> 20) + 1;

	suggest_put(b, "    body: {max: %lluM}\n", mib);
}

void
suggest_put_extras(struct buf *b, const struct policy_seen *seen)
{
	unsigned char address[16];

	if (seen->private_address && !policy_address(seen->host, address) &&
	    strcmp(seen->host, POLICY_HOST_OF_MACHINE) != 0)
		suggest_put(b, "    private: true\n");
	if (seen->protocol == POLICY_HTTP && seen->sent > POLICY_UPLOAD_MAX)
		put_max(b, seen->sent);
}

void
suggest_put_call(struct buf *b, const struct policy_seen *seen, const char *before, const char *behind)
{
	char word[POLICY_TEXT_MAX];
	const char *kind = "", *name = suggest_call(seen, &kind);

	snprintf(word, sizeof(word), "%s%s", kind, name != NULL ? name : "");
	suggest_put(b, "%s", before);
	suggest_put_word(b, word);
	suggest_put(b, "%s", behind);
}

/* ---- one rule ---- */

static void
put_git(struct buf *b, enum suggest_git op, const char *repo, const struct policy_seen *seen)
{
	suggest_put(b, "    git: {");
	if (op == SUGGEST_GIT_PUSH) {
		suggest_put_push(b, seen);
		suggest_put(b, ", ");
	}
	suggest_put(b, "repos: [");
	suggest_put_word(b, repo);
	suggest_put(b, "]}\n");
	if (op == SUGGEST_GIT_PUSH && seen->refs == NULL)
		suggest_put(b, "    # better only the branches that it may push: refs/heads/agent/*\n");
	if (op == SUGGEST_GIT_MAYBE)
		suggest_put(b, "    # if this was a push, also the branches: push: [refs/heads/agent/*]\n");
}

static void
put_http(struct buf *b, const struct policy_seen *seen)
{
	char text[POLICY_TEXT_MAX + 1], other[POLICY_TEXT_MAX + 1];
	enum suggest_git op = suggest_git(seen, text);

	if (op != SUGGEST_GIT_NO) {
		put_git(b, op, text, seen);
		return;
	}
	if (seen->websocket)
		suggest_put(b, "    upgrade: websocket\n");
	else if (seen->method != NULL)
		suggest_put(b, "    methods: [%.32s]\n", seen->method);
	if (suggest_path(seen->path, text)) {
		suggest_put(b, "    paths: [");
		suggest_put_word(b, text);
		if (suggest_other_path(text, other)) {
			suggest_put(b, ", ");
			suggest_put_word(b, other);
		}
		suggest_put(b, "]\n");
	}
	if (seen->secret)
		suggest_put(b, "    secrets: allow\n");
}

int
suggest_check(const char *text, bool whole, struct err *err)
{
	OWN(policy_freep) struct policy *p = NULL;
	OWN(buf_free) struct buf b = BUF(POLICY_FILE_MAX * 2);
	int r;

	if (!whole)
		suggest_put(&b, "version: 1\negress:\n");
	buf_put_text(&b, text);
	if (buf_failed(&b))
		return err_set(err, E2BIG, "the rules are too long");
	r = policy_load_text("suggested", (const char *)b.data, b.len, &p, NULL, err);
	return r == 0 ? 0 : err_wrap(err, "no rule can be written for this");
}

int
policy_write_rule_for(const struct policy_seen *seen, char **ret_text, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(16 * POLICY_TEXT_MAX);
	OWN(freep) char *text = NULL;
	char host[HTTP_HOST_MAX + 16];
	/* If the event is only a DNS query, nothing else is known. */
	const struct policy_seen name = { .host = seen->host, .port = 443, .method = "GET" };
	bool only_name = seen->protocol == POLICY_HTTP && seen->port == 0 && seen->method == NULL;
	int r;

	if (!suggest_can_say(only_name ? &name : seen))
		return err_set(err, EINVAL, "no rule can be written that allows just '%.32s %.100s'",
		               seen->method != NULL ? seen->method : "",
		               seen->host != NULL ? seen->host : "");
	if (policy_is_tools_host(seen->host)) {
		suggest_put_call(&b, seen, "  - allow: ", "\n");
		r = suggest_take(&b, &text, err);
		r = r == 0 ? suggest_check(text, false, err) : r;
		if (r == 0)
			*ret_text = TAKE(text);
		return r;
	}
	suggest_host(only_name ? &name : seen, host);
	suggest_put(&b, "  - allow: ");
	suggest_put_word(&b, host);
	suggest_put(&b, "\n");
	if (only_name)
		suggest_put(&b, "    # its ports are 80 and 443; for another write %s:PORT, with `protocol: tcp` if "
		            "it is not HTTP\n", host);
	if (!only_name)
		suggest_put_scheme(&b, seen);
	if (seen->protocol == POLICY_HTTP)
		put_http(&b, seen);
	else
		suggest_put(&b, "    protocol: %s\n", seen->protocol == POLICY_TCP ? "tcp" : "tls");
	suggest_put_extras(&b, seen);
	r = suggest_take(&b, &text, err);
	r = r == 0 ? suggest_check(text, false, err) : r;
	if (r == 0)
		*ret_text = TAKE(text);
	return r;
}
