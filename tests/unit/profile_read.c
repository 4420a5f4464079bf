/* profile_read.c - tests of the reader of profiles, and of those that come with cloister. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "profile/profile.h"
#include "test.h"

static const char whole[] =
	"version: 1\n"
	"about: An agent\n"
	"program: agent\n"
	"install: {npm: '@example/agent'}\n"
	"args: [--yes, now]\n"
	"env: {AGENT_HOME: ~/.agent, EMPTY: ''}\n"
	"allow: [preset:anthropic, GET docs.example.com]\n"
	"secrets: [ONE_KEY, [TWO_KEY, THREE_KEY]]\n"
	"home:\n"
	"  keep: [.agent, .config/agent]\n"
	"  read: [.agent/rules.md, .gitconfig]\n"
	"limits: {memory: 2G, pids: 512, time: 8h, cpus: 1.5, disk: 1G, io: 100M}\n"
	"nested: true\n"
	"mcp: {as: claude, servers: {docs: {url: 'https://mcp.example.com/v1?x=1'}, here: {command: [run, it], env: {A: b}}}}\n"
	"image: example.com/agent:1\n";

TEST(profile_read)
{
	OWN(profile_freep) struct profile *p = NULL;
	OWN(freep) char *words = NULL;
	struct err err = {0};

	CHECK_OK(profile_read("f", whole, sizeof(whole) - 1, &p, &err));
	CHECK_STR(p->about, "An agent");
	CHECK_STR(p->program, "agent");
	words = profile_install_words(p);
	CHECK_STR(words, "npm install -g @example/agent");
	CHECK(strv_len(p->args) == 2 && strv_len(p->env) == 2 && strv_len(p->allow) == 2);
	CHECK_STR(p->env[0], "AGENT_HOME=~/.agent");
	CHECK_STR(p->env[1], "EMPTY=");
	CHECK(p->n_secrets == 2 && strv_len(p->secrets[0]) == 1 && strv_len(p->secrets[1]) == 2);
	CHECK_STR(p->secrets[1][1], "THREE_KEY");
	CHECK(strv_len(p->keep) == 2 && strv_len(p->read) == 2 && p->nested);
	CHECK_STR(p->limits[PROFILE_MEMORY], "2G");
	CHECK_STR(p->limits[PROFILE_IO], "100M");
	CHECK_STR(p->image, "example.com/agent:1");
	CHECK(p->mcp.form == PROFILE_MCP_CLAUDE && p->mcp.n == 2 && strv_len(p->mcp.servers[1].command) == 2);
	CHECK_STR(p->mcp.servers[0].allow, "GET,POST,DELETE https://mcp.example.com/v1");
}

TEST(profile_read_least)
{
	OWN(profile_freep) struct profile *p = NULL;

	CHECK_OK(profile_read("f", "program: /opt/agent/run\n", 24, &p, NULL));
	CHECK_STR(p->program, "/opt/agent/run");
	CHECK(p->args == NULL && p->keep == NULL && p->n_secrets == 0 && !p->nested);
	CHECK(profile_install_words(p) == NULL);
}

TEST(profile_read_is_strict)
{
	static const struct { const char *text, *says; } bad[] = {
		{ "", "has the key program" }, { "[]", "is a map" }, { "about: x", "has the key program" },
		{ "program: a/b", "absolute path" }, { "program: -x", "absolute path" }, { "program: [a]", "line of text" },
		{ "program: ''", "line of text" }, { "program: \"a\\nb\"", "line of text" },
		{ "version: 2", "`version` is 1" }, { "progam: x", "did you mean 'program'?" },
		{ "login: x", "file and secret" }, { "login: {file: .a}", "file and secret" },
		{ "login: {file: /a, secret: s}", "not a path in the home" }, { "login: {fil: a}", "did you mean 'file'?" },
		{ "mcp: []", "as and servers" }, { "mcp: {as: vim}", "claude, codex" }, { "mcp: {to: x}", "no key 'to'" },
		{ "mcp: {servers: {a: {url: 'https://a.example/'}}}", "needs `as`" },
		{ "mcp: {as: codex, servers: {'a b': {url: 'https://a.example/'}}}", "name of a server" },
		{ "mcp: {as: codex, servers: {a: {}}}", "a `url`, or a `command`" },
		{ "mcp: {as: codex, servers: {a: {command: []}}}", "a `url`, or a `command`" },
		{ "mcp: {as: codex, servers: {a: {url: 'https://a.example/', command: [x]}}}", "a `url`, or a `command`" },
		{ "mcp: {as: codex, servers: {a: {url: 'http://a.example/'}}}", "address of a server" },
		{ "mcp: {as: codex, servers: {a: {url: 'https://*/'}}}", "address of a server" },
		{ "mcp: {as: codex, servers: {a: {uri: x}}}", "did you mean 'url'?" },
		{ "install: npm", "one of the keys" }, { "install: {brew: x}", "it takes npm" },
		{ "args: x", "is a list" }, { "args: [[x]]", "line of text" }, { "env: [A=1]", "is a map" },
		{ "env: {1A: x}", "name of a variable" }, { "env: {A: [x]}", "is a text" },
		{ "allow: ['preset:nothing']", "nothing" }, { "allow: ['http://[']", "http" },
		{ "secrets: X", "is a list" }, { "secrets: [[]]", "at least one name" },
		{ "secrets: [{a: b}]", "line of text" },
		{ "home: []", "keep and read" }, { "home: {hold: []}", "no key 'hold'" },
		{ "home: {keep: [/etc]}", "not a path in the home" }, { "home: {keep: [..]}", "not a path in the home" },
		{ "home: {keep: [a/../b]}", "not a path in the home" }, { "home: {keep: [~/x]}", "leave out ~/" },
		{ "home: {keep: [a//b]}", "not a path in the home" }, { "home: {keep: [a/]}", "not a path in the home" },
		{ "home: {keep: [.]}", "not a path in the home" },
		{ "home: {keep: [.a, .a/b]}", "is in another folder" }, { "home: {keep: [.a, .a]}", "is in another folder" },
		{ "home: {read: [.a], keep: [.a/b]}", "is in another folder" },
		{ "home: {read: [.a, .a/b]}", "is in another folder" },
		{ "limits: 4G", "is a map" }, { "limits: {memory: many}", "many" }, { "limits: {memori: 1G}", "did you mean 'memory'?" },
		{ "limits: {pids: 0}", "0" }, { "nested: maybe", "true or false" }, { "image: []", "line of text" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct profile *p = NULL;
		struct err err = {0};

		if (profile_read("f", bad[i].text, strlen(bad[i].text), &p, &err) == 0)
			test_fail(__FILE__, __LINE__, "accepted: %s", bad[i].text);
		CHECK(p == NULL);
		if (strncmp(err.text, "f:1:", 4) != 0 || strstr(err.text, bad[i].says) == NULL)
			test_fail(__FILE__, __LINE__, "%s: %s", bad[i].text, err.text);
	}
}

TEST(profile_name_ok)
{
	CHECK(profile_name_ok("claude") && profile_name_ok("cursor-agent") && profile_name_ok("4_x"));
	CHECK(!profile_name_ok("") && !profile_name_ok("-x") && !profile_name_ok("A") && !profile_name_ok("a/b"));
	CHECK(!profile_name_ok("..") && !profile_name_ok("a.yaml"));
	CHECK(!profile_name_ok("a23456789012345678901234567890123"));
}

TEST(profile_files)
{
	size_t n = 0;

	for (const struct profile_file *f = profile_files; f->file != NULL; f++, n++) {
		OWN(profile_freep) struct profile *p = NULL;
		struct err err = {0};

		if (profile_read(f->file, f->text, (size_t)(f->end - f->text), &p, &err) < 0)
			test_fail(__FILE__, __LINE__, "%s", err.text);
		CHECK(p->about != NULL && p->package != NULL);
	}
	CHECK(n > 0);
	CHECK(profile_find_file("claude") != NULL && profile_find_file("no-such") == NULL);
	CHECK(profile_find_file("../claude") == NULL);
}
