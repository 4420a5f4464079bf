/* project_read.c - finds the needs of a project in the texts of its files: package.json, .mcp.json, git's
 * configuration, and lines of TOML and settings. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "http/json_walk.h"
#include "project/project.h"

#define VALUE_MAX 512                   /* bytes of a value that is looked at */
#define NAME_MAX_SHOWN 24

/* ---- JSON ---- */

/* The string RAW, decoded; false if it is long or has a NUL. */
static bool
take_string(struct http_text raw, char ret_value[VALUE_MAX + 1])
{
	size_t len;

	if (json_walk_decode(raw, ret_value, VALUE_MAX, &len) < 0)
		return false;
	ret_value[len] = '\0';
	return strlen(ret_value) == len;
}

/* "acme/site#v1": a repository of GitHub, in short. */
static bool
is_short(const char *value)
{
	const size_t name = strcspn(value, "#");
	const char *slash = memchr(value, '/', name);

	return slash != NULL && slash > value && value[0] != '.' && value[0] != '~' && value[0] != '@' &&
	       memchr(slash + 1, '/', name - (size_t)(slash + 1 - value)) == NULL && memchr(value, ':', name) == NULL;
}

static bool
is_repository(const char *value)
{
	return strncmp(value, "git", 3) == 0 || strncmp(value, "ssh://", 6) == 0 || strstr(value, ".git") != NULL ||
	       strncmp(value, "bitbucket:", 10) == 0;
}

static void
add_dependency(struct project *p, const char *value)
{
	char whole[VALUE_MAX + sizeof("github:")];
	struct project_place place;

	snprintf(whole, sizeof(whole), "%s%s", is_short(value) ? "github:" : "", value);
	if (project_url(whole, strlen(whole), &place))
		project_add_place(p, is_repository(whole) ? PROJECT_FETCH : PROJECT_READ, &place,
		                  "a dependency in package.json");
}

void
project_read_package(struct project *p, const char *text, size_t len)
{
	static const char *const lists[] = { "dependencies", "devDependencies", "optionalDependencies",
	                                     "peerDependencies" };
	char value[VALUE_MAX + 1];

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct json_walk_item list, item;
		struct json_walk walk;
		int r = json_walk_member((struct http_text){ text, len }, lists[i], &list);

		if (r < 0)
			project_note(p, "package.json is not valid JSON: its dependencies are not known");
		if (r < 1 || list.kind != JSON_WALK_OBJECT)
			continue;
		json_walk_begin(&walk, list.raw);
		while (json_walk_next(&walk, &item) == 1)
			if (item.kind == JSON_WALK_STRING && item.depth == 1 && take_string(item.raw, value))
				add_dependency(p, value);
	}
}

/* A server that is a program comes from a registry of packages. */
static void
add_command(struct project *p, const char *command)
{
	if (strcmp(command, "npx") == 0 || strcmp(command, "bunx") == 0)
		project_add_preset(p, "npm", "npx in .mcp.json");
	else if (strcmp(command, "uvx") == 0 || strcmp(command, "pipx") == 0)
		project_add_preset(p, "pypi", "uvx in .mcp.json");
	else
		project_note(p, ".mcp.json starts programs of the project or the machine: they run in the cell");
}

void
project_read_mcp(struct project *p, const char *text, size_t len)
{
	struct json_walk_item servers, item;
	struct project_place place;
	struct json_walk walk;
	char value[VALUE_MAX + 1];
	int r = json_walk_member((struct http_text){ text, len }, "mcpServers", &servers);

	if (r < 0)
		project_note(p, ".mcp.json is not valid JSON: its servers are not known");
	if (r < 1 || servers.kind != JSON_WALK_OBJECT)
		return;
	json_walk_begin(&walk, servers.raw);
	while (json_walk_next(&walk, &item) == 1) {
		if (item.kind != JSON_WALK_STRING || item.depth != 2 || item.name.at == NULL ||
		    !take_string(item.raw, value))
			continue;
		if (json_walk_is(item.name, "command"))
			add_command(p, value);
		else if (json_walk_is(item.name, "url") && project_url(value, strlen(value), &place) && !place.is_ssh)
			project_add_place(p, PROJECT_MCP, &place, "a server in .mcp.json");
	}
}

/* ---- git's configuration ---- */

/* "[remote "origin"]": a remote, and its name if that can be shown. */
static bool
take_section(const char *line, const char *end, char ret_name[NAME_MAX_SHOWN + 1], bool *ret_is_module)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t n = 0;

	*ret_is_module = text_take(&line, end, "[submodule \"");
	if (!*ret_is_module && !text_take(&line, end, "[remote \""))
		return false;
	while (line < end && n < NAME_MAX_SHOWN && *line != '\0' && strchr(plain, *line) != NULL)
		ret_name[n++] = *line++;
	ret_name[n] = '\0';
	if (line >= end || *line != '"')
		ret_name[0] = '\0';
	return true;
}

static void
add_remote(struct project *p, const char *name, bool is_module, const char *value, size_t len)
{
	struct project_place place;
	char from[PROJECT_FROM_MAX];
	const bool is_own = !is_module && strcmp(name, "origin") == 0;

	if (!project_url(value, len, &place) || place.path[0] == '\0') {
		project_note(p, "a remote in .git/config is no URL of a forge: it gets no rule");
		return;
	}
	if (is_module)
		snprintf(from, sizeof(from), "a submodule in .gitmodules");
	else
		snprintf(from, sizeof(from), "the remote %s in .git/config", name[0] != '\0' ? name : "(unnamed)");
	project_add_place(p, is_own ? PROJECT_REMOTE : PROJECT_FETCH, &place, from);
}

/* The value of "url = VALUE", without blanks and quotes around it; NULL: the line is another. */
static const char *
take_value(const char *line, const char *end, size_t *ret_len)
{
	if (!text_take(&line, end, "url"))
		return NULL;
	while (line < end && (*line == ' ' || *line == '\t'))
		line++;
	if (line == end || *line++ != '=')
		return NULL;
	while (line < end && (isspace((unsigned char)*line) || *line == '"'))
		line++;
	while (end > line && (isspace((unsigned char)end[-1]) || end[-1] == '"'))
		end--;
	*ret_len = (size_t)(end - line);
	return line;
}

/* ONLY_MODULES: a remote does not count. */
static void
read_git(struct project *p, const char *text, size_t len, bool only_modules)
{
	const char *all = text + len;
	char name[NAME_MAX_SHOWN + 1] = "";
	bool is_inside = false, is_module = false;

	for (const char *line = text, *end; line < all; line = end + 1) {
		const char *value;
		size_t n;

		end = memchr(line, '\n', (size_t)(all - line));
		end = end != NULL ? end : all;
		while (line < end && isspace((unsigned char)*line))
			line++;
		if (line < end && *line == '[')
			is_inside = take_section(line, end, name, &is_module) && (is_module || !only_modules);
		else if (is_inside && (value = take_value(line, end, &n)) != NULL)
			add_remote(p, name, is_module, value, n);
	}
}

void
project_read_git(struct project *p, const char *text, size_t len)
{
	read_git(p, text, len, false);
}

void
project_read_modules(struct project *p, const char *text, size_t len)
{
	read_git(p, text, len, true);
}

/* ---- lines of TOML and settings ---- */

static const struct {
	const char *word;
	enum project_kind kind;
} keys[] = {
	{ "git", PROJECT_FETCH }, { "url", PROJECT_READ }, { "registry", PROJECT_READ }, { "index", PROJECT_READ },
	{ "index-url", PROJECT_READ }, { "extra-index-url", PROJECT_READ }, { "index_url", PROJECT_READ },
	{ "npmRegistryServer", PROJECT_READ },
};

/* The key before VALUE in its line: `git = "`, `--index-url `, `@acme:registry=`. */
static bool
find_key(const char *line, const char *value, enum project_kind *ret_kind)
{
	const char *end = value, *at;

	while (end > line && strchr(" \t\"'=:", end[-1]) != NULL && end[-1] != '\0')
		end--;
	for (at = end; at > line && (isalpha((unsigned char)at[-1]) || at[-1] == '-' || at[-1] == '_');)
		at--;
	while (at < end && *at == '-')
		at++;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strlen(keys[i].word) == (size_t)(end - at) && memcmp(keys[i].word, at, (size_t)(end - at)) == 0) {
			*ret_kind = keys[i].kind;
			return true;
		}
	return false;
}

static bool
ends_value(char c)
{
	return isspace((unsigned char)c) || c == '"' || c == '\'' || c == ',' || c == '}' || c == ']' || c == '\0';
}

/* Behind the last part of a path, "@" begins a revision. */
static const char *
before_revision(const char *at, const char *end)
{
	const char *slash = memrchr(at, '/', (size_t)(end - at));
	const char *mark = slash == NULL || slash < at + strlen("https://") ? NULL :
	                   memchr(slash, '@', (size_t)(end - slash));

	return mark != NULL ? mark : end;
}

static void
read_line(struct project *p, const char *from, const char *line, const char *end)
{
	static const char begins[] = "https://";

	for (const char *at = line; (at = memmem(at, (size_t)(end - at), begins, strlen(begins))) != NULL;) {
		const char *begin = at, *stop = at;
		struct project_place place;
		enum project_kind kind = PROJECT_FETCH;
		const bool is_git = at - line >= 4 && memcmp(at - 4, "git+", 4) == 0;

		while (stop < end && !ends_value(*stop))
			stop++;
		if ((is_git || find_key(line, begin, &kind)) &&
		    project_url(begin, (size_t)(before_revision(begin, stop) - begin), &place))
			project_add_place(p, kind, &place, from);
		at = stop;
	}
}

void
project_read_lines(struct project *p, const char *file, const char *text, size_t len)
{
	const char *all = text + len;

	for (const char *line = text, *end; line < all; line = end + 1) {
		end = memchr(line, '\n', (size_t)(all - line));
		end = end != NULL ? end : all;
		while (line < end && isspace((unsigned char)*line))
			line++;
		if (line < end && *line != '#' && *line != ';')
			read_line(p, file, line, end);
	}
}
