/* policy_tools.c - tests of `tools`: reading, the lock, text and messages. */
#include "policy/policy_tools.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_flat.h"
#include "policy_lab.h"
#include "test.h"

#define HASH "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define LOCK "{version: 1, servers: {" \
	"gh: {program: {path: /usr/bin/x, sha256: " HASH "}, " \
	"files: {z.js: " HASH ", 'it''s': " HASH "}, server: {name: x, version: 1}, tools: {" \
	"get_issue: {sha256: " HASH ", description: Get, input: '{}', annotations: {read_only: true, destructive: false}}, " \
	"create_issue: {sha256: " HASH ", scope: {egress: [{allow: api.github.com, methods: [POST]}], secrets: [GITHUB_TOKEN], " \
	"write: [], time: 30s}, examples: [{arguments: {a: 1}}]}}}, " \
	"fs: {tools: {read: {sha256: " HASH ", annotations: {open_world: false}}}}, own: {program: {sha256: " HASH "}}, bare: {}}}"
#define SERVERS "servers: {gh: {command: [npx, -y, it's], env: {LEVEL: quiet, N: 1}, read: [~/docs, /srv/x], write: [.], " \
	"folder: ., per: call, idle: 90s, timeout: 250ms, result: 64K, policy: {egress: [{allow: api.github.com}], " \
	"secrets: [GITHUB_TOKEN]}}, fs: {image: 'mcp/fs:1'}, far: {url: 'https://mcp.example.com/mcp'}, " \
	"own: {wasm: tools/own.wasm}}"
#define FILE_OF(tools) "version: 1\ntools: {" tools "}\n"

static const struct policy_reader reader = { .hook = policy_any_hook };

static struct policy *
load(const char *text)
{
	struct policy *p = NULL;
	struct err err = {0};

	if (policy_load_text_all("p", text, strlen(text), &reader, &p, NULL, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s in\n%s", err.text, text);
	return p;
}

static void
check_servers(const struct policy_tools *tools)
{
	const struct policy_tools_server *gh = policy_tools_server(tools, "gh.x", 2);

	CHECK(tools->n_servers == 4 && gh == &tools->servers[0]);
	CHECK(policy_tools_server(tools, "g", 1) == NULL);
	CHECK_STR(gh->command[2], "it's");
	CHECK(gh->n_command == 3 && gh->command[3] == NULL && gh->image == NULL && gh->url == NULL && gh->per_call);
	CHECK_STR(gh->env.at[0], "LEVEL=quiet");
	CHECK_STR(gh->env.at[1], "N=1");
	CHECK(gh->env.n == 2 && gh->read.n == 2 && gh->write.n == 1);
	CHECK_STR(gh->read.at[0], "~/docs");
	CHECK_STR(gh->folder, ".");
	CHECK(gh->idle_ms == 90000 && gh->timeout_ms == 250 && gh->result_max == 65536);
	CHECK_STR(gh->policy, "{version: 1, egress: [{allow: api.github.com}], secrets: [GITHUB_TOKEN]}");
	CHECK(tools->servers[1].n_command == 0 && tools->servers[1].command[0] == NULL && !tools->servers[1].per_call);
	CHECK(tools->servers[1].idle_ms == 300000 && tools->servers[1].timeout_ms == 60000 &&
	      tools->servers[1].result_max == 1 << 20);
	CHECK_STR(tools->servers[1].image, "mcp/fs:1");
	CHECK_STR(tools->servers[2].url, "https://mcp.example.com/mcp");
	CHECK_STR(tools->servers[3].wasm, "tools/own.wasm");
	CHECK(tools->servers[3].per_call && tools->servers[2].wasm == NULL);
}

static void
check_lock(const struct policy_tools *tools)
{
	const struct policy_tool *tool = policy_tools_locked(tools, "gh.get_issue");

	CHECK(tools->has_lock && tools->n_locked == 3 && tool != NULL);
	CHECK(tool->hints == (POLICY_TOOL_READ_ONLY | POLICY_TOOL_OPEN_WORLD));
	CHECK_STR(tool->hash, HASH);
	CHECK_STR(tool->scope, "");
	tool = policy_tools_locked(tools, "gh.create_issue");
	CHECK(tool->hints == (POLICY_TOOL_DESTRUCTIVE | POLICY_TOOL_OPEN_WORLD));
	CHECK_STR(tool->scope, "{egress: [{allow: api.github.com, methods: [POST]}], secrets: [GITHUB_TOKEN], write: [], time: 30s}");
	CHECK(policy_tools_locked(tools, "fs.read")->hints == POLICY_TOOL_DESTRUCTIVE);
	CHECK(policy_tools_locked(tools, "gh.get") == NULL);
}

static void
check_pins(const struct policy_tools *tools)
{
	size_t n;
	const struct policy_tools_pin *pins = policy_tools_pins(tools, "gh", &n);

	CHECK(tools->n_pins == 4 && n == 3);
	CHECK_STR(pins[0].file, "");
	CHECK_STR(pins[1].file, "it's");
	CHECK_STR(pins[2].file, "z.js");
	CHECK_STR(pins[2].hash, HASH);
	pins = policy_tools_pins(tools, "own", &n);
	CHECK(n == 1 && pins->file[0] == '\0');
	CHECK(policy_tools_pins(tools, "fs", &n) == NULL && n == 0 && policy_tools_pins(tools, "g", &n) == NULL);
}

TEST(policy_tools_read)
{
	OWN(policy_freep) struct policy *p = load(FILE_OF("lock: " LOCK ", injection: off, results: allow, " SERVERS));
	OWN(policy_freep) struct policy *plain = load(FILE_OF(SERVERS)), *none = load("version: 1\n");
	OWN(policy_freep) struct policy *asks = load(FILE_OF("injection: ask, results: ask, ask_timeout: 90s, " SERVERS));
	const struct policy_tools *tools = policy_tools_of(p);

	check_servers(tools);
	check_lock(tools);
	check_pins(tools);
	CHECK(tools->injection == POLICY_INJECTION_OFF && !tools->ask_results);
	tools = policy_tools_of(plain);
	CHECK(tools->injection == POLICY_INJECTION_FLAG && !tools->ask_results && !tools->has_lock);
	CHECK(tools->ask_ms == POLICY_TOOLS_ASK_MS);
	tools = policy_tools_of(asks);
	CHECK(tools->injection == POLICY_INJECTION_ASK && tools->ask_results && tools->ask_ms == 90 * 1000);
	CHECK(policy_tools_of(none) == NULL);
	/* Of layers, the first that has any. */
	CHECK_OK(policy_within(none, &p, NULL));
	CHECK(policy_tools_of(none)->injection == POLICY_INJECTION_OFF);
}

TEST(policy_tools_refused)
{
	static const struct { const char *tools, *why; } cases[] = {
		{ "injection: flag", "2:8: `tools` is a map with `servers`" },
		{ "servers: {}", "`servers` is a map of names" },
		{ "servers: {Gh: {command: x}}", "2:19: 'Gh' is not the name of a server" },
		{ "servers: {gh: {}}", "2:19: a server has a `command`, an `image`" },
		{ "servers: {gh: {wasm: x, image: y}}", "a server has a `command`, an `image`" },
		{ "servers: {gh: {wasm: x, per: session}}", "a WASI module is run for each call" },
		{ "servers: {gh: {wasm: ../x}}", "is not a plain path" },
		{ "servers: {gh: {wasm: 'capability:words'}}", "is not a capability" },
		{ "servers: {gh: {command: x, url: 'https://x'}}", "a server has a `command`, an `image`" },
		{ "servers: {gh: {url: 'https://x', read: /x}}", "runs elsewhere" },
		{ "servers: {gh: {url: 'ftp://x'}}", "'ftp://x' is not the URL of a server" },
		{ "servers: {gh: {url: 'https://u:p@x'}}", "neither a user" },
		{ "servers: {gh: {command: x, read: /x/../y}}", "2:42: '/x/../y' is not a plain path" },
		{ "servers: {gh: {command: x, read: ../y}}", "is not a plain path" },
		{ "servers: {gh: {command: x, read: ~root/y}}", "is not a plain path" },
		{ "servers: {gh: {command: x, folder: /x/}}", "is not a plain path" },
		{ "servers: {gh: {command: x, env: {1A: x}}}", "'1A=x' is not the name of a variable" },
		{ "servers: {gh: {command: x, env: {A: [x]}}}", "the value of a variable is a word" },
		{ "servers: {gh: {command: x, per: turn}}", "`per: call`" },
		{ "servers: {gh: {command: x, idle: 1ms}}", "`idle` is from 1s to 24h" },
		{ "servers: {gh: {command: x, timeout: 2h}}", "`timeout` of a call is from 100ms to 1h" },
		{ "servers: {gh: {command: x, result: 1G}}", "from 1K to 64M" },
		{ "servers: {gh: {command: x, cwd: /x}}", "there is no key 'cwd' of a server" },
		{ "servers: {gh: {command: x, policy: {egres: []}}}", "2:45: there is no key 'egres'" },
		{ "servers: {gh: {command: x, policy: {tools: {}}}}", "no servers of its own" },
		{ "servers: {gh: {command: x, policy: {extends: x.yaml}}}", "a file cannot be read from here" },
		{ "injection: warn, servers: {gh: {command: x}}", "`flag`, `ask` or `off`" },
		{ "results: deny, servers: {gh: {command: x}}", "results are passed on, or wait for a person" },
		{ "ask_timeout: 500ms, servers: {gh: {command: x}}", "2:22: `ask_timeout` is how long a result waits" },
		{ "ask_timeout: 25h, servers: {gh: {command: x}}", "from 1s to 24h" },
		{ "lock: x.yaml, servers: {gh: {command: x}}", "2:15: a file cannot be read from here" },
		{ "lock: {servers: {}}, servers: {gh: {command: x}}", "begins with `version: 1`" },
		{ "lock: {version: 1}, servers: {gh: {command: x}}", "a lock has `servers`" },
		{ "lock: {version: 1, servers: {gh: {tools: {x: {}}}}}, servers: {gh: {command: x}}", "has its `sha256`" },
		{ "lock: {version: 1, servers: {gh: {tools: {x: {sha256: " HASH ", scope: {egress: [{alow: x}]}}}}}}, "
		  "servers: {gh: {command: x}}", "there is no key 'alow' in a rule" },
		{ "lock: {version: 1, servers: {gh: {tools: {x: {sha256: " HASH ", annotations: {readonly: true}}}}}}, "
		  "servers: {gh: {command: x}}", "did you mean 'read_only'?" },
		{ "lock: {version: 1, servers: {gh: {tools: {'x y': {sha256: " HASH "}}}}}, servers: {gh: {command: x}}",
		  "'x y' is not the name of a tool" },
		{ "lock: {version: 1, servers: {gh: {program: {sha256: 12}}}}, servers: {gh: {command: x}}", "the SHA-256 of a file" },
		{ "lock: {version: 1, servers: {gh: {program: {md5: 12}}}}, servers: {gh: {command: x}}", "of a locked program" },
		{ "lock: {version: 1, servers: {gh: {files: {x: y}}}}, servers: {gh: {command: x}}", "the SHA-256 of a file" },
		{ "lock: {version: 1, servers: {gh: {files: x}}}, servers: {gh: {command: x}}", "`files` is a map" },
		{ "lock: {version: 1, servers: {gh: {files: {'': " HASH "}}}}, servers: {gh: {command: x}}", "has a name" },
	};
	static const char text[] = FILE_OF("servers: {gh: {command: x}}");
	struct policy *p = NULL;
	struct err err = {0};
	char file[2048];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *why;

		snprintf(file, sizeof(file), "version: 1\ntools: {%s}\n", cases[i].tools);
		why = lab_refuses_file(file);
		if (*why == '\0' || strstr(why, cases[i].why) == NULL)
			printf("%s: %s\n", cases[i].tools, why);
		CHECK(*why != '\0' && strstr(why, cases[i].why) != NULL);
	}
	/* Only who runs hooks may accept them. */
	CHECK(policy_load_text("p", text, strlen(text), &p, NULL, &err) < 0);
	CHECK(strstr(err.text, "p:2:8: `tools` start servers outside of this cell") != NULL);
}

/* The same policy in a message, and as one text that names no files. */
TEST(policy_tools_messages)
{
	static const char text[] = FILE_OF("lock: " LOCK ", injection: ask, results: ask, ask_timeout: 90s, " SERVERS)
		"watch: [{write: ~/.ssh, then: freeze}]\negress: [{allow: a.x}]\n";
	OWN(policy_freep) struct policy *p = load(text), *again = NULL, *flat = NULL, *bad = NULL;
	OWN(policy_flat_free) struct policy_flat f, g;
	OWN(buf_free) struct buf b = BUF(1 << 20), c = BUF(1 << 20), t = BUF(1 << 20), u = BUF(1 << 20);

	policy_put(&b, p);
	CHECK_OK(policy_get(&b, &again, NULL));
	CHECK(buf_left(&b) == 0);
	check_servers(policy_tools_of(again));
	check_lock(policy_tools_of(again));
	check_pins(policy_tools_of(again));
	policy_put(&c, again);
	CHECK(c.len == b.len && memcmp(c.data, b.data, b.len) == 0);
	for (size_t n = 0; n < c.len; n += 7) {
		OWN(policy_freep) struct policy *none = NULL;
		struct buf cut;

		buf_init_borrowed(&cut, c.data, n);
		CHECK(policy_get(&cut, &none, NULL) < 0);
	}
	memcpy(memmem(c.data, c.len, HASH, 64), "X", 1);
	CHECK(policy_get(&c, &bad, NULL) < 0);

	policy_flat_init(&f);
	policy_flat_init(&g);
	CHECK_OK(policy_flat_load(&f, "p", text, strlen(text), NULL, NULL, NULL));
	policy_flat_put(&t, &f);
	CHECK_OK(policy_flat_load(&g, "p", (const char *)t.data, t.len, NULL, &flat, NULL));
	check_servers(policy_tools_of(flat));
	check_lock(policy_tools_of(flat));
	check_pins(policy_tools_of(flat));
	CHECK(policy_tools_of(flat)->ask_results && policy_tools_of(flat)->ask_ms == 90 * 1000);
	CHECK(policy_tools_of(flat)->injection == POLICY_INJECTION_ASK);
	policy_flat_put(&u, &g);
	CHECK(t.len == u.len && memcmp(t.data, u.data, t.len) == 0);
}

TEST(policy_tools_paths)
{
	char path[32];

	CHECK_OK(policy_tools_path("/x", "/w", "/h", path, sizeof(path), NULL));
	CHECK_STR(path, "/x");
	CHECK_OK(policy_tools_path(".", "/w", "/h", path, sizeof(path), NULL));
	CHECK_STR(path, "/w");
	CHECK_OK(policy_tools_path("a/b", "/w", "/h", path, sizeof(path), NULL));
	CHECK_STR(path, "/w/a/b");
	CHECK_OK(policy_tools_path("~", "/w", "/h", path, sizeof(path), NULL));
	CHECK_STR(path, "/h");
	CHECK_OK(policy_tools_path("~/d", "/w", "/h", path, sizeof(path), NULL));
	CHECK_STR(path, "/h/d");
	CHECK(policy_tools_path("~/0123456789012345678901234567890", "/w", "/h", path, sizeof(path), NULL) < 0);
}

/* ---- rules for calls ---- */

#define WITH_TOOLS(egress) FILE_OF("lock: " LOCK ", servers: {gh: {command: x}, fs: {command: y}}") "egress:\n" egress

/* "allow 3", as lab_decide() has it, for a POST to the gateway whose body fits the rules in FITS. */
static const char *
decide(const struct policy *p, unsigned fits)
{
	return lab_decide_body(p, "POST http://tools.cloister.internal:80/mcp\nlength: 9", fits);
}

TEST(policy_calls_read)
{
	OWN(policy_freep) struct policy *p = lab_rules(
		"- {allow: 'tool:gh.get_*', args: {/n: {min: 1, max: 5}, /t: [a*, 1, absent], /p: {pattern: ^x}, "
		"/s: {schema: {type: object, required: [a], properties: {a: {enum: [1, x]}}}}}, reason: r}\n"
		"- {ask: ['tool:**', 'prompt:gh.*', 'resource:fs/file:///srv/**'], approvals: 2}\n"
		"- {deny: '*', reason: ask Bob}\n");
	const struct policy_rule *rule = policy_rule_at(p, 2);

	/* In front of the first rule for calls stand those for messages that call nothing. */
	CHECK(policy_n_rules(p) == 5);
	CHECK_STR(policy_rule_place(p, 0), "built-in");
	CHECK_STR(policy_rule_text(p, 0), "allow messages that call no tool");
	CHECK_STR(policy_rule_text(p, 2), "allow tool:gh.get_* args /n args /t args /p args /s");
	CHECK_STR(policy_rule_text(p, 3), "ask tool:**, prompt:gh.*, resource:fs/file:///srv/** approvals 2");
	CHECK(rule->call.n_args == 4 && rule->call.args[0].has_max && rule->call.args[0].min == 1);
	CHECK_STR(rule->call.args[3].schema, "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"enum\":[1,\"x\"]}}}");
	CHECK(policy_mentions_host(p, POLICY_TOOLS_HOST));
}

TEST(policy_calls_decide)
{
	OWN(policy_freep) struct policy *p = lab_rules("- {allow: 'tool:gh.*'}\n- {allow: '*'}\n");
	OWN(policy_freep) struct policy *none = lab_rules("- {allow: '*'}\n");
	OWN(policy_freep) struct policy *denied = lab_rules("- {deny: '*', principal: x}\n- {deny: '*'}\n");
	OWN(policy_freep) struct policy *raw = lab_rules("- {allow: '*:80', protocol: tcp}\n");
	struct policy_request req = { .protocol = POLICY_TCP, .host = POLICY_TOOLS_HOST, .port = 80 };
	struct policy_decision d;

	CHECK_STR(lab_decide(p, "POST http://tools.cloister.internal:80/mcp\nlength: 9"), "allow? 0");
	CHECK_STR(decide(p, 1), "allow 0");
	CHECK_STR(decide(p, 4), "allow 2");
	CHECK_STR(decide(p, 0), "deny -1");
	CHECK_STR(lab_decide(p, "GET http://tools.cloister.internal:80/mcp"), "allow 1");
	CHECK_STR(lab_decide(p, "DELETE http://tools.cloister.internal:80/mcp"), "allow 1");
	CHECK_STR(lab_decide(p, "PUT http://tools.cloister.internal:80/mcp\nlength: 9"), "deny -1");
	CHECK_STR(lab_decide(p, "POST https://tools.cloister.internal:443/mcp\nlength: 9"), "deny -1");
	CHECK_STR(lab_decide(p, "POST http://tools.cloister.internal:80/other\nlength: 9"), "deny -1");
	CHECK_STR(lab_decide(p, "POST http://a.x:80/mcp\nlength: 9"), "allow 3");
	/* No host's rule allows a call; one that refuses does refuse it. */
	CHECK_STR(lab_decide(none, "POST http://tools.cloister.internal:80/mcp\nlength: 9"), "deny -1");
	CHECK_STR(lab_decide(denied, "POST http://tools.cloister.internal:80/mcp\nlength: 9"), "deny 1");
	policy_decide(raw, &req, &d, NULL);
	CHECK(d.verdict == POLICY_DENY && d.rule == -1);
}

TEST(policy_calls_annotations)
{
	OWN(policy_freep) struct policy *p = load(WITH_TOOLS(
		"- {deny: 'tool:**', annotations: {read_only: false, open_world: false}}\n"
		"- {allow: 'tool:gh.*', annotations: {read_only: true}}\n"));
	const struct policy_rule *rule = policy_rule_at(p, 3);

	CHECK_STR(policy_rule_text(p, 3), "allow tool:gh.* annotations [read_only]");
	CHECK(rule->call.n == 1 && rule->call.hints == 0);
	CHECK_STR(rule->call.at[0].glob, "gh.get_issue");
	rule = policy_rule_at(p, 2);
	CHECK_STR(policy_rule_text(p, 2), "deny tool:** annotations [not read_only, not open_world]");
	CHECK(rule->call.n == 1);
	CHECK_STR(rule->call.at[0].glob, "fs.read");
}

TEST(policy_calls_refused)
{
	static const struct { const char *rule, *why; } cases[] = {
		{ "{allow: 'tool:gh'}", "3:11: a server stands in front: write tool:SERVER.gh, or tool:** for all" },
		{ "{allow: 'tool:*'}", "or tool:** for all" },
		{ "{allow: 'tool:Gh.x'}", "'Gh' is not the name of a server" },
		{ "{allow: 'tool:gh.x y'}", "'x y' is not the name of a tool" },
		{ "{allow: 'resource:file'}", "write resource:SERVER/file" },
		{ "{allow: ['tool:gh.x', a.x]}", "a rule is about hosts or about tools" },
		{ "{allow: [a.x, 'tool:gh.x']}", "a rule is about hosts or about tools" },
		{ "{allow: tools.cloister.internal}", "name the tools" },
		{ "{allow: 'tool:gh.x', methods: [POST]}", "'methods' is about requests to hosts" },
		{ "{allow: 'tool:gh.x', ports: [80]}", "'ports' is about requests to hosts" },
		{ "{allow: 'tool:gh.x', private: true}", "'private' is about requests to hosts" },
		{ "{allow: 'tool:gh.x', body: {max: 1K}}", "'body' is about requests to hosts" },
		{ "{allow: a.x, args: {/a: b}}", "'args' is about calls" },
		{ "{allow: a.x, annotations: {read_only: true}}", "'annotations' is about calls" },
		{ "{allow: 'tool:gh.x', annotations: {read_only: true}}", "`annotations` are those of the lock" },
		{ "{allow: 'prompt:gh.x', annotations: {read_only: true}}", "only tools have annotations" },
		{ "{allow: 'resource:gh/x', args: {/a: b}}", "resources are read without arguments" },
		{ "{allow: 'tool:gh.x', annotations: {readonly: true}}", "did you mean 'read_only'?" },
		{ "{allow: 'tool:gh.x', args: {a: b}}", "a JSON pointer begins with '/'" },
		{ "{allow: 'tool:gh.x', args: {/a: {min: 3, max: 1}}}", "a range goes upwards" },
		{ "{allow: 'tool:gh.x', args: {/a: {pattern: '('}}}", "this regular expression breaks off" },
		{ "{allow: 'tool:gh.x', args: {/a: {schema: {type: text}}}}", "a type is object, array" },
		{ "{allow: 'tool:gh.x', args: {/a: {schema: {format: date}}}}", "there is no key 'format' in a schema" },
		{ "{allow: 'tool:gh.x', args: {/a: {schema: {properties: {b: {minLength: -1}}}}}}", "a whole number" },
		{ "{allow: 'tool:gh.x', args: {/a: {is: 1}}}", "there is no key 'is' in a condition" },
		{ "{allow: 'tool:gh.*'}\n- {allow: 'tool:gh.x'}", "4:3: this rule is never reached" },
		{ "{deny: '*'}\n- {allow: 'tool:gh.x'}", "4:3: this rule is never reached" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char rules[512];
		const char *why;

		snprintf(rules, sizeof(rules), "- %s\n", cases[i].rule);
		why = lab_refuses(rules);
		if (*why == '\0' || strstr(why, cases[i].why) == NULL)
			printf("%s: %s\n", cases[i].rule, why);
		CHECK(*why != '\0' && strstr(why, cases[i].why) != NULL);
	}
	/* `*` is no tool, and a narrower or another rule is reached. */
	CHECK_STR(lab_refuses("- {allow: '*'}\n- {allow: 'tool:gh.x'}\n- {allow: 'tool:gh.*'}\n- {allow: 'prompt:gh.x'}\n"
	                      "- {allow: 'tool:fs.x', args: {/a: 1}}\n- {allow: 'tool:fs.x'}\n"), "");
}

TEST(policy_calls_messages)
{
	OWN(policy_freep) struct policy *p = load(WITH_TOOLS(
		"- {allow: 'tool:gh.get_*', args: {/n: {min: 1}, /t: [a*, absent], /s: {schema: {type: object}}}}\n"
		"- {allow: 'tool:**', annotations: {read_only: true}, then: {narrow: {egress: [{allow: 'tool:gh.x'}]}}}\n")), *again = NULL;
	OWN(policy_freep) struct policy *bad = NULL;
	OWN(buf_free) struct buf b = BUF(1 << 20), c = BUF(1 << 20);
	char *at;

	policy_put(&b, p);
	CHECK_OK(policy_get(&b, &again, NULL));
	policy_put(&c, again);
	CHECK(c.len == b.len && memcmp(c.data, b.data, b.len) == 0);
	CHECK_STR(policy_rule_at(again, 3)->call.at[0].glob, "gh.get_issue");
	/* A rule for calls is for no other host. */
	at = memmem(c.data, c.len, POLICY_TOOLS_HOST, strlen(POLICY_TOOLS_HOST));
	*at = 'x';
	CHECK(policy_get(&c, &bad, NULL) < 0);
}

TEST(policy_calls_short)
{
	struct policy *p = NULL;
	struct err err = {0};

	CHECK_OK(policy_add_short(&p, "a.x", NULL));
	CHECK_OK(policy_add_short(&p, "tool:gh.get_*", NULL));
	CHECK_OK(policy_add_short(&p, "resource:fs/file:///x", NULL));
	CHECK(policy_n_rules(p) == 5);
	CHECK_STR(policy_rule_text(p, 3), "allow tool:gh.get_*");
	CHECK_STR(policy_rule_text(p, 4), "allow resource:fs/file:///x");
	CHECK(policy_add_short(&p, "tool:gh", &err) < 0);
	CHECK(strstr(err.text, "--allow 'tool:gh': a server stands in front") != NULL);
	CHECK(policy_n_rules(p) == 5);
	policy_free(p);
}
