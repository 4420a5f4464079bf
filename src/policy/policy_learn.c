/* policy_learn.c - writes a policy for recorded requests: sorts, groups and generalises them. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_parts.h"
#include "policy/policy_suggest_parts.h"

#define SIBLINGS_MAX 8          /* names in one place, before they become "*" */
#define PATHS_MAX 24            /* in one rule, before they are shortened */
#define SEGMENTS_MAX 16         /* of one path */
#define METHODS_MAX 32          /* of one host */
#define CALLS_MAX 512           /* of tools; more are left out */

struct wish {
	const struct policy_seen *seen;
	char host[64];                  /* as a rule writes it; longer ones are looked up */
	enum suggest_git git;
	char *path;                     /* a glob, or the repository; "" for any */
};

/* ---- sorting ---- */

/* As strcmp, but paths below "/a" come before "/a-b". */
static int
compare_paths(const char *a, const char *b)
{
	while (*a != '\0' && *a == *b) {
		a++;
		b++;
	}
	return (*a == '/' ? 1 : (unsigned char)*a + (*a != '\0')) -
	       (*b == '/' ? 1 : (unsigned char)*b + (*b != '\0'));
}

static const char *
method_of(const struct wish *w)
{
	return w->seen->websocket ? "" : w->seen->method != NULL ? w->seen->method : "GET";
}

static int
compare_hosts(const struct wish *a, const struct wish *b)
{
	char one[HTTP_HOST_MAX + 16], two[HTTP_HOST_MAX + 16];
	int r = (a->seen->protocol > b->seen->protocol) - (a->seen->protocol < b->seen->protocol);

	if (r != 0)
		return r;
	r = strcmp(a->host, b->host);
	if (r == 0 && strlen(a->host) == sizeof(a->host) - 1) {
		suggest_host(a->seen, one);
		suggest_host(b->seen, two);
		r = strcmp(one, two);
	}
	/* A rule that names a port names the scheme too. */
	return r != 0 || !suggest_names_port(a->seen) ? r : a->seen->plain - b->seen->plain;
}

static int
compare_wishes(const void *x, const void *y)
{
	const struct wish *a = x, *b = y;
	int r = compare_hosts(a, b);

	if (r == 0)
		r = (a->git != SUGGEST_GIT_NO ? 0 : 1) - (b->git != SUGGEST_GIT_NO ? 0 : 1);
	if (r == 0 && a->git == SUGGEST_GIT_NO)
		r = strcmp(method_of(a), method_of(b));
	return r != 0 ? r : compare_paths(a->path, b->path);
}

/* ---- generalising ---- */

static bool
looks_like_id(const char *segment, size_t len)
{
	size_t digits = 0, hexes = 0, others = 0;

	for (size_t i = 0; i < len; i++) {
		digits += isdigit((unsigned char)segment[i]) != 0;
		hexes += isxdigit((unsigned char)segment[i]) != 0 || segment[i] == '-';
		others += !isalnum((unsigned char)segment[i]) && segment[i] != '-' && segment[i] != '_';
	}
	return digits == len || (hexes == len && len >= 8 && digits > 0) ||
	       (len >= 20 && digits >= 3 && others == 0);
}

/* The start of segment LEVEL of PATH, or NULL if there is none. */
static char *
segment_at(char *path, size_t level)
{
	char *at = *path == '/' ? path + 1 : NULL;

	for (; at != NULL && level > 0; level--) {
		at = strchr(at, '/');
		at = at != NULL ? at + 1 : NULL;
	}
	return at != NULL && *at != '\0' && *at != '/' ? at : NULL;
}

static int
compare_path_ptrs(const void *a, const void *b)
{
	return compare_paths(*(char *const *)a, *(char *const *)b);
}

static size_t
sort_unique(char **paths, size_t n)
{
	size_t kept = 0;

	qsort(paths, n, sizeof(*paths), compare_path_ptrs);
	for (size_t i = 0; i < n; i++) {
		if (kept == 0 || strcmp(paths[kept - 1], paths[i]) != 0)
			paths[kept++] = paths[i];
		else
			free(paths[i]);
	}
	return kept;
}

static void
make_star(char *segment)
{
	size_t len = strcspn(segment, "/");

	if (len == 2 && memcmp(segment, "**", 2) == 0)
		return;
	segment[0] = '*';
	memmove(segment + 1, segment + len, strlen(segment + len) + 1);
}

/* Paths FROM to TO are equal up to segment LEVEL. */
static void
star_run(char **paths, size_t from, size_t to, size_t level)
{
	const char *last = NULL;
	size_t names = 0, last_len = 0;

	for (size_t i = from; i < to; i++) {
		const char *at = segment_at(paths[i], level);
		size_t len = at != NULL ? strcspn(at, "/") : 0;

		if (at != NULL && (last == NULL || len != last_len || memcmp(at, last, len) != 0))
			names++;
		last = at != NULL ? at : last;
		last_len = at != NULL ? len : last_len;
	}
	for (size_t i = from; i < to; i++) {
		char *at = segment_at(paths[i], level);

		if (at != NULL && (names > SIBLINGS_MAX || looks_like_id(at, strcspn(at, "/"))))
			make_star(at);
	}
}

static bool
alike_before(char *a, char *b, size_t level)
{
	char *end = segment_at(a, level);
	size_t n = end != NULL ? (size_t)(end - a) : 0;

	return end != NULL && strncmp(a, b, n) == 0;
}

static size_t
generalise(char **paths, size_t n)
{
	for (size_t level = 0; level < SEGMENTS_MAX; level++) {
		for (size_t from = 0, to; from < n; from = to) {
			for (to = from + 1; to < n && alike_before(paths[from], paths[to], level); to++)
				;
			star_run(paths, from, to, level);
		}
		n = sort_unique(paths, n);
	}
	return n;
}

/* Remove paths that another one covers. */
static size_t
drop_covered(char **paths, size_t n)
{
	size_t kept = 0, k;

	for (size_t i = 0; i < n; i++) {
		for (k = 0; k < n; k++)
			if (k != i && paths[k] != NULL && policy_glob_is_plain(paths[i]) &&
			    policy_glob_path(paths[k], paths[i], strlen(paths[i])))
				break;
		if (k < n)
			free(TAKE(paths[i]));
	}
	for (size_t i = 0; i < n; i++)
		if (paths[i] != NULL)
			paths[kept++] = paths[i];
	return kept;
}

/* Keep only the first KEEP segments of each path, and allow everything below them. */
static size_t
shorten(char **paths, size_t n, size_t keep)
{
	for (size_t i = 0; i < n; i++) {
		char *at = segment_at(paths[i], keep);

		if (at != NULL)
			memcpy(at, "**", sizeof("**"));
	}
	return sort_unique(paths, n);
}

/* ---- one host ---- */

struct method {
	const char *name;               /* "" for a WebSocket */
	char **paths;                   /* none: any */
	size_t n_paths, requests;
	uint64_t sent_max;
	bool secret, done;
};

static int
learn_method(const struct wish *wishes, size_t n, struct method *m)
{
	char other[POLICY_TEXT_MAX + 1];
	bool any = false;

	m->name = method_of(&wishes[0]);
	m->requests = n;
	m->paths = calloc(2 * n, sizeof(*m->paths));
	if (m->paths == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct policy_seen *seen = wishes[i].seen;
		/* Room for a cut: "/" and two stars. */
		char *path = calloc(1, strlen(wishes[i].path) + 4);

		if (path == NULL)
			return -ENOMEM;
		memcpy(path, wishes[i].path, strlen(wishes[i].path));
		m->paths[m->n_paths++] = path;
		/* If servers may read the path in two ways, both readings have to be allowed. */
		if (suggest_other_path(path, other)) {
			path = calloc(1, strlen(other) + 4);
			if (path == NULL)
				return -ENOMEM;
			memcpy(path, other, strlen(other));
			m->paths[m->n_paths++] = path;
		}
		any |= *path == '\0';
		m->secret |= seen->secret;
		m->sent_max = seen->sent > m->sent_max ? seen->sent : m->sent_max;
	}
	m->n_paths = generalise(m->paths, sort_unique(m->paths, m->n_paths));
	for (size_t keep = SEGMENTS_MAX; keep > 0 && m->n_paths > PATHS_MAX; keep--)
		m->n_paths = shorten(m->paths, m->n_paths, keep);
	if (m->n_paths <= PATHS_MAX)
		m->n_paths = drop_covered(m->paths, m->n_paths);
	if (any || m->n_paths > PATHS_MAX)
		while (m->n_paths > 0)
			free(m->paths[--m->n_paths]);
	return 0;
}

static bool
same_paths(const struct method *a, const struct method *b)
{
	if (a->n_paths != b->n_paths || (*a->name == '\0') != (*b->name == '\0'))
		return false;
	for (size_t i = 0; i < a->n_paths; i++)
		if (strcmp(a->paths[i], b->paths[i]) != 0)
			return false;
	return true;
}

static void
put_list(struct buf *b, const char *key, char *const *words, size_t n)
{
	suggest_put(b, "%s", key);
	for (size_t i = 0; i < n; i++) {
		/* One line each, when there are several. */
		suggest_put(b, "%s", n > 3 ? "\n      " : i > 0 ? " " : "");
		suggest_put_word(b, words[i]);
		suggest_put(b, "%s", i + 1 < n ? "," : "");
	}
	suggest_put(b, "]");
}

static void
put_allow(struct buf *b, const struct policy_seen *seen, size_t requests)
{
	char host[HTTP_HOST_MAX + 16];

	suggest_host(seen, host);
	suggest_put(b, "  # %zu request%s\n  - allow: ", requests, requests == 1 ? "" : "s");
	suggest_put_word(b, host);
	suggest_put(b, "\n");
	suggest_put_scheme(b, seen);
}

/* One rule for the method at I and all others with the same paths. */
static void
put_methods(struct buf *b, struct method *methods, size_t i, size_t n, struct policy_seen *seen)
{
	const struct method *m = &methods[i];
	size_t requests = 0, named = 0;
	bool secret = false;

	seen->sent = 0;
	for (size_t k = i; k < n; k++) {
		if (methods[k].done || !same_paths(m, &methods[k]))
			continue;
		requests += methods[k].requests;
		secret |= methods[k].secret;
		seen->sent = methods[k].sent_max > seen->sent ? methods[k].sent_max : seen->sent;
	}
	put_allow(b, seen, requests);
	suggest_put(b, *m->name == '\0' ? "    upgrade: websocket\n" : "    methods: [");
	for (size_t k = i; k < n; k++) {
		if (methods[k].done || !same_paths(m, &methods[k]))
			continue;
		if (*m->name != '\0')
			suggest_put(b, "%s%.32s", named++ > 0 ? ", " : "", methods[k].name);
		methods[k].done = true;
	}
	if (*m->name != '\0')
		suggest_put(b, "]\n");
	if (m->n_paths > 0) {
		put_list(b, "    paths: [", m->paths, m->n_paths);
		suggest_put(b, "\n");
	}
	if (*m->name != '\0')
		suggest_put_extras(b, seen);
	if (secret)
		suggest_put(b, "    # a body looked like a credential, and was refused: `secrets: allow` would let it out\n");
}

static int
put_http(struct buf *b, const struct wish *wishes, size_t n, struct policy_seen *seen)
{
	struct method methods[METHODS_MAX] = {0};
	size_t n_methods = 0, to;
	int r = 0;

	for (size_t from = 0; r == 0 && from < n; from = to) {
		for (to = from + 1; to < n && strcmp(method_of(&wishes[from]),
		                                     method_of(&wishes[to])) == 0; to++)
			;
		if (n_methods < METHODS_MAX)
			r = learn_method(wishes + from, to - from, &methods[n_methods++]);
	}
	for (size_t i = 0; r == 0 && i < n_methods; i++)
		if (!methods[i].done)
			put_methods(b, methods, i, n_methods, seen);
	for (size_t i = 0; i < n_methods; i++) {
		while (methods[i].n_paths > 0)
			free(methods[i].paths[--methods[i].n_paths]);
		free(methods[i].paths);
	}
	return r;
}

/* WISHES are sorted by repository. */
static void
put_git(struct buf *b, const struct wish *wishes, size_t n, bool push,
        const struct policy_seen *seen)
{
	size_t to, repos = 0;

	for (size_t from = 0; from < n; from = to) {
		bool pushed = false;

		for (to = from; to < n && strcmp(wishes[from].path, wishes[to].path) == 0; to++)
			pushed |= wishes[to].git == SUGGEST_GIT_PUSH;
		if (pushed != push || repos == POLICY_LIST_MAX)
			continue;
		if (repos++ == 0) {
			put_allow(b, seen, n);
			suggest_put(b, push ? "    # better only the branches that it may push: "
			            "refs/heads/agent/*\n    git: {push: ['refs/heads/**'], repos: [" :
			            "    git: {repos: [");
		}
		suggest_put(b, "%s", repos > 1 ? ", " : "");
		suggest_put_word(b, wishes[from].path);
	}
	if (repos > 0)
		suggest_put(b, "]}\n");
	if (repos > 0)
		suggest_put_extras(b, seen);
}

/* Only one protocol is spoken on a host and port. */
static bool
speaks_http(const struct wish *wishes, size_t n, const struct policy_seen *seen)
{
	for (size_t i = 0; i < n && wishes[i].seen->protocol == POLICY_HTTP; i++)
		if (wishes[i].seen->port == seen->port && strcmp(wishes[i].seen->host, seen->host) == 0)
			return true;
	return false;
}

static int
put_host(struct buf *b, const struct wish *wishes, size_t n, const struct wish *all,
         size_t n_all)
{
	struct policy_seen seen = *wishes[0].seen;
	size_t git = 0;

	seen.sent = 0;
	for (size_t i = 0; i < n; i++) {
		git += wishes[i].git != SUGGEST_GIT_NO;
		seen.private_address |= wishes[i].seen->private_address;
		seen.sent = wishes[i].seen->sent > seen.sent ? wishes[i].seen->sent : seen.sent;
	}
	if (seen.protocol != POLICY_HTTP) {
		if (speaks_http(all, n_all, &seen)) {
			suggest_put(b, "  # %zu raw connections to %.255s:%d left out: HTTP goes there\n", n,
			            seen.host, seen.port);
			return 0;
		}
		put_allow(b, &seen, n);
		suggest_put(b, "    protocol: %s\n", seen.protocol == POLICY_TCP ? "tcp" : "tls");
		suggest_put_extras(b, &seen);
		return 0;
	}
	put_git(b, wishes, git, true, &seen);
	put_git(b, wishes, git, false, &seen);
	return put_http(b, wishes + git, n - git, &seen);
}

/* ---- the whole policy ---- */

static int
make_wish(const struct policy_seen *seen, struct wish *w)
{
	char text[POLICY_TEXT_MAX + 1] = "", host[HTTP_HOST_MAX + 16];

	w->seen = seen;
	suggest_host(seen, host);
	snprintf(w->host, sizeof(w->host), "%.63s", host);
	w->git = suggest_git(seen, text);
	if (w->git == SUGGEST_GIT_NO && (seen->protocol != POLICY_HTTP ||
	                                 !suggest_path(seen->path, text)))
		text[0] = '\0';
	w->path = strdup(text);
	return w->path != NULL ? 0 : -ENOMEM;
}

static void
put_title(struct buf *b, const char *title, size_t n)
{
	suggest_put(b, "# ");
	for (; *title != '\0'; title++)
		buf_put(b, (unsigned char)*title < ' ' || *title == 0x7f ? " " : title, 1);
	suggest_put(b, "\n# %zu request%s.  Read it before you use it: it allows what was seen, which is "
	            "not always\n# what is right.  `*` in a path stands where there were numbers, "
	            "hashes or many names.\nversion: 1\negress:\n", n, n == 1 ? "" : "s");
}

/* Calls of the same name are one, in the order in which they came. */
static bool
is_first_call(const struct policy_seen *seen, size_t i)
{
	const char *kind, *name = suggest_call(&seen[i], &kind), *other_kind, *other;

	for (size_t k = 0; k < i; k++) {
		other = policy_is_tools_host(seen[k].host) ? suggest_call(&seen[k], &other_kind) : NULL;
		if (other != NULL && strcmp(kind, other_kind) == 0 && strcmp(name, other) == 0)
			return false;
	}
	return true;
}

/* Calls of tools: one rule for each, which a person can narrow.  Returns how many there are. */
static size_t
put_calls(struct buf *b, const struct policy_seen *seen, size_t n)
{
	size_t calls = 0;

	for (size_t i = 0; i < n; i++) {
		if (seen[i].host == NULL || !policy_is_tools_host(seen[i].host))
			continue;
		if (suggest_call(&seen[i], NULL) == NULL || !is_first_call(seen, i) || calls == CALLS_MAX)
			continue;
		suggest_put_call(b, &seen[i], "  - allow: ", "\n");
		calls++;
	}
	return calls;
}

static int
put_all(struct buf *b, const struct wish *wishes, size_t n)
{
	size_t to;
	int r = 0;

	for (size_t from = 0; r == 0 && from < n; from = to) {
		for (to = from + 1; to < n && compare_hosts(&wishes[from], &wishes[to]) == 0; to++)
			;
		r = put_host(b, wishes + from, to - from, wishes, n);
	}
	return r;
}

int
policy_write_for(const struct policy_seen *seen, size_t n, const char *title, char **ret_text,
                 struct err *err)
{
	OWN(buf_free) struct buf b = BUF(POLICY_FILE_MAX);
	OWN(freep) struct wish *wishes = NULL;
	OWN(freep) char *text = NULL;
	size_t n_wishes = 0, n_tools = 0;
	int r = 0;

	if (n > POLICY_SEEN_MAX)
		return err_set(err, E2BIG, "these are more than %d requests", POLICY_SEEN_MAX);
	wishes = calloc(n + 1, sizeof(*wishes));
	if (wishes == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (seen[i].host != NULL && policy_is_tools_host(seen[i].host))
			n_tools++;
		else if (suggest_can_say(&seen[i]))
			r = make_wish(&seen[i], &wishes[n_wishes++]);
	}
	if (r == 0) {
		qsort(wishes, n_wishes, sizeof(*wishes), compare_wishes);
		put_title(&b, title, n);
		if (n_wishes + n_tools < n)
			suggest_put(&b, "  # %zu request%s left out: no rule can be written that allows just "
			            "them.\n", n - n_wishes - n_tools, n - n_wishes - n_tools == 1 ? " is" : "s are");
		if (put_calls(&b, seen, n_tools > 0 ? n : 0) + n_wishes == 0)
			suggest_put(&b, "  []  # nothing was asked for\n");
		r = put_all(&b, wishes, n_wishes);
	}
	for (size_t i = 0; i < n_wishes; i++)
		free(wishes[i].path);
	if (r < 0)
		return err_set(err, -r, "out of memory");
	r = suggest_take(&b, &text, err);
	r = r == 0 ? suggest_check(text, true, err) : r;
	if (r == 0)
		*ret_text = TAKE(text);
	return r;
}
