/* policy_test.c - `cloister policy test`: runs the cases beside a policy, each a request and its verdict. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/policy.h"
#include "policy/policy_yaml.h"

#define CASES_FILE_MAX (4 * 1024 * 1024)

enum key { KEY_NAME, KEY_REQUEST, KEY_METHOD, KEY_URL, KEY_HEADERS, KEY_BODY, KEY_PUSH,
           KEY_DELETE, KEY_OPTIONS, KEY_TOOL, KEY_PROMPT, KEY_RESOURCE, KEY_ARGS, KEY_EXPECT, KEY_RULE, KEYS };

static const char *const key_names[] = { "name", "request", "method", "url", "headers", "body",
	"push", "delete", "options", "tool", "prompt", "resource", "args", "expect", "rule", NULL };

struct test_case {
	const struct node *at, *keys[KEYS];
	char *method, *url;
	const char *headers[HTTP_FIELDS_MAX];
	size_t n_headers;
	struct buf body;
	enum policy_verdict expect;
	uint64_t rule;                  /* its line; 0: any */
};

struct testing {
	const struct policy_cli *cli;
	const struct policy *p;
	struct policy_judge *judge;
	struct json out;
	size_t passed, failed;
};

/* ---- reading a case ---- */

static int
find_keys(struct test_case *c, struct err *err)
{
	size_t k;

	if (c->at->kind != NODE_MAP)
		return node_err(err, c->at, "a case is a map: `- request: GET https://api.example.com/`");
	for (size_t i = 0; i < c->at->n; i++) {
		const struct node *key = c->at->items[i];

		for (k = 0; key_names[k] != NULL && strcmp(key_names[k], key->text) != 0; k++)
			;
		if (key_names[k] == NULL) {
			const char *nearest = text_nearest(key->text, key_names);

			return node_err(err, key, "there is no key '%.64s' in a case%s%s%s", key->text,
			                nearest != NULL ? ": did you mean '" : "",
			                nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
		}
		c->keys[k] = c->at->values[i];
		if (k != KEY_HEADERS && k != KEY_PUSH && k != KEY_DELETE && k != KEY_OPTIONS && k != KEY_ARGS &&
		    c->keys[k]->kind != NODE_SCALAR)
			return node_err(err, c->keys[k], "'%s' takes one word", key_names[k]);
	}
	return 0;
}

static int
read_expected(struct test_case *c, struct err *err)
{
	const struct node *node = c->keys[KEY_EXPECT], *line = c->keys[KEY_RULE];
	const char *colon;

	if (node == NULL)
		return node_err(err, c->at, "a case needs `expect`: allow, deny or ask");
	for (c->expect = POLICY_DENY; c->expect <= POLICY_ASK; c->expect++)
		if (strcmp(policy_verdict_name(c->expect), node->text) == 0)
			break;
	if (c->expect > POLICY_ASK)
		return node_err(err, node, "'%.32s' is not allow, deny or ask", node->text);
	if (line == NULL)
		return 0;
	/* "12", or "cloister.yaml:12" for readability. */
	colon = strrchr(line->text, ':');
	if (num_parse_count(colon != NULL ? colon + 1 : line->text, 1, 1000000, &c->rule, NULL) < 0)
		return node_err(err, line, "'rule' is the line of the rule that decides");
	return 0;
}

/* `tool: github.create_issue`, and `args`. */
static int
read_call(struct test_case *c, enum key kind, struct err *err)
{
	const struct node *args = c->keys[KEY_ARGS];

	for (enum key k = KEY_REQUEST; k < KEY_EXPECT; k++)
		if (k != kind && k != KEY_ARGS && c->keys[k] != NULL)
			return node_err(err, c->keys[k], "a case with `%s` takes `args` and `expect`", key_names[kind]);
	if (args != NULL && args->kind != NODE_MAP)
		return node_err(err, args, "`args` is a map: {title: Hello}");
	c->url = str_format("%s:%s", key_names[kind], c->keys[kind]->text);
	if (args != NULL)
		node_put_json(&c->body, args);
	return c->url != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* "GET https://x", or `method` and `url` separately. */
static int
read_request(struct test_case *c, struct err *err)
{
	const struct node *request = c->keys[KEY_REQUEST], *url = c->keys[KEY_URL];
	const struct node *method = c->keys[KEY_METHOD];
	const char *space = request != NULL ? strchr(request->text, ' ') : NULL;
	const char *rest;

	for (enum key k = KEY_TOOL; k <= KEY_RESOURCE; k++)
		if (c->keys[k] != NULL)
			return read_call(c, k, err);
	if (c->keys[KEY_ARGS] != NULL)
		return node_err(err, c->keys[KEY_ARGS], "`args` belong to a `tool` or a `prompt`");
	if ((request == NULL) == (url == NULL) || (request != NULL && method != NULL))
		return node_err(err, c->at, "a case needs a `request`, or a `method` and a `url`");
	rest = space != NULL ? space + 1 + strspn(space + 1, " ") :
	       request != NULL ? request->text : url->text;
	if (space != NULL)
		c->method = strndup(request->text, (size_t)(space - request->text));
	else if (method != NULL)
		c->method = strdup(method->text);
	c->url = c->keys[KEY_PUSH] != NULL || c->keys[KEY_DELETE] != NULL ?
	         str_format("%s/git-receive-pack", rest) : strdup(rest);
	if (c->url == NULL || ((space != NULL || method != NULL) && c->method == NULL))
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

static int
read_headers(struct test_case *c, struct err *err)
{
	const struct node *node = c->keys[KEY_HEADERS];

	if (node == NULL)
		return 0;
	if (node->kind != NODE_MAP)
		return node_err(err, node, "`headers` is a map: {content-type: application/json}");
	for (size_t i = 0; i < node->n; i++) {
		if (node->values[i]->kind != NODE_SCALAR || c->n_headers == HTTP_FIELDS_MAX)
			return node_err(err, node->items[i], "a header has one value here");
		c->headers[c->n_headers] = str_format("%s: %s", node->items[i]->text,
		                                      node->values[i]->text);
		if (c->headers[c->n_headers++] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

/* An empty pack, which follows if a ref is new. */
static const unsigned char no_objects[] = {
	'P', 'A', 'C', 'K', 0, 0, 0, 2, 0, 0, 0, 0,
	0x02, 0x9d, 0x08, 0x82, 0x3b, 0xd8, 0xa8, 0xea, 0xb5, 0x10,
	0xad, 0x6a, 0xc7, 0x5c, 0x82, 0x3c, 0xfd, 0x3e, 0xd3, 0x1e,
};

#define ZEROS "0000000000000000000000000000000000000000"
#define ONES "1111111111111111111111111111111111111111"

/* A push as git sends it: each ref is new, or deleted. */
static int
put_refs(struct test_case *c, const struct node *node, bool new, struct err *err)
{
	static const char able[] = "\0 report-status push-options";
	size_t n = node == NULL ? 0 : node->kind == NODE_LIST ? node->n : 1;
	size_t n_able = c->keys[KEY_OPTIONS] != NULL ? sizeof(able) - 1 :
	                sizeof("\0 report-status") - 1;
	bool first;

	for (size_t i = 0; i < n; i++) {
		const struct node *ref = node->kind == NODE_LIST ? node->items[i] : node;
		OWN(freep) char *line = NULL;

		if (ref->kind != NODE_SCALAR || strncmp(ref->text, "refs/", 5) != 0 ||
		    strlen(ref->text) > 1000)
			return node_err(err, ref, "this must be a ref, such as refs/heads/main");
		first = c->body.len == 0;
		line = str_format("%04zx%s %s %s", 4 + 40 + 1 + 40 + 1 + strlen(ref->text) +
		                  (first ? n_able : 0), new ? ZEROS : ONES, new ? ONES : ZEROS,
		                  ref->text);
		if (line == NULL)
			return err_set(err, ENOMEM, "out of memory");
		buf_put_text(&c->body, line);
		buf_put(&c->body, able, first ? n_able : 0);
	}
	return 0;
}

/* The options of `git push -o`, behind the refs. */
static int
put_options(struct test_case *c, struct err *err)
{
	const struct node *node = c->keys[KEY_OPTIONS];
	size_t n = node == NULL ? 0 : node->kind == NODE_LIST ? node->n : 1;

	for (size_t i = 0; i < n; i++) {
		const struct node *option = node->kind == NODE_LIST ? node->items[i] : node;
		OWN(freep) char *line = NULL;

		if (option->kind != NODE_SCALAR || *option->text == '\0' || strlen(option->text) > 1000)
			return node_err(err, option, "this must be an option of `git push -o`, such as "
			                "ci.skip");
		line = str_format("%04zx%s", 4 + strlen(option->text), option->text);
		if (line == NULL)
			return err_set(err, ENOMEM, "out of memory");
		buf_put_text(&c->body, line);
	}
	buf_put(&c->body, "0000", n > 0 ? 4 : 0);
	return 0;
}

static int
read_body(struct test_case *c, struct err *err)
{
	int r;

	if (c->keys[KEY_PUSH] == NULL && c->keys[KEY_DELETE] == NULL) {
		if (c->keys[KEY_OPTIONS] != NULL)
			return node_err(err, c->keys[KEY_OPTIONS], "`options` needs a `push` or "
			                "`delete`");
		if (c->keys[KEY_BODY] != NULL)
			buf_put_text(&c->body, c->keys[KEY_BODY]->text);
		return 0;
	}
	if (c->keys[KEY_BODY] != NULL)
		return node_err(err, c->keys[KEY_BODY], "a push has its own body: remove `body`");
	free(c->method);
	c->method = strdup("POST");
	r = put_refs(c, c->keys[KEY_PUSH], true, err);
	r = r == 0 ? put_refs(c, c->keys[KEY_DELETE], false, err) : r;
	buf_put(&c->body, "0000", 4);
	r = r == 0 ? put_options(c, err) : r;
	if (c->keys[KEY_PUSH] != NULL)
		buf_put(&c->body, no_objects, sizeof(no_objects));
	return c->method == NULL ? err_set(err, ENOMEM, "out of memory") : r;
}

static void
free_case(struct test_case *c)
{
	free(c->method);
	free(c->url);
	for (size_t i = 0; i < c->n_headers; i++)
		free((char *)(uintptr_t)c->headers[i]);
	buf_free(&c->body);
}

/* ---- judging ---- */

static uint64_t
line_of(const struct policy *p, int rule)
{
	const char *place = policy_rule_place(p, rule), *end = place + strlen(place);

	/* file:LINE:column */
	while (end > place && *end != ':')
		end--;
	while (end > place && end[-1] != ':')
		end--;
	return strtoull(end, NULL, 10);
}

static void
show_got(FILE *out, const struct policy *p, const struct policy_judgement *got)
{
	int rule = got->decision.rule;

	fputs(policy_verdict_name(got->decision.verdict), out);
	if (rule >= 0)
		fprintf(out, " by %s (%s)", policy_rule_place(p, rule), policy_rule_text(p, rule));
	else if (got->why[0] == '\0')
		fputs(": no rule allows it", out);
	if (got->why[0] != '\0')
		fprintf(out, ": %s", got->why);
}

static void
show(struct testing *t, const struct test_case *c, const struct policy_judgement *got,
     const struct policy_sent *sent, bool passed)
{
	const char *name = c->keys[KEY_NAME] != NULL ? c->keys[KEY_NAME]->text : NULL;
	int rule = got->decision.rule;

	if (t->cli->json) {
		json_open(&t->out, NULL, '{');
		json_str(&t->out, "file", c->at->file);
		json_u64(&t->out, "line", c->at->line);
		json_str(&t->out, "name", name);
		json_str(&t->out, "url", c->url);
		json_bool(&t->out, "passed", passed);
		json_str(&t->out, "expect", policy_verdict_name(c->expect));
		json_str(&t->out, "got", policy_verdict_name(got->decision.verdict));
		json_str(&t->out, "rule", rule >= 0 ? policy_rule_place(t->p, rule) : NULL);
		json_str(&t->out, "why", got->why[0] != '\0' ? got->why : NULL);
		if (sent != NULL)
			policy_sent_json(&t->out, sent);
		json_close(&t->out, '}');
	} else if (!passed) {
		printf("%s:%zu:%zu: %s%s%s%s%s\n- %s", c->at->file, c->at->line, c->at->column,
		       name != NULL ? name : "", name != NULL ? ": " : "",
		       c->method != NULL ? c->method : "", c->method != NULL ? " " : "", c->url,
		       policy_verdict_name(c->expect));
		if (c->rule != 0)
			printf(" by line %llu", (unsigned long long)c->rule);
		printf("\n+ ");
		show_got(stdout, t->p, got);
		printf("\n");
	}
}

static int
run_case(struct testing *t, struct test_case *c, struct err *err)
{
	struct policy_asked asked = {0};
	OWN(policy_sent_freep) struct policy_sent *sent = NULL;
	struct policy_judgement got;
	bool passed = false;
	int r;

	if (policy_cli_is_act(c->at)) {
		r = policy_cli_test_act(t->cli, t->p, c->at, &t->out, &passed, err);
		t->passed += r == 0 && passed;
		t->failed += r == 0 && !passed;
		return r;
	}
	r = find_keys(c, err);

	r = r == 0 ? read_expected(c, err) : r;
	r = r == 0 ? read_request(c, err) : r;
	r = r == 0 ? read_headers(c, err) : r;
	r = r == 0 ? read_body(c, err) : r;
	if (r == 0 && buf_failed(&c->body))
		r = node_err(err, c->at, "the body is too large");
	if (r < 0)
		return r;
	r = policy_asked_init(&asked, c->method, c->url, c->headers, c->n_headers,
	                      c->body.len > 0 ? (const char *)c->body.data : NULL, c->body.len, err);
	r = r == 0 ? policy_judge(t->judge, &asked, &got, err) : r;
	r = r == 0 ? policy_judge_sent(t->judge, &asked, &got, &sent, err) : r;
	if (r < 0) {
		policy_asked_free(&asked);
		return err_wrap(err, "%s:%zu:%zu", c->at->file, c->at->line, c->at->column);
	}
	passed = got.decision.verdict == c->expect &&
	         (c->rule == 0 || c->rule == line_of(t->p, got.decision.rule));
	t->passed += passed;
	t->failed += !passed;
	show(t, c, &got, sent, passed);
	policy_asked_free(&asked);
	return 0;
}

/* ---- the command ---- */

/* "cloister.yaml" has its cases in "cloister.test.yaml". */
static char *
cases_beside(const char *file)
{
	const char *dot = strrchr(file, '.'), *slash = strrchr(file, '/');
	size_t n = dot != NULL && (slash == NULL || dot > slash) ? (size_t)(dot - file) : strlen(file);

	return str_format("%.*s.test%s", (int)n, file, n < strlen(file) ? file + n : ".yaml");
}

static int
run_cases(struct testing *t, const char *file, struct err *err)
{
	OWN(freep) char *text = NULL;
	OWN(node_freep) struct node *root = NULL;
	size_t len;
	int r = read_file_at(AT_FDCWD, file, CASES_FILE_MAX, &text, &len, err);

	if (r == -ENOENT && t->cli->cases == NULL)
		return err_set(err, ENOENT, "there are no test cases: write them to '%s' (`- {request: "
		               "GET https://api.example.com/, expect: allow}`), or name another file "
		               "with --cases", file);
	r = r == 0 ? node_parse(file, text, len, &root, err) : r;
	if (r < 0)
		return r;
	if (root->kind != NODE_LIST || root->n == 0)
		return node_err(err, root, "cases are a list: `- request: GET https://api.example.com/`");
	if (t->cli->json)
		json_open(&t->out, NULL, '[');
	for (size_t i = 0; r == 0 && i < root->n; i++) {
		struct test_case c = { .at = root->items[i] };

		buf_init(&c.body, POLICY_CLI_BODY_MAX);
		r = run_case(t, &c, err);
		free_case(&c);
	}
	if (t->cli->json) {
		json_close(&t->out, ']');
		printf("\n");
	}
	return r;
}

int
policy_cli_test(const struct policy_cli *cli, int argc, char **argv)
{
	OWN(policy_freep) struct policy *p = NULL;
	OWN(policy_judge_freep) struct policy_judge *judge = NULL;
	OWN(freep) char *beside = NULL;
	struct testing t = { .cli = cli, .out = { .out = stdout } };
	struct err err = {0};
	int r;

	if (!policy_cli_default(&argc, &argv) || argc != 1)
		return cli_failf("`policy test` takes one policy: cloister policy test FILE");
	if (policy_cli_load(cli, argv[0], &p, &err) < 0)
		return policy_cli_refuse(cli, argv[0], &err);
	beside = cli->cases == NULL ? cases_beside(argv[0]) : NULL;
	if (cli->cases == NULL && beside == NULL)
		return cli_failf("out of memory");
	t.p = p;
	r = policy_judge_new(p, &judge, &err);
	t.judge = judge;
	r = r == 0 ? run_cases(&t, beside != NULL ? beside : cli->cases, &err) : r;
	if (r < 0)
		return cli_fail(&err);
	if (!cli->json && t.failed > 0)
		printf("%zu of %zu cases failed\n", t.failed, t.passed + t.failed);
	else if (!cli->json)
		printf("%zu case%s passed\n", t.passed, t.passed == 1 ? "" : "s");
	return t.failed > 0 ? POLICY_CLI_WRONG : 0;
}
