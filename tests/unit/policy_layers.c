/* policy_layers.c - tests of policies within policies, and of whom their rules are for. */
#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_explain.h"
#include "policy/policy_pairs.h"
#include "policy/policy_rule.h"
#include "policy_lab.h"
#include "test.h"

static struct policy *
within(const char *const *rules, size_t n)
{
	struct policy *p = lab_rules(rules[0]);

	for (size_t i = 1; i < n; i++) {
		OWN(policy_freep) struct policy *outer = lab_rules(rules[i]);

		CHECK_OK(policy_within(p, &outer, NULL));
		CHECK(outer == NULL);
	}
	return p;
}

#define WITHIN(...) within((const char *const[]){ __VA_ARGS__ },                        \
                           sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

TEST(policy_layers_strictest)
{
	OWN(policy_freep) struct policy *p = WITHIN(
		"- {allow: a.x, methods: [GET, POST]}\n- {ask: a.x, reason: mine}\n- allow: b.x\n- deny: '*'\n",
		"- {allow: a.x, methods: [GET]}\n- {deny: a.x, reason: theirs}\n- allow: c.x\n");
	static const struct { const char *request, *want; } cases[] = {
		{ "GET https://a.x/", "allow 0" },
		{ "POST https://a.x/", "deny 5" },      /* the rule of the other layer */
		{ "DELETE https://a.x/", "deny 5" },    /* stricter than `ask` */
		{ "GET https://b.x/", "deny -1" },      /* there no rule matches */
		{ "GET https://c.x/", "deny 3" },       /* allowed by the outer alone */
	};
	struct policy_decision d;
	struct lab_request lab;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_STR(lab_decide(p, cases[i].request), cases[i].want);
	CHECK_U64(policy_n_rules(p), 7);
	CHECK_U64(policy_n_own(p), 4);
	CHECK_STR(policy_rule_text(p, 6), "allow c.x");
	CHECK_STR(policy_rule_text(p, 7), "");
	CHECK_STR(policy_rule_at(p, 5)->reason, "theirs");
	lab_request(&lab, "POST https://a.x/");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK_STR(d.reason, "theirs");
	CHECK_U64(d.layer, 1);
	lab_request(&lab, "GET https://b.x/");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK_U64(d.layer, 1);
}

TEST(policy_layers_before_requests)
{
	OWN(policy_freep) struct policy *p = WITHIN(
		"- {allow: a.x:5, protocol: tcp}\n- {allow: b.x, protocol: tls}\n- {deny: c.y, reason: so}\n"
		"- allow: '*'\n",
		"- {allow: a.x:5, protocol: tcp}\n- allow: b.x\n- deny: 192.0.2.0/24\n- allow: '*.y'\n"
		"- {deny: d.z, reason: no}\n- deny: e.z\n");
	static const struct { const char *host; uint16_t port; enum policy_route route; bool mentioned; }
	cases[] = {
		{ "a.x", 5, POLICY_ROUTE_TCP, true },
		{ "b.x", 443, POLICY_ROUTE_NONE, true },
		{ "c.y", 443, POLICY_ROUTE_NONE, true },
		{ "d.z", 443, POLICY_ROUTE_NONE, true },        /* told why */
		{ "e.z", 443, POLICY_ROUTE_NONE, false },
		{ "g.y", 443, POLICY_ROUTE_HTTP, true },
		{ "f.z", 443, POLICY_ROUTE_NONE, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (policy_route(p, cases[i].host, cases[i].port) != cases[i].route ||
		    policy_mentions_host(p, cases[i].host) != cases[i].mentioned)
			test_fail(__FILE__, __LINE__, "%s", cases[i].host);
	CHECK(policy_denies_address(p, &(struct policy_way){{ 3, 3 }}, "192.0.2.1", 443) == 6);
	CHECK(policy_denies_address(p, &(struct policy_way){{ 3, 2 }}, "192.0.2.1", 443) == -1);
	CHECK(!policy_mentions_header(p, (struct http_text){ "x-a", 3 }));
}

TEST(policy_layers_permitted_requests)
{
	OWN(policy_freep) struct policy *p = WITHIN(
		"- {allow: a.x, body: {max: 5M}, secrets: allow, private: true, placeholders: pass}\n"
		"- {allow: b.x, body: {max: 8M, json: {/a: b}}}\n"
		"- {allow: c.x, body: {regex: q}}\n- allow: d.x\n",
		"- {allow: a.x, body: {max: 2M}, private: true}\n"
		"- {allow: b.x, body: {max: 3M, regex: q}}\n"
		"- allow: c.x\n- {allow: d.x, body: {regex: q}}\n");
	struct policy_decision d;
	struct lab_request lab;

	lab_request(&lab, "POST https://a.x/\nlength: unknown");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(d.verdict == POLICY_ALLOW && !d.needs_body && d.may_use_private);
	CHECK(d.must_look && !d.may_carry_secrets && !d.may_pass_placeholders);
	CHECK_U64(d.upload_max, 2 << 20);
	CHECK_U64(d.held_max, 2 << 20);
	CHECK(d.way.rule[0] == 0 && d.way.rule[1] == 0);
	lab_request(&lab, "POST https://b.x/\nlength: 7");
	policy_decide(p, &lab.req, &d, NULL);
	CHECK(d.needs_body && d.way.rule[0] == 1 && d.way.rule[1] == 1);
	CHECK_U64(d.held_max, 3 << 20);
	/* Whichever of them looks into it says how much is held. */
	for (size_t i = 0; i < 2; i++) {
		static const char *const urls[] = { "POST https://c.x/\nlength: 7", "POST https://d.x/\nlength: 7" };

		lab_request(&lab, urls[i]);
		policy_decide(p, &lab.req, &d, NULL);
		CHECK(d.needs_body);
		CHECK_U64(d.held_max, POLICY_HELD_MAX);
	}
	/* Bits are of all layers' rules. */
	CHECK_STR(lab_decide_body(p, "POST https://b.x/\nlength: 7", 1 << 1 | 1 << 5), "allow 1");
	CHECK_STR(lab_decide_body(p, "POST https://b.x/\nlength: 7", 1 << 1), "deny -1");
	CHECK_STR(lab_decide_body(p, "POST https://b.x/\nlength: 7", 1 << 5), "deny -1");
	CHECK_STR(lab_decide(p, "POST https://a.x/\nlength: 3000000"), "deny! 4");
}

/* However much the one notes, the other's notes are kept. */
TEST(policy_layers_logs)
{
	char rules[2048] = "";
	OWN(policy_freep) struct policy *p = NULL, *outer = lab_rules("- log: '*'\n- allow: a.x\n");
	struct policy_logged logged;
	struct policy_decision d;
	struct lab_request lab;

	for (size_t i = 0, len = 0; i <= POLICY_LOGGED_LAYER; i++)
		len += (size_t)snprintf(rules + len, sizeof(rules) - len, "- {log: a.x, paths: ['/**', /%zu]}\n",
		                        i);
	p = lab_rules(rules);
	CHECK_OK(policy_within(p, &outer, NULL));
	lab_request(&lab, "GET https://a.x/");
	policy_decide(p, &lab.req, &d, &logged);
	CHECK_U64(logged.n, POLICY_LOGGED_LAYER + 1);
	CHECK(logged.rules[POLICY_LOGGED_LAYER] == POLICY_LOGGED_LAYER + 1);
}

TEST(policy_layers_depth)
{
	OWN(policy_freep) struct policy *p = lab_rules("- allow: a.x\n");
	struct err err = {0};

	for (size_t i = 1; i <= POLICY_LAYERS_MAX; i++) {
		OWN(policy_freep) struct policy *outer = lab_rules("- allow: a.x\n- allow: b.x\n");
		int r = policy_within(p, &outer, &err);

		CHECK((r == 0) == (i < POLICY_LAYERS_MAX));
		CHECK((outer == NULL) == (r == 0));
	}
	CHECK_STR(err.text, "policies lie within each other at most 16 deep");
	CHECK_U64(policy_n_rules(p), 1 + 2 * (POLICY_LAYERS_MAX - 1));
	CHECK_STR(lab_decide(p, "GET https://a.x/"), "allow 0");
}

/* ---- by chance ---- */

#define RULES 8
#define LAYERS 4

static unsigned
pick(unsigned *state, unsigned n)
{
	*state = *state * 1103515245u + 12345u;
	return (*state >> 16) % n;
}

static void
random_rules(unsigned *state, char *text, size_t size)
{
	static const char *const verbs[] = { "allow", "allow", "allow", "deny", "ask", "log" };
	static const char *const hosts[] = { "a.x", "'*.x'", "'**.x'", "'*'", "b.a.x", "10.0.0.0/8" };
	static const char *const methods[] = { "", "", ", methods: [GET, FOO]", ", methods: [POST, FOO]" };
	static const char *const paths[] = { "", "", ", paths: [/a/**]", ", paths: [/a]" };
	static const char *const bodies[] = { "", "", "", ", body: {regex: q}" };
	static const char *const sizes[] = { "", "", ", body: {max: 100}", ", body: {max: 1k, regex: q}" };
	static const char *const rest[] = { "", ", placeholders: pass", ", secrets: allow",
	                                    ", private: true, placeholders: pass" };
	static const char *const whom[] = { "", "", ", principal: a*", ", chain: [b, c]" };
	size_t len = 0;

	for (unsigned i = 0; i < RULES; i++) {
		const char *verb = verbs[pick(state, 6)];
		bool permits = strcmp(verb, "allow") == 0;

		len += (size_t)snprintf(text + len, size - len,
		                        "- {%s: [%s, %s]%s%s%s%s%s, headers: {n%u: absent}, reason: r%u}\n",
		                        verb, hosts[pick(state, 6)], hosts[pick(state, 6)],
		                        methods[pick(state, 4)], paths[pick(state, 4)],
		                        permits ? sizes[pick(state, 4)] : bodies[pick(state, 4)],
		                        permits ? rest[pick(state, 4)] : "", whom[pick(state, 4)], i, i);
	}
}

static int
strictness(const struct policy_decision *d)
{
	return d->verdict == POLICY_DENY ? 2 : d->verdict == POLICY_ASK ? 1 : 0;
}

/* Each layer is asked alone: what together they say, by the words of policy.h. */
static void
expect(struct policy *const *alone, unsigned n, struct policy_request req,
       struct policy_decision *ret_want, struct policy_logged *ret_logged)
{
	const unsigned char *fits = req.body_fits;
	struct policy_decision all[LAYERS];
	bool denied = false, needs = false;
	unsigned by = 0;

	ret_logged->n = 0;
	for (unsigned i = 0; i < n; i++) {
		struct policy_logged logged;

		req.body_fits = fits != NULL ? fits + i : NULL;
		req.n_body_fits = fits != NULL ? 1 : 0;
		policy_decide(alone[i], &req, &all[i], &logged);
		for (size_t k = 0; k < logged.n; k++)
			ret_logged->rules[ret_logged->n++] = logged.rules[k] + (int)i * RULES;
		denied |= all[i].verdict == POLICY_DENY && !all[i].needs_body;
		needs |= all[i].needs_body;
	}
	for (unsigned i = 1; i < n; i++) {
		bool now = all[i].verdict == POLICY_DENY && !all[i].needs_body;
		bool before = all[by].verdict == POLICY_DENY && !all[by].needs_body;

		if (denied ? now && !before : strictness(&all[i]) > strictness(&all[by]))
			by = i;
	}
	*ret_want = all[by];
	ret_want->layer = by;
	ret_want->rule += all[by].rule >= 0 ? (int)by * RULES : 0;
	ret_want->needs_body = !denied && needs;
	for (unsigned i = 0; !denied && i < n; i++) {
		ret_want->must_look |= all[i].must_look;
		ret_want->may_carry_secrets &= all[i].may_carry_secrets;
		ret_want->may_use_private &= all[i].may_use_private;
		if (all[i].named_bits < ret_want->named_bits)
			ret_want->named_bits = all[i].named_bits;
		ret_want->may_pass_placeholders &= all[i].may_pass_placeholders;
		if (all[i].upload_max < ret_want->upload_max)
			ret_want->upload_max = all[i].upload_max;
	}
}

static bool
same(const struct policy_decision *a, const struct policy_decision *b)
{
	return a->verdict == b->verdict && a->needs_body == b->needs_body && a->rule == b->rule &&
	       a->layer == b->layer && strcmp(a->reason != NULL ? a->reason : "",
	                                      b->reason != NULL ? b->reason : "") == 0 &&
	       a->may_carry_secrets == b->may_carry_secrets && a->must_look == b->must_look &&
	       a->may_use_private == b->may_use_private && a->named_bits == b->named_bits &&
	       a->may_pass_placeholders == b->may_pass_placeholders && a->upload_max == b->upload_max &&
	       a->too_large == b->too_large;
}

static struct policy *
sent(const struct policy *p)
{
	OWN(buf_free) struct buf b, c;
	struct policy *again = NULL;

	buf_init(&b, POLICY_ENCODED_MAX);
	buf_init(&c, POLICY_ENCODED_MAX);
	policy_put(&b, p);
	CHECK_OK(policy_get(&b, &again, NULL));
	policy_put(&c, again);
	CHECK(b.len == c.len && memcmp(b.data, c.data, b.len) == 0);
	return again;
}

static void
ask_by_chance(unsigned *state, const struct policy *p, struct policy *const *alone, unsigned n,
              unsigned seen[3])
{
	static const char *const methods[] = { "GET", "POST", "FOO" };
	static const char *const hosts[] = { "a.x", "b.a.x", "q.x", "x", "10.1.2.3" };
	static const char *const paths[] = { "/", "/a", "/a/b" };
	static const char *const lengths[] = { "0", "50", "500", "unknown" };
	unsigned char fits[LAYERS];
	struct policy_decision got, want;
	struct policy_logged logged, logged_want;
	struct policy_step steps[LAYERS * RULES];
	struct lab_request lab;
	char text[256];
	bool all = true;

	snprintf(text, sizeof(text), "%s https://%s%s\nlength: %s", methods[pick(state, 3)],
	         hosts[pick(state, 5)], paths[pick(state, 3)], lengths[pick(state, 4)]);
	lab_request(&lab, text);
	for (unsigned i = 0; i < n; i++)
		fits[i] = (unsigned char)pick(state, 256);
	if (pick(state, 2) == 0) {
		lab.req.body_fits = fits;
		lab.req.n_body_fits = n;
	}
	policy_decide(p, &lab.req, &got, &logged);
	expect(alone, n, lab.req, &want, &logged_want);
	if (!same(&got, &want) || logged.n != logged_want.n ||
	    memcmp(logged.rules, logged_want.rules, logged.n * sizeof(int)) != 0)
		test_fail(__FILE__, __LINE__, "%s: verdict %d by %d, not %d by %d", text, got.verdict,
		          got.rule, want.verdict, want.rule);
	policy_explain(p, &lab.req, steps);
	for (unsigned i = 0; i < n; i++) {
		unsigned k = 0;

		while (k < RULES && steps[i * RULES + k].kind != POLICY_STEP_DECIDES)
			k++;
		if (lab.req.body_fits != NULL)
			CHECK(got.way.rule[i] == (k < RULES ? (int)k : -1));
		all &= policy_mentions_host(alone[i], lab.host);
	}
	CHECK(policy_mentions_host(p, lab.host) == all);
	seen[got.verdict]++;
}

TEST(policy_layers_by_chance)
{
	static const char *const principals[] = { "", "ann", "bob" };
	static const char *const chains[] = { "", "b", "a/c", "d" };
	unsigned state = 11, seen[3] = {0};
	char rules[8192];

	for (unsigned round = 0; round < 400; round++) {
		struct policy *alone[LAYERS] = {0};
		unsigned n = 2 + pick(&state, LAYERS - 1);
		OWN(policy_freep) struct policy *p = NULL, *again = NULL;

		for (unsigned i = 0; i < n; i++) {
			OWN(policy_freep) struct policy *outer = NULL;

			random_rules(&state, rules, sizeof(rules));
			alone[i] = lab_rules(rules);
			CHECK_OK(policy_bind(alone[i], principals[pick(&state, 3)], chains[pick(&state, 4)],
			                     NULL));
			outer = sent(alone[i]);
			if (p == NULL)
				p = TAKE(outer);
			else
				CHECK_OK(policy_within(p, &outer, NULL));
		}
		again = sent(p);
		for (unsigned i = 0; i < 100; i++)
			ask_by_chance(&state, again, alone, n, seen);
		for (unsigned i = 0; i < n; i++)
			policy_free(alone[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		if (seen[i] < 500)
			test_fail(__FILE__, __LINE__, "verdict %u only %u times", i, seen[i]);
}

/* ---- for whom ---- */

TEST(policy_bind)
{
	OWN(policy_freep) struct policy *p = lab_rules(
		"- {deny: a.x, principal: 'eve@*'}\n"
		"- {allow: a.x, principal: ['*@acme.example', '']}\n"
		"- {allow: b.x, chain: [lead, 'worker-*']}\n"
		"- {allow: b.x, principal: ann, chain: tester}\n");
	static const struct { const char *principal, *chain, *a, *b; } cases[] = {
		{ "", "", "allow 1", "deny -1" },
		{ "bob@acme.example", "", "allow 1", "deny -1" },
		{ "eve@acme.example", "lead", "deny 0", "allow 2" },
		{ "ann", "x/worker-1/y", "deny -1", "allow 2" },
		{ "ann", "tester/x", "deny -1", "allow 3" },
		{ "ann", "xtester", "deny -1", "deny -1" },
		{ "bob", "tester", "deny -1", "deny -1" },
		{ "", "x/leads", "allow 1", "deny -1" },
		{ "", "", "allow 1", "deny -1" },
	};
	struct policy_step steps[4];
	struct lab_request lab;
	struct err err = {0};
	char long_text[2000];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(policy_freep) struct policy *again = NULL;

		CHECK_OK(policy_bind(p, cases[i].principal, cases[i].chain, NULL));
		again = sent(p);
		CHECK_STR(lab_decide(again, "GET https://a.x/"), cases[i].a);
		CHECK_STR(lab_decide(again, "GET https://b.x/"), cases[i].b);
	}
	lab_request(&lab, "GET https://b.x/");
	CHECK_OK(policy_bind(p, "bob", "tester", NULL));
	policy_explain(p, &lab.req, steps);
	CHECK(steps[0].kind == POLICY_STEP_HOST);
	CHECK(steps[2].kind == POLICY_STEP_KEY && strcmp(steps[2].key, "chain") == 0);
	CHECK(steps[3].kind == POLICY_STEP_KEY && strcmp(steps[3].key, "principal") == 0);
	memset(long_text, 'a', sizeof(long_text));
	long_text[POLICY_PRINCIPAL_MAX + 1] = '\0';
	CHECK_ERR(policy_bind(p, long_text, "", &err), E2BIG);
}

TEST(policy_bind_refuses)
{
	CHECK_STR(lab_refuses("- {allow: a.x, chain: a/b}\n"),
	          "3:23: one agent of the chain is enough: 'a/b' names several");
	CHECK_STR(lab_refuses("- {allow: a.x, chain: Lead}\n"), "3:23: 'Lead' is not the name of an agent: "
	          "small letters, digits and '._-'");
	CHECK_STR(lab_refuses("- {allow: a.x, principal: []}\n"),
	          "3:27: an empty list matches nothing: leave the key out");
	CHECK(strstr(lab_refuses("- {allow: a.x, principal: '*'}\n- {deny: a.x, principal: ann}\n"),
	             "never reached") != NULL);
	CHECK_STR(lab_refuses("- {allow: a.x, principal: ann}\n- {allow: a.x, chain: b}\n- allow: a.x\n"),
	          "");
}

TEST(policy_chain_before)
{
	char chain[POLICY_CHAIN_MAX + 1];

	policy_chain_before("a/b/c", 0, chain);
	CHECK_STR(chain, "a/b/c");
	policy_chain_before("a/b/c", 1, chain);
	CHECK_STR(chain, "a/b");
	policy_chain_before("a/b/c", 2, chain);
	CHECK_STR(chain, "a");
	policy_chain_before("a/b/c", 3, chain);
	CHECK_STR(chain, "");
	policy_chain_before("", 5, chain);
	CHECK_STR(chain, "");
}

/* ---- rule by rule ---- */

struct pairs { char text[2048]; size_t len; };

static void
write_pair(void *arg, const struct policy_pair *pair)
{
	static const char *const verdicts[] = { "deny", "allow", "ask" };
	struct pairs *all = arg;

	all->len += (size_t)snprintf(all->text + all->len, sizeof(all->text) - all->len, "%d.%u.%d %s\n",
	                             pair->rule, pair->layer, pair->outer, verdicts[pair->verdict]);
}

TEST(policy_pairs)
{
	OWN(policy_freep) struct policy *p = WITHIN(
		"- {allow: a.x, methods: [GET, POST]}\n"        /* 0 */
		"- log: '*'\n"
		"- {deny: b.x, methods: [PUT]}\n"
		"- {ask: '**.x', paths: [/v1/**]}\n"            /* 3 */
		"- {allow: 10.0.0.0/8, principal: ann}\n"
		"- {allow: 10.0.0.0/8}\n"                       /* 5 */
		"- {allow: t.y:5, protocol: tcp}\n",
		"- {allow: a.x, methods: [GET]}\n"              /* 7 */
		"- {allow: '*.b.x', paths: [/v1/a]}\n"
		"- {deny: a.x}\n"
		"- {allow: c.x, paths: [/v2/**]}\n"             /* 10 */
		"- {log: l.x, paths: [/v1/z]}\n"
		"- {allow: '10.1.0.0/16'}\n"
		"- {allow: '*', ports: [5]}\n");                 /* 13 */
	struct pairs all = {0};

	policy_each_pair(p, write_pair, &all);
	CHECK_STR(all.text,
	          "0.1.7 allow\n" "0.1.9 deny\n"          /* which has all of it */
	          "2.0.-1 deny\n"
	          "3.1.7 ask\n" "3.1.8 ask\n" "3.1.9 deny\n" "3.1.-1 deny\n"
	          "5.1.12 allow\n" "5.1.-1 deny\n"
	          "6.1.-1 deny\n");
}

/* Where two layers allow a request, the first pair of the rules by which they do is listed, and
 * says so. */
TEST(policy_pairs_by_chance)
{
	static const char *const methods[] = { "GET", "POST", "FOO" };
	static const char *const hosts[] = { "a.x", "b.a.x", "q.x", "10.1.2.3" };
	static const char *const paths[] = { "/", "/a", "/a/b" };
	unsigned state = 5, found = 0;
	char text[256], want[32], first[8192], second[8192];

	for (unsigned round = 0; round < 300; round++) {
		struct pairs all = {0};
		OWN(policy_freep) struct policy *p = NULL;

		random_rules(&state, first, sizeof(first));
		random_rules(&state, second, sizeof(second));
		p = WITHIN(first, second);
		policy_each_pair(p, write_pair, &all);
		for (unsigned i = 0; i < 50; i++) {
			static const char *const verdicts[] = { "deny", "allow", "ask" };
			unsigned char fits[2] = { (unsigned char)pick(&state, 256),
				(unsigned char)pick(&state, 256) };
			struct policy_decision d;
			struct lab_request lab;

			snprintf(text, sizeof(text), "%s https://%s%s\nlength: 10", methods[pick(&state, 3)],
			         hosts[pick(&state, 4)], paths[pick(&state, 3)]);
			lab_request(&lab, text);
			lab.req.body_fits = fits;
			lab.req.n_body_fits = sizeof(fits);
			policy_decide(p, &lab.req, &d, NULL);
			if (d.way.rule[0] < 0 || policy_rule_at(p, (size_t)d.way.rule[0])->verb == POLICY_VERB_DENY)
				continue;
			snprintf(want, sizeof(want), "%d.1.%d %s\n", d.way.rule[0],
			         d.way.rule[1] < 0 ? -1 : d.way.rule[1] + RULES, verdicts[d.verdict]);
			if (strstr(all.text, want) == NULL)
				test_fail(__FILE__, __LINE__, "%s\nwithin\n%s: %s is not '%s' of\n%s", first, second,
				          text, want, all.text);
			found++;
		}
	}
	CHECK(found > 1000);
}

/* `uses` of each layer's deciding rule counts; a rule without it leaves every secret. */
TEST(policy_layers_uses)
{
	static const struct {
		const char *inner, *outer, *secret;
		bool may;
	} cases[] = {
		{ "", "", "A", true },
		{ ", uses: [A]", "", "A", true },
		{ ", uses: [A]", "", "B", false },
		{ ", uses: A", ", uses: [B, A]", "A", true },
		{ ", uses: [A, B]", ", uses: [B]", "A", false },
		{ "", ", uses: []", "A", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(policy_freep) struct policy *p = NULL;
		struct policy *outer = NULL;
		struct policy_request req = { .protocol = POLICY_TCP, .host = "a.x", .port = 1 };
		struct policy_decision d;
		char text[200];

		snprintf(text, sizeof(text), "version: 1\negress: [{allow: 'a.x:1', protocol: tcp%s}]\n", cases[i].inner);
		CHECK_OK(policy_load_text("t.yaml", text, strlen(text), &p, NULL, NULL));
		snprintf(text, sizeof(text), "version: 1\negress: [{allow: b.x}, {allow: 'a.x:1', protocol: tcp%s}]\n", cases[i].outer);
		CHECK_OK(policy_load_text("t.yaml", text, strlen(text), &outer, NULL, NULL));
		CHECK_OK(policy_within(p, &outer, NULL));
		policy_decide(p, &req, &d, NULL);
		CHECK_U64(d.verdict, POLICY_ALLOW);
		CHECK_U64(policy_may_use(p, &d.way, cases[i].secret), cases[i].may);
	}
}
