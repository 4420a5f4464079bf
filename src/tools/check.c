/* check.c - findings, and those that a listing shows. */
#include "tools/check.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "policy/policy_yaml.h"
#include "tools/scope.h"

const char *const check_levels[] = { "note", "warning", "error" };

const struct check_row check_rules[CHECK_RULES] = {
	[CHECK_NO_SERVER] = { "server-not-locked", CHECK_ERROR, "A server of the policy is not in the lock." },
	[CHECK_NO_ANSWER] = { "server-failed", CHECK_ERROR, "A server did not start, or did not list its tools." },
	[CHECK_UNLOCKED] = { "tool-not-locked", CHECK_ERROR, "A server has a tool that is not in the lock." },
	[CHECK_GONE] = { "tool-gone", CHECK_ERROR, "A tool of the lock does not exist any more." },
	[CHECK_CHANGED] = { "definition-changed", CHECK_ERROR, "The definition of a tool changed since it was locked." },
	[CHECK_NO_ANNOTATION] = { "no-annotation", CHECK_ERROR, "Neither the server nor the lock states what a tool does." },
	[CHECK_NO_SCOPE] = { "no-scope", CHECK_ERROR, "The lock does not state what a tool may reach." },
	[CHECK_BAD_SCOPE] = { "scope-invalid", CHECK_ERROR, "The scope of a tool cannot be read." },
	[CHECK_HIDDEN] = { "hidden-text", CHECK_ERROR, "A definition has text that people do not see, and that models read." },
	[CHECK_SHADOWED] = { "shadowed-name", CHECK_ERROR, "Two servers have tools whose names are the same or look alike." },
	[CHECK_NAMES_OTHER] = { "names-other-tool", CHECK_WARNING, "The definition of a tool names a tool of another server." },
	[CHECK_WRITING_SCOPE] = { "read-only-may-write", CHECK_ERROR, "A tool that is read-only has a scope that lets it write." },
	[CHECK_PROGRAM] = { "program-changed", CHECK_NOTE, "The package of a server is another than the locked one." },
	[CHECK_FILE] = { "file-changed", CHECK_ERROR, "The program of a server, or a file that its command names, is not the locked one." },
	[CHECK_WROTE] = { "read-only-wrote", CHECK_ERROR, "A tool that is read-only changed something during a call." },
	[CHECK_LEFT_HOSTS] = { "left-its-hosts", CHECK_ERROR, "A tool without open_world went to a host that its scope does not have." },
	[CHECK_LEFT_SCOPE] = { "outside-scope", CHECK_ERROR, "A call did something that the tool's scope does not allow." },
	[CHECK_UNSEEN] = { "not-observed", CHECK_ERROR, "A call could not be observed completely." },
	[CHECK_FAILED_CALL] = { "call-failed", CHECK_WARNING, "A call with example arguments got an error." },
};

/* ---- the list ---- */

void
check_free(struct check_findings *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->list[i].text);
	free(f->list);
	*f = (struct check_findings){0};
}

static bool
is_there(const struct check_findings *f, enum check_rule rule, const char *server, const char *tool, const char *text)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->list[i].rule == rule && strcmp(f->list[i].server, server) == 0 &&
		    strcmp(f->list[i].tool, tool) == 0 && strcmp(f->list[i].text, text) == 0)
			return true;
	return false;
}

static bool
has_room(struct check_findings *f)
{
	size_t cap = f->cap == 0 ? 32 : 2 * f->cap;
	struct check_finding *more;

	if (f->n < f->cap)
		return true;
	more = f->n < CHECK_FINDINGS_MAX ? realloc(f->list, cap * sizeof(*more)) : NULL;
	if (more == NULL)
		return false;
	f->list = more;
	f->cap = cap;
	return true;
}

void
check_add(struct check_findings *f, enum check_rule rule, const char *server, const char *tool, const char *fmt, ...)
{
	char text[CHECK_TEXT_MAX];
	OWN(buf_free) struct buf clean = BUF(4 * CHECK_TEXT_MAX);
	struct check_finding *at;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	definition_put_clean(&clean, text, strlen(text));
	buf_put(&clean, "", 1);
	if (buf_failed(&clean) || is_there(f, rule, server, tool, (const char *)clean.data))
		return;
	if (!has_room(f)) {
		f->more = true;
		return;
	}
	at = &f->list[f->n];
	*at = (struct check_finding){ .rule = rule, .text = strdup((const char *)clean.data) };
	snprintf(at->server, sizeof(at->server), "%s", server);
	snprintf(at->tool, sizeof(at->tool), "%s", tool);
	f->more |= at->text == NULL;
	f->n += at->text != NULL;
}

void
check_put(struct buf *b, const struct check_findings *f)
{
	buf_put_u32(b, f->more);
	for (size_t i = 0; i < f->n; i++) {
		buf_put_u32(b, f->list[i].rule);
		buf_put_str(b, f->list[i].server);
		buf_put_str(b, f->list[i].tool);
		buf_put_str(b, f->list[i].text);
	}
}

int
check_get(struct buf *b, struct check_findings *f, struct err *err)
{
	const char *server, *tool, *text;
	uint32_t rule, more;

	if (buf_get_u32(b, &more) < 0)
		return err_set(err, EBADMSG, "the findings are not valid");
	f->more |= more != 0;
	while (buf_left(b) > 0) {
		if (buf_get_u32(b, &rule) < 0 || rule >= CHECK_RULES || buf_get_str(b, &server) < 0 ||
		    buf_get_str(b, &tool) < 0 || buf_get_str(b, &text) < 0 ||
		    (*server != '\0' && !policy_tools_is_server(server, strlen(server))) ||
		    (*tool != '\0' && !definition_is_name(tool)))
			return err_set(err, EBADMSG, "the findings are not valid");
		check_add(f, rule, server, tool, "%s", text);
	}
	return 0;
}

size_t
check_count(const struct check_findings *f, enum check_level level)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += check_rules[f->list[i].rule].level == level;
	return n;
}

/* ---- one tool ---- */

static void
check_definition(struct check_findings *f, const char *server, const struct listed_tool *listed)
{
	struct definition_hidden hidden[DEFINITION_HIDDEN_MAX];
	const size_t n = definition_find_hidden(listed->pinned, hidden, ARRAY_LEN(hidden));

	for (size_t i = 0; i < n; i++)
		check_add(f, CHECK_HIDDEN, server, listed_name(listed), "%s has %s", hidden[i].where,
		             definition_hidden_name(hidden[i].kind));
}

static void
check_hash(struct check_findings *f, const char *server, const struct listed_tool *listed, const struct node *tool)
{
	OWN(buf_free) struct buf b = BUF(CHECK_TEXT_MAX);
	const unsigned differ = lock_compare(tool, listed);

	if (differ == 0)
		return;
	lock_put_parts(&b, differ);
	buf_put(&b, "", 1);
	check_add(f, CHECK_CHANGED, server, listed_name(listed), "%s changed since the tool was locked: look at it, and run "
	             "`cloister tools lock`", buf_failed(&b) ? "its definition" : (const char *)b.data);
}

static void
check_annotations(struct check_findings *f, const char *server, const char *name, const struct node *tool)
{
	const unsigned missing = definition_hints_missing(lock_hints(tool));
	char list[128] = "";

	for (unsigned bit = DEFINITION_READ_ONLY; bit <= DEFINITION_OPEN_WORLD; bit *= 2)
		if ((missing & bit) != 0) {
			size_t at = strlen(list);

			snprintf(list + at, sizeof(list) - at, "%s%s", at > 0 ? ", " : "", definition_hint_name(bit));
		}
	if (missing != 0)
		check_add(f, CHECK_NO_ANNOTATION, server, name, "the server does not state whether the tool is %s: add it to "
		             "`annotations` in the lock", list);
}

static void
check_scope(struct check_findings *f, const char *server, const char *name, const struct node *tool)
{
	const struct node *scope = lock_scope(tool);
	OWN(scope_free) struct scope s = {0};
	char what[SCOPE_WHAT_MAX];
	struct err err = {0};

	if (scope == NULL) {
		check_add(f, CHECK_NO_SCOPE, server, name, "the tool has no scope: write one (`scope: {}` if it reaches nothing), "
		             "or get a proposal from `cloister tools learn`");
		return;
	}
	if (scope_read(scope, &s, &err) < 0) {
		check_add(f, CHECK_BAD_SCOPE, server, name, "%s", err.text);
		return;
	}
	if ((lock_hints(tool).values & DEFINITION_READ_ONLY) != 0 && scope_writes(&s, what))
		check_add(f, CHECK_WRITING_SCOPE, server, name, "the tool is read_only, and its scope has %s", what);
}

/* ---- names ---- */

/* For people and models, these are one name. */
static bool
look_alike(const char *a, const char *b)
{
	for (;;) {
		while (*a != '\0' && !isalnum((unsigned char)*a))
			a++;
		while (*b != '\0' && !isalnum((unsigned char)*b))
			b++;
		if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
			return false;
		if (*a == '\0')
			return true;
		a++;
		b++;
	}
}

struct names {
	const struct lock *lock;
	const struct listing *const *listings;
	size_t n;
};

/* Calls EACH with every tool of servers other than SERVER: as listed, or as locked. */
static void
each_other(const struct names *names, const char *server, void (*each)(void *arg, const char *server, const char *tool),
           void *arg)
{
	const struct node *servers = names->lock->root != NULL ? node_get(names->lock->root, "servers") : NULL;

	for (size_t i = 0; i < names->n; i++)
		for (size_t k = 0; strcmp(names->listings[i]->server, server) != 0 && k < names->listings[i]->n; k++)
			each(arg, names->listings[i]->server, listed_name(&names->listings[i]->tools[k]));
	for (size_t i = 0; servers != NULL && i < servers->n; i++) {
		const char *name = servers->items[i]->text;
		const struct node *tools = servers->values[i]->kind == NODE_MAP ? node_get(servers->values[i], "tools") : NULL;
		bool listed = strcmp(name, server) == 0;

		for (size_t k = 0; k < names->n; k++)
			listed |= strcmp(names->listings[k]->server, name) == 0;
		for (size_t k = 0; !listed && tools != NULL && tools->kind == NODE_MAP && k < tools->n; k++)
			each(arg, name, tools->items[k]->text);
	}
}

struct against {
	struct check_findings *f;
	const char *server;
	const struct listed_tool *listed;
	char *text;                     /* its definition as JSON */
};

/* Whether NAME is in TEXT as a word. */
static bool
has_word(const char *text, const char *name)
{
	static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	const size_t len = strlen(name);

	for (const char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name))
		if ((at == text || strchr(inside, at[-1]) == NULL) && (at[len] == '\0' || strchr(inside, at[len]) == NULL))
			return true;
	return false;
}

static void
compare_name(void *arg, const char *server, const char *tool)
{
	const struct against *a = arg;
	const char *name = listed_name(a->listed);

	if (look_alike(name, tool))
		check_add(a->f, CHECK_SHADOWED, a->server, name, "the server '%s' has the tool '%s': a model may take one for "
		             "the other", server, tool);
	/* A plain word, such as "search", is in many texts. */
	else if (strpbrk(tool, "_-./") != NULL && a->text != NULL && has_word(a->text, tool))
		check_add(a->f, CHECK_NAMES_OTHER, a->server, name, "its definition names '%s', a tool of the server '%s'", tool,
		             server);
}

static void
check_names(struct check_findings *f, const struct names *names, const char *server, const struct listed_tool *listed)
{
	OWN(freep) char *text = json_dumps(listed->pinned, JSON_COMPACT);
	struct against a = { .f = f, .server = server, .listed = listed, .text = text };

	each_other(names, server, compare_name, &a);
}

/* ---- servers ---- */

/* Whether the program is a script, which check_files() compares. */
static bool
is_file_of(const struct listing *l)
{
	for (size_t i = 0; i < l->n_files; i++)
		if (strcmp(l->files[i].sha256, l->sha256) == 0)
			return true;
	return false;
}

static void
check_program(struct check_findings *f, const struct lock *lock, const struct listing *l)
{
	const struct node *server = lock_server(lock, l->server), *program, *package, *hash;

	if (server == NULL)
		return;
	program = node_get(server, "program");
	package = node_get(server, "package");
	hash = program != NULL && program->kind == NODE_MAP ? node_get(program, "sha256") : NULL;
	if (hash != NULL && hash->kind == NODE_SCALAR && *l->sha256 != '\0' && strcmp(hash->text, l->sha256) != 0 && !is_file_of(l))
		check_add(f, CHECK_FILE, l->server, "", "the program '%s' is not the one that was locked: look at it, and run "
		          "`cloister tools lock %s`", l->path, l->server);
	if (package != NULL && package->kind == NODE_SCALAR && *l->package != '\0' && strcmp(package->text, l->package) != 0)
		check_add(f, CHECK_PROGRAM, l->server, "", "the package is %s, and %s was locked", l->package, package->text);
}

/* The script, for one.  A file that the lock does not have is no finding: a server may make one. */
static void
check_files(struct check_findings *f, const struct lock *lock, const struct listing *l)
{
	const struct node *files = lock_files(lock, l->server);

	for (size_t i = 0; files != NULL && i < files->n; i++) {
		const char *name = files->items[i]->text;
		const struct listed_file *is = listing_file(l, name);

		if (is == NULL)
			check_add(f, CHECK_FILE, l->server, "", "'%s' was locked, and the server's command does not name it now, or it "
			             "is gone: look at it, and run `cloister tools lock %s`", name, l->server);
		else if (files->values[i]->kind != NODE_SCALAR || strcmp(files->values[i]->text, is->sha256) != 0)
			check_add(f, CHECK_FILE, l->server, "", "'%s' changed since it was locked: look at it, and run `cloister tools "
			             "lock %s`", name, l->server);
	}
}

static void
check_listing(struct check_findings *f, const struct names *names, const struct listing *l)
{
	const struct node *server = lock_server(names->lock, l->server);
	const struct node *tools = server != NULL ? node_get(server, "tools") : NULL;

	if (server == NULL)
		check_add(f, CHECK_NO_SERVER, l->server, "", "the lock does not have the server: run `cloister tools lock %s`",
		             l->server);
	check_program(f, names->lock, l);
	check_files(f, names->lock, l);
	for (size_t i = 0; i < l->n; i++) {
		const char *name = listed_name(&l->tools[i]);
		const struct node *tool = lock_tool(names->lock, l->server, name);

		check_definition(f, l->server, &l->tools[i]);
		check_names(f, names, l->server, &l->tools[i]);
		if (tool == NULL && server != NULL)
			check_add(f, CHECK_UNLOCKED, l->server, name, "the tool is not in the lock: look at it, and run "
			             "`cloister tools lock %s`", l->server);
		if (tool == NULL)
			continue;
		check_hash(f, l->server, &l->tools[i], tool);
		check_annotations(f, l->server, name, tool);
		check_scope(f, l->server, name, tool);
	}
	for (size_t i = 0; tools != NULL && tools->kind == NODE_MAP && i < tools->n; i++)
		if (listing_find(l, tools->items[i]->text) == NULL)
			check_add(f, CHECK_GONE, l->server, tools->items[i]->text, "the server does not have the tool any more");
}

void
check_listings(struct check_findings *f, const struct lock *lock, const struct listing *const *listings, size_t n)
{
	const struct names names = { lock, listings, n };

	for (size_t i = 0; i < n; i++)
		check_listing(f, &names, listings[i]);
}
