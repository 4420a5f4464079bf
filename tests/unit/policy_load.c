/* policy_load.c - tests of policy/policy_load, policy_read, policy_yaml and policy_check. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "policy/policy_behaviour.h"
#include "policy/policy_load.h"
#include "policy_lab.h"
#include "test.h"

/* Rules begin on line 3. */
#define RESOLVES "nothing is ever sent to this host: it resolves names over HTTPS, which would hide " \
	"them; the cell's own resolver needs no rule"

static const struct {
	const char *rules, *error;
} refused[] = {
	/* shape */
	{ "allow: x.y", "3:1: there is no key 'allow' in a policy: it takes version, egress, secrets, "
	  "exfiltration, limits, audit, extends, budgets, prices, tripwires, "
	  "boundary, runtime, images, run, record, watch, syscalls, programs, tools, state, volumes, cache" },
	{ "- x.y", "3:3: a rule is a map: `- allow: api.example.com`" },
	{ "- methods: [GET]", "3:3: a rule begins with allow, deny, ask or log: "
	  "`- allow: api.example.com`" },
	{ "- {allow: x.y, deny: x.z}", "3:16: a rule has one verb: 'allow' is already there" },
	{ "- allow: x.y\n  method: GET", "4:3: there is no key 'method' in a rule: did you mean "
	  "'methods'?" },
	{ "- allow: x.y\n  path: /", "4:3: there is no key 'path' in a rule: did you mean 'paths'?" },
	{ "- alow: x.y", "3:3: there is no key 'alow' in a rule: did you mean 'allow'?" },
	{ "- {allow: x.y, graphql: {}}", "3:16: 'graphql' belongs under `body:`" },
	{ "- {host: x.y}", "3:4: hosts stand behind the verb: `allow: api.example.com`" },
	{ "- {allow: x.y, methods: []}", "3:25: an empty list matches nothing: leave the key out" },
	{ "- {allow: x.y, methods: [GET, [A]]}", "3:31: a method is a word, not a list" },
	{ "- {allow: x.y, methods: }", "3:25: a method is missing here" },
	{ "- allow: x.y\n  allow: x.z", "4:3: 'allow' is here twice: it was said on line 3" },
	{ "- include: npm\n  methods: [GET]",
	  "3:3: `include` stands alone: what it names cannot be narrowed" },
	{ "- include: nmp", "3:12: there is no preset 'nmp': did you mean 'npm'? (a file's name ends "
	  "in .yaml)" },
	{ "- include: x.yaml", "3:12: a file cannot be read from here" },
	/* YAML that says something else than it seems to */
	{ "- &a {allow: x.y}", "3:3: anchors (&name) are not taken: write it out again" },
	{ "- *a", "3:3: '*' begins an alias here, which is not taken: a pattern stands in "
	  "quotes, '*.example.com'" },
	{ "- allow: !!str x.y", "3:10: tags (!name) are not taken: leave it out" },
	{ "- <<: {}\n", "3:3: merge keys (<<) are not taken: write it out again" },
	{ "- allow: x.y\n---\nx: y\n", "4:1: a second document begins here: a file has one" },
	{ "- {[a]: b}", "3:4: a key is a word, not a list or a map" },
	{ "- [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]", "3:17: this is nested too deeply" },
	{ "- \"a\\0b\"", "3:3: there is a control character in this text" },
	{ "- {allow: x.y, reason: \"\\e[31m\"}", "3:24: there is a control character in this text" },
	/* YAML that is none: what to write instead */
	{ "- allow: 'x", "3:10: the quote that begins here has no end" },
	{ "- allow: *.x.y", "3:10: '*' in front means something else to YAML: put it in quotes, "
	  "'*.x.y'" },
	{ "- allow: [\xc3\xbc, *]", "3:14: '*' in front means something else to YAML: put it in quotes, "
	  "'*'" },
	{ "\t- allow: x", "3:1: there is a tab here: YAML is indented with spaces only" },
	{ "- allow: x.y\n\tmethods: GET",
	  "4:1: there is a tab here: YAML is indented with spaces only" },
	{ " - allow: x.y\n  methods: GET", "4:3: this does not line up with the list that begins on line "
	  "3: every '-' of a list stands in the same column, and the keys of a rule two columns behind "
	  "it" },
	{ "- allow: x.y\n  reason: a: b", "4:12: this ':' comes unexpected: line up the keys in one "
	  "column, and put text that has a ': ' in it in quotes" },
	{ "- allow: x.y\n  reason: @x", "4:11: nothing begins with '@' in YAML: put it in quotes, "
	  "'@x'" },
	{ "- allow: x.y\n  methods\n- allow: x.z",
	  "4:3: a ':' and a space are missing behind 'methods'" },
	{ "- {allow: x.y, methods: [GET}", "3:29: a ',' or ']' is missing in the list that begins on "
	  "line 3" },
	{ "- inclde: npm", "3:3: there is no key 'inclde' in `egress`: did you mean 'include'?" },
	/* hosts */
	{ "- allow: https://x.y/z", "3:10: this is a URL: write 'x.y' here, and the rest under `scheme:` "
	  "and `paths:`" },
	{ "- allow: http://me:pass@x.y:8080?q", "3:10: this is a URL: write 'x.y:8080' here, and the rest "
	  "under `scheme:` and `paths:`" },
	{ "- allow: x.y/z", "3:10: a path goes under `paths:`" },
	{ "- preset: npm", "3:3: a preset is included: `- include: NAME`" },
	{ "- allow: preset:npm", "3:10: a preset is included: `- include: npm`" },
	{ "- allow: .x.y", "3:10: write **.x.y for all names under it" },
	{ "- allow: a*.x.y", "3:10: '*' stands only for whole labels in front: *.example.com, "
	  "**.example.com, or * alone" },
	{ "- allow: '*.*.x'", "3:10: '*' stands only for whole labels in front: *.example.com, "
	  "**.example.com, or * alone" },
	{ "- allow: b\xc3\xbc" "cher.x", "3:10: write this name in its ASCII form (xn--...)" },
	{ "- allow: '--'", "3:10: '--' is not the name of a host" },
	{ "- allow: a..b", "3:10: 'a..b' is not the name of a host" },
	{ "- allow: a b", "3:10: 'a b' is not the name of a host" },
	{ "- allow: x@y", "3:10: a host has no user in front of it" },
	{ "- allow: 1.2.3", "3:10: '1.2.3' is not an address" },
	{ "- allow: 1.2.3.256", "3:10: '1.2.3.256' is not an address" },
	{ "- allow: a.0x7f.1", "3:10: 'a.0x7f.1' is neither a name nor an address" },
	{ "- allow: 10.0.0.1/8", "3:10: this range begins at 10.0.0.0: write 10.0.0.0/8" },
	{ "- allow: 10.0.0.0/33", "3:10: '/33' is not a prefix from 0 to 32" },
	{ "- allow: 'fd00::1/8'", "3:10: this range begins at fd00::: write fd00::/8" },
	{ "- allow: 198.19.0.0/16:80",
	  "3:10: nothing is ever sent to this address: it is of the cell's own network (a name that "
	  "leads there needs `private: true`)" },
	{ "- allow: 'ff02::/16'", "3:10: nothing is ever sent to this address: it is multicast" },
	{ "- allow: [x.y, dns.google]", "3:16: " RESOLVES },
	{ "- ask: 8.8.8.8", "3:8: " RESOLVES },
	{ "- allow: '2620:fe::fe'", "3:10: " RESOLVES },
	{ "- allow: dns.google\n  protocol: tls", "3:10: " RESOLVES },
	{ "- allow: 9.9.9.9\n  ports: [443, 853]\n  protocol: tcp",
	  "3:10: " RESOLVES },
	{ "- allow: x.y:0", "3:10: '0' is not a port from 1 to 65535" },
	{ "- allow: x.y:http", "3:10: 'http' is not a port from 1 to 65535" },
	{ "- allow: '[fd00::1'", "3:10: ']' is missing behind the address" },
	{ "- allow: '[fd00::1]x'", "3:10: a port stands behind ':', not 'x'" },
	{ "- allow: localhost:80", "3:10: loopback stays inside the cell and needs no rule; the "
	  "machine itself is host.cloister.internal" },
	{ "- allow: 127.0.0.1", "3:10: loopback stays inside the cell and needs no rule; the machine "
	  "itself is host.cloister.internal" },
	{ "- allow: '*.'", "3:10: '*' stands only for whole labels in front: *.example.com, "
	  "**.example.com, or * alone" },
	{ "- deny: '**.:80'", "3:9: '*' stands only for whole labels in front: *.example.com, "
	  "**.example.com, or * alone" },
	{ "- allow: Gate.cloister.internal:3128", "3:10: this is the cell's own gate, which needs no "
	  "rule" },
	{ "- allow: 0.0.0.0", "3:10: nothing is ever sent to this address: it is unspecified" },
	{ "- allow: '[::]:80'", "3:10: nothing is ever sent to this address: it is unspecified" },
	{ "- allow: 255.255.255.255", "3:10: nothing is ever sent to this address: it is reserved" },
	{ "- allow: 'fd63:6c6f:6973:7465::5'",
	  "3:10: nothing is ever sent to this address: it is of the cell's own network" },
	{ "- ask: 192.88.99.1", "3:8: nothing is ever sent to this address: it is a relay" },
	{ "- {allow: ['x.y:80', 'x.z:81'], ports: 82}",
	  "3:40: each host here has a port of its own: leave `ports` out" },
	{ "- allow: '::1'", "3:10: loopback stays inside the cell and needs no rule; the machine "
	  "itself is host.cloister.internal" },
	{ "- allow: {host: x}", "3:10: here stands a host or a list of them; what narrows the rule "
	  "comes under it" },
	{ "- {allow: x.y, ports: [1, 9-3]}", "3:27: a range of ports goes upwards" },
	/* values */
	{ "- {allow: x.y, methods: get}", "3:25: methods are in capitals: write GET" },
	{ "- {allow: x.y, methods: '*'}", "3:25: leave `methods` out to match all of them" },
	{ "- {allow: x.y, methods: CONNECT}", "3:25: CONNECT is not a request that leaves a cell" },
	{ "- {allow: x.y, methods: GTE}", "3:25: 'GTE' is not a method: did you mean 'GET'?" },
	{ "- {deny: x.y, methods: [GET, POTS]}", "3:30: 'POTS' is not a method: did you mean 'POST'?" },
	{ "- {deny: x.y, methods: DELTE}", "3:24: 'DELTE' is not a method: did you mean 'DELETE'?" },
	{ "- {deny: x.y, methods: OPTION}", "3:24: 'OPTION' is not a method: did you mean 'OPTIONS'?" },
	{ "- {allow: x.y, methods: 'G T'}", "3:25: 'G T' is not a method such as GET" },
	{ "- {allow: x.y, paths: a}", "3:23: a path begins with '/': write /a" },
	{ "- {allow: x.y, paths: '/a?b'}", "3:23: what follows '?' goes under `query:`" },
	{ "- {allow: x.y, paths: '/a#b'}", "3:23: '#' and what follows it is never sent" },
	{ "- {allow: x.y, paths: /a/../b}", "3:23: '.' and '..' are resolved before rules are asked" },
	{ "- {allow: x.y, paths: /a/%2E./b}", "3:23: '.' and '..' are resolved before rules are asked" },
	{ "- {deny: x.y, paths: /a%2f..}", "3:22: '.' and '..' are resolved before rules are asked" },
	{ "- {allow: x.y, paths: [/a%2Fb/*%2fc]}", "3:23: to some servers %2F is '/', so this fits "
	  "nothing alone: add /a/b/*/c" },
	{ "- {allow: x.y, query: 'a=b c'}", "3:23: the query has a blank, a '#' or a control character: "
	  "write an escape, such as %20" },
	{ "- {deny: x.y, query: [a=1, 'a=b#c']}", "3:28: the query has a blank, a '#' or a control character: "
	  "write an escape, such as %20" },
	{ "- {allow: x.y, query: 'a=%2f*&b=%7e'}", "3:23: a query is sent in its plain form: write "
	  "a=%2F*&b=~" },
	{ "- {allow: x.y, paths: /a%2ab}", "3:23: '%2a' in a path cannot be matched" },
	{ "- {allow: x.y, paths: /a%2}", "3:23: '%' begins an escape of two hex digits: write %25" },
	{ "- {allow: x.y, query: '?a'}", "3:23: leave out the '?'" },
	{ "- {allow: x.y, headers: []}", "3:25: an empty list matches nothing: leave the key out" },
	{ "- {allow: x.y, headers: [a, A]}", "3:29: 'a' is here twice" },
	{ "- {allow: x.y, headers: [host]}", "3:26: 'host' belongs to the connection and cannot be matched" },
	{ "- {allow: x.y, cookies: {a b: c}}", "3:26: 'a b' is not the name of a cookie" },
	{ "- {allow: x.y, cookies: ['']}", "3:26: a cookie has a name" },
	{ "- {allow: 'x.y:1', protocol: tcp, cookies: a}", "3:35: 'cookies' needs HTTP, which raw TCP is not: leave it or `protocol: tcp` out" },
	{ "- {allow: x.y, headers: {Host: a}}",
	  "3:26: 'host' belongs to the connection and cannot be matched" },
	{ "- {allow: x.y, headers: {X-A: a, x-a: b}}", "3:34: 'x-a' is here twice" },
	{ "- {allow: x.y, headers: {'a b': a}}", "3:26: 'a b' is not the name of a header" },
	{ "- {allow: x.y, content_type: json}",
	  "3:30: 'json' is not a type such as application/json" },
	{ "- {allow: x.y, scheme: ftp}", "3:24: 'ftp' is not a scheme: http or https" },
	{ "- {allow: x.y, protocol: https}",
	  "3:26: write `scheme: https`; a protocol is http, tcp or tls" },
	{ "- {allow: x.y, protocol: udp}",
	  "3:26: UDP never leaves a cell: a protocol is http, tcp or tls" },
	{ "- {allow: x.y, websocket: yes}", "3:27: 'websocket' is true or false" },
	{ "- {allow: x.y, upgrade: h2c}", "3:25: 'h2c' cannot be passed on: only websocket can" },
	{ "- {allow: x.y, placeholders: true}", "3:30: 'placeholders' is pass or refuse" },
	{ "- {deny: x.y, placeholders: pass}", "3:15: 'placeholders' permits something: it belongs to allow "
	  "or ask" },
	{ "- {deny: x.y, uses: [A]}", "3:15: 'uses' permits something: it belongs to allow or ask" },
	{ "- {allow: x.y:1, protocol: tcp, placeholders: pass}", "3:33: 'placeholders' needs HTTP, which "
	  "raw TCP is not: leave it or `protocol: tcp` out" },
	{ "- {allow: x.y, secrets: true}", "3:25: 'secrets' is allow or deny" },
	{ "- {allow: x.y, reason: ' '}", "3:24: the reason is empty" },
	/* bodies */
	{ "- {allow: x.y, body: 5M}", "3:22: `body` is a map: {max: 5M}" },
	{ "- {allow: x.y, body: {}}", "3:22: there is nothing in this map: leave the key out" },
	{ "- {allow: x.y, body: {maxx: 5}}", "3:23: there is no key 'maxx' in `body`: did you mean "
	  "'max'?" },
	{ "- {allow: x.y, body: {max: lots}}", "3:28: 'lots' is not a size such as 512M or 4G" },
	{ "- {allow: x.y, body: {json: {model: a}}}",
	  "3:30: a JSON pointer begins with '/': write /model" },
	{ "- {allow: x.y, body: {json: {/a~2: a}}}",
	  "3:30: in a JSON pointer '~' is written ~0, and '/' ~1" },
	{ "- {allow: x.y, body: {json: {/a: {b: c}}}}",
	  "3:34: a value is a word, a number, true, false or null" },
	{ "- {allow: x.y, body: {regex: 'a('}}", "3:30: this regular expression breaks off at "
	  "character 3: missing closing parenthesis" },
	{ "- {allow: x.y, body: {graphql: {operations: read}}}",
	  "3:45: 'read' is not query, mutation or subscription" },
	{ "- {allow: x.y, body: {graphql: {operations: query}, jsonrpc: {methods: a}}}",
	  "3:22: a body is GraphQL or JSON-RPC, never both" },
	{ "- {allow: x.y, body: {max: 1G, regex: a}}",
	  "3:22: a body that is looked into is held in memory: its `max` is at most 64M" },
	{ "- {deny: x.y, body: {max: 1M}}",
	  "3:21: `max` limits what may go: put an allow rule with it in front" },
	/* git and gRPC */
	{ "- {allow: x.y, git: {push: refs/heads/}}", "3:28: 'refs/heads/' cannot be the name of a ref" },
	{ "- {deny: x.y, git: {push: refs//x}}", "3:27: 'refs//x' cannot be the name of a ref" },
	{ "- {allow: x.y, git: push}",
	  "3:21: `git` is `fetch`, or a map: {push: [refs/heads/agent/*]}" },
	{ "- {allow: x.y, git: {push: main}}", "3:28: a ref is written in full: refs/heads/main" },
	{ "- {allow: x.y, git: {pull: true}}", "3:22: there is no key 'pull' in `git`: did you mean "
	  "'push'?" },
	{ "- {allow: x.y, git: {force: true}}",
	  "3:21: `force` and `delete` are about pushing: say `push` too" },
	{ "- {allow: x.y, git: {fetch: false}}",
	  "3:21: this matches nothing: say `fetch: true` or `push`" },
	{ "- {allow: x.y, git: {repos: /a/b}}",
	  "3:29: a repository is written owner/name, without '/' in front" },
	{ "- {allow: x.y, git: {repos: a/b.git}}",
	  "3:29: leave '.git' out: it fits with and without" },
	{ "- {allow: x.y, grpc: {methods: a}}", "3:22: say which `service`: its full name, or '*'" },
	/* what excludes each other */
	{ "- {allow: x.y:1, protocol: tcp, methods: GET}",
	  "3:33: 'methods' needs HTTP, which raw TCP is not: leave it or `protocol: tcp` out" },
	{ "- {allow: x.y, protocol: tls, paths: /a}", "3:31: 'paths' needs HTTP, which is hidden in "
	  "TLS that is passed through: leave it or `protocol: tls` out" },
	{ "- {allow: [a.b:1, x.y], protocol: tcp}", "3:19: raw TCP needs a port: write x.y:PORT" },
	{ "- {allow: 1.2.3.4, protocol: tls}", "3:11: TLS is passed through by its server name, which "
	  "an address has not: use `protocol: tcp`" },
	{ "- {allow: x.y, git: fetch, paths: /a}",
	  "3:28: 'paths' does not go with `git`, which says all of it" },
	{ "- {allow: x.y, git: fetch, body: {regex: a}}",
	  "3:28: of a body only `max` goes with `git`" },
	{ "- {allow: x.y, grpc: {service: a}, paths: /a}",
	  "3:36: 'paths' does not go with `grpc`, which says all of it" },
	{ "- {allow: x.y, methods: [GET, HEAD], body: {regex: a}}",
	  "3:38: requests of these methods have no body" },
	{ "- {allow: x.y, methods: POST, websocket: true}", "3:16: a WebSocket begins with GET" },
	{ "- {deny: x.y, secrets: allow}", "3:15: 'secrets' permits something: it belongs to allow or "
	  "ask" },
	/* never reached */
	{ "- allow: x.y\n- deny: x.y", "4:3: this rule is never reached: the one at p:3:3 (allow x.y) "
	  "matches first; put the narrower rule in front" },
	{ "- {allow: x.y, cookies: a}\n- {deny: x.y, cookies: [a, b]}", "4:3: this rule is never reached: "
	  "the one at p:3:3 (allow x.y cookie a [*]) matches first; put the narrower rule in front" },
	{ "- allow: '*.y'\n- {deny: x.y, methods: POST}", "4:3: this rule is never reached: the one at "
	  "p:3:3 (allow *.y) matches first; put the narrower rule in front" },
	{ "- {deny: x.y, methods: [GET, POST]}\n- {allow: x.y, methods: POST, paths: /a}", "4:3: this "
	  "rule is never reached: the one at p:3:3 (deny x.y methods [GET, POST]) matches first; put "
	  "the narrower rule in front" },
	{ "- {ask: x.y, paths: /a/**}\n- {allow: x.y, paths: [/a/b, /a/c/*]}", "4:3: this rule is "
	  "never reached: the one at p:3:3 (ask x.y paths [/a/**]) matches first; put the narrower "
	  "rule in front" },
	{ "- deny: 10.0.0.0/8\n- allow: 10.1.2.3", "4:3: this rule is never reached: the one at p:3:3 "
	  "(deny 10.0.0.0/8) matches first; put the narrower rule in front" },
	{ "- deny: a.b\n- allow: c.d\n- ask: [a.b, c.d]", "5:3: this rule is never reached: the one at "
	  "p:4:3 (allow c.d) matches first; put the narrower rule in front" },
	{ "- {allow: x.y, methods: GET}\n- {allow: x.y:443, protocol: tcp}", "4:3: this rule is never "
	  "reached: the one at p:3:3 (allow x.y methods [GET]) settles what is spoken with this host "
	  "and port" },
	{ "- include: read-only\n- {allow: x.y, methods: GET}", "4:3: this rule is never reached: the "
	  "one at preset:read-only:4:5 (allow * methods [GET, HEAD, OPTIONS]) matches first; put the "
	  "narrower rule in front" },
	{ "- allow: x.y\n- {allow: x.y, secrets: allow}", "4:3: this rule is never reached: the one at "
	  "p:3:3 (allow x.y) matches first; put the narrower rule in front" },
};

TEST(policy_load_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		const char *got = lab_refuses(refused[i].rules);

		if (strcmp(got, refused[i].error) != 0)
			test_fail(__FILE__, __LINE__, "%s\nsays: %s\nnot:  %s", refused[i].rules, got,
			          refused[i].error);
	}
}

/* What is not certain to be useless is taken. */
TEST(policy_load_takes)
{
	static const char *const taken[] = {
		"- {allow: x.y, methods: GET}\n- deny: x.y",
		"- {allow: [x.y, 'x.z:81'], ports: 82}",
		"- {allow: x.y, paths: [/a%2Fb, /a/b]}\n- {deny: x.y, paths: /b%2Fc}\n- allow: x.y",
		"- {allow: x.y, paths: [/.x, /a../..b/...]}",
		"- {allow: x.y, query: ['', 'a=%20*&b=[x]', '*']}",
		"- allow: X.Y.\n- deny: ['0.0.0.0/8', '224.0.0.1', '**.x.']",
		"- {allow: x.y, body: {max: 1K}}\n- ask: x.y",
		"- allow: x.y\n- {allow: x.y, body: {max: 1G}}",
		"- allow: x.y\n- {allow: x.y, upgrade: websocket}",
		"- {allow: x.y, headers: {a: b}}\n- allow: x.y",
		"- {allow: x.y, body: {regex: a}}\n- deny: x.y",
		"- {allow: x.y, git: fetch}\n- {allow: x.y, git: {push: '**'}}",
		"- {allow: x.y, git: {push: refs/heads/a}}\n- {ask: x.y, git: {push: '**'}}",
		"- {deny: x.y, git: {options: true}}\n- {deny: x.y, git: {push: '**'}}",
		"- {allow: x.y, git: {push: '**'}}\n- {allow: x.y, git: {push: '**', options: true}}",
		"- log: x.y\n- allow: x.y",
		"- allow: x.y:443\n- allow: x.y",
		"- {allow: x.y:443, protocol: tcp}\n- allow: x.y",
		"- deny: x.y\n- include: npm",
		"- deny: registry.npmjs.org\n- include: npm",
		"- deny: '*'\n- allow: 10.0.0.0/8\n- allow: host.cloister.internal",
		"- {allow: x.y, paths: /a/*}\n- {allow: x.y, paths: /a/**}",
		"- {allow: x.y, query: {a: b}}\n- {allow: x.y, query: {a: c}}",
		"- {allow: x.y, scheme: https}\n- {deny: x.y, scheme: http}",
		"- allow: x.y\n  reason: |\n    two\n    lines\n",
		"- {allow: x.y, body: {json: {'': absent, /a/*/b: [1, -2.5e3, true, null, a*]}}}",
		"- {deny: x.y, body: {max: 2M, regex: [a, '(?i)b+']}}",
		"- {deny: x.y, protocol: tcp}",
		"- include: [npm, pypi, preset:github]",
		"- include: npm\n- include: [pypi, npm]",
	};

	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		const char *got = lab_refuses(taken[i]);

		if (*got != '\0')
			test_fail(__FILE__, __LINE__, "%s\nsays: %s", taken[i], got);
	}
}

TEST(policy_load_whole_files)
{
	static const struct {
		const char *text, *error;
	} files[] = {
		{ "", "1:1: a policy needs its version: add the line `version: 1` at the top" },
		{ "version: 1", "" },
		{ "\xef\xbb\xbfversion: 1", "" },
		{ "version: 2", "1:10: this is cloister's version 1 of policies: write 1" },
		{ "[version]", "1:1: a policy is a map that begins with `version: 1`" },
		{ "version: 1\nedges: []", "2:1: there is no key 'edges' in a policy: it takes version, "
		  "egress, secrets, exfiltration, limits, audit, extends, budgets, prices, tripwires, "
	  "boundary, runtime, images, run, record, watch, syscalls, programs, tools, state, volumes, cache" },
		{ "version: 1\negres: []", "2:1: there is no key 'egres' in a policy: did you mean "
		  "'egress'?" },
		{ "version: 1\ninclude: npm", "2:1: `include` is an item of `egress`; to put rules behind "
		  "yours write `extends`" },
		{ "version: 1\negress:", "" },
		{ "version: 1\negress: {}", "2:9: `egress` is a list of rules: `- allow: "
		  "api.example.com`" },
		{ "version: 1\nlimits: {memory: 2G, cpus: 1.5, pids: 10, time: 1h, disk: 1G, io: 5M}", "" },
		{ "version: 1\nlimits: {memroy: 2G}", "2:10: there is no key 'memroy' in `limits`: did you "
		  "mean 'memory'?" },
		{ "version: 1\nlimits: {memory: x}", "2:18: 'x' is not a size such as 512M or 4G" },
		{ "version: 1\nlimits: {pids: 0}", "2:16: '0' is not from 1 to 1000000" },
		{ "version: 1\nlimits: {time: 0}", "2:16: a limit of nothing stops everything" },
		{ "version: 1\nextends: npm\n", "" },
		{ "version: 1\nsecrets: [a]\n", "" },
		{ "version: 1\nsecrets: a\n", "2:10: `secrets` are a list of names, or a map of "
		  "definitions: [GITHUB_TOKEN]" },
		{ "version: 1\nrecord: off\n", "" },
		{ "version: 1\nrecord: {level: full, lost: go-on}\n", "" },
		{ "version: 1\nrecord: all\n", "2:9: what the cell's processes do is recorded: `off`, `acts` or `full`" },
		{ "version: 1\nrecord: {lost: stop}\n", "2:16: if nothing records the cell's processes any more, it can "
		  "`freeze`, `kill` or `go-on`" },
		{ "version: 1\nrecord: {size: 1}\n", "2:10: there is no key 'size' in `record`: it takes level, lost" },
		{ "version: 1\naudit: strict\n", "" },
		{ "version: 1\naudit: batched\n", "" },
		{ "version: 1\naudit: {mode: strict, max: 64M}\n", "" },
		{ "version: 1\naudit: lazy\n", "2:8: a request waits until its record is on the disk, or does "
		  "not: `strict` or `batched`" },
		{ "version: 1\naudit: {max: 10K}\n", "2:14: a timeline's `max` is a size from 1M to 1T, such as "
		  "256M" },
		{ "version: 1\naudit: {size: 10M}\n", "2:9: there is no key 'size' in `audit`: it takes mode, "
		  "max" },
		{ "version: 1\nexfiltration: freeze\n", "" },
		{ "version: 1\nexfiltration: thaw\n", "2:15: a cell that sends a secret where it may "
		  "not go is left at that, or stopped: `refuse`, `freeze`, `kill` or `rollback`" },
		{ "version: 1\nboundary: microvm\n", "" },
		{ "version: 1\nboundary: [strongest, namespace]\n", "" },
		{ "version: 1\nboundary: cardboard\n", "2:11: there is no boundary 'cardboard': use namespace, oci, gvisor, "
		  "microvm, docker, process or strongest" },
		{ "version: 1\nboundary: [strongest, [namespace]]\n", "2:23: the boundary is a name, or [strongest, "
		  "namespace]" },
		{ "version: 1\nboundary:\n", "2:10: the boundary is a name, or [strongest, namespace]" },
		{ "version: 1\nboundary: oci\nruntime: crun\n", "" },
		{ "version: 1\nboundary: strongest,oci\nruntime: /opt/crun\n", "" },
		{ "version: 1\nruntime: crun\n", "2:10: a runtime needs the boundary oci or gvisor beside it" },
		{ "version: 1\nboundary: microvm\nruntime: crun\n", "3:10: a runtime needs the boundary oci or gvisor beside it" },
		{ "version: 1\nboundary: gvisor\nruntime: crun\n", "3:10: the boundary 'gvisor' needs the runtime runsc" },
		{ "version: 1\nboundary: oci\nruntime: [crun]\n", "3:10: the runtime is a name such as crun, or an absolute path" },
		{ "version: 1\nextends: [npm, read-only]\n", "" },
		{ "version: 1\nextends: {}\n", "2:10: here stands the name of a file or a preset" },
		{ "{\"version\": 1, \"egress\": [{\"allow\": \"x.y\"}]}", "" },
		{ "version: 1\n\xff", "2:1: this is not UTF-8 text (invalid leading UTF-8 octet)" },
	};

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		const char *got = lab_refuses_file(files[i].text);

		if (strcmp(got, files[i].error) != 0)
			test_fail(__FILE__, __LINE__, "%s\nsays: %s\nnot:  %s", files[i].text, got,
			          files[i].error);
	}
}

TEST(policy_presets_are_policies)
{
	for (const struct policy_preset *preset = policy_presets; preset->name != NULL; preset++) {
		OWN(policy_freep) struct policy *p = NULL;
		struct err err = {0};

		/* It needs a lock. */
		if (strcmp(preset->name, "read-only-tools") == 0) {
			CHECK(policy_load_text(preset->name, preset->text, strlen(preset->text), &p, NULL, &err) < 0);
			CHECK(strstr(err.text, "`annotations` are those of the lock: add `lock: tools.lock.yaml`") != NULL);
			continue;
		}
		if (policy_load_text(preset->name, preset->text, strlen(preset->text), &p, NULL,
		                     &err) < 0)
			test_fail(__FILE__, __LINE__, "%s", err.text);
		CHECK(policy_n_rules(p) > 0 || policy_n_behaviours(p) > 0);
	}
}

TEST(policy_rule_text)
{
	static const struct {
		const char *rule, *text;
	} texts[] = {
		{ "- {allow: [x.y, '*.z:8443'], methods: [GET, PUT], paths: /a/**}",
		  "allow x.y, *.z:8443 methods [GET, PUT] paths [/a/**]" },
		{ "- {deny: ['**.a', 10.0.0.0/8, '[fd00::/8]:1', 1.2.3.4], ports: [1, 5-9]}",
		  "deny **.a, 10.0.0.0/8, [fd00::/8]:1, 1.2.3.4 ports [1, 5-9]" },
		{ "- {ask: '*', scheme: https, query: '', headers: {a: absent, b: c}}",
		  "ask * scheme https query [\"\"] header a absent header b [c]" },
		{ "- {allow: x.y:1, protocol: tcp, private: true}", "allow x.y:1 protocol tcp private" },
		{ "- {allow: x.y, git: {push: refs/heads/*, force: true, repos: a/*}}",
		  "allow x.y git fetch push [refs/heads/*] force repos [a/*]" },
		{ "- {allow: x.y, body: {max: 5M, json: {/a: b}, regex: q, graphql: {operations: query, "
		  "names: n}}, secrets: allow}", "allow x.y json /a regex [q] graphql query names [n] max "
		  "5M secrets" },
		{ "- {allow: x.y, grpc: {service: p.S}, body: {max: 1}}", "allow x.y grpc [/p.S/*] max "
		  "1B" },
		{ "- {allow: x.y, body: {jsonrpc: {methods: [a, b]}}}", "allow x.y jsonrpc [a, b]" },
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		OWN(policy_freep) struct policy *p = lab_rules(texts[i].rule);

		CHECK_STR(policy_rule_text(p, 0), texts[i].text);
		CHECK_STR(policy_rule_place(p, 0), "p:3:3");
		CHECK_STR(policy_rule_place(p, -1), "");
		CHECK_STR(policy_rule_text(p, 1), "");
	}
}

/* ---- files ---- */

static void
write_file(const char *name, mode_t mode, const char *text)
{
	OWN(freep) char *path = str_format("%s/%s", test_dir(), name);

	CHECK_OK(create_file_at(AT_FDCWD, path, 0600, text, NULL));
	CHECK(chmod(path, mode) == 0);
}

static const char *
load_file(const char *name, struct policy **ret_policy, struct policy_limits *ret_limits)
{
	static struct err err;
	OWN(freep) char *path = str_format("%s/%s", test_dir(), name);
	size_t n = strlen(test_dir()) + 1;

	err = (struct err){0};
	policy_load_file(AT_FDCWD, path, NULL, ret_policy, ret_limits, &err);
	return strncmp(err.text, test_dir(), n - 1) == 0 ? err.text + n : err.text;
}

TEST(policy_load_audit)
{
	OWN(policy_freep) struct policy *p = NULL;
	struct policy_limits limits;

	write_file("near.yaml", 0644, "version: 1\nextends: far.yaml\naudit: {max: 2M}\n");
	write_file("far.yaml", 0644, "version: 1\naudit: {mode: strict, max: 9M}\n");
	CHECK_STR(load_file("near.yaml", &p, &limits), "");
	CHECK(limits.audit == POLICY_AUDIT_STRICT);
	CHECK_U64(limits.audit_max, 2 << 20);
}

TEST(policy_load_record)
{
	OWN(policy_freep) struct policy *p = NULL;
	struct policy_limits limits;

	write_file("near.yaml", 0644, "version: 1\nextends: far.yaml\nrecord: full\n");
	write_file("far.yaml", 0644, "version: 1\nrecord: {level: acts, lost: kill}\n");
	CHECK_STR(load_file("near.yaml", &p, &limits), "");
	CHECK(limits.record == POLICY_RECORD_FULL && limits.record_lost == POLICY_LOST_KILL);
}

TEST(policy_load_boundary)
{
	OWN(policy_freep) struct policy *p = NULL;
	char text[POLICY_BOUNDARY_TEXT_MAX + 1];
	struct policy_limits limits;

	write_file("near.yaml", 0644, "version: 1\nextends: far.yaml\nboundary: [strongest, namespace]\n");
	write_file("far.yaml", 0644, "version: 1\nboundary: microvm\n");
	CHECK_STR(load_file("near.yaml", &p, &limits), "");
	CHECK_STR(policy_boundary_text(&limits.boundary, text), "strongest,namespace");
	policy_free(TAKE(p));
	write_file("near.yaml", 0644, "version: 1\nextends: far.yaml\n");
	CHECK_STR(load_file("near.yaml", &p, &limits), "");
	CHECK_STR(policy_boundary_text(&limits.boundary, text), "microvm");
	policy_free(TAKE(p));
	write_file("near.yaml", 0644, "version: 1\n");
	CHECK_STR(load_file("near.yaml", &p, &limits), "");
	CHECK(!limits.boundary.is_set);
}

/* A runtime goes with the boundary of its own file. */
TEST(policy_load_runtime)
{
	static const struct { const char *near, *want; } cases[] = {
		{ "", "crun" }, { "boundary: oci\n", "" }, { "boundary: gvisor\n", "" }, { "boundary: oci\nruntime: runc\n", "runc" },
	};

	write_file("far.yaml", 0644, "version: 1\nboundary: oci\nruntime: crun\n");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(policy_freep) struct policy *p = NULL;
		OWN(freep) char *text = str_format("version: 1\nextends: far.yaml\n%s", cases[i].near);
		struct policy_limits limits;

		write_file("near.yaml", 0644, text);
		CHECK_STR(load_file("near.yaml", &p, &limits), "");
		CHECK_STR(limits.boundary.runtime, cases[i].want);
	}
}

TEST(policy_load_files)
{
	OWN(policy_freep) struct policy *p = NULL;
	struct policy_limits limits;
	OWN(freep) char *sub = str_format("%s/sub", test_dir());

	CHECK(mkdir(sub, 0700) == 0);
	write_file("main.yaml", 0644, "version: 1\nextends: sub/base.yaml\nlimits: {memory: 2G}\n"
	           "egress:\n- allow: a.x\n- include: [sub/more.yml, npm]\n- deny: z.x\n");
	write_file("sub/base.yaml", 0644, "version: 1\nlimits: {memory: 9G, pids: 7}\n"
	           "egress:\n- deny: a.x\n- ask: b.x\n");
	write_file("sub/more.yml", 0644, "version: 1\nextends: rest.yaml\negress: [allow: c.x]\n");
	write_file("sub/rest.yaml", 0644, "version: 1\negress: [{allow: d.x}]\n");
	CHECK_STR(load_file("main.yaml", &p, &limits), "");
	CHECK_U64(policy_n_rules(p), 8);
	CHECK_STR(policy_rule_place(p, 0), "main.yaml:5:3");
	CHECK_STR(policy_rule_place(p, 1), "sub/more.yml:3:10");
	CHECK_STR(policy_rule_place(p, 2), "sub/rest.yaml:2:10");
	CHECK_STR(policy_rule_place(p, 3), "preset:npm:3:5");
	CHECK_STR(policy_rule_place(p, 5), "main.yaml:7:3");
	CHECK_STR(policy_rule_place(p, 6), "sub/base.yaml:4:3");
	CHECK_U64(limits.memory, UINT64_C(2) << 30);
	CHECK_U64(limits.pids, 7);
	CHECK_U64(limits.time_ms, 0);
}

/* What is wrong with a file that FILE names is told with the line that names it. */
static void
check_named(const char *file, const char *error)
{
	OWN(freep) char *place = str_format("%s:2:10: ", file);
	struct policy *p = NULL;
	const char *said = load_file(file, &p, NULL);

	CHECK(strncmp(said, place, strlen(place)) == 0);
	CHECK(strlen(said) > strlen(error) &&
	      strcmp(said + strlen(said) - strlen(error), error) == 0);
}

TEST(policy_load_refuses_files)
{
	OWN(freep) char *fifo = str_format("%s/fifo.yaml", test_dir());
	OWN(freep) char *big = calloc(1, POLICY_FILE_MAX + 2);
	struct policy *p = NULL;
	char deep[64];

	write_file("group.yaml", 0664, "version: 1\n");
	write_file("other.yaml", 0646, "version: 1\n");
	write_file("self.yaml", 0600, "version: 1\nextends: ./self.yaml\n");
	write_file("one.yaml", 0600, "version: 1\negress: [{include: two.yaml}]\n");
	write_file("two.yaml", 0600, "version: 1\nextends: one.yaml\n");
	write_file("none.yaml", 0600, "version: 1\nextends: there.yaml\n");
	write_file("bad.yaml", 0600, "version: 1\nextends: worse.yaml\n");
	write_file("worse.yaml", 0600, "version: 1\negress: [{alow: x.y}]\n");
	write_file("shut.yaml", 0600, "version: 1\nextends: group.yaml\n");
	CHECK(mkfifo(fifo, 0600) == 0);
	memset(big, '#', POLICY_FILE_MAX + 1);
	write_file("big.yaml", 0600, big);
	CHECK_STR(load_file("group.yaml", &p, NULL),
	          "group.yaml: others may write this policy: `chmod go-w` it");
	CHECK_STR(load_file("other.yaml", &p, NULL),
	          "other.yaml: others may write this policy: `chmod go-w` it");
	check_named("shut.yaml", "group.yaml: others may write this policy: `chmod go-w` it");
	check_named("self.yaml", "self.yaml: this file names itself");
	CHECK(strstr(load_file("one.yaml", &p, NULL), "this file names itself by way of ") != NULL);
	check_named("none.yaml", "there.yaml: cannot open this policy: No such file or directory");
	CHECK_STR(load_file("bad.yaml", &p, NULL),
	          "worse.yaml:2:11: there is no key 'alow' in a rule: did you mean 'allow'?");
	CHECK_STR(load_file("fifo.yaml", &p, NULL), "fifo.yaml: this is not a file");
	CHECK_STR(load_file("big.yaml", &p, NULL), "big.yaml: a policy is at most 1M");
	if (geteuid() == 0) {
		OWN(freep) char *path = str_format("%s/self.yaml", test_dir());

		CHECK(chown(path, 4242, 4242) == 0);
		CHECK_STR(load_file("self.yaml", &p, NULL),
		          "self.yaml: this policy belongs to uid 4242, neither you nor root");
	}
	for (int i = 0; i < 12; i++) {
		snprintf(deep, sizeof(deep), "version: 1\nextends: d%d.yaml\n", i + 1);
		OWN(freep) char *name = str_format("d%d.yaml", i);
		write_file(name, 0600, deep);
	}
	CHECK(strstr(load_file("d0.yaml", &p, NULL), "files are nested too deeply here") != NULL);
	CHECK(p == NULL);
}

/* ---- the command line ---- */

TEST(policy_add_short)
{
	static const struct {
		const char *text, *rule;
	} shorts[] = {
		{ "api.github.com", "allow api.github.com" },
		{ "GET api.github.com/repos/**", "allow api.github.com methods [GET] paths [/repos/**]" },
		{ "GET,POST  x.y", "allow x.y methods [GET, POST]" },
		{ "db.internal:5432/tcp", "allow db.internal:5432 protocol tcp" },
		{ "x.y/tls", "allow x.y protocol tls" },
		{ "x.y/tls/", "allow x.y paths [/tls/]" },
		{ "https://x.y", "allow x.y scheme https" },
		{ "https://x.y/", "allow x.y scheme https" },
		{ "http://x.y:8080/a'b", "allow x.y:8080 scheme http paths [/a'b]" },
		{ "10.0.0.0/8", "allow 10.0.0.0/8" },
		{ "10.0.0.0/8:22/tcp", "allow 10.0.0.0/8:22 protocol tcp" },
		{ "10.0.0.1/8x", NULL },
		{ "[fd00::/8]:443/a", "allow [fd00::/8]:443 paths [/a]" },
		{ "fd00::1", "allow fd00::1" },
		{ "*.x", "allow *.x" },
		{ "*", "allow *" },
	};

	for (size_t i = 0; i < ARRAY_LEN(shorts); i++) {
		OWN(policy_freep) struct policy *p = NULL;
		struct err err = {0};

		if (policy_add_short(&p, shorts[i].text, &err) < 0) {
			if (shorts[i].rule != NULL)
				test_fail(__FILE__, __LINE__, "%s: %s", shorts[i].text, err.text);
			continue;
		}
		CHECK_STR(policy_rule_text(p, 0), shorts[i].rule);
		CHECK(strncmp(policy_rule_place(p, 0), "--allow ", 8) == 0);
	}
}

TEST(policy_add_short_refuses)
{
	static const struct {
		const char *text, *error;
	} shorts[] = {
		{ "", "--allow '': there is no host" },
		{ "get x.y", "--allow 'get x.y': methods stand in front of the host, in capitals: "
		  "'GET,POST api.example.com'" },
		{ "x.y a.b", "--allow 'x.y a.b': methods stand in front of the host, in capitals: "
		  "'GET,POST api.example.com'" },
		{ "GET x.y a.b", "--allow 'GET x.y a.b': one host at a time: give the other in a rule of "
		  "its own" },
		{ "GET", "--allow 'GET': the host is missing: 'GET api.example.com', or 'GET *' for every "
		  "host" },
		{ "npm", "--allow 'npm': this is the name of a preset: write preset:npm, or https://npm for a "
		  "host that is called so" },
		{ "preset:nmp", "--allow 'preset:nmp': there is no preset 'nmp': did you mean 'npm'? (a "
		  "file's name ends in .yaml)" },
		{ "x.y/tcp", "--allow 'x.y/tcp': raw TCP needs a port: write x.y:PORT" },
		{ "x.y/a?b", "--allow 'x.y/a?b': what follows '?' goes under `query:`" },
		{ "no.x", "--allow 'no.x': the rule at p:4:3 (deny no.x) comes first, so that this would never "
		  "count: change that rule" },
	};
	OWN(policy_freep) struct policy *p = lab_rules("- allow: a.x\n- deny: no.x\n");
	struct policy *before = p;
	struct err err;

	for (size_t i = 0; i < ARRAY_LEN(shorts); i++) {
		err = (struct err){0};
		CHECK_ERR(policy_add_short(&p, shorts[i].text, &err), EINVAL);
		CHECK_STR(err.text, shorts[i].error);
		CHECK(p == before);
		CHECK_U64(policy_n_rules(p), 2);
		CHECK_STR(lab_decide(p, "GET https://no.x"), "deny 1");
	}
	CHECK_OK(policy_add_short(&p, "a.x", &err));
	CHECK_OK(policy_add_short(&p, "b.x", &err));
	CHECK_OK(policy_add_short(&p, "preset:npm", &err));
	CHECK_STR(lab_decide(p, "GET https://b.x"), "allow 3");
	CHECK_STR(lab_decide(p, "GET https://registry.npmjs.org/x"), "allow 4");
}
