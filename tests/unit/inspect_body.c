/* inspect_body.c - tests of inspect: what rules say about bodies. */
#include "inspect/inspect.h"

#include <zlib.h>

#include "base/err.h"
#include "inspect/body.h"
#include "test.h"

#define JSON "application/json"

/* RULE is what follows "- allow: h.example\n    " of one rule, and of one that denies. */
struct body_case {
	const char *rule, *type, *body;
	bool allows, denies;            /* whether either fits */
};

static struct policy *
load(const char *rule)
{
	struct policy *p = NULL;
	struct err err = {0};
	char text[2048];

	snprintf(text, sizeof(text), "version: 1\negress:\n  - allow: h.example\n    %s\n"
	         "  - deny: i.example\n    %s\n", rule, rule);
	if (policy_load_text("test.yaml", text, strlen(text), &p, NULL, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s in:\n%s", err.text, text);
	return p;
}

static unsigned
fits_of(const struct policy *p, const char *method, const char *path, const char *type,
        const void *body, size_t len, struct inspect_findings *ret_findings)
{
	OWN(inspect_freep) struct inspect *in = NULL;
	struct inspect_request req = {
		.policy = p, .method = { method, strlen(method) }, .path = { path, strlen(path) },
		.content_type = { type, strlen(type) }, .rules = true,
	};
	struct inspect_findings f;
	unsigned fits;

	CHECK_OK(inspect_new(&req, &in, NULL));
	if (inspect_feed(in, body, len) == INSPECT_WANTS_MORE)
		inspect_finish(in);
	inspect_result(in, &f);
	CHECK(f.n_fits == 1);
	fits = f.fits[0];
	if (ret_findings != NULL) {
		*ret_findings = f;
		ret_findings->fits = NULL;
	}
	return fits;
}

static void
run_cases(const struct body_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct body_case *c = &cases[i];
		OWN(policy_freep) struct policy *p = load(c->rule);
		unsigned want = (c->allows ? 1u : 0u) | (c->denies ? 2u : 0u);
		unsigned got = fits_of(p, "POST", "/x", c->type, c->body, strlen(c->body), NULL);

		if (got != want)
			test_fail(__FILE__, __LINE__, "%s of %s is %u, not %u", c->rule, c->body, got,
			          want);
	}
}

/* ---- JSON ---- */

static const struct body_case json_cases[] = {
	/* A name that is the same to readers who know no capitals. */
	{ "body: {json: {/mcp: absent}}", JSON, "{\"MCP\":1}", false, true },
	{ "body: {json: {/mcp: absent}}", JSON, "{\"x\":1}", true, true },
	{ "body: {json: {/a/mcp: absent}}", JSON, "{\"a\":{\"mC\\u0050\":1}}", false, true },
	{ "body: {jsonrpc: {methods: [x]}}", JSON, "{\"jsonrpc\":\"2.0\",\"Method\":\"y\",\"result\":1}", false, true },
	{ "body: {graphql: {operations: [query]}}", JSON, "{\"query\":\"{a}\",\"operationname\":\"x\"}", false, true },
	{ "body: {json: {/model: claude-*}}", JSON, "{\"model\":\"claude-x\"}", true, true },
	{ "body: {json: {/model: claude-*}}", JSON, "{\"model\":\"gpt\"}", false, false },
	{ "body: {json: {/model: claude-*}}", JSON, "{}", false, false },
	{ "body: {json: {/model: claude-*}}", JSON, "{\"model\":7}", false, false },
	{ "body: {json: {/model: claude-*}}", "", " {\"model\": \"claude-\"} ", true, true },
	{ "body: {json: {/model: [a, b]}}", JSON, "{\"model\":\"b\"}", true, true },
	{ "body: {json: {/n: 7}}", JSON, "{\"n\":7.0}", true, true },
	{ "body: {json: {/n: 7}}", JSON, "{\"n\":\"7\"}", false, false },
	{ "body: {json: {/n: 100000000000000000000}}", JSON, "{\"n\":100000000000000000000}", true,
	  true },
	{ "body: {json: {/b: true}}", JSON, "{\"b\":true}", true, true },
	{ "body: {json: {/b: false}}", JSON, "{\"b\":true}", false, false },
	{ "body: {json: {/z: null}}", JSON, "{\"z\":null}", true, true },
	{ "body: {json: {/z: null}}", JSON, "{}", false, false },
	{ "body: {json: {/z: absent}}", JSON, "{}", true, true },
	{ "body: {json: {/z: absent}}", JSON, "{\"z\":null}", false, false },
	{ "body: {json: {/a/0/b: x}}", JSON, "{\"a\":[{\"b\":\"x\"}]}", true, true },
	{ "body: {json: {/a/00/b: x}}", JSON, "{\"a\":[{\"b\":\"x\"}]}", false, false },
	{ "body: {json: {/a~1b: x}}", JSON, "{\"a/b\":\"x\"}", true, true },
	{ "body: {json: {/a~0b: x}}", JSON, "{\"a~b\":\"x\"}", true, true },
	{ "body: {json: {\"\": hello}}", JSON, "\"hello\"", true, true },
	{ "body: {json: {/a: x, /b: y}}", JSON, "{\"a\":\"x\",\"b\":\"y\"}", true, true },
	{ "body: {json: {/a: x, /b: y}}", JSON, "{\"a\":\"x\"}", false, false },
	/* all of them, or one of them */
	{ "body: {json: {/l/*/t: x}}", JSON, "{\"l\":[{\"t\":\"x\"},{\"t\":\"x\"}]}", true, true },
	{ "body: {json: {/l/*/t: x}}", JSON, "{\"l\":[{\"t\":\"x\"},{\"t\":\"y\"}]}", false, true },
	{ "body: {json: {/l/*/t: x}}", JSON, "{\"l\":[{\"t\":\"x\"},{}]}", false, true },
	{ "body: {json: {/l/*: x}}", JSON, "{\"l\":{\"a\":\"x\",\"b\":\"x\"}}", true, true },
	{ "body: {json: {/l/*: x}}", JSON, "{\"l\":[]}", false, false },
	{ "body: {json: {/l/*: absent}}", JSON, "{\"l\":[]}", true, true },
	/* what two could read differently */
	{ "body: {json: {/a: x}}", JSON, "{\"a\":\"x\",\"a\":\"y\"}", false, true },
	{ "body: {json: {/a: x}}", JSON, "{\"a\":\"x\",\"\\u0061\":\"y\"}", false, true },
	{ "body: {json: {/a: x}}", JSON, "{\"a\":\"x\"}{\"a\":\"y\"}", false, true },
	{ "body: {json: {/a: x}}", JSON, "\xef\xbb\xbf{\"a\":\"x\"}", false, true },
	{ "body: {json: {/a: x}}", JSON, "{\"a\":\"x\"", false, true },
	{ "body: {json: {/a: x}}", JSON, "{'a':'x'}", false, true },
	{ "body: {json: {/a: x}}", JSON, "{\"a\":\"x\\ud800\"}", false, true },
	{ "body: {json: {/a: x}}", JSON, "{\"a\":NaN}", false, true },
	{ "body: {json: {/a: x}}", JSON, "{\"a\":\"x\",\"A\":\"y\"}", false, true },
	{ "body: {json: {/a: x}}", JSON, "{\"a\":\"x\",\"b\":[{\"Cd\":1,\"e\":2,\"cD\":1}]}", false,
	  true },
	{ "body: {json: {/a: x}}", JSON, "{\"a\":\"x\",\"sk\":1,\"\\u017fk\":1}", false, true },
	{ "body: {json: {/a: x}}", JSON, "{\"a\":\"x\",\"sk\":1,\"S\\u212a\":1}", false, true },
	{ "body: {json: {/a: x}}", JSON, "{\"a\":\"x\",\"aa\":{\"A\":1},\"[\":1,\"{\":1}", true, true },
	{ "body: {json: {/a: x}}", JSON, "", false, false },
	{ "body: {json: {/a: x}}", JSON, "{\"a\":\"x\\u0000y\"}", false, false },
};

/* How a server is told to read it. */
static const struct {
	const char *type;
	bool json;
} type_cases[] = {
	{ "", true },
	{ "application/json", true },
	{ "Application/JSON ; Charset=UTF-8", true },
	{ "application/json;charset=\"utf-8\"; v=1", true },
	{ "application/vnd.api+json", true },
	{ "application/json;", true },
	{ "text/plain", false },
	{ "application/x-www-form-urlencoded", false },
	{ "application/jsonx", false },
	{ "application/+json", false },
	{ "/x+json", false },
	{ "a/b/c+json", false },
	{ "text/html,application/x+json", false },
	{ "application/json, text/html", false },
	{ "application/json; charset=utf-7", false },
	{ "application/json; charset=utf-16le", false },
	{ "application/json; charset=utf-8; charset=utf-7", false },
	{ "application/json; a=\"; charset=utf-7\"", false },
	{ "application/json; charset*=utf-7''x", false },
	{ "application/json charset=utf-7", false },
	{ "application/json; x=1 charset=utf-7", false },
};

TEST(body_json_types)
{
	OWN(policy_freep) struct policy *json = load("body: {json: {/method: x}}");
	OWN(policy_freep) struct policy *rpc = load("body: {jsonrpc: {methods: [x]}}");
	static const char body[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}";

	for (size_t i = 0; i < ARRAY_LEN(type_cases); i++) {
		const char *type = type_cases[i].type;
		unsigned want = type_cases[i].json ? 3 : 2;

		if (fits_of(json, "POST", "/", type, body, sizeof(body) - 1, NULL) != want ||
		    fits_of(rpc, "POST", "/", type, body, sizeof(body) - 1, NULL) != want)
			test_fail(__FILE__, __LINE__, "type '%s' is not %u", type, want);
	}
}

TEST(body_json)
{
	run_cases(json_cases, ARRAY_LEN(json_cases));
}

/* Deep, and made of many small things. */
TEST(body_json_bounds)
{
	OWN(policy_freep) struct policy *p = load("body: {json: {/a: x}}");
	enum { BIG = 16 * 1024 * 1024 };
	OWN(freep) char *text = malloc(BIG);

	CHECK(text != NULL);
	memset(text, '[', BIG);
	CHECK_U64(fits_of(p, "POST", "/", JSON, text, BIG, NULL), 2);
	for (size_t i = 0; i < BIG; i += 4)
		memcpy(text + i, ",{ }", 4);
	text[0] = '[';
	memcpy(text + BIG - 4, "   ]", 4);
	CHECK_U64(fits_of(p, "POST", "/", JSON, text, BIG, NULL), 2);
}

/* ---- JSON-RPC ---- */

#define RPC(method) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\"}"

static const struct body_case jsonrpc_cases[] = {
	{ "body: {jsonrpc: {methods: [eth_*]}}", JSON, RPC("eth_call"), true, true },
	{ "body: {jsonrpc: {methods: [eth_*]}}", JSON, RPC("net_version"), false, false },
	{ "body: {jsonrpc: {methods: [eth_*]}}", JSON, "[" RPC("eth_a") "," RPC("eth_b") "]", true,
	  true },
	{ "body: {jsonrpc: {methods: [eth_*]}}", JSON, "[" RPC("eth_a") "," RPC("x") "]", false,
	  true },
	{ "body: {jsonrpc: {methods: [eth_*]}}", JSON, "[]", false, true },
	{ "body: {jsonrpc: {methods: [eth_*]}}", JSON, "{\"method\":\"eth_call\"}", false, true },
	{ "body: {jsonrpc: {methods: [eth_*]}}", JSON, "{\"jsonrpc\":\"1.0\",\"method\":\"eth_a\"}",
	  false, true },
	{ "body: {jsonrpc: {methods: [eth_*]}}", JSON, "{\"jsonrpc\":\"2.0\",\"id\":1}", false, true },
	/* An answer to what the server asked calls nothing. */
	{ "body: {jsonrpc: {methods: [eth_*]}}", JSON,
	  "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", true, false },
	{ "body: {jsonrpc: {methods: [eth_*]}}", JSON,
	  "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"method\":\"eth_a\"}", false, true },
	{ "body: {jsonrpc: {methods: [eth_*]}}", JSON,
	  "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":[\"eth_a\"]}", false, true },
};

TEST(body_jsonrpc)
{
	run_cases(jsonrpc_cases, ARRAY_LEN(jsonrpc_cases));
}

/* ---- GraphQL ---- */

#define QUERIES "body: {graphql: {operations: [query]}}"
#define NAMED "body: {graphql: {operations: [query], names: [Get*]}}"
#define GQL(document) "{\"query\":\"" document "\"}"

static const struct body_case graphql_cases[] = {
	{ QUERIES, JSON, GQL("{ viewer { login } }"), true, true },
	{ QUERIES, JSON, GQL("query { viewer }"), true, true },
	{ QUERIES, JSON, GQL("query Q($a: I = {b: [1, 2]}, $c: S!) @d(e: {f: 1}) { a(b: {c: 1}) }"),
	  true, true },
	{ QUERIES, JSON, GQL("mutation { addStar }"), false, false },
	{ QUERIES, JSON, GQL("# query\\nmutation { addStar }"), false, false },
	{ QUERIES, JSON, GQL("\\ufeff,,mutation M { a }"), false, false },
	{ QUERIES, JSON, GQL("subscription { a }"), false, false },
	{ QUERIES, JSON, GQL("fragment F on T { a } query { ...F }"), true, true },
	{ QUERIES, JSON, GQL("query A { a } mutation B { b }"), false, true },
	{ QUERIES, JSON, "{\"query\":\"query A{a} mutation B{b}\",\"operationName\":\"A\"}", true,
	  true },
	{ QUERIES, JSON, "{\"query\":\"query A{a} mutation B{b}\",\"operationName\":\"B\"}", false,
	  false },
	{ QUERIES, JSON, "{\"query\":\"query A{a} mutation B{b}\",\"operationName\":\"C\"}", false,
	  true },
	{ QUERIES, JSON, "{\"query\":\"query A{a} mutation B{b}\",\"operationName\":null}", false,
	  true },
	{ QUERIES, JSON, "{\"query\":\"query A{a} mutation A{b}\",\"operationName\":\"A\"}", false,
	  true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"operationName\":7}", false, true },
	{ QUERIES, JSON, "[" GQL("{a}") "," GQL("query{b}") "]", true, true },
	{ QUERIES, JSON, "[" GQL("{a}") "," GQL("mutation{b}") "]", false, true },
	{ QUERIES, JSON, GQL("{ a(s: \\\"} mutation {\\\") }"), true, true },
	{ QUERIES, JSON, GQL("{ a(s: \\\"\\\"\\\"} \\\\\\\"\\\"\\\" mutation {\\\"\\\"\\\") }"), true,
	  true },
	{ QUERIES, JSON, GQL("{ a(s: \\\"x\\\\\\\"} mutation {\\\") }"), true, true },
	/* what cannot be told */
	{ QUERIES, JSON, "{\"extensions\":{\"persistedQuery\":{}}}", false, true },
	/* a document, and the name of another */
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"extensions\":{\"persistedQuery\":{\"version\":1,\"sha256Hash\":\"x\"}}}",
	  false, true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"extensions\":\"{\\\"persistedQuery\\\":{}}\"}", false, true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"id\":\"x\"}", false, true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"queryId\":7}", false, true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"query_id\":\"x\"}", false, true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"documentId\":\"x\"}", false, true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"DOC_ID\":\"x\"}", false, true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"hash\":\"x\"}", false, true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"sha256Hash\":\"x\"}", false, true },
	{ QUERIES, JSON, "[" GQL("{a}") ",{\"query\":\"{a}\",\"id\":\"x\"}]", false, true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"id\":null,\"extensions\":{\"tracing\":true,\"persistedQuery\":null}}",
	  true, true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"variables\":{\"id\":\"x\",\"hash\":\"y\"}}", true, true },
	{ QUERIES, "application/x-www-form-urlencoded", "query=%7Ba%7D&doc_id=7", false, true },
	{ QUERIES, "application/x-www-form-urlencoded", "query=%7Ba%7D&%69d=7", false, true },
	{ QUERIES, JSON, GQL("{ a"), false, true },
	{ QUERIES, JSON, GQL("{ a ) }"), false, true },
	{ QUERIES, JSON, GQL("a }"), false, true },
	{ QUERIES, JSON, GQL(""), false, true },
	{ QUERIES, JSON, GQL("fragment F on T { a }"), false, true },
	{ QUERIES, JSON, GQL("extend type T { a: I }"), false, true },
	{ QUERIES, JSON, GQL("{ a(s: \\\"x\\n\\\") }"), false, true },
	{ QUERIES, JSON, GQL("{ a } ;"), false, true },
	{ QUERIES, JSON, "not json", false, true },
	{ QUERIES, "text/plain", GQL("{ a }"), false, true },
	{ QUERIES, JSON "; charset=utf-7", GQL("{ a }"), false, true },
	{ QUERIES, JSON, "{\"query\":\"{a}\",\"Query\":\"mutation{a}\"}", false, true },
	{ QUERIES, JSON, "", false, false },
	{ QUERIES, "application/graphql", "query { a }", true, true },
	{ QUERIES, "application/graphql; charset=utf-8", "mutation { a }", false, false },
	{ QUERIES, "application/x-www-form-urlencoded", "query=%7Ba%7D&x=1", true, true },
	{ QUERIES, "application/x-www-form-urlencoded", "query=mutation+%7Ba%7D", false, false },
	{ QUERIES, "application/x-www-form-urlencoded", "query=%7Ba%7D&query=mutation%7Ba%7D", false,
	  true },
	{ NAMED, JSON, GQL("query GetIt { a }"), true, true },
	{ NAMED, JSON, GQL("query SetIt { a }"), false, false },
	{ NAMED, JSON, GQL("{ a }"), false, false },
};

TEST(body_graphql)
{
	run_cases(graphql_cases, ARRAY_LEN(graphql_cases));
}

static const struct {
	const char *path, *body;
	unsigned fits;
} query_cases[] = {
	{ "/graphql?query=%7Ba%7D", "", 3 },
	{ "/graphql?query={a}", "", 3 },
	{ "/graphql?query=mutation%7Ba%7D", "", 0 },
	{ "/graphql?query=query+A%7Ba%7D+mutation+B%7Ba%7D&operationName=A", "", 3 },
	{ "/graphql?query=query+A%7Ba%7D+mutation+B%7Ba%7D", "", 2 },
	{ "/graphql?x=1", "", 0 },
	{ "/graphql?query=%7Ba%7D&query=%7Ba%7D", "", 2 },
	/* Which of the two a server prefers is its own affair. */
	{ "/graphql?query=%7Ba%7D", GQL("{a}"), 2 },
	{ "/graphql?operationName=A", GQL("{a}"), 2 },
	{ "/graphql?%71uery=%7Ba%7D", GQL("{a}"), 2 },
	{ "/graphql?x=1", GQL("{a}"), 3 },
	/* A document, and the name of another. */
	{ "/graphql?query=%7Ba%7D&extensions=%7B%22persistedQuery%22:%7B%7D%7D", "", 2 },
	{ "/graphql?query=%7Ba%7D&extensions=%7B%22%5Cu0070ersistedQuery%22:1%7D", "", 2 },
	{ "/graphql?query=%7Ba%7D&extensions=%7B%22tracing%22:1%7D", "", 3 },
	{ "/graphql?query=%7Ba%7D&documentId=x", "", 2 },
	{ "/graphql?query=%7Ba%7D&id[]=x", "", 2 },
	{ "/graphql?query=%7Ba%7D&queryId=x", "", 2 },
	{ "/graphql?query_id=x", GQL("{a}"), 2 },
	{ "/graphql?hash=x", GQL("{a}"), 2 },
	{ "/items?id=7", "", 0 },
};

TEST(body_graphql_in_query)
{
	OWN(policy_freep) struct policy *p = load(QUERIES);

	for (size_t i = 0; i < ARRAY_LEN(query_cases); i++) {
		const char *body = query_cases[i].body;

		CHECK_U64(fits_of(p, *body == '\0' ? "GET" : "POST", query_cases[i].path, JSON, body,
		                  strlen(body), NULL), query_cases[i].fits);
	}
}

TEST(body_graphql_bounds)
{
	OWN(policy_freep) struct policy *p = load(QUERIES);
	static char text[1 << 16];
	size_t n = 0;

	for (size_t i = 0; i < BODY_NESTING_MAX + 1; i++)
		text[n++] = '{';
	for (size_t i = 0; i < BODY_NESTING_MAX + 1; i++)
		text[n++] = '}';
	CHECK_U64(fits_of(p, "POST", "/", "application/graphql", text, n, NULL), 2);
	for (n = 0; n < 4 * (BODY_OPERATIONS_MAX + 1); n += 4)
		memcpy(text + n, "{a} ", 4);
	CHECK_U64(fits_of(p, "POST", "/", "application/graphql", text, n, NULL), 2);
	CHECK_U64(fits_of(p, "POST", "/", "application/graphql", text, n - 4, NULL), 3);
}

/* ---- regular expressions ---- */

static const struct body_case regex_cases[] = {
	{ "body: {regex: ['^abc$']}", "", "abc", true, true },
	{ "body: {regex: ['^abc$']}", "", "xabc", false, false },
	{ "body: {regex: ['(?i)HELLO']}", "", "say hello to me", true, true },
	{ "body: {regex: [nothing, 'b.c']}", "", "abxc", true, true },
	{ "body: {regex: [a]}", "", "", false, false },
	{ "body: {regex: ['\\xff']}", "", "\xff", true, true },
};

TEST(body_regex)
{
	run_cases(regex_cases, ARRAY_LEN(regex_cases));
}

/* Expressions that would run for hours are stopped, and then nobody knows. */
TEST(body_regex_bounds)
{
	static const char *const slow[] = {
		"body: {regex: ['(a+)+$']}", "body: {regex: ['a*+a*+b']}", "body: {regex: ['(a|a)*b']}",
		"body: {regex: ['(?:a.*+)?c$']}",
	};
	enum { BIG = 1 << 20 };
	OWN(freep) char *text = malloc(BIG);

	CHECK(text != NULL);
	memset(text, 'a', BIG);
	text[BIG - 1] = '!';
	for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
		OWN(policy_freep) struct policy *p = load(slow[i]);
		unsigned fits = fits_of(p, "POST", "/", "", text, BIG, NULL);

		CHECK(fits == 0 || fits == 2);
	}
}

/* One step may go through all of a large body: the clock is looked at more often then.  It is the
 * processor's time that is counted, so a busy machine does not matter. */
TEST(body_regex_bounds_large)
{
	enum { BIG = 32 << 20 };
	const char *const slow[] = { "a[^b]*+c" };
	const struct policy_list list = { slow, 1 };
	struct body_regex_time time = {0};
	OWN(freep) char *text = malloc(BIG);

	CHECK(text != NULL);
	memset(text, 'a', BIG);
	CHECK(body_regex_fits(text, BIG, &list, &time) == BODY_UNREADABLE);
	CHECK(time.used_us < 3 * BODY_REGEX_CPU_MS * 1000);
}

/* ---- the whole ---- */

TEST(body_matchers_all)
{
	static const struct body_case cases[] = {
		{ "body: {json: {/a: x}, regex: [y]}", JSON, "{\"a\":\"x\",\"b\":\"y\"}", true, true },
		{ "body: {json: {/a: x}, regex: [y]}", JSON, "{\"a\":\"x\"}", false, false },
		{ "body: {json: {/a: x}, regex: [y]}", JSON, "{\"a\":\"y\"}", false, false },
		/* Unreadable as the one, and not found as the other. */
		{ "body: {json: {/a: x}, regex: [y]}", JSON, "{\"a\":", false, false },
		{ "body: {json: {/a: x}, regex: [y]}", JSON, "{\"y\":", false, true },
	};

	run_cases(cases, ARRAY_LEN(cases));
}

static void
look(const struct inspect_request *req, const void *data, size_t len, size_t step,
     struct inspect_findings *ret_findings)
{
	OWN(inspect_freep) struct inspect *in = NULL;
	const char *at = data;
	enum inspect_progress progress = INSPECT_WANTS_MORE;

	CHECK_OK(inspect_new(req, &in, NULL));
	for (size_t i = 0; i < len && progress == INSPECT_WANTS_MORE; i += step)
		progress = inspect_feed(in, at + i, len - i < step ? len - i : step);
	if (progress == INSPECT_WANTS_MORE)
		inspect_finish(in);
	inspect_result(in, ret_findings);
	ret_findings->fits = NULL;
}

TEST(inspect_packed_secret)
{
	static const char key[] = "{\"k\":\"-----BEGIN PRIVATE KEY-----\\nMIGHAgEAMBMGByqGSM49AgEG"
		"CCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2OF4L5k9oVxUq1cTz7pBn\"}";
	struct inspect_request req = { .content_coding = { "gzip", 4 }, .secrets = true };
	struct inspect_findings f;
	unsigned char packed[512];
	z_stream z = {0};
	size_t n;

	CHECK(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	z.next_in = (unsigned char *)(uintptr_t)key;
	z.avail_in = sizeof(key) - 1;
	z.next_out = packed;
	z.avail_out = sizeof(packed);
	CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
	n = sizeof(packed) - z.avail_out;
	deflateEnd(&z);
	for (size_t step = 1; step <= n; step += 7) {
		look(&req, packed, n, step, &f);
		CHECK(f.secret && !f.unreadable);
		CHECK_STR(f.what, "private key");
	}
	packed[n - 1] ^= 1;
	packed[n / 2] ^= 1;
	look(&req, packed, n, n, &f);
	CHECK(!f.secret && f.unreadable);
	CHECK_STR(f.what, "its gzip data are broken");
	req.content_coding = (struct http_text){ "pack200", 7 };
	look(&req, packed, n, n, &f);
	CHECK(f.unreadable);
	look(&req, packed, 0, 1, &f);
	CHECK(!f.unreadable && f.what[0] == '\0');
}

/* A secret in a body that rules ask about too: both are told. */
TEST(inspect_both)
{
	OWN(policy_freep) struct policy *p = load("body: {json: {/a: x}}");
	struct inspect_request req = { .policy = p, .secrets = true, .rules = true };
	OWN(inspect_freep) struct inspect *in = NULL;
	static const char body[] = "{\"a\":\"x\",\"k\":\"AKIA" "Q3EGRT7XZLP5WVNM\"}";
	struct inspect_findings f;

	CHECK_OK(inspect_new(&req, &in, NULL));
	CHECK(inspect_feed(in, body, sizeof(body) - 1) == INSPECT_WANTS_MORE);
	inspect_finish(in);
	inspect_result(in, &f);
	CHECK(f.secret && f.fits[0] == 3);
	CHECK_STR(f.what, "AWS access key");
}

/* What cannot be unpacked fits what refuses. */
TEST(inspect_unreadable_fits)
{
	OWN(policy_freep) struct policy *p = load("body: {json: {/a: x}}");
	struct inspect_request req = { .policy = p, .rules = true,
	                               .content_coding = { "gzip", 4 } };
	OWN(inspect_freep) struct inspect *in = NULL;
	struct inspect_findings f;

	CHECK_OK(inspect_new(&req, &in, NULL));
	CHECK(inspect_feed(in, "{\"a\":\"x\"}", 9) == INSPECT_DONE);
	inspect_result(in, &f);
	CHECK(f.unreadable && f.fits[0] == 2);
}

/* Parameters that some servers take for `query`: nobody knows what they will run. */
TEST(body_graphql_odd_parameters)
{
	static const char *const paths[] = {
		"/?a=1;query=mutation{x}", "/?query[]=mutation{x}", "/?Query=mutation{x}",
		"/?+query=mutation{x}", "/?query={a}&query%5B%5D=mutation{x}",
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		OWN(policy_freep) struct policy *p = load("body: {graphql: {operations: [mutation]}}");

		/* It fits the rule that denies, and not the one that allows. */
		CHECK_U64(fits_of(p, "GET", paths[i], "", "", 0, NULL), 2);
	}
}

/* Servers that leave it packed get more than nothing. */
TEST(body_that_unpacks_to_nothing)
{
	static const unsigned char empty[] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	OWN(policy_freep) struct policy *p = load("body: {regex: [FORBIDDEN]}");
	struct inspect_request req = { .policy = p, .rules = true, .content_coding = { "gzip", 4 } };
	struct inspect_findings f;

	look(&req, empty, sizeof(empty), sizeof(empty), &f);
	CHECK(f.unreadable);
	CHECK_STR(f.what, "it unpacks to nothing");
}

/* Nor are secrets hidden in what only looks packed: these are stored blocks. */
TEST(body_secret_in_packed_bytes)
{
	static const char key[] = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIB"
		"AQQgevZzL1gdAFr88hb2OF4L5k9oVxUq1cTz7pBn";
	/* A block of brotli that is skipped, then content enough for its size. */
	unsigned char data[2 + 256 + 1] = { 0xac, 0x00 };
	struct inspect_request req = { .secrets = true, .content_coding = { "br", 2 } };
	struct inspect_findings f;
	size_t n = sizeof(key) - 1;

	CHECK(n <= 256);
	data[0] = (unsigned char)(0x2c | ((n - 1) & 1) << 7);
	data[1] = (unsigned char)((n - 1) >> 1);
	memcpy(data + 2, key, n);
	data[2 + n] = 0x03;
	look(&req, data, 3 + n, 3 + n, &f);
	CHECK(f.secret);
	/* A library that tells of such blocks does so before all of the secret is there. */
	look(&req, data, 3 + n, 7, &f);
	CHECK(f.secret || f.unreadable);
}

/* ---- calls of MCP tools ---- */

#define CALL(method, params) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":" params "}"
#define TOOL(name, args) CALL("tools/call", "{\"name\":\"" name "\",\"arguments\":" args "}")

/* RULE is what follows "tool:gh.get_*" in one rule that allows, and one that denies; the two
 * built-in rules are in front. */
static const struct {
	const char *rule, *body;
	bool allows, denies, others;
	const char *call;
} call_cases[] = {
	{ "", TOOL("gh.get_x", "{}"), true, true, false, "tool gh.get_x" },
	{ "", TOOL("gh.put_x", "{}"), false, false, false, "tool gh.put_x" },
	{ "", TOOL("gh.get_x.y", "{}"), false, false, false, "tool gh.get_x.y" },
	{ "", CALL("tools/call", "{\"name\":\"gh.get_x\"}"), true, true, false, "tool gh.get_x" },
	{ "", TOOL("gh.get_\\u0061", "{}"), true, true, false, "tool gh.get_a" },
	{ "", TOOL("gh.get_\\u0007 b", "{}"), true, true, false, "tool gh.get_??b" },
	{ "", CALL("prompts/get", "{\"name\":\"gh.get_x\"}"), false, false, false, "prompt gh.get_x" },
	{ "", CALL("resources/read", "{\"uri\":\"mcp://gh/file:///x\"}"), false, false, false, "resource gh/file:///x" },
	{ "", CALL("initialize", "{}"), false, false, true, "method initialize" },
	{ "", CALL("tools/list", "{}"), false, false, true, "method tools/list" },
	{ "", CALL("notifications/cancelled", "{}"), false, false, true, "method notifications/cancelled" },
	{ "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", false, false, true, "method " },
	{ "", CALL("tools/calls", "{}"), false, false, false, "method tools/calls" },
	{ "", CALL("tasks/result", "{}"), false, false, false, "method tasks/result" },
	/* what two could read differently, or is no message, fits what refuses */
	{ "", "[" TOOL("gh.get_x", "{}") "]", false, true, false, "" },
	{ "", TOOL("gh.get_x", "[]"), false, true, false, "" },
	{ "", CALL("tools/call", "{\"name\":1}"), false, true, false, "" },
	{ "", CALL("tools/call", "{\"Name\":\"gh.get_x\"}"), false, true, false, "" },
	{ "", CALL("tools/call", "{\"name\":\"gh.get_x\",\"name\":\"gh.put\"}"), false, true, false, "" },
	{ "", CALL("resources/read", "{\"uri\":\"file:///x\"}"), false, true, false, "" },
	{ "", "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"gh.get_x\"}}", false, true, false, "" },
	{ "", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", false, true, false, "" },
	{ "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"result\":1}", false, true, false, "" },
	{ "", "{\"jsonrpc\":\"2.0\",\"result\":1}", false, false, false, "method " },
	{ "", "{", false, true, false, "" },
	{ "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"Method\":\"tools/call\",\"result\":1}", false, true, false, "" },
	{ ", args: {/t: absent}", CALL("tools/call", "{\"name\":\"gh.get_x\",\"Arguments\":{\"t\":1}}"), false, true, false, "" },
	/* arguments */
	{ ", args: {/t: x*}", TOOL("gh.get_x", "{\"t\":\"xy\"}"), true, true, false, NULL },
	{ ", args: {/t: x*}", TOOL("gh.get_x", "{\"t\":\"y\"}"), false, false, false, NULL },
	{ ", args: {/t: x*}", TOOL("gh.get_x", "{\"T\":\"xy\"}"), false, true, false, NULL },
	{ ", args: {/t: absent}", CALL("tools/call", "{\"name\":\"gh.get_x\"}"), true, true, false, NULL },
	{ ", args: {/t: absent}", TOOL("gh.get_x", "{\"t\":null}"), false, false, false, NULL },
	{ ", args: {/l/*: [a, b]}", TOOL("gh.get_x", "{\"l\":[\"a\",\"b\"]}"), true, true, false, NULL },
	{ ", args: {/l/*: [a, b]}", TOOL("gh.get_x", "{\"l\":[\"a\",\"c\"]}"), false, true, false, NULL },
	{ ", args: {/n: {min: 1, max: 10}}", TOOL("gh.get_x", "{\"n\":10}"), true, true, false, NULL },
	{ ", args: {/n: {min: 1, max: 10}}", TOOL("gh.get_x", "{\"n\":10.5}"), false, false, false, NULL },
	{ ", args: {/n: {min: 1, max: 10}}", TOOL("gh.get_x", "{\"n\":\"5\"}"), false, false, false, NULL },
	{ ", args: {/n: {min: 1}}", TOOL("gh.get_x", "{}"), false, false, false, NULL },
	{ ", args: {/p: {pattern: '^a+$'}}", TOOL("gh.get_x", "{\"p\":\"aaa\"}"), true, true, false, NULL },
	{ ", args: {/p: {pattern: '^a+$'}}", TOOL("gh.get_x", "{\"p\":\"aab\"}"), false, false, false, NULL },
	{ ", args: {/p: {pattern: '^a+$'}}", TOOL("gh.get_x", "{\"p\":1}"), false, false, false, NULL },
};

TEST(body_calls)
{
	for (size_t i = 0; i < ARRAY_LEN(call_cases); i++) {
		OWN(policy_freep) struct policy *p = NULL;
		const char *body = call_cases[i].body;
		struct inspect_findings f;
		struct err err = {0};
		char text[1024];
		unsigned fits, want = (call_cases[i].others ? 1u : 0) | (call_cases[i].allows ? 4u : 0) | (call_cases[i].denies ? 8u : 0);

		snprintf(text, sizeof(text), "version: 1\negress:\n- {allow: 'tool:gh.get_*', principal: a%s}\n"
		         "- {deny: 'tool:gh.get_*'%s}\n", call_cases[i].rule, call_cases[i].rule);
		if (policy_load_text("test.yaml", text, strlen(text), &p, NULL, &err) < 0)
			test_fail(__FILE__, __LINE__, "%s in:\n%s", err.text, text);
		fits = fits_of(p, "POST", "/mcp", JSON, body, strlen(body), &f);
		if (fits != want || (call_cases[i].call != NULL && strcmp(call_cases[i].call, f.call) != 0))
			test_fail(__FILE__, __LINE__, "%s%s: %#x, not %#x, and '%s'", call_cases[i].rule, body, fits, want, f.call);
		CHECK(fits_of(p, "POST", "/mcp", "text/plain", body, strlen(body), NULL) == 8);
	}
}

static const struct { const char *schema, *value; bool fits; } schema_cases[] = {
	{ "{type: string}", "\"x\"", true },
	{ "{type: string}", "1", false },
	{ "{type: [string, 'null']}", "null", true },
	{ "{type: integer}", "2", true },
	{ "{type: integer}", "2.5", false },
	{ "{type: boolean}", "true", true },
	{ "{enum: [a, 1, null]}", "1", true },
	{ "{enum: [a, 1, null]}", "\"b\"", false },
	{ "{const: {a: [1]}}", "{\"a\":[1]}", true },
	{ "{const: {a: [1]}}", "{\"a\":[2]}", false },
	{ "{required: [a], properties: {a: {type: number}}, additionalProperties: false}", "{\"a\":1}", true },
	{ "{required: [a], properties: {a: {type: number}}, additionalProperties: false}", "{\"a\":1,\"b\":1}", false },
	{ "{required: [a], properties: {a: {type: number}}, additionalProperties: false}", "{}", false },
	{ "{properties: {a: {type: number}}}", "{\"a\":\"x\"}", false },
	{ "{additionalProperties: {type: number}}", "{\"a\":1,\"b\":\"x\"}", false },
	{ "{items: {type: string}, maxItems: 2}", "[\"a\",\"b\"]", true },
	{ "{items: {type: string}, maxItems: 2}", "[\"a\",\"b\",\"c\"]", false },
	{ "{items: {type: string}}", "[1]", false },
	{ "{minItems: 1}", "[]", false },
	{ "{minLength: 2, maxLength: 3}", "\"\u00e4\u00e4\u00e4\"", true },
	{ "{minLength: 2, maxLength: 3}", "\"a\"", false },
	{ "{pattern: '^[a-z]+$'}", "\"abc\"", true },
	{ "{pattern: '^[a-z]+$'}", "\"ABC\"", false },
	{ "{minimum: 1, exclusiveMaximum: 5}", "4.9", true },
	{ "{minimum: 1, exclusiveMaximum: 5}", "5", false },
	{ "{maximum: 5, exclusiveMinimum: 1}", "1", false },
	{ "{anyOf: [{type: string}, {minimum: 5}]}", "7", true },
	{ "{anyOf: [{type: string}, {minimum: 5}]}", "3", false },
	{ "{allOf: [{minimum: 1}, {maximum: 5}]}", "3", true },
	{ "{allOf: [{minimum: 1}, {maximum: 5}]}", "7", false },
	{ "{oneOf: [{minimum: 1}, {maximum: 5}]}", "3", false },
	{ "{oneOf: [{minimum: 1}, {maximum: 5}]}", "7", true },
	{ "{not: {type: string}}", "\"x\"", false },
	{ "{not: {type: string}}", "1", true },
};

TEST(body_call_schemas)
{
	for (size_t i = 0; i < ARRAY_LEN(schema_cases); i++) {
		OWN(policy_freep) struct policy *p = NULL;
		struct err err = {0};
		char text[512], body[512];
		unsigned fits;

		snprintf(text, sizeof(text), "version: 1\negress:\n- {allow: 'tool:gh.x', args: {/v: {schema: %s}}}\n",
		         schema_cases[i].schema);
		if (policy_load_text("test.yaml", text, strlen(text), &p, NULL, &err) < 0)
			test_fail(__FILE__, __LINE__, "%s in:\n%s", err.text, text);
		snprintf(body, sizeof(body), TOOL("gh.x", "{\"v\":%s}"), schema_cases[i].value);
		fits = fits_of(p, "POST", "/mcp", JSON, body, strlen(body), NULL);
		if (fits != (schema_cases[i].fits ? 4u : 0))
			test_fail(__FILE__, __LINE__, "%s on %s: %#x", schema_cases[i].schema, schema_cases[i].value, fits);
	}
}
