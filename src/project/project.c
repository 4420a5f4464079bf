/* project.c - looks at a project: which files it has, and what these say. */
#include "project/project.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"

/* ---- needs ---- */

void
project_note(struct project *p, const char *note)
{
	for (size_t i = 0; i < p->n_notes; i++)
		if (strcmp(p->notes[i], note) == 0)
			return;
	if (p->n_notes < PROJECT_NOTES_MAX)
		p->notes[p->n_notes++] = note;
}

static struct project_need *
add(struct project *p, enum project_kind kind, const char *from)
{
	struct project_need *need;

	if (p->n == PROJECT_NEEDS_MAX) {
		p->is_full = true;
		return NULL;
	}
	need = &p->needs[p->n++];
	*need = (struct project_need){ .kind = kind };
	snprintf(need->from, sizeof(need->from), "%s", from);
	return need;
}

void
project_add_preset(struct project *p, const char *preset, const char *from)
{
	struct project_need *need;

	for (size_t i = 0; i < p->n; i++)
		if (p->needs[i].kind == PROJECT_PRESET && strcmp(p->needs[i].preset, preset) == 0)
			return;
	need = add(p, PROJECT_PRESET, from);
	if (need != NULL)
		need->preset = preset;
}

static bool
is_one_of(const char *word, const char *const *list)
{
	for (; *list != NULL; list++)
		if (strcmp(word, *list) == 0)
			return true;
	return false;
}

/* Reading these is what presets are for. */
static bool
is_usual(const char *host)
{
	static const char *const usual[] = { "registry.npmjs.org", "registry.yarnpkg.com", "pypi.org",
		"files.pythonhosted.org", "crates.io", "index.crates.io", "static.crates.io", NULL };

	return is_one_of(host, usual);
}

static bool
is_forge(const char *host)
{
	static const char *const forges[] = { "github.com", "gitlab.com", "bitbucket.org", "codeberg.org", NULL };

	return is_one_of(host, forges);
}

/* Two rules for one place would be an error of the policy. */
static bool
is_same(const struct project_need *need, enum project_kind kind, const struct project_place *place)
{
	const bool is_git = kind == PROJECT_REMOTE || kind == PROJECT_FETCH;
	const bool had_git = need->kind == PROJECT_REMOTE || need->kind == PROJECT_FETCH;

	return need->kind != PROJECT_PRESET && is_git == had_git && (is_git || need->kind == kind) &&
	       strcmp(need->place.host, place->host) == 0 && need->place.port == place->port &&
	       strcmp(need->place.path, place->path) == 0;
}

void
project_add_place(struct project *p, enum project_kind kind, const struct project_place *place, const char *from)
{
	struct project_need *need;

	if (kind == PROJECT_READ && is_usual(place->host))
		return;
	if ((kind == PROJECT_REMOTE || kind == PROJECT_FETCH) && place->path[0] == '\0')
		return;
	if (kind == PROJECT_READ && place->is_ssh)
		return;
	/* An owner, whose repositories are many. */
	if (kind != PROJECT_READ && kind != PROJECT_MCP && is_forge(place->host) && strchr(place->path, '/') == NULL)
		return;
	for (size_t i = 0; i < p->n; i++)
		if (is_same(&p->needs[i], kind, place)) {
			p->needs[i].kind = kind == PROJECT_REMOTE ? kind : p->needs[i].kind;
			return;
		}
	need = add(p, kind, from);
	if (need == NULL)
		return;
	need->place = *place;
	need->is_known = (kind == PROJECT_REMOTE || kind == PROJECT_FETCH) && place->port == 0 && is_forge(place->host);
}

/* ---- files ---- */

static bool
has(int folder, const char *name)
{
	struct stat st;

	return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

/* Without following links; NULL if there is no such file, or it is too large.  The caller owns the text. */
static char *
read_one(struct project *p, int folder, const char *name, size_t *ret_len)
{
	OWN(closep) int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	char *text = NULL;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	if (read_whole(fd, PROJECT_FILE_MAX, &text, ret_len, NULL) < 0)
		project_note(p, "a file of over 1 MiB was not read");
	return text;
}

static const struct {
	const char *file, *preset;
} packages[] = {
	{ "package.json", "npm" }, { "pyproject.toml", "pypi" }, { "requirements.txt", "pypi" }, { "setup.py", "pypi" },
	{ "Pipfile", "pypi" }, { "uv.lock", "pypi" }, { "Cargo.toml", "crates" }, { "go.mod", "go" },
	{ "pom.xml", "maven" }, { "build.gradle", "maven" }, { "build.gradle.kts", "maven" }, { "Gemfile", "rubygems" },
	{ "composer.json", "packagist" }, { "mix.exs", "hex" }, { "environment.yml", "conda" },
};

static const char *const lines[] = { "pyproject.toml", "requirements.txt", "Cargo.toml", ".npmrc", ".yarnrc.yml",
	"uv.toml", "Pipfile" };

static const struct {
	const char *file, *agent;
} agents[] = {
	{ "CLAUDE.md", "claude" }, { ".claude", "claude" }, { "GEMINI.md", "gemini" }, { ".gemini", "gemini" },
	{ ".codex", "codex" }, { "opencode.json", "opencode" }, { ".opencode", "opencode" },
	{ ".aider.conf.yml", "aider" }, { ".goosehints", "goose" }, { "QWEN.md", "qwen" }, { ".qwen", "qwen" },
	{ ".cursorrules", "cursor-agent" }, { ".cursor", "cursor-agent" },
};

static void
look_at_git(struct project *p, int folder)
{
	OWN(closep) int git = openat(folder, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(freep) char *config = NULL, *modules = NULL;
	size_t len;

	if (git < 0 && has(folder, ".git"))
		project_note(p, ".git is a link to another folder, as in a worktree: its remotes get no rule");
	config = git < 0 ? NULL : read_one(p, git, "config", &len);
	if (config != NULL)
		project_read_git(p, config, len);
	modules = read_one(p, folder, ".gitmodules", &len);
	if (modules != NULL)
		project_read_modules(p, modules, len);
}

static void
look_at_lines(struct project *p, int folder)
{
	OWN(closep) int cargo = openat(folder, ".cargo", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(freep) char *config = NULL;
	size_t len;

	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		OWN(freep) char *text = read_one(p, folder, lines[i], &len);

		if (text != NULL)
			project_read_lines(p, lines[i], text, len);
	}
	config = cargo < 0 ? NULL : read_one(p, cargo, "config.toml", &len);
	if (config != NULL)
		project_read_lines(p, ".cargo/config.toml", config, len);
}

static void
look_at_json(struct project *p, int folder)
{
	OWN(freep) char *package = NULL, *mcp = NULL;
	size_t len;

	package = read_one(p, folder, "package.json", &len);
	if (package != NULL)
		project_read_package(p, package, len);
	mcp = read_one(p, folder, ".mcp.json", &len);
	if (mcp != NULL)
		project_read_mcp(p, mcp, len);
}

void
project_look(int folder, struct project *ret_project)
{
	struct project *p = ret_project;

	*p = (struct project){0};
	look_at_git(p, folder);
	for (size_t i = 0; i < ARRAY_LEN(packages); i++)
		if (has(folder, packages[i].file))
			project_add_preset(p, packages[i].preset, packages[i].file);
	look_at_json(p, folder);
	look_at_lines(p, folder);
	for (size_t i = 0; p->agent == NULL && i < ARRAY_LEN(agents); i++)
		if (has(folder, agents[i].file)) {
			p->agent = agents[i].agent;
			p->agent_file = agents[i].file;
		}
	if (has(folder, "Dockerfile") || has(folder, "Containerfile"))
		project_note(p, "Dockerfile: a cell builds no images, so it gets no rule; `cloister image build .` builds it");
	if (p->is_full)
		project_note(p, "the project names more hosts and repositories than there are rules here");
}
