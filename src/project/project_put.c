/* project_put.c - writes the policy of a project, and the test cases of that policy.
 *
 * Hosts and paths of a need are plain (project_url.c), so they stand in YAML as they are. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "project/project.h"

#define LINE_MAX_BYTES 1024
#define BRANCHES "refs/heads/agent/*"

static void put(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
put(struct buf *b, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	buf_put_text(b, line);
}

/* "host" or "host:8443". */
static const char *
authority(const struct project_place *place, char ret_text[PROJECT_HOST_MAX + 8])
{
	if (place->port == 0 || place->port == 443)
		snprintf(ret_text, PROJECT_HOST_MAX + 8, "%s", place->host);
	else
		snprintf(ret_text, PROJECT_HOST_MAX + 8, "%s:%u", place->host, place->port);
	return ret_text;
}

/* ---- what each preset lets through, and what not ---- */

static const struct {
	const char *preset, *what, *reads, *writes;
} presets[] = {
	{ "npm", "npm packages", "https://registry.npmjs.org/left-pad", "PUT https://registry.npmjs.org/left-pad" },
	{ "pypi", "Python packages", "https://pypi.org/simple/requests/", "POST https://upload.pypi.org/legacy/" },
	{ "crates", "Rust crates", "https://index.crates.io/se/rd/serde", "PUT https://crates.io/api/v1/crates/new" },
	{ "go", "Go modules", "https://proxy.golang.org/golang.org/x/text/@v/list",
	  "POST https://proxy.golang.org/golang.org/x/text" },
	{ "maven", "Maven packages", "https://repo.maven.apache.org/maven2/junit/junit/maven-metadata.xml",
	  "PUT https://repo.maven.apache.org/maven2/junit/junit/1/junit-1.jar" },
	{ "rubygems", "Ruby gems", "https://rubygems.org/gems/rake-13.0.0.gem", "POST https://rubygems.org/api/v1/gems" },
	{ "packagist", "PHP packages", "https://repo.packagist.org/packages.json",
	  "POST https://repo.packagist.org/packages.json" },
	{ "hex", "Hex packages", "https://repo.hex.pm/packages/plug", "POST https://repo.hex.pm/packages/plug" },
	{ "conda", "Conda packages", "https://conda.anaconda.org/conda-forge/noarch/repodata.json",
	  "POST https://conda.anaconda.org/conda-forge/noarch/repodata.json" },
};

static size_t
find_preset(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(presets); i++)
		if (strcmp(presets[i].preset, name) == 0)
			return i;
	return 0;
}

void
project_put_need(struct buf *b, const struct project_need *need)
{
	char at[PROJECT_HOST_MAX + 8];
	const struct project_place *place = &need->place;
	const char *ask = need->is_known ? "" : "; asks you each time";

	switch (need->kind) {
	case PROJECT_PRESET:
		put(b, "%s", presets[find_preset(need->preset)].what);
		break;
	case PROJECT_REMOTE:
		put(b, "fetch from %s/%s, push to branches agent/*%s", authority(place, at), place->path, ask);
		break;
	case PROJECT_FETCH:
		put(b, "fetch from %s/%s%s", authority(place, at), place->path, ask);
		break;
	case PROJECT_READ:
		put(b, "read from %s/%s; asks you each time", authority(place, at), place->path);
		break;
	case PROJECT_MCP:
		put(b, "use %s/%s; asks you each time", authority(place, at), place->path);
		break;
	}
}

/* ---- rules ---- */

static void
put_git(struct buf *b, const struct project_need *need)
{
	char at[PROJECT_HOST_MAX + 8];
	const struct project_place *place = &need->place;
	const bool is_own = need->kind == PROJECT_REMOTE;

	put(b, "  - %s: %s\n    scheme: https\n", need->is_known ? "allow" : "ask", authority(place, at));
	put(b, "    git: {fetch: true, %srepos: ['%s']}\n", is_own ? "push: ['" BRANCHES "'], " : "", place->path);
	if (!need->is_known)
		put(b, "    reason: the project's files name this host; a person has to confirm it\n");
}

/* What else the forge has for the repository: npm and pip read archives, and agents read issues. */
static void
put_github(struct buf *b, const struct project_need *need)
{
	const char *path = need->place.path;

	put(b, "  - allow: codeload.github.com\n    methods: [GET, HEAD]\n    paths: ['/%s/**']\n", path);
	if (need->kind != PROJECT_REMOTE)
		return;
	put(b, "  # Its issues, pull requests and checks: anyone may read them; a person approves what is written.\n");
	put(b, "  - allow: api.github.com\n    methods: [GET, HEAD]\n    paths: ['/repos/%s', '/repos/%s/**']\n", path, path);
	put(b, "  - ask: api.github.com\n    methods: [POST, PATCH]\n"
	    "    paths: ['/repos/%s/issues', '/repos/%s/issues/**', '/repos/%s/pulls', '/repos/%s/pulls/**']\n",
	    path, path, path, path);
}

static void
put_place(struct buf *b, const struct project_need *need)
{
	char at[PROJECT_HOST_MAX + 8];
	const struct project_place *place = &need->place;
	const bool is_mcp = need->kind == PROJECT_MCP;

	put(b, "  - ask: %s\n    scheme: https\n", authority(place, at));
	put(b, "    methods: %s\n", is_mcp ? "[GET, POST, DELETE]" : "[GET, HEAD]");
	if (is_mcp || place->path[0] != '\0')
		put(b, "    paths: ['/%s'%s%s%s]\n", place->path, is_mcp ? "" : ", '/", is_mcp ? "" : place->path,
		    is_mcp ? "" : "/**'");
	put(b, "    reason: the project's files name this host; a person has to confirm it\n");
}

static void
put_rule(struct buf *b, const struct project_need *need)
{
	OWN(buf_free) struct buf what = BUF(LINE_MAX_BYTES);

	project_put_need(&what, need);
	put(b, "  # %s: %.*s\n", need->from, (int)what.len, (const char *)what.data);
	if (need->kind == PROJECT_PRESET)
		put(b, "  - include: preset:%s\n", need->preset);
	else if (need->kind == PROJECT_READ || need->kind == PROJECT_MCP)
		put_place(b, need);
	else
		put_git(b, need);
	if (need->is_known && strcmp(need->place.host, "github.com") == 0)
		put_github(b, need);
	if (need->place.is_ssh)
		put(b, "  # In a cell, git uses HTTPS for addresses of git@%s: too.\n", need->place.host);
}

void
project_put_policy(struct buf *b, const struct project *p, const char *agent)
{
	put(b, "# Written by `cloister init`. A cell of this project can do what is below, and nothing else.\n");
	put(b, "# `cloister policy test` runs the cases in cloister.test.yaml.\n");
	put(b, "version: 1\n");
	put(b, "# The agent of `cloister run`%s%s. Its profile adds the hosts of its model.\n",
	    p->agent_file != NULL && strcmp(p->agent, agent) == 0 ? ", by " : "",
	    p->agent_file != NULL && strcmp(p->agent, agent) == 0 ? p->agent_file : "");
	put(b, "run: %s\n", agent);
	put(b, "egress:%s\n", p->n == 0 ? " []" : "");
	for (size_t i = 0; i < p->n; i++)
		put_rule(b, &p->needs[i]);
	for (size_t i = 0; i < p->n_notes; i++)
		put(b, "# Without a rule: %s.\n", p->notes[i]);
}

/* ---- cases ---- */

static void
put_case(struct buf *b, const char *name, const char *request, const char *expect)
{
	put(b, "- name: %s\n  request: %s\n  expect: %s\n", name, request, expect);
}

static void
put_push(struct buf *b, const char *name, const char *url, const char *ref, const char *expect)
{
	put(b, "- name: %s\n  request: %s\n  push: %s\n  expect: %s\n", name, url, ref, expect);
}

static void
put_git_cases(struct buf *b, const struct project_need *need)
{
	char at[PROJECT_HOST_MAX + 8], url[LINE_MAX_BYTES], other[LINE_MAX_BYTES], fetch[LINE_MAX_BYTES + 64];
	const struct project_place *place = &need->place;
	const char *yes = need->is_known ? "allow" : "ask";

	snprintf(url, sizeof(url), "https://%s/%s", authority(place, at), place->path);
	snprintf(other, sizeof(other), "https://%s/somebody-else/copy", authority(place, at));
	snprintf(fetch, sizeof(fetch), "GET %s/info/refs?service=git-upload-pack", url);
	put_case(b, "fetch the repository", fetch, yes);
	put_push(b, "push to main", url, "refs/heads/main", "deny");
	put_push(b, "push to somebody else's repository", other, "refs/heads/agent/fix", "deny");
	put_push(b, "push to a branch of the agent's", url, "refs/heads/agent/fix",
	         need->kind == PROJECT_REMOTE ? yes : "deny");
}

static void
put_place_cases(struct buf *b, const struct project_need *need)
{
	char at[PROJECT_HOST_MAX + 8], request[LINE_MAX_BYTES];
	const struct project_place *place = &need->place;

	snprintf(request, sizeof(request), "%s https://%s/%s", need->kind == PROJECT_MCP ? "POST" : "GET",
	         authority(place, at), place->path);
	put_case(b, "a host that the project's files name", request, "ask");
	snprintf(request, sizeof(request), "PUT https://%s/%s", authority(place, at), place->path);
	put_case(b, "write there", request, "deny");
}

static void
put_cases(struct buf *b, const struct project_need *need)
{
	char request[LINE_MAX_BYTES];
	size_t k;

	put(b, "# %s\n", need->from);
	if (need->kind == PROJECT_PRESET) {
		k = find_preset(need->preset);
		snprintf(request, sizeof(request), "GET %s", presets[k].reads);
		put_case(b, "install packages", request, "allow");
		put_case(b, "publish a package", presets[k].writes, "deny");
	} else if (need->kind == PROJECT_READ || need->kind == PROJECT_MCP) {
		put_place_cases(b, need);
	} else {
		put_git_cases(b, need);
	}
}

void
project_put_cases(struct buf *b, const struct project *p)
{
	put(b, "# Written by `cloister init`, for `cloister policy test`.\n");
	put_case(b, "any other host", "GET https://canary.example/", "deny");
	put_case(b, "a gist of somebody", "POST https://api.github.com/gists", "deny");
	for (size_t i = 0; i < p->n; i++)
		put_cases(b, &p->needs[i]);
}
