/* cell_policy_plan.c - plans a change to the policy of a running cell: see cell_policy.h. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/lines.h"
#include "base/own.h"
#include "cell/cell_policy.h"
#include "policy/policy.h"
#include "policy/policy_flat.h"
#include "policy/policy_hook.h"
#include "policy/policy_yaml.h"

#define HITS "# hits: "
#define DIFF_MAX (16 * 1024 * 1024)

/* These are fixed when a cell starts. */
static const char *const fixed[] = { "audit", "boundary", "exfiltration", "limits", "programs", "runtime", "secrets",
                                     "syscalls", "tools", "tripwires" };

bool
cell_policy_is_fixed(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		if (strcmp(fixed[i], key) == 0)
			return true;
	return false;
}

void
cell_policy_plan_free(struct cell_policy_plan *plan)
{
	cell_policy_now_free(&plan->now);
	policy_free(plan->policy);
	free(plan->text);
	free(plan->diff);
	*plan = (struct cell_policy_plan){0};
}

/* Make B a C string, which the caller owns. */
static int
finish_text(struct buf *b, char **ret_text, size_t *ret_len, struct err *err)
{
	buf_put(b, "", 1);
	if (buf_failed(b))
		return err_set(err, E2BIG, "the policy is too large");
	*ret_text = (char *)b->data;
	if (ret_len != NULL)
		*ret_len = b->len - 1;
	buf_init(b, 0);
	return 0;
}

/* ---- a whole new policy, within the layers of the old one ---- */

static int
put_within(struct cell_policy_plan *plan, struct err *err)
{
	OWN(policy_freep) struct policy *outer = NULL;
	int r = policy_bind(plan->policy, plan->now.principal, plan->now.chain, err);

	if (r < 0 || policy_outer(plan->now.policy) == NULL)
		return r;
	outer = policy_take_outer(plan->now.policy);
	return policy_within(plan->policy, &outer, err);
}

static int
show_diff(struct cell_policy_plan *plan, const struct policy_flat *before,
          const struct policy_flat *after, struct err *err)
{
	OWN(buf_free) struct buf old = BUF(POLICY_FLAT_MAX), new = BUF(POLICY_FLAT_MAX), diff = BUF(DIFF_MAX);

	policy_flat_put(&old, before);
	policy_flat_put(&new, after);
	if (buf_failed(&old) || buf_failed(&new))
		return err_set(err, E2BIG, "the policy is too large");
	lines_diff(&diff, (char *)old.data, old.len, (char *)new.data, new.len);
	return finish_text(&diff, &plan->diff, NULL, err);
}

static int
check_fixed(const struct policy_flat *before, const struct policy_flat *after, const char *name,
            struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
		const struct policy_flat_part *old = policy_flat_find(before, fixed[i]);
		const struct policy_flat_part *new = policy_flat_find(after, fixed[i]);

		if (new == NULL || new->text.len == 0 || (old != NULL && old->text.len == new->text.len &&
		                    memcmp(old->text.data, new->text.data, new->text.len) == 0))
			continue;
		return err_set(err, EINVAL, "%s: `%s` is settled when a cell starts: leave it as it was, or "
		               "out", name, fixed[i]);
	}
	return 0;
}

/* Parts that the new text leaves out stay as they were, so they are appended to it. */
static int
add_fixed(struct cell_policy_plan *plan, const char *name, const struct policy_flat *before,
          struct policy_flat *after, struct err *err)
{
	OWN(policy_flat_free) struct policy_flat again;
	OWN(buf_free) struct buf text = BUF(POLICY_FLAT_MAX), all = BUF(POLICY_FLAT_MAX),
	                         whole = BUF(POLICY_FLAT_MAX);
	bool missing = false;
	int r = 0;

	policy_flat_init(&again);
	buf_put(&text, plan->text, plan->len);
	if (plan->len > 0 && plan->text[plan->len - 1] != '\n')
		buf_put(&text, "\n", 1);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(fixed); i++) {
		const struct policy_flat_part *old = policy_flat_find(before, fixed[i]);
		const struct policy_flat_part *new = policy_flat_find(after, fixed[i]);

		if (old == NULL || (new != NULL && (new->text.len > 0 || old->text.len == 0)))
			continue;
		missing = true;
		r = policy_flat_take(after, before, fixed[i], err);
		buf_put_text(&text, fixed[i]);
		buf_put(&text, ": ", 2);
		policy_flat_put_part(&text, old);
	}
	if (r < 0 || !missing)
		return r;
	policy_flat_put(&all, after);
	/* If they cannot be appended to the text as it is, rewrite the whole text. */
	r = policy_flat_load(&again, name, (char *)text.data, text.len, NULL, NULL, NULL);
	policy_flat_put(&whole, &again);
	free(TAKE(plan->text));
	return finish_text(r == 0 && whole.len == all.len && memcmp(whole.data, all.data, all.len) == 0 ?
	                   &text : &all, &plan->text, &plan->len, err);
}

/* A live change may keep or drop the hooks that the cell was started with.  It cannot add one: that
 * would start another program with the operator's rights. */
static int
check_hooks(const struct policy *before, const struct policy *after, struct err *err)
{
	for (size_t i = 0; i < policy_n_own(after); i++) {
		const struct policy_hook *new = policy_hook_of(after, (int)i), *old = NULL;

		for (size_t k = 0; new != NULL && old == NULL && k < policy_n_own(before); k++) {
			old = policy_hook_of(before, (int)k);
			old = old != NULL && policy_hook_same(old, new) ? old : NULL;
		}
		if (new != NULL && old == NULL)
			return err_set(err, EINVAL, "%s: the hooks are settled when a cell starts: leave this one "
			               "out", policy_rule_place(after, (int)i));
	}
	return 0;
}

/* Complete PLAN, which has its text. */
static int
finish_plan(struct cell_policy_plan *plan, const char *name, struct policy_faults *faults,
            struct err *err)
{
	OWN(policy_flat_free) struct policy_flat before, after;
	int r;

	policy_flat_init(&before);
	policy_flat_init(&after);
	r = policy_flat_load(&before, name, plan->now.text, plan->now.len, NULL, NULL, err);
	r = r == 0 ? policy_flat_load(&after, name, plan->text, plan->len, faults, &plan->policy, err) : r;
	r = r == 0 ? check_hooks(plan->now.policy, plan->policy, err) : r;
	r = r == 0 ? check_fixed(&before, &after, name, err) : r;
	r = r == 0 ? add_fixed(plan, name, &before, &after, err) : r;
	r = r == 0 ? show_diff(plan, &before, &after, err) : r;
	return r < 0 ? r : put_within(plan, err);
}

/* ---- hits ---- */

/* The length of TEXT's first line without a hits comment of ours at its end. */
static size_t
line_without_hits(const char *text, size_t len)
{
	size_t n = len;

	while (n > 0 && isdigit((unsigned char)text[n - 1]))
		n--;
	if (n == len || n < strlen(HITS) + 1 || memcmp(text + n - strlen(HITS), HITS, strlen(HITS)) != 0 ||
	    text[n - strlen(HITS) - 1] != ' ')
		return len;
	for (n -= strlen(HITS); n > 0 && text[n - 1] == ' '; n--)
		;
	return n;
}

static void
put_without_hits(struct buf *b, const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end != NULL ? (size_t)(end - text) - at : len - at;

		buf_put(b, text + at, line_without_hits(text + at, n));
		at += n;
		if (end != NULL) {
			buf_put(b, "\n", 1);
			at++;
		}
	}
}

/* The line of the text on which rule I begins; 0: it is in a preset. */
static size_t
line_of(const struct policy *p, size_t i)
{
	const char *place = policy_rule_place(p, (int)i), *colon = strchr(place, ':');

	return colon == NULL || strncmp(place, "preset:", 7) == 0 ? 0 : strtoul(colon + 1, NULL, 10);
}

static void
put_hits(struct buf *b, const struct cell_policy_now *now, const struct policy *placed)
{
	size_t line = 1, rule = 0, n_rules = policy_n_own(placed);
	char hits[48];

	for (size_t at = 0; at < now->len; line++) {
		const char *end = memchr(now->text + at, '\n', now->len - at);
		size_t n = end != NULL ? (size_t)(end - now->text) - at : now->len - at;

		buf_put(b, now->text + at, n);
		while (rule < n_rules && line_of(placed, rule) < line)
			rule++;
		if (rule < n_rules && line_of(placed, rule) == line) {
			snprintf(hits, sizeof(hits), "  " HITS "%" PRIu64, now->counts[rule]);
			buf_put_text(b, hits);
		}
		buf_put(b, "\n", 1);
		at += n + 1;
	}
}

static bool
means_the_same(const struct buf *a, const char *text, size_t len)
{
	OWN(policy_flat_free) struct policy_flat one, other;
	OWN(buf_free) struct buf first = BUF(POLICY_FLAT_MAX), second = BUF(POLICY_FLAT_MAX);
	bool same;

	policy_flat_init(&one);
	policy_flat_init(&other);
	same = !buf_failed(a) &&
	       policy_flat_load(&one, "", (const char *)a->data, a->len, NULL, NULL, NULL) == 0 &&
	       policy_flat_load(&other, "", text, len, NULL, NULL, NULL) == 0;
	policy_flat_put(&first, &one);
	policy_flat_put(&second, &other);
	return same && first.len == second.len && memcmp(first.data, second.data, first.len) == 0;
}

void
cell_policy_annotate(struct buf *b, const struct cell_policy_now *now)
{
	OWN(policy_flat_free) struct policy_flat flat;
	OWN(policy_freep) struct policy *placed = NULL;
	OWN(buf_free) struct buf text = BUF(POLICY_FLAT_MAX);

	policy_flat_init(&flat);
	if (policy_flat_load(&flat, "text", now->text, now->len, NULL, &placed, NULL) == 0 &&
	    policy_n_own(placed) == policy_n_own(now->policy))
		put_hits(&text, now, placed);
	/* Inside a text of several lines, a comment would be part of the text. */
	if (text.len > 0 && means_the_same(&text, now->text, now->len))
		buf_put(b, text.data, text.len);
	else
		buf_put(b, now->text, now->len);
}

/* ---- a new text ---- */

int
cell_policy_plan_text(int runtime, const struct cell_entry *entry, const char *name,
                      const char *text, size_t len, struct policy_faults *faults,
                      struct cell_policy_plan *ret_plan, struct err *err)
{
	OWN(cell_policy_plan_free) struct cell_policy_plan plan = {0};
	OWN(buf_free) struct buf plain = {0};
	int r = cell_policy_get(runtime, entry, &plan.now, err);

	if (r < 0)
		return r;
	buf_init(&plain, POLICY_FILE_MAX);
	put_without_hits(&plain, text, len);
	if (buf_failed(&plain))
		return err_set(err, E2BIG, "a policy is at most %dM", POLICY_FILE_MAX >> 20);
	if (!means_the_same(&plain, text, len)) {
		buf_reset(&plain);
		buf_put(&plain, text, len);
	}
	r = finish_text(&plain, &plan.text, &plan.len, err);
	r = r == 0 ? finish_plan(&plan, name != NULL ? name : CELL_POLICY_LIVE, faults, err) : r;
	if (r < 0)
		return r;
	*ret_plan = plan;
	plan = (struct cell_policy_plan){0};
	return 0;
}

/* ---- a new rule in front ---- */

/* Drop the place: it is a position in generated text. */
static int
without_place(struct err *err, const char *rule)
{
	const char *rest = strstr(err->text, ": ");

	if (rest != NULL && strncmp(err->text, "rule:", 5) == 0)
		memmove(err->text, rest + 2, strlen(rest + 2) + 1);
	return err_wrap(err, "'%.200s'", rule);
}

/* Append a policy of one rule, which is a line of YAML. */
static void
put_alone(struct buf *b, const char *line, size_t len)
{
	buf_put(b, "version: 1\negress: [", 20);
	buf_put(b, line, len);
	buf_put(b, "]\n", 2);
}

/* Read the rule as one line of YAML that is valid by itself. */
static int
read_rule(const char *verb, const char *rule, struct buf *ret_line, struct err *err)
{
	OWN(policy_flat_free) struct policy_flat flat;
	OWN(node_freep) struct node *node = NULL;
	OWN(buf_free) struct buf text = BUF(POLICY_FILE_MAX);
	int r = 0;

	policy_flat_init(&flat);
	if (rule[strspn(rule, " ")] != '{') {
		r = policy_put_short(ret_line, verb, verb, rule, err);
		if (r < 0)
			return r;
	} else {
		r = node_parse("rule", rule, strlen(rule), &node, err);
		if (r == 0 && node_get(node, verb) == NULL && node_get(node, "include") == NULL)
			r = node_err(err, node, "this is no rule with `%s:`", verb);
		if (r < 0)
			return without_place(err, rule);
		policy_flat_put_node(ret_line, node);
	}
	put_alone(&text, (char *)ret_line->data, ret_line->len);
	buf_put(ret_line, "", 1);
	if (buf_failed(&text) || buf_failed(ret_line))
		return err_set(err, E2BIG, "the rule is too long");
	r = policy_flat_load(&flat, "rule", (char *)text.data, text.len, NULL, NULL, err);
	return r < 0 ? without_place(err, rule) : 0;
}

/* Whether LINE's rule is in front already: adding it again would only repeat it. */
static bool
is_in_front(const struct cell_policy_now *now, const char *line)
{
	OWN(policy_flat_free) struct policy_flat new, old;
	OWN(buf_free) struct buf text = BUF(POLICY_FILE_MAX);
	size_t n;

	policy_flat_init(&new);
	policy_flat_init(&old);
	put_alone(&text, line, strlen(line));
	if (buf_failed(&text) ||
	    policy_flat_load(&new, "", (char *)text.data, text.len, NULL, NULL, NULL) < 0 ||
	    policy_flat_load(&old, "", now->text, now->len, NULL, NULL, NULL) < 0)
		return false;
	n = new.rules.len;
	/* The next rule must begin behind it: otherwise the existing rule has more keys. */
	return n > 0 && n <= old.rules.len && memcmp(new.rules.data, old.rules.data, n) == 0 &&
	       (n == old.rules.len || memcmp(old.rules.data + n, "  - ", 4) == 0);
}

/* If the text has a list with a rule on each line, insert LINE before the first one. */
static bool
put_before_first(struct buf *b, const struct cell_policy_now *now, const char *line)
{
	OWN(node_freep) struct node *root = NULL;
	const struct node *egress;
	const char *at = now->text;
	size_t indent;

	if (node_parse("", now->text, now->len, &root, NULL) < 0)
		return false;
	egress = node_get(root, "egress");
	if (egress == NULL || egress->kind != NODE_LIST || egress->n == 0)
		return false;
	for (size_t i = 1; i < egress->items[0]->line && at != NULL; i++) {
		at = strchr(at, '\n');
		at = at != NULL ? at + 1 : NULL;
	}
	indent = at != NULL ? strspn(at, " ") : 0;
	if (at == NULL || at[indent] != '-' || egress->items[0]->column <= indent + 1)
		return false;
	buf_put(b, now->text, (size_t)(at - now->text));
	buf_put(b, at, indent);
	buf_put(b, "- ", 2);
	buf_put_text(b, line);
	buf_put(b, "\n", 1);
	buf_put(b, at, now->len - (size_t)(at - now->text));
	return true;
}

static int
put_all_behind(struct buf *b, const struct cell_policy_now *now, const char *line, struct err *err)
{
	OWN(policy_flat_free) struct policy_flat all, old;
	int r;

	policy_flat_init(&all);
	policy_flat_init(&old);
	r = policy_flat_line(&all, line, err);
	r = r == 0 ? policy_flat_load(&old, "", now->text, now->len, NULL, NULL, err) : r;
	buf_put(&all.rules, old.rules.data, old.rules.len);
	for (size_t i = 0; r == 0 && i < old.n_parts; i++)
		r = policy_flat_take(&all, &old, old.parts[i].key, err);
	policy_flat_put(b, &all);
	return r;
}

/* Whether all earlier rules are behind the added one. */
static bool
is_behind(const struct policy *before, const char *text, size_t len)
{
	OWN(policy_flat_free) struct policy_flat flat;
	OWN(policy_freep) struct policy *p = NULL;
	size_t n = policy_n_own(before), added;

	policy_flat_init(&flat);
	if (policy_flat_load(&flat, CELL_POLICY_LIVE, text, len, NULL, &p, NULL) < 0 || policy_n_own(p) <= n)
		return false;
	added = policy_n_own(p) - n;
	for (size_t i = 0; i < n; i++)
		if (strcmp(policy_rule_text(before, (int)i), policy_rule_text(p, (int)(i + added))) != 0)
			return false;
	return true;
}

int
cell_policy_plan_rule(int runtime, const struct cell_entry *entry, enum steer_verb verb,
                      const char *rule, struct cell_policy_plan *ret_plan, struct err *err)
{
	OWN(cell_policy_plan_free) struct cell_policy_plan plan = {0};
	OWN(buf_free) struct buf line = BUF(POLICY_FILE_MAX), text = BUF(POLICY_FILE_MAX);
	int r;

	r = read_rule(steer_rows[verb].name, rule, &line, err);
	r = r == 0 ? cell_policy_get(runtime, entry, &plan.now, err) : r;
	if (r < 0)
		return r;
	if (is_in_front(&plan.now, (char *)line.data)) {
		buf_put(&text, plan.now.text, plan.now.len);
	} else if (!put_before_first(&text, &plan.now, (char *)line.data) || buf_failed(&text) ||
	           !is_behind(plan.now.policy, (char *)text.data, text.len)) {
		buf_reset(&text);
		r = put_all_behind(&text, &plan.now, (char *)line.data, err);
	}
	r = r == 0 ? finish_text(&text, &plan.text, &plan.len, err) : r;
	r = r == 0 ? finish_plan(&plan, CELL_POLICY_LIVE, NULL, err) : r;
	if (r < 0)
		return r;
	*ret_plan = plan;
	plan = (struct cell_policy_plan){0};
	return 0;
}

int
cell_policy_add_rule(int runtime, const struct cell_entry *entry, enum steer_verb verb,
                     const char *rule, bool cut, const struct cell_steer_who *who,
                     struct cell_policy_plan *ret_plan, char ret_hash[HASH_NAME + 1],
                     struct err *err)
{
	const struct cell_policy_order order = { .cut = cut, .verb = verb, .rule = rule, .who = *who };
	int r = -ESTALE;

	if (strlen(rule) > CONTROL_RULE_MAX)
		return err_set(err, E2BIG, "a rule is at most %d bytes long here", CONTROL_RULE_MAX);
	for (int i = 0; r == -ESTALE && i < CELL_POLICY_TRIES; i++) {
		OWN(cell_policy_plan_free) struct cell_policy_plan plan = {0};

		r = cell_policy_plan_rule(runtime, entry, verb, rule, &plan, err);
		/* With CUT, requests in flight may still have to be cut off. */
		if (r == 0 && plan.diff[0] == '\0' && !cut)
			memcpy(ret_hash, plan.now.hash, HASH_NAME + 1);
		else if (r == 0)
			r = cell_policy_carry_out(runtime, entry, &plan, &order, ret_hash, err);
		if (r == 0) {
			*ret_plan = plan;
			plan = (struct cell_policy_plan){0};
		}
	}
	return r;
}
