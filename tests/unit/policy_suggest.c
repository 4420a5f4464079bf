/* policy_suggest.c - tests of policy/policy_suggest and policy_learn. */
#include "policy/policy_suggest.h"

#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/own.h"
#include "policy_lab.h"
#include "test.h"

static const struct {
	struct policy_seen seen;
	const char *rule;
} cases[] = {
	{ { .method = "GET", .host = "a.x", .port = 443, .path = "/repos/b?c=d" },
	  "  - allow: a.x\n    methods: [GET]\n    paths: [/repos/b]\n" },
	{ { .method = "POST", .host = "a.x", .port = 8443, .path = "/" },
	  "  - allow: a.x:8443\n    scheme: https\n    methods: [POST]\n    paths: [/]\n" },
	{ { .method = "GET", .host = "a.x", .port = 80, .path = "/a'b [1]", .plain = true },
	  "  - allow: a.x\n    methods: [GET]\n    paths: ['/a''b%20[1]']\n" },
	{ { .method = "GET", .host = "a.x", .port = 443, .path = "/@s%2Fn/%20" },
	  "  - allow: a.x\n    methods: [GET]\n    paths: ['/@s%2Fn/%20', '/@s/n/%20']\n" },
	{ { .method = "GET", .host = "a.x", .port = 443, .path = "/%2F" },
	  "  - allow: a.x\n    methods: [GET]\n    paths: ['/%2F', //]\n" },
	{ { .method = "OPTIONS", .host = "a.x", .port = 443, .path = "*" },
	  "  - allow: a.x\n    methods: [OPTIONS]\n" },
	{ { .method = "GET", .host = "[fd00::1]", .port = 443, .path = "/" },
	  "  - allow: '[fd00::1]'\n    methods: [GET]\n    paths: [/]\n" },
	{ { .protocol = POLICY_TCP, .host = "fd00::1", .port = 5432 },
	  "  - allow: '[fd00::1]:5432'\n    protocol: tcp\n" },
	{ { .protocol = POLICY_TCP, .host = "db.x", .port = 443, .private_address = true },
	  "  - allow: db.x:443\n    protocol: tcp\n    private: true\n" },
	{ { .protocol = POLICY_TLS, .host = "db.x", .port = 443 },
	  "  - allow: db.x\n    protocol: tls\n" },
	{ { .method = "GET", .host = "a.x", .port = 443, .path = "/ws", .websocket = true },
	  "  - allow: a.x\n    upgrade: websocket\n    paths: [/ws]\n" },
	{ { .method = "PUT", .host = "a.x", .port = 443, .path = "/u", .secret = true,
	    .sent = 50 << 20 },
	  "  - allow: a.x\n    methods: [PUT]\n    paths: [/u]\n    secrets: allow\n"
	  "    body: {max: 51M}\n" },
	{ { .method = "POST", .host = "a.x", .port = 443, .path = "/o/r.git/git-upload-pack" },
	  "  - allow: a.x\n    git: {repos: [o/r]}\n" },
	{ { .method = "POST", .host = "a.x", .port = 443, .path = "/o/r/git-receive-pack" },
	  "  - allow: a.x\n    git: {push: ['refs/heads/**'], repos: [o/r]}\n"
	  "    # better only the branches that it may push: refs/heads/agent/*\n" },
	{ { .method = "POST", .host = "a.x", .port = 443, .path = "/o/r/git-receive-pack",
	    .refs = "refs/heads/a :refs/heads/b" },
	  "  - allow: a.x\n    git: {push: [refs/heads/a, refs/heads/b], delete: true, "
	  "repos: [o/r]}\n" },
	{ { .method = "POST", .host = "a.x", .port = 443, .path = "/o/r/git-receive-pack",
	    .refs = "+refs/tags/v1", .push_options = true },
	  "  - allow: a.x\n    git: {push: [refs/tags/v1], force: true, options: true, "
	  "repos: [o/r]}\n" },
	/* Not all of them were told. */
	{ { .method = "POST", .host = "a.x", .port = 443, .path = "/o/r/git-receive-pack",
	    .refs = "refs/tags/v1 ..." },
	  "  - allow: a.x\n    git: {push: ['refs/heads/**', 'refs/tags/**'], repos: [o/r]}\n" },
	{ { .method = "GET", .host = "a.x", .port = 443, .path = "/o/r/info/refs" },
	  "  - allow: a.x\n    git: {repos: [o/r]}\n"
	  "    # if this was a push, also the branches: push: [refs/heads/agent/*]\n" },
	{ { .method = "GET", .host = "10.0.0.1", .port = 443, .path = "/", .private_address = true },
	  "  - allow: 10.0.0.1\n    methods: [GET]\n    paths: [/]\n" },
	{ { .host = "a.x" }, "  - allow: a.x\n"
	  "    # its ports are 80 and 443; for another write a.x:PORT, with `protocol: tcp` if it is not HTTP\n" },
	{ { .host = "a b" }, NULL },
	{ { .method = "GET", .host = "127.0.0.1", .port = 443, .path = "/" }, NULL },
	{ { .method = "GET", .host = "*.x", .port = 443, .path = "/" }, NULL },
	{ { .method = "get", .host = "a.x", .port = 443, .path = "/" }, NULL },
	{ { .method = "GET", .host = "", .port = 443, .path = "/" }, NULL },
};

TEST(policy_write_rule_for)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) char *text = NULL;
		struct err err = {0};

		if (cases[i].rule == NULL) {
			CHECK_ERR(policy_write_rule_for(&cases[i].seen, &text, &err), EINVAL);
			continue;
		}
		if (policy_write_rule_for(&cases[i].seen, &text, &err) < 0)
			test_fail(__FILE__, __LINE__, "case %zu: %s", i, err.text);
		CHECK_STR(text, cases[i].rule);
	}
}

static const char *
request_of(const struct policy_seen *seen)
{
	static char text[4096];
	static const char *const protocols[] = { "https", "tcp", "tls" };

	snprintf(text, sizeof(text), "%s %s://%s:%d%s\nlength: %llu%s",
	         seen->method != NULL ? seen->method : "-",
	         seen->plain ? "http" : protocols[seen->protocol], seen->host, seen->port,
	         seen->path != NULL ? seen->path : "/", (unsigned long long)seen->sent,
	         seen->websocket ? "\nupgrade: websocket" : "");
	return text;
}

/* What was seen is allowed by what is written, up to bodies. */
static void
check_learns(const struct policy_seen *seen, size_t n, const char *want)
{
	OWN(freep) char *text = NULL;
	OWN(policy_freep) struct policy *p = NULL;
	struct err err = {0};

	if (policy_write_for(seen, n, "test\nof it", &text, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK_OK(policy_load_text("p", text, strlen(text), &p, NULL, &err));
	for (size_t i = 0; i < n; i++)
		if (strncmp(lab_decide(p, request_of(&seen[i])), "allow", 5) != 0)
			test_fail(__FILE__, __LINE__, "%s\n%s", request_of(&seen[i]), text);
	if (want != NULL)
		CHECK_STR(strstr(text, "egress:\n") + 8, want);
}

#define SEEN(method_, host_, path_) \
	{ .method = method_, .host = host_, .port = 443, .path = path_ }

TEST(policy_write_for)
{
	static const struct policy_seen seen[] = {
		SEEN("GET", "api.x", "/users/17"),
		SEEN("GET", "api.x", "/users/18"),
		SEEN("GET", "api.x", "/users/me"),
		SEEN("HEAD", "api.x", "/users/me"),
		SEEN("HEAD", "api.x", "/users/19"),
		SEEN("POST", "api.x", "/jobs/0a1b2c3d-4e5f/run"),
		{ .method = "PUT", .host = "api.x", .port = 8080, .path = "/big", .sent = 20 << 20,
		  .plain = true },
		{ .method = "GET", .host = "api.x", .port = 80, .path = "/users/me", .plain = true },
		{ .method = "GET", .host = "api.x", .port = 443, .path = "/live", .websocket = true },
		SEEN("GET", "git.x", "/o/r.git/info/refs?service=git-upload-pack"),
		SEEN("POST", "git.x", "/o/r.git/git-upload-pack"),
		SEEN("GET", "git.x", "/o/s/info/refs?service=git-receive-pack"),
		SEEN("GET", "git.x", "/o/s"),
		{ .protocol = POLICY_TCP, .host = "db.x", .port = 5432, .private_address = true },
		{ .protocol = POLICY_TLS, .host = "pin.x", .port = 443 },
	};

	check_learns(seen, ARRAY_LEN(seen),
		"  # 1 request\n  - allow: api.x\n    upgrade: websocket\n    paths: [/live]\n"
		"  # 6 requests\n  - allow: api.x\n    methods: [GET, HEAD]\n"
		"    paths: [/users/*]\n"
		"  # 1 request\n  - allow: api.x\n    methods: [POST]\n    paths: [/jobs/*/run]\n"
		"  # 1 request\n  - allow: api.x:8080\n    scheme: http\n    methods: [PUT]\n    paths: [/big]\n"
		"    body: {max: 21M}\n"
		"  # 3 requests\n  - allow: git.x\n"
		"    # better only the branches that it may push: refs/heads/agent/*\n"
		"    git: {push: ['refs/heads/**'], repos: [o/s]}\n"
		"  # 3 requests\n  - allow: git.x\n    git: {repos: [o/r]}\n"
		"  # 1 request\n  - allow: git.x\n    methods: [GET]\n    paths: [/o/s]\n"
		"  # 1 request\n  - allow: db.x:5432\n    protocol: tcp\n    private: true\n"
		"  # 1 request\n  - allow: pin.x\n    protocol: tls\n");
	check_learns(NULL, 0, "  []  # nothing was asked for\n");
}

TEST(policy_write_for_many)
{
	static struct policy_seen seen[3000];
	static char paths[3000][64];
	size_t n = 0;

	/* As installing packages looks, and a site that is crawled. */
	for (; n < 1000; n++) {
		snprintf(paths[n], sizeof(paths[n]), n % 2 ? "/pkg-%zu" : "/pkg-%zu/-/pkg-1.%zu.tgz", n / 2,
		         n);
		seen[n] = (struct policy_seen)SEEN("GET", "reg.x", paths[n]);
	}
	for (; n < 2000; n++) {
		snprintf(paths[n], sizeof(paths[n]), "/%c/%c%zu/%zu/x%zu", 'a' + (char)(n % 5),
		         'a' + (char)(n % 3), n % 7, n, n % 2);
		seen[n] = (struct policy_seen)SEEN(n % 3 ? "GET" : "POST", "crawl.x", paths[n]);
	}
	for (; n < 3000; n++) {
		snprintf(paths[n], sizeof(paths[n]), "/h%zu", n % 4);
		seen[n] = (struct policy_seen)SEEN("GET", paths[n] + 1, "/");
	}
	check_learns(seen, n, NULL);
	check_learns(seen, 1000,
	             "  # 1000 requests\n  - allow: reg.x\n    methods: [GET]\n"
	             "    paths: [/*, /*/-/*]\n");
}

/* What no rule can tell from more is not suggested. */
TEST(policy_suggest_nothing_wider)
{
	static const char *const paths[] = { "/**", "/*", "/a%2Ab", "/%2a%2A" };
	char *text = NULL;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		const struct policy_seen seen = { .method = "GET", .host = "a.x", .port = 443,
		                                  .path = paths[i] };

		CHECK(policy_write_rule_for(&seen, &text, NULL) < 0);
	}
}

/* ---- calls of MCP tools ---- */

TEST(policy_suggest_calls)
{
	static const struct policy_seen seen[] = {
		{ .host = "tools.cloister.internal", .port = 80, .plain = true, .method = "POST", .path = "/mcp" },
		{ .host = "tools.cloister.internal", .port = 80, .method = "POST", .path = "/mcp", .tool = "gh.get_issue" },
		{ .host = "tools.cloister.internal", .port = 80, .method = "POST", .path = "/mcp", .tool = "gh.get_issue" },
		{ .host = "tools.cloister.internal", .port = 80, .method = "POST", .path = "/mcp", .prompt = "gh.review" },
		{ .host = "tools.cloister.internal", .port = 80, .method = "POST", .path = "/mcp", .resource = "fs/file:///a b" },
		{ .host = "tools.cloister.internal", .port = 80, .method = "POST", .path = "/mcp", .tool = "gh.get_*" },
		{ .host = "a.example", .port = 443, .method = "GET", .path = "/x" },
	};
	OWN(freep) char *text = NULL, *one = NULL, *none = NULL;

	CHECK_OK(policy_write_for(seen, ARRAY_LEN(seen), "x", &text, NULL));
	CHECK(strstr(text, "egress:\n  - allow: tool:gh.get_issue\n  - allow: prompt:gh.review\n"
	             "  - allow: 'resource:fs/file:///a b'\n") != NULL);
	CHECK(strstr(text, "  - allow: a.example\n") != NULL && strstr(text, "left out") == NULL);
	CHECK(strstr(text, "tools.cloister.internal") == NULL);
	CHECK_OK(policy_write_rule_for(&seen[1], &one, NULL));
	CHECK_STR(one, "  - allow: tool:gh.get_issue\n");
	CHECK(policy_write_rule_for(&seen[0], &none, NULL) < 0);
	CHECK(policy_write_rule_for(&seen[5], &none, NULL) < 0);
}
