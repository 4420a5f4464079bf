/* policy_acts.c - acts as people write them, for `policy test` and `policy explain`: which rules of `watch` fit. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/call.h"
#include "base/err.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cell/cell_spec.h"
#include "cli/cli.h"
#include "cli/policy.h"
#include "policy/policy_behaviour.h"
#include "policy/policy_yaml.h"
#include "witness/watch.h"

#define NOTHING "nothing"
#define EXPECTED_MAX 8

struct acted {
	struct act act;
	char path[ACT_PATH_MAX];
};

/* ---- an act ---- */

static int
take_path(struct acted *a, const char *word, struct err *err)
{
	bool at_home = strncmp(word, "~/", 2) == 0 || strcmp(word, "~") == 0;
	int n = snprintf(a->path, sizeof(a->path), "%s%s", at_home ? CELL_HOME : "", word + at_home);

	if (a->path[0] != '/' || n < 0 || (size_t)n >= sizeof(a->path))
		return err_set(err, EINVAL, "'%.64s' is not a path: it begins with / or ~/", word);
	a->act.path = (struct act_text){ .at = a->path, .len = (size_t)n };
	return 0;
}

/* "10.0.0.1:22", "[::1]:80", or an address alone. */
static int
take_address(struct acted *a, const char *word, struct err *err)
{
	char copy[INET6_ADDRSTRLEN + 16], *host = copy, *port = NULL, *colon;
	uint64_t n = 0;

	if (word[0] == '/') {
		a->act.family = AF_UNIX;
		return take_path(a, word, err);
	}
	snprintf(copy, sizeof(copy), "%s", word);
	colon = strrchr(copy, ':');
	if (copy[0] == '[' && (port = strchr(copy, ']')) != NULL) {
		host = copy + 1;
		*port++ = '\0';
		port = *port == ':' ? port + 1 : NULL;
	} else if (colon != NULL && strchr(copy, ':') == colon) {
		*colon = '\0';
		port = colon + 1;
	}
	a->act.family = strchr(host, ':') != NULL ? AF_INET6 : AF_INET;
	if (strlen(word) >= sizeof(copy) || inet_pton(a->act.family, host, a->act.address) != 1 ||
	    (port != NULL && num_parse_count(port, 1, UINT16_MAX, &n, NULL) < 0))
		return err_set(err, EINVAL, "'%.64s' is not an address: write 10.0.0.1:22, [fd00::1]:443 or /run/x.sock", word);
	a->act.port = (uint16_t)n;
	return 0;
}

static int
take_call(struct acted *a, const char *word, struct err *err)
{
	int nr = call_number(CALL_ARCH_HERE, word);
	const char *nearest = nr < 0 ? call_nearest(word) : NULL;

	if (nr < 0)
		return err_set(err, EINVAL, "this machine has no system call '%.64s'%s%s%s", word,
		               nearest != NULL ? ": did you mean '" : "", nearest != NULL ? nearest : "",
		               nearest != NULL ? "'?" : "");
	a->act.nr = (uint32_t)nr;
	return 0;
}

/* FROM is "memory", "writable" or NULL. */
static int
take_act(struct acted *a, enum policy_behaviour_kind kind, const char *word, const char *from, struct err *err)
{
	static const enum act_kind kinds[] = { ACT_EXEC, ACT_FILE, ACT_FILE, ACT_NET, ACT_REFUSED };

	a->act = (struct act){ .kind = kinds[kind], .file = kind == POLICY_READ ? ACT_READ : ACT_WRITE,
	                       .net = ACT_CONNECT };
	a->act.from_memory = from != NULL && strcmp(from, "memory") == 0;
	a->act.from_writable = from != NULL && strcmp(from, "writable") == 0;
	if (from != NULL && (kind != POLICY_EXEC || (!a->act.from_memory && !a->act.from_writable)))
		return err_set(err, EINVAL, "a program runs `from: memory` or `from: writable`");
	return kind == POLICY_CONNECT ? take_address(a, word, err) : kind == POLICY_REFUSED ? take_call(a, word, err) :
	       take_path(a, word, err);
}

static int
make_watch(const struct policy *p, struct witness_watch **ret_watch, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(POLICY_ENCODED_MAX);

	policy_put_matchers(&b, p);
	return buf_failed(&b) ? err_set(err, E2BIG, "the policy is too large") :
	                        witness_watch_new(&b, CELL_HOME, ret_watch, err);
}

/* ---- `policy test` ---- */

struct act_case {
	const struct node *at, *what, *from, *expect, *rule, *name;
	enum policy_behaviour_kind kind;
	struct acted acted;
};

static bool
kind_of(const char *word, enum policy_behaviour_kind *ret_kind)
{
	for (unsigned k = 0; k < POLICY_BEHAVIOURS; k++)
		if (strcmp(policy_behaviour_name(k), word) == 0) {
			*ret_kind = k;
			return true;
		}
	return false;
}

bool
policy_cli_is_act(const struct node *at)
{
	enum policy_behaviour_kind kind;

	for (size_t i = 0; at->kind == NODE_MAP && i < at->n; i++)
		if (kind_of(at->items[i]->text, &kind))
			return true;
	return false;
}

static int
read_case(struct act_case *c, struct err *err)
{
	for (size_t i = 0; i < c->at->n; i++) {
		const struct node *key = c->at->items[i], *value = c->at->values[i];
		const struct node **at = strcmp(key->text, "from") == 0 ? &c->from : strcmp(key->text, "expect") == 0 ?
		                         &c->expect : strcmp(key->text, "rule") == 0 ? &c->rule :
		                         strcmp(key->text, "name") == 0 ? &c->name : NULL;

		if (at == NULL && kind_of(key->text, &c->kind) && c->what == NULL)
			at = &c->what;
		if (at == NULL)
			return node_err(err, key, "a case of `watch` has one act, `expect`, and perhaps `from`, `rule` and `name`: "
			                "not '%.32s'", key->text);
		if (value->kind != NODE_SCALAR && at != &c->expect)
			return node_err(err, value, "'%s' takes one word", key->text);
		*at = value;
	}
	if (c->expect == NULL)
		return node_err(err, c->at, "a case of `watch` needs `expect`: notify, ask, freeze, kill, narrow, revoke or "
		                NOTHING);
	return 0;
}

/* The names of LEADS, "freeze, notify", that ALL does not have yet. */
static void
add_leads(char all[POLICY_LEADS_MAX], const char *leads)
{
	while (*leads != '\0') {
		size_t n = strcspn(leads, ","), len = strlen(all);

		if (memmem(all, len, leads, n) == NULL)
			snprintf(all + len, POLICY_LEADS_MAX - len, "%s%.*s", len > 0 ? ", " : "", (int)n, leads);
		leads += n + strspn(leads + n, ", ");
	}
}

static bool
is_expected(const struct node *expect, const char *all)
{
	size_t n = expect->kind == NODE_LIST ? expect->n : 1, has = 0;

	for (const char *at = all; *at != '\0'; at += strcspn(at, ","), at += strspn(at, ", "))
		has++;
	if (expect->kind == NODE_SCALAR && strcmp(expect->text, NOTHING) == 0)
		return has == 0;
	for (size_t i = 0; i < n; i++) {
		const struct node *word = expect->kind == NODE_LIST ? expect->items[i] : expect;

		if (word->kind != NODE_SCALAR || word->text[0] == '\0' || strstr(all, word->text) == NULL)
			return false;
	}
	return n == has;
}

static uint64_t
line_of(const struct policy_behaviour *rule)
{
	const char *end = strrchr(rule->place, ':');

	while (end != NULL && end > rule->place && end[-1] != ':')
		end--;
	return end != NULL ? strtoull(end, NULL, 10) : 0;
}

static void
show_case(const struct policy_cli *cli, const struct act_case *c, const char *all, bool passed, struct json *out)
{
	const char *expect = c->expect->kind == NODE_SCALAR ? c->expect->text : NULL;

	if (cli->json) {
		json_open(out, NULL, '{');
		json_str(out, "file", c->at->file);
		json_u64(out, "line", c->at->line);
		json_str(out, "name", c->name != NULL ? c->name->text : NULL);
		json_str(out, "act", policy_behaviour_name(c->kind));
		json_str(out, "of", c->what->text);
		json_bool(out, "passed", passed);
		json_str(out, "got", all[0] != '\0' ? all : NOTHING);
		json_close(out, '}');
	} else if (!passed) {
		printf("%s:%zu:%zu: %s%s%s %s\n- %s\n+ %s\n", c->at->file, c->at->line, c->at->column,
		       c->name != NULL ? c->name->text : "", c->name != NULL ? ": " : "", policy_behaviour_name(c->kind),
		       c->what->text, expect != NULL ? expect : "all of the list, and no more", all[0] != '\0' ? all : NOTHING);
	}
}

int
policy_cli_test_act(const struct policy_cli *cli, const struct policy *p, const struct node *at, struct json *out,
                    bool *ret_passed, struct err *err)
{
	OWN(witness_watch_freep) struct witness_watch *watch = NULL;
	struct act_case c = { .at = at };
	char all[POLICY_LEADS_MAX] = "", leads[POLICY_LEADS_MAX];
	const char *line;
	bool by = false;
	int r = read_case(&c, err);

	if (r < 0)
		return r;
	r = take_act(&c.acted, c.kind, c.what->text, c.from != NULL ? c.from->text : NULL, err);
	r = r == 0 ? make_watch(p, &watch, err) : r;
	if (r < 0)
		return err_wrap(err, "%s:%zu:%zu", at->file, at->line, at->column);
	line = c.rule == NULL ? NULL : strrchr(c.rule->text, ':') != NULL ? strrchr(c.rule->text, ':') + 1 : c.rule->text;
	for (int i = -1; (i = witness_watch_next(watch, &c.acted.act, (size_t)(i + 1))) >= 0;) {
		add_leads(all, policy_behaviour_leads(policy_behaviour_at(p, (size_t)i), leads));
		by = by || (line != NULL && strtoull(line, NULL, 10) == line_of(policy_behaviour_at(p, (size_t)i)));
	}
	*ret_passed = is_expected(c.expect, all) && (line == NULL || by);
	show_case(cli, &c, all, *ret_passed, out);
	return 0;
}

/* ---- `policy explain` ---- */

static void
show_rule(const struct policy_cli *cli, const struct policy_behaviour *rule, bool fits, struct json *out)
{
	char leads[POLICY_LEADS_MAX];

	policy_behaviour_leads(rule, leads);
	if (cli->json) {
		json_open(out, NULL, '{');
		json_str(out, "rule", rule->place);
		json_str(out, "text", rule->text);
		json_str(out, "then", leads);
		json_bool(out, "fits", fits);
		json_close(out, '}');
		return;
	}
	printf("  %s  ", rule->place);
	text_print_safe(stdout, rule->text, strlen(rule->text), false);
	if (fits)
		printf("\n      yes: %s\n", leads);
	else
		printf("\n      no\n");
}

int
policy_cli_explain_act(const struct policy_cli *cli, const struct policy *p, const char *word, const char *what)
{
	OWN(witness_watch_freep) struct witness_watch *watch = NULL;
	struct json out = { .out = stdout };
	char all[POLICY_LEADS_MAX] = "", leads[POLICY_LEADS_MAX];
	enum policy_behaviour_kind kind = POLICY_EXEC;
	struct acted a;
	struct err err = {0};

	(void)kind_of(word, &kind);
	if (take_act(&a, kind, what, NULL, &err) < 0 || make_watch(p, &watch, &err) < 0)
		return cli_fail(&err);
	if (cli->json) {
		json_open(&out, NULL, '{');
		json_open(&out, "rules", '[');
	}
	for (size_t i = 0; i < policy_n_behaviours(p); i++) {
		const struct policy_behaviour *rule = policy_behaviour_at(p, i);
		bool fits = witness_watch_next(watch, &a.act, i) == (int)i;

		if (fits)
			add_leads(all, policy_behaviour_leads(rule, leads));
		if (rule->kind == kind)
			show_rule(cli, rule, fits, &out);
	}
	if (cli->json) {
		json_close(&out, ']');
		json_str(&out, "then", all[0] != '\0' ? all : NOTHING);
		json_close(&out, '}');
		printf("\n");
	} else {
		printf("%s\n", all[0] != '\0' ? all : NOTHING ": no rule of `watch` fits");
	}
	return 0;
}

bool
policy_cli_begins_act(const char *word)
{
	enum policy_behaviour_kind kind;

	return kind_of(word, &kind);
}
