/* project.c - tests of what a project's files are read as, and of the policy for them. */
#include "project/project.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "policy_lab.h"
#include "test.h"

static const struct {
	const char *text, *host, *path; /* HOST is NULL: refused */
	bool is_ssh;
	unsigned port;
} urls[] = {
	{ "https://github.com/acme/site.git", "github.com", "acme/site", false, 0 },
	{ "https://token:x@GitHub.com/acme/site/", "github.com", "acme/site", false, 0 },
	{ "git+https://git.example.com:8443/a/b/c.git#v1", "git.example.com", "a/b/c", false, 8443 },
	{ "git@github.com:acme/site.git", "github.com", "acme/site", true, 0 },
	{ "ssh://git@git.example.com:2222/acme/site", "git.example.com", "acme/site", true, 0 },
	{ "github:acme/site#main", "github.com", "acme/site", false, 0 },
	{ "https://mcp.example.com/v1/mcp?key=1", "mcp.example.com", "v1/mcp", false, 0 },
	{ "https://npm.example.com", "npm.example.com", "", false, 0 },
	/* Names of this machine, addresses, and whatever YAML or a glob would read otherwise. */
	{ "https://localhost/x", NULL, NULL, false, 0 }, { "https://10.0.0.1/x", NULL, NULL, false, 0 },
	{ "https://[::1]/x", NULL, NULL, false, 0 }, { "https://*.example.com/x", NULL, NULL, false, 0 },
	{ "https://a.example/*", NULL, NULL, false, 0 }, { "https://a.example/x'y", NULL, NULL, false, 0 },
	{ "https://a.example/x\ny", NULL, NULL, false, 0 }, { "https://a.example/x, y", NULL, NULL, false, 0 },
	{ "https://a.example/../b", NULL, NULL, false, 0 }, { "https://a..example/b", NULL, NULL, false, 0 },
	{ "https://-a.example/b", NULL, NULL, false, 0 }, { "https://a.example:0/b", NULL, NULL, false, 0 },
	{ "https://a.example:99999/b", NULL, NULL, false, 0 }, { "https://a.example//b//c", NULL, NULL, false, 0 },
	{ "http://a.example/b", NULL, NULL, false, 0 }, { "file:///etc", NULL, NULL, false, 0 },
	{ "https://a.example/b/...git", NULL, NULL, false, 0 }, { "https://a.example/b/.git", NULL, NULL, false, 0 },
	{ "../other.git", NULL, NULL, false, 0 }, { "", NULL, NULL, false, 0 }, { "https://", NULL, NULL, false, 0 },
};

TEST(project_url)
{
	for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
		struct project_place place = {0};
		const bool found = project_url(urls[i].text, strlen(urls[i].text), &place);

		if (found != (urls[i].host != NULL))
			CHECK_STR(urls[i].text, found ? "(refused)" : "(read)");
		if (!found || urls[i].host == NULL)
			continue;
		CHECK_STR(place.host, urls[i].host);
		CHECK_STR(place.path, urls[i].path);
		CHECK(place.is_ssh == urls[i].is_ssh && place.port == urls[i].port);
	}
}

/* Whether P has a need of KIND for HOST and PATH. */
static bool
needs(const struct project *p, enum project_kind kind, const char *host, const char *path)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->needs[i].kind == kind && strcmp(p->needs[i].place.host, host) == 0 &&
		    strcmp(p->needs[i].place.path, path) == 0)
			return true;
	return false;
}

TEST(project_read_package)
{
	static const char text[] = "{\"dependencies\": {\"a\": \"^1\", \"b\": \"acme/b#v1\", \"c\": \"git+ssh://git@git.example.com/x/c.git\","
		"\"d\": \"https://cdn.example.com/d.tgz\", \"e\": \"file:../e\", \"f\": \"npm:@x/y@1\"},"
		"\"devDependencies\": {\"g\": \"gitlab:acme/g\"}}";
	OWN(freep) struct project *p = calloc(1, sizeof(*p));

	project_read_package(p, text, sizeof(text) - 1);
	CHECK(p->n == 4 && p->n_notes == 0);
	CHECK(needs(p, PROJECT_FETCH, "github.com", "acme/b") && needs(p, PROJECT_FETCH, "git.example.com", "x/c"));
	CHECK(needs(p, PROJECT_READ, "cdn.example.com", "d.tgz") && needs(p, PROJECT_FETCH, "gitlab.com", "acme/g"));
	project_read_package(p, "{", 1);
	CHECK(p->n == 4 && p->n_notes == 1);
}

TEST(project_read_mcp)
{
	static const char text[] = "{\"mcpServers\": {\"a\": {\"url\": \"https://mcp.example.com/mcp\", \"headers\": {\"url\": \"https://no.example/\"}},"
		"\"b\": {\"command\": \"npx\", \"args\": [\"-y\", \"x\"]}, \"c\": {\"command\": \"/bin/sh\"}}}";
	OWN(freep) struct project *p = calloc(1, sizeof(*p));

	project_read_mcp(p, text, sizeof(text) - 1);
	CHECK(p->n == 2 && needs(p, PROJECT_MCP, "mcp.example.com", "mcp") && p->n_notes == 1);
	CHECK_STR(p->needs[1].preset, "npm");
}

TEST(project_read_git)
{
	static const char text[] = "[core]\n\turl = https://no.example/a/b\n[remote \"origin\"]\n\turl = git@github.com:acme/site.git\n"
		"[remote \"up\nstream\"]\n\turl = https://github.com/other/site\n[branch \"x\"]\n\turl = https://no.example/c/d\n"
		"[remote \"r\"]\nurl=https://git.example.com/acme/site\n";
	OWN(freep) struct project *p = calloc(1, sizeof(*p));

	project_read_git(p, text, sizeof(text) - 1);
	CHECK(p->n == 3 && needs(p, PROJECT_REMOTE, "github.com", "acme/site"));
	CHECK(needs(p, PROJECT_FETCH, "github.com", "other/site") && needs(p, PROJECT_FETCH, "git.example.com", "acme/site"));
	CHECK(p->needs[0].is_known && !p->needs[2].is_known && strchr(p->needs[1].from, '\n') == NULL);
}

/* A clone brings it along: no push, and no forge's owner as a whole. */
TEST(project_read_modules)
{
	static const char text[] = "[remote \"origin\"]\n\turl = https://github.com/other/out\n[submodule \"m\"]\n"
		"\turl = https://github.com/acme/m\n[submodule \"o\"]\n\turl = https://github.com/acme\n";
	OWN(freep) struct project *p = calloc(1, sizeof(*p));

	project_read_modules(p, text, sizeof(text) - 1);
	CHECK(p->n == 1 && needs(p, PROJECT_FETCH, "github.com", "acme/m"));
}

TEST(project_read_lines)
{
	static const char text[] = "# git = \"https://no.example/a/b\"\n[dependencies]\n"
		"x = { git = \"https://github.com/acme/x\", rev = \"1\" }\nhomepage = \"https://no.example/\"\n"
		"@acme:registry=https://npm.example.com/api/npm/\n--index-url https://py.example.com/simple\n"
		"y @ git+https://github.com/acme/y@v1\nregistry = https://registry.npmjs.org/\n";
	OWN(freep) struct project *p = calloc(1, sizeof(*p));

	project_read_lines(p, "f", text, sizeof(text) - 1);
	CHECK(needs(p, PROJECT_FETCH, "github.com", "acme/x") && needs(p, PROJECT_READ, "npm.example.com", "api/npm"));
	CHECK(needs(p, PROJECT_READ, "py.example.com", "simple") && needs(p, PROJECT_FETCH, "github.com", "acme/y"));
	CHECK(p->n == 4);
}

static const struct {
	const char *request, *verdict;
} put_cases[] = {
	/* A host that only the project names is never allowed. */
	{ "GET https://git.example.com:8443/a/b/info/refs?service=git-upload-pack", "ask" },
	{ "GET https://git.example.com:8443/", "deny" }, { "GET https://git.example.com/", "deny" },
	{ "GET https://npm.example.com/x/left-pad", "ask" }, { "GET https://npm.example.com/y", "deny" },
	{ "PUT https://npm.example.com/x/left-pad", "deny" },
	{ "POST https://mcp.example.com/mcp", "ask" }, { "POST https://mcp.example.com/other", "deny" },
	{ "GET https://registry.npmjs.org/left-pad", "allow" }, { "PUT https://registry.npmjs.org/left-pad", "deny" },
	{ "GET https://github.com/acme/x/info/refs?service=git-upload-pack", "allow" },
	{ "GET https://codeload.github.com/acme/x/tar.gz/v1", "allow" }, { "GET https://github.com/", "deny" },
	{ "GET https://api.github.com/repos/acme/x", "deny" }, { "GET https://canary.example/", "deny" },
};

TEST(project_put_policy)
{
	static const char git[] = "[remote \"origin\"]\nurl=https://git.example.com:8443/a/b\n";
	static const char npmrc[] = "registry=https://npm.example.com/x", mcp[] =
		"{\"mcpServers\":{\"a\":{\"url\":\"https://mcp.example.com/mcp\"}}}";
	OWN(freep) struct project *p = calloc(1, sizeof(*p));
	OWN(buf_free) struct buf b = BUF(1 << 20);
	OWN(policy_freep) struct policy *policy = NULL;
	struct policy_limits limits = {0};
	struct err err = {0};

	project_read_git(p, git, sizeof(git) - 1);
	project_add_preset(p, "npm", "package.json");
	project_read_lines(p, ".npmrc", npmrc, sizeof(npmrc) - 1);
	project_read_mcp(p, mcp, sizeof(mcp) - 1);
	project_read_package(p, "{\"dependencies\":{\"x\":\"acme/x\"}}", 31);
	CHECK(p->n == 5);
	project_put_policy(&b, p, "claude");
	CHECK_OK(policy_load_text("f", (const char *)b.data, b.len, &policy, &limits, &err));
	CHECK_STR(err.text, "");
	for (size_t i = 0; policy != NULL && i < ARRAY_LEN(put_cases); i++) {
		const char *got = lab_decide(policy, put_cases[i].request);

		if (strncmp(got, put_cases[i].verdict, strlen(put_cases[i].verdict)) != 0)
			CHECK_STR(got, put_cases[i].request);
	}
}
