/* policy_rewrite.c - tests of policy/policy_rewrite. */
#include "policy/policy_rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy_lab.h"
#include "test.h"

/* A policy of one rule that rewrites as TEXT asks. */
static struct policy *
rules_of(const char *text)
{
	char rules[2048];

	snprintf(rules, sizeof(rules), "- {allow: a.x, rewrite: %s}\n", text);
	return lab_rules(rules);
}

/* ---- the head ---- */

/* "METHOD https://host:port/path", then "name: value", one a line. */
static const char *
text_of_head(const struct http_head *head)
{
	static char text[4096];
	int n = snprintf(text, sizeof(text), "%.*s https://%.*s:%u%.*s", (int)head->method.len,
	                 head->method.at, (int)head->host.len, head->host.at, head->port,
	                 (int)head->path.len, head->path.at);

	for (size_t i = 0; i < head->n_fields; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "\n%.*s: %.*s",
		              (int)head->fields[i].name.len, head->fields[i].name.at,
		              (int)head->fields[i].value.len, head->fields[i].value.at);
	return text;
}

/* WANT begins with "!" if the request is refused, with the error behind it. */
static const struct {
	const char *rewrite, *request, *want;
	uint64_t changed;
} head_cases[] = {
	{ "{host: b.y}", "GET https://a.x/", "GET https://b.y:443/", 1 },
	{ "{host: 'b.y:8443'}", "GET https://a.x/", "GET https://b.y:8443/", 1 },
	{ "{host: B.Y}", "GET https://a.x/", "GET https://b.y:443/", 1 },
	{ "{host: a.x}", "GET https://a.x/", "GET https://a.x:443/", 0 },
	{ "{host: 10.1.2.3}", "GET https://a.x/", "GET https://10.1.2.3:443/", 1 },
	{ "{host: '[fd00::1]:80'}", "GET https://a.x/", "GET https://[fd00::1]:80/", 1 },
	{ "{path: {from: /v1/, to: /o/v1/}}", "GET https://a.x/v1/m?q", "GET https://a.x:443/o/v1/m?q", 1 },
	{ "{path: {from: /v1/, to: /}}", "GET https://a.x/v1/", "GET https://a.x:443/", 1 },
	{ "{path: {from: /, to: /p/}}", "GET https://a.x/q", "GET https://a.x:443/p/q", 1 },
	{ "{path: {from: /v1/, to: /}}", "GET https://a.x/v1", "!does not begin with '/v1/'", 0 },
	{ "{path: {from: /v1/, to: /}}", "GET https://a.x/V1/", "!does not begin with '/v1/'", 0 },
	{ "{query: {set: {v: 2}}}", "GET https://a.x/", "GET https://a.x:443/?v=2", 1 },
	{ "{query: {set: {v: 2}}}", "GET https://a.x/?a&v=1&b=", "GET https://a.x:443/?a&v=2&b=", 1 },
	{ "{query: {set: {v: 2}}}", "GET https://a.x/?v=2", "GET https://a.x:443/?v=2", 0 },
	{ "{query: {set: {v: 2}}}", "GET https://a.x/?v=1&V=3&v[]=4&z=1", "GET https://a.x:443/?v=2&z=1", 1 },
	{ "{query: {set: {v: 2}}}", "GET https://a.x/?%76=1", "GET https://a.x:443/?v=2", 1 },
	{ "{query: {set: {'a b': 'c&d=é'}}}", "GET https://a.x/?q",
	  "GET https://a.x:443/?q&a%20b=c%26d%3D%C3%A9", 1 },
	{ "{query: {remove: [v, w]}}", "GET https://a.x/?v=1&k=2&w", "GET https://a.x:443/?k=2", 3 },
	{ "{query: {remove: v}}", "GET https://a.x/?v=1", "GET https://a.x:443/", 1 },
	{ "{query: {remove: v}}", "GET https://a.x/?k=1", "GET https://a.x:443/?k=1", 0 },
	{ "{query: {remove: v}}", "GET https://a.x/?k=1;v=2", "!has a ';'", 0 },
	{ "{headers: {set: {X-A: '1'}}}", "GET https://a.x/\nx-b: 2",
	  "GET https://a.x:443/\nx-b: 2\nx-a: 1", 1 },
	{ "{headers: {set: {x-a: '1'}}}", "GET https://a.x/\nx-a: 2\nx-b: 2\nx_a: 3",
	  "GET https://a.x:443/\nx-a: 1\nx-b: 2", 1 },
	{ "{headers: {set: {x-a: '1'}}}", "GET https://a.x/\nx-a: 1", "GET https://a.x:443/\nx-a: 1", 0 },
	{ "{headers: {remove: [x-a]}}", "GET https://a.x/\nx_a: 2\nx-b: 2\nx-a: 3",
	  "GET https://a.x:443/\nx-b: 2", 1 },
	{ "{headers: {remove: [x-a]}}", "GET https://a.x/\nx-b: 2", "GET https://a.x:443/\nx-b: 2", 0 },
	{ "{headers: {remove: [authorization]}}", "GET https://a.x/\nauthorization: x",
	  "GET https://a.x:443/", 1 },
	{ "{host: b.y, path: {from: /a/, to: /b/}, query: {set: {q: 1}}, headers: {set: {h: 1}}}",
	  "GET https://a.x/a/?r", "GET https://b.y:443/b/?r&q=1\nh: 1", 15 },
};

TEST(policy_rewrite_head)
{
	for (size_t i = 0; i < ARRAY_LEN(head_cases); i++) {
		OWN(policy_freep) struct policy *p = rules_of(head_cases[i].rewrite);
		const struct policy_rewrite *rw = policy_rewrite_of(p, 0);
		OWN(freep) char *path = NULL;
		struct lab_request lab;
		struct err err = {0};
		uint64_t changed = 0;
		int r;

		lab_request(&lab, head_cases[i].request);
		r = policy_rewrite_head(rw, &lab.head, &path, &changed, &err);
		if (head_cases[i].want[0] == '!') {
			if (r == 0 || strstr(err.text, head_cases[i].want + 1) == NULL)
				printf("%s: %s\n", head_cases[i].rewrite, err.text);
			CHECK(r < 0 && strstr(err.text, head_cases[i].want + 1) != NULL);
			continue;
		}
		if (r < 0)
			printf("%s: %s\n", head_cases[i].rewrite, err.text);
		CHECK(r == 0);
		CHECK_STR(text_of_head(&lab.head), head_cases[i].want);
		CHECK(changed == head_cases[i].changed);
		CHECK_OK(http_head_check(&lab.head, &err));
	}
}

/* The client's spelling belongs to the path that it wrote. */
TEST(policy_rewrite_head_written)
{
	static const char *const rewrites[] = { "{headers: {remove: x}}", "{query: {set: {v: 1}}}",
	                                        "{path: {from: /, to: /b/}}" };

	for (size_t i = 0; i < ARRAY_LEN(rewrites); i++) {
		OWN(policy_freep) struct policy *p = rules_of(rewrites[i]);
		OWN(freep) char *path = NULL;
		struct lab_request lab;
		uint64_t changed;

		lab_request(&lab, "GET https://a.x/~a");
		lab.head.written = (struct http_text){ "/%7ea", 5 };
		CHECK_OK(policy_rewrite_head(policy_rewrite_of(p, 0), &lab.head, &path, &changed, NULL));
		CHECK((lab.head.written.len > 0) == (i == 0));
	}
}

/* A head that is refused is left as it was. */
TEST(policy_rewrite_head_untouched)
{
	OWN(policy_freep) struct policy *p =
		rules_of("{host: b.y, headers: {remove: [x-a]}, query: {remove: [v]}}");
	OWN(freep) char *path = NULL;
	struct lab_request lab;
	uint64_t changed = 7;

	lab_request(&lab, "GET https://a.x/?v;\nx-a: 1");
	CHECK(policy_rewrite_head(policy_rewrite_of(p, 0), &lab.head, &path, &changed, NULL) < 0);
	CHECK_STR(text_of_head(&lab.head), "GET https://a.x:443/?v;\nx-a: 1");
	CHECK(changed == 7 && path == NULL);
}

/* ---- the body ---- */

static const struct {
	const char *rewrite, *body, *want;
	uint64_t changed;
} body_cases[] = {
	{ "{json: {set: {/a: 1}}}", "{}", "{\"a\":1}", 1 },
	{ "{json: {set: {/a: 1}}}", " { } ", " {\"a\":1 } ", 1 },
	{ "{json: {set: {/a: 1}}}", "{ \"a\" : 2 , \"b\":3}", "{ \"a\" : 1 , \"b\":3}", 1 },
	{ "{json: {set: {/a: 1}}}", "{\"b\": [1, {\"a\":2}]\n}", "{\"b\": [1, {\"a\":2}],\"a\":1\n}", 1 },
	{ "{json: {set: {/a: 1}}}", "{\"a\":1}", "{\"a\":1}", 0 },
	{ "{json: {set: {/a: 1}}}", "{\"a\":{\"x\":[1,2]},\"b\":0}", "{\"a\":1,\"b\":0}", 1 },
	{ "{json: {set: {/a: x}}}", "{\"a\":\"\\u0041\"}", "{\"a\":\"x\"}", 1 },
	{ "{json: {set: {/a: '1'}}}", "{\"\\u0061\":0}", "{\"\\u0061\":\"1\"}", 1 },
	{ "{json: {set: {/a: 'say \"hi\"'}}}", "{}", "{\"a\":\"say \\\"hi\\\"\"}", 1 },
	{ "{json: {set: {/a: null, /b: true, /c: -1.5e3}}}", "{}", "{\"a\":null,\"b\":true,\"c\":-1.5e3}", 7 },
	{ "{json: {set: {/a/b/c: 1}}}", "{\"x\":0}", "{\"x\":0,\"a\":{\"b\":{\"c\":1}}}", 1 },
	{ "{json: {set: {/a/b/c: 1}}}", "{\"a\":{\"b\":{}},\"x\":0}", "{\"a\":{\"b\":{\"c\":1}},\"x\":0}", 1 },
	{ "{json: {set: {/a/b: 1}}}", "{\"b\":2,\"a\":{\"c\":{\"b\":3},\"b\":4}}",
	  "{\"b\":2,\"a\":{\"c\":{\"b\":3},\"b\":1}}", 1 },
	{ "{json: {set: {/x~1y~0: 1}}}", "{\"x/y~\":0}", "{\"x/y~\":1}", 1 },
	{ "{json: {set: {/a/b: 1}}}", "{\"a\":[]}", "!has no object in which the rule could set '/a/b'", 0 },
	{ "{json: {set: {/a/b: 1}}}", "{\"a\":null}", "!has no object in which", 0 },
	{ "{json: {default: {/a: 1}}}", "{\"a\":2}", "{\"a\":2}", 0 },
	{ "{json: {default: {/a: 1}}}", "{\"a\":null}", "{\"a\":1}", 1 },
	{ "{json: {default: {/a: 1}}}", "{}", "{\"a\":1}", 1 },
	{ "{json: {max: {/a: 10}}}", "{\"a\":11}", "{\"a\":10}", 1 },
	{ "{json: {max: {/a: 10}}}", "{\"a\":10}", "{\"a\":10}", 0 },
	{ "{json: {max: {/a: 10}}}", "{\"a\":1e999}", "{\"a\":10}", 1 },
	{ "{json: {max: {/a: 10}}}", "{\"a\":-11}", "{\"a\":-11}", 0 },
	{ "{json: {max: {/a: 10}}}", "{\"a\":null}", "{\"a\":null}", 0 },
	{ "{json: {max: {/a: 10}}}", "{\"b\":11}", "{\"b\":11}", 0 },
	{ "{json: {max: {/a: 10}}}", "{\"a\":\"11\"}", "!'/a' is not a number", 0 },
	{ "{json: {max: {/a: 10}}}", "{\"a\":[11]}", "!'/a' is not a number", 0 },
	{ "{json: {default: {/a: 10}, max: {/a: 10}}}", "{}", "{\"a\":10}", 1 },
	{ "{json: {default: {/a: 10}, max: {/a: 10}}}", "{\"a\":12}", "{\"a\":10}", 2 },
	{ "{json: {remove: [/a]}}", "{\"a\":1}", "{}", 1 },
	{ "{json: {remove: [/a]}}", "{ \"a\" : 1 }", "{ }", 1 },
	{ "{json: {remove: [/a]}}", "{\"a\":1, \"b\":2}", "{ \"b\":2}", 1 },
	{ "{json: {remove: [/b]}}", "{\"a\":1 , \"b\":{\"x\":[]} }", "{\"a\":1 }", 1 },
	{ "{json: {remove: [/b]}}", "{\"a\":[0],\"b\":[1],\"c\":[2]}", "{\"a\":[0],\"c\":[2]}", 1 },
	{ "{json: {remove: [/b, /c]}}", "{\"a\":[0],\"b\":[1],\"c\":[2]}", "{\"a\":[0]}", 3 },
	{ "{json: {remove: [/a/b]}}", "{\"a\":1}", "{\"a\":1}", 0 },
	{ "{json: {remove: [/z]}}", "{\"a\":1}", "{\"a\":1}", 0 },
	{ "{json: {set: {/a: 1}}}", "", "", 0 },
	{ "{json: {set: {/a: 1}}}", "[]", "!is not a JSON object", 0 },
	{ "{json: {set: {/a: 1}}}", "{", "!is not valid JSON", 0 },
	{ "{json: {set: {/a: 1}}}", "{} {}", "!is not valid JSON", 0 },
	{ "{json: {set: {/a: 1}}}", "{\"a\":1,\"a\":2}", "!a name twice", 0 },
	{ "{json: {set: {/a: 1}}}", "{\"x\":{\"b\":1,\"\\u0042\":2}}", "!a name twice", 0 },
	{ "{json: {set: {/a: 1}}}", "{\"x\":[{\"b\":1},{\"b\":2,\"\":3}],\"\":0}",
	  "{\"x\":[{\"b\":1},{\"b\":2,\"\":3}],\"\":0,\"a\":1}", 1 },
	{ "{json: {set: {/max: 1}}}", "{\"Max\":2}", "!some servers take for 'max'", 0 },
	{ "{json: {set: {/k: 1}}}", "{\"\xe2\x84\xaa\":2}", "!some servers take for 'k'", 0 },
	{ "{json: {remove: [/a/b]}}", "{\"A\":{\"b\":2}}", "!some servers take for 'a'", 0 },
	{ "{headers: {remove: [x]}}", "no JSON", "no JSON", 0 },
};

TEST(policy_rewrite_body)
{
	for (size_t i = 0; i < ARRAY_LEN(body_cases); i++) {
		OWN(policy_freep) struct policy *p = rules_of(body_cases[i].rewrite);
		const char *body = body_cases[i].body, *want = body_cases[i].want;
		OWN(buf_free) struct buf out;
		struct lab_request lab;
		struct err err = {0};
		uint64_t changed = 0;
		int r;

		buf_init(&out, 4096);
		lab_request(&lab, "POST https://a.x/\ncontent-type: application/json");
		r = policy_rewrite_body(policy_rewrite_of(p, 0), &lab.head, body, strlen(body), &out, &changed,
		                        &err);
		if (want[0] == '!') {
			if (r == 0 || strstr(err.text, want + 1) == NULL)
				printf("%s %s: %s\n", body_cases[i].rewrite, body, err.text);
			CHECK(r < 0 && strstr(err.text, want + 1) != NULL);
			continue;
		}
		if (r < 0)
			printf("%s %s: %s\n", body_cases[i].rewrite, body, err.text);
		CHECK(r == 0);
		buf_put(&out, "", 1);
		CHECK_STR((const char *)out.data, want);
		CHECK(changed == body_cases[i].changed);
	}
}

TEST(policy_rewrite_body_by_its_head)
{
	static const struct { const char *fields, *why; } cases[] = {
		{ "content-type: text/plain", "content-type is not JSON" },
		{ "content-type: application/x-www-form-urlencoded", "content-type is not JSON" },
		{ "content-type: application/json\ncontent-encoding: gzip", "compressed" },
		{ "content-type: application/problem+json; charset=utf-8", NULL },
		{ "x: y", NULL },
	};
	OWN(policy_freep) struct policy *p = rules_of("{json: {set: {/a: 1}}}");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(buf_free) struct buf out;
		struct lab_request lab;
		struct err err = {0};
		char text[256];
		uint64_t changed;
		int r;

		buf_init(&out, 4096);
		snprintf(text, sizeof(text), "POST https://a.x/\nlength: 2\n%s", cases[i].fields);
		lab_request(&lab, text);
		CHECK(policy_rewrite_needs_body(policy_rewrite_of(p, 0), &lab.head));
		r = policy_rewrite_body(policy_rewrite_of(p, 0), &lab.head, "{}", 2, &out, &changed, &err);
		CHECK((r < 0) == (cases[i].why != NULL));
		if (cases[i].why != NULL)
			CHECK(strstr(err.text, cases[i].why) != NULL);
		lab.head.length = 0;
		CHECK(!policy_rewrite_needs_body(policy_rewrite_of(p, 0), &lab.head));
	}
}

/* The result is bounded as its buffer is, and deep bodies are refused. */
TEST(policy_rewrite_body_bounds)
{
	OWN(policy_freep) struct policy *p = rules_of("{json: {set: {/a: 1}}}");
	OWN(buf_free) struct buf small, deep, out;
	struct lab_request lab;
	struct err err = {0};
	uint64_t changed;

	lab_request(&lab, "POST https://a.x/\ncontent-type: application/json");
	buf_init(&small, 6);
	CHECK(policy_rewrite_body(policy_rewrite_of(p, 0), &lab.head, "{}", 2, &small, &changed, &err) < 0);
	CHECK(strstr(err.text, "too long") != NULL);
	buf_init(&deep, 4096);
	buf_init(&out, 4096);
	buf_put(&deep, "{\"b\":", 5);
	for (int i = 0; i < 40; i++)
		buf_put(&deep, "[", 1);
	for (int i = 0; i < 40; i++)
		buf_put(&deep, "]", 1);
	buf_put(&deep, "}", 1);
	CHECK(policy_rewrite_body(policy_rewrite_of(p, 0), &lab.head, (const char *)deep.data, deep.len,
	                          &out, &changed, &err) < 0);
	CHECK(strstr(err.text, "nested too deeply") != NULL);
}

/* ---- reading ---- */

TEST(policy_rewrite_refused)
{
	static const struct { const char *rewrite, *why; } cases[] = {
		{ "{}", "`rewrite` is a map" },
		{ "[x]", "`rewrite` is a map" },
		{ "{header: {remove: x}}", "did you mean 'headers'?" },
		{ "{headers: {add: {x: y}}}", "it takes set, remove" },
		{ "{headers: {set: [x]}}", "`set` is a map" },
		{ "{headers: {remove: {x: y}}}", "`remove` is a list" },
		{ "{headers: {remove: []}}", "`remove` is a list" },
		{ "{headers: {set: {x: }}}", "the value is missing" },
		{ "{headers: {set: {x: [1]}}}", "a value is a word" },
		{ "{headers: {set: {host: x}}}", "frames the request" },
		{ "{headers: {set: {Content-Length: 1}}}", "frames the request" },
		{ "{headers: {set: {content_length: 1}}}", "frames the request" },
		{ "{headers: {remove: [transfer-encoding]}}", "frames the request" },
		{ "{headers: {set: {connection: close}}}", "frames the request" },
		{ "{headers: {remove: [te]}}", "frames the request" },
		{ "{headers: {set: {content-type: text/plain}}}", "frames the request" },
		{ "{headers: {remove: [content-encoding]}}", "frames the request" },
		{ "{headers: {set: {authorization: x}}}", "define a secret" },
		{ "{headers: {set: {Cookie: x}}}", "define a secret" },
		{ "{headers: {set: {'x y': x}}}", "is not the name of a header" },
		{ "{headers: {set: {x: ' y'}}}", "begins or ends with a blank" },
		{ "{headers: {set: {x: \"a\\tb\"}}}", "control character" },
		{ "{headers: {set: {x: y}, remove: [X]}}", "'x' is rewritten twice" },
		{ "{query: {set: {'': x}}}", "has a name" },
		{ "{path: {from: /v1, to: /}}", "begins and ends with '/'" },
		{ "{path: {from: /a/, to: '/b?c/'}}", "has a '?'" },
		{ "{path: {from: /a/, to: /../}}", "plain form" },
		{ "{path: {from: /a/}}", "`path` in `rewrite` replaces a prefix" },
		{ "{path: {form: /a/, to: /b/}}", "3:33: there is no key 'form' in `path`: did you mean 'from'?" },
		{ "{host: 'https://b.x:1/c'}", "3:32: a host has no scheme and no path: write 'b.x:1'" },
		{ "{host: gate.cloister.internal}", "no request can be sent" },
		/* Resolvers: the courier would refuse every request. */
		{ "{host: dns.google}", "3:32: nothing is ever sent to this host" },
		{ "{host: 'x.cloudflare-dns.com:8443'}", "nothing is ever sent to this host" },
		{ "{host: 8.8.8.8}", "nothing is ever sent to this host" },
		{ "{host: '[2606:4700:4700::1111]:80'}", "nothing is ever sent to this host" },
		{ "{host: '[::ffff:1.1.1.1]'}", "nothing is ever sent to this host" },
		{ "{json: {set: {a: 1}}}", "begins with '/': write /a" },
		{ "{json: {set: {/a: [1]}}}", "a value is a word" },
		{ "{json: {set: {/a/*: 1}}}", "name each one" },
		{ "{json: {set: {/a~2: 1}}}", "~0" },
		{ "{json: {set: {/a/b/c/d/e/f/g/h/i: 1}}}", "at most 8 names" },
		{ "{json: {max: {/a: x}}}", "must be a number" },
		{ "{json: {set: {/a: 1}, max: {/a: 1}}}", "'/a' is rewritten twice" },
		{ "{json: {set: {/a/b: 1}, remove: [/a]}}",
		  "3:58: '/a/b' is in '/a', which this rewrite removes: leave one of them out" },
		{ "{json: {remove: [/a], default: {/a/b: 1}}}", "'/a/b' is in '/a', which this rewrite removes" },
		{ "{json: {remove: [/a], max: {/a/b/c: 1}}}", "'/a/b/c' is in '/a', which this rewrite removes" },
		{ "{json: {set: {/a/b: 1, /a: 1}}}", "'/a/b' is in '/a', which this rewrite replaces" },
	};
	char rules[1024];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *why;

		snprintf(rules, sizeof(rules), "- {allow: a.x, rewrite: %s}\n", cases[i].rewrite);
		why = lab_refuses(rules);
		if (*why == '\0' || strstr(why, cases[i].why) == NULL)
			printf("%s: %s\n", cases[i].rewrite, why);
		CHECK(*why != '\0' && strstr(why, cases[i].why) != NULL);
	}
	CHECK_STR(lab_refuses("- {allow: a.x, rewrite: {host: dns.google.example}}\n"), "");
	CHECK(strstr(lab_refuses("- {deny: a.x, rewrite: {host: b}}\n"), "belongs to allow or ask") != NULL);
	CHECK(strstr(lab_refuses("- {log: a.x, rewrite: {host: b}}\n"), "belongs to allow or ask") != NULL);
	CHECK(strstr(lab_refuses("- {allow: 'a.x:1', protocol: tcp, rewrite: {host: b}}\n"), "raw TCP") != NULL);
	CHECK(strstr(lab_refuses("- {allow: a.x, git: fetch, rewrite: {json: {remove: /a}}}\n"),
	             "no JSON to rewrite") != NULL);
	CHECK(strstr(lab_refuses("- {allow: a.x, paths: [/v1/**, /h], rewrite: {path: {from: /v1/, to: /}}}\n"),
	             "/h does not begin") != NULL);
}

TEST(policy_rewrite_text)
{
	OWN(policy_freep) struct policy *p = rules_of(
		"{json: {remove: [/c], max: {/a: 9}, default: {/a: 5}, set: {/b: x}}, headers: {remove: [y], "
		"set: {x: 1}}, query: {remove: [q], set: {v: 2}}, path: {from: /a/, to: /b/}, host: 'h.x:81'}");

	CHECK_STR(policy_rule_text(p, 0), "allow a.x rewrite [host h.x:81, path /a/ to /b/, query v=2, "
	          "query q removed, header x=1, header y removed, json /b=\"x\", json /a default 5, "
	          "json /a max 9, json /c removed]");
	CHECK(policy_rewrites(p));
	CHECK(policy_rewrite_of(p, -1) == NULL);
}

/* ---- messages ---- */

TEST(policy_rewrite_put)
{
	OWN(policy_freep) struct policy *p = lab_rules(
		"- {allow: a.x, rewrite: {host: b, json: {set: {/a: 1}}}}\n- allow: c.x\n");
	OWN(policy_freep) struct policy *again = NULL, *other = lab_rules("- allow: c.x\n");
	OWN(buf_free) struct buf b, second, plain, meaning;
	struct err err = {0};

	buf_init(&b, 65536);
	buf_init(&second, 65536);
	policy_put(&b, p);
	CHECK_OK(policy_get(&b, &again, &err));
	policy_put(&second, again);
	CHECK(b.len == second.len && memcmp(b.data, second.data, b.len) == 0);
	CHECK(policy_rewrite_of(again, 0) != NULL && policy_rewrite_of(again, 0)->n == 2);
	CHECK(policy_rewrite_of(again, 1) == NULL && !policy_rewrites(other));
	/* A rule's meaning depends on it, and that of rules without one is as it always was. */
	buf_init(&plain, 65536);
	buf_init(&meaning, 65536);
	policy_put_meaning(&plain, other, 0);
	policy_put_meaning(&meaning, p, 1);
	CHECK(plain.len == meaning.len && memcmp(plain.data, meaning.data, plain.len) == 0);
	buf_reset(&meaning);
	policy_put_meaning(&meaning, p, 0);
	CHECK(plain.len != meaning.len);
}

/* A message with an edit that no rule may have is refused. */
TEST(policy_rewrite_get_refuses)
{
	OWN(policy_freep) struct policy *p = lab_rules("- {allow: a.x, rewrite: {headers: {set: {tez: x}}}}\n");
	OWN(policy_freep) struct policy *again = NULL;
	OWN(buf_free) struct buf b;
	unsigned char *at;

	buf_init(&b, 65536);
	policy_put(&b, p);
	at = memmem(b.data, b.len, "\3\0\0\0tez", 7);
	CHECK(at != NULL);
	memcpy(at + 4, "t\x7fz", 3);
	CHECK(policy_get(&b, &again, NULL) < 0);
}

/* ---- layers ---- */

TEST(policy_rewrite_layers)
{
	OWN(policy_freep) struct policy *p = lab_rules("- {allow: a.x, private: true, rewrite: {host: b.x}}\n");
	OWN(policy_freep) struct policy *outer = lab_rules("- allow: a.x\n- {ask: c.x}\n- {allow: b.x, methods: [GET]}\n");
	struct policy_decision inner, d;
	struct lab_request lab;

	lab_request(&lab, "POST https://a.x/");
	policy_decide(p, &lab.req, &inner, NULL);
	lab_request(&lab, "POST https://b.x/");
	policy_decide_outside(p, 1, &lab.req, &inner, &d);
	CHECK(d.verdict == POLICY_ALLOW && d.rule == 0 && d.may_use_private);
	CHECK_OK(policy_within(p, &outer, NULL));
	policy_decide_outside(p, 1, &lab.req, &inner, &d);
	CHECK(d.verdict == POLICY_DENY && d.layer == 1);
	lab_request(&lab, "GET https://b.x/");
	policy_decide_outside(p, 1, &lab.req, &inner, &d);
	CHECK(d.verdict == POLICY_ALLOW && d.rule == 0 && d.way.rule[0] == 0 && d.way.rule[1] == 2);
	CHECK(policy_way_rule(p, &d.way, 1) == 3 && !d.may_use_private);
	lab_request(&lab, "GET https://c.x/");
	policy_decide_outside(p, 1, &lab.req, &inner, &d);
	CHECK(d.verdict == POLICY_ASK && d.rule == 2);
	/* The whole of it decides as policy_decide() does. */
	policy_decide_outside(p, 0, &lab.req, &inner, &d);
	CHECK(d.verdict == POLICY_DENY && d.rule == -1 && d.layer == 0);
}

/* A decision that needed the body is made again with it. */
TEST(policy_rewrite_layers_and_bodies)
{
	OWN(policy_freep) struct policy *p = lab_rules("- {allow: a.x, rewrite: {headers: {remove: x}}}\n");
	OWN(policy_freep) struct policy *outer = lab_rules("- {deny: a.x, body: {regex: no}}\n- {allow: a.x}\n");
	const unsigned char none[POLICY_FITS_MAX] = {0}, all[POLICY_FITS_MAX] = { 0xff };
	struct policy_decision inner, d;
	struct lab_request lab;

	lab_request(&lab, "POST https://a.x/");
	lab.head.length = 3;
	policy_decide(p, &lab.req, &inner, NULL);
	CHECK_OK(policy_within(p, &outer, NULL));
	policy_decide_outside(p, 1, &lab.req, &inner, &d);
	CHECK(d.needs_body && d.verdict == POLICY_DENY);
	lab.req.n_body_fits = 1;
	lab.req.body_fits = all;
	policy_decide_outside(p, 1, &lab.req, &inner, &d);
	CHECK(!d.needs_body && d.verdict == POLICY_DENY && d.rule == 1);
	lab.req.body_fits = none;
	policy_decide_outside(p, 1, &lab.req, &inner, &d);
	CHECK(!d.needs_body && d.verdict == POLICY_ALLOW && d.rule == 0 && d.way.rule[1] == 1);
}

TEST(policy_rewrite_private)
{
	static const struct { const char *rule; bool want; } cases[] = {
		{ "- {allow: a.x, rewrite: {host: b.x}}\n", false },
		{ "- {allow: a.x, rewrite: {host: 10.0.0.1}}\n", true },
		{ "- {allow: a.x, rewrite: {host: '[::1]'}}\n", true },
		{ "- {allow: a.x, rewrite: {host: host.cloister.internal}}\n", true },
		{ "- {allow: a.x, private: true, rewrite: {host: b.x}}\n", true },
		{ "- {allow: 10.0.0.1, rewrite: {host: b.x}}\n", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(policy_freep) struct policy *p = lab_rules(cases[i].rule);

		CHECK(policy_rewrite_may_use_private(p, 0, policy_rewrite_of(p, 0)) == cases[i].want);
	}
}
