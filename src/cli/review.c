/* review.c - `cloister review`: compares what runs were permitted with what they used. */
#include "cli/review.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/ends.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "canon/hash.h"
#include "cell/cell_dirs.h"
#include "cli/cli.h"
#include "cli/profile.h"

#define LAST 10                         /* runs, without --last */

struct run {
	char id[CELL_ID_LEN + 1], started[AUDIT_TIME_LEN + 1];
};

struct chosen {
	bool json, diff;
	const char *policy;             /* --policy, or NULL */
	uint64_t last;
	struct policy *file;            /* the policy that is reviewed, or NULL */
	char *text;                     /* of its file */
	char *found;                    /* the file, if nobody named it */
	size_t len;
	char hash[HASH_NAME + 1];       /* of FILE, as records name it */
	bool by_policy;                 /* runs with that policy are chosen */
	struct word {
		const char *text;       /* a cell, a name, an agent or a profile */
		char *program;          /* the profile's, or NULL; owned */
		bool is_cell;           /* a cell has exactly this id or name */
	} *words;
	int n_words;
	struct run *runs;
	size_t n, cap;
	struct review v;
};

const struct cli_option cli_review_options[] = {
	{ "last", 0, "N", "the last N runs (10)", 0 },
	{ "policy", 'p', "FILE", "compare with this policy, and propose a narrower one", CLI_TEXT(struct chosen, policy) },
	{ "diff", 0, NULL, "print only the diff from the policy to the narrower one", CLI_FLAG(struct chosen, diff) },
	{ "json", 0, NULL, "print JSON for programs", CLI_FLAG(struct chosen, json) },
	{0}
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct chosen *c = arg;

	return option->id == 0 ? num_parse_count(value, 1, REVIEW_RUNS_MAX, &c->last, err) : 0;
}

static void
chosen_free(struct chosen *c)
{
	policy_free(c->file);
	free(c->text);
	free(c->found);
	for (int i = 0; i < c->n_words; i++)
		free(c->words[i].program);
	free(c->words);
	free(c->runs);
	review_free(&c->v);
}

/* ---- the policy ---- */

static int
load_policy(struct chosen *c, const char *path, struct err *err)
{
	const struct policy_reader reader = { .hook = policy_any_hook };
	OWN(buf_free) struct buf encoded = BUF(POLICY_ENCODED_MAX);
	struct policy_limits limits;
	unsigned char hash[HASH_LEN];
	int r = policy_load_file(AT_FDCWD, path, &reader, &c->file, &limits, err);

	if (r == 0)
		r = read_file_at(AT_FDCWD, path, POLICY_FILE_MAX, &c->text, &c->len, err);
	if (r < 0)
		return r;
	policy_put(&encoded, c->file);
	hash_of(encoded.data, encoded.len, hash);
	hash_name(hash, c->hash);
	c->policy = path;
	return review_add_rules(&c->v, c->file, err);
}

/* The policy that a cell had, if it was kept. */
static struct policy *
kept_policy(int dir)
{
	OWN(freep) char *text = NULL;
	struct policy *p = NULL;
	struct buf b;
	size_t len;

	if (read_file_at(dir, CELL_POLICY, POLICY_ENCODED_MAX, &text, &len, NULL) < 0)
		return NULL;
	buf_init_borrowed(&b, (unsigned char *)text, len);
	return policy_get(&b, &p, NULL) == 0 ? p : NULL;
}

/* The file may have changed since: one rule in the same place is enough. */
static bool
shares_rule(const struct policy *a, const struct policy *b)
{
	for (size_t i = 0; i < policy_n_own(a); i++)
		for (size_t k = 0; k < policy_n_own(b); k++)
			if (strcmp(policy_rule_place(a, (int)i), policy_rule_place(b, (int)k)) == 0 &&
			    strcmp(policy_rule_text(a, (int)i), policy_rule_text(b, (int)k)) == 0)
				return true;
	return false;
}

/* ---- runs ---- */

static const char *
text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

static const char *
last_part(const char *text)
{
	const char *slash = strrchr(text, '/');

	return slash != NULL ? slash + 1 : text;
}

static bool
is_cell(const char *word, const struct cell_entry *entry)
{
	return strcmp(entry->id, word) == 0 || strcmp(entry->name, word) == 0;
}

/* A cell's id or name; if no cell has it, the agent that was dispatched, or the program that ran. */
static bool
is_named(const struct word *word, const struct cell_entry *entry, const json_t *grant)
{
	const char *program = json_string_value(json_array_get(json_object_get(grant, "argv"), 0));

	if (word->is_cell)
		return is_cell(word->text, entry);
	if (strcmp(last_part(text_of(grant, "chain")), word->text) == 0)
		return true;
	return program != NULL &&
	       strcmp(last_part(program), word->program != NULL ? word->program : word->text) == 0;
}

static bool
is_wanted(const struct chosen *c, const struct cell_entry *entry, const json_t *grant, int dir)
{
	OWN(policy_freep) struct policy *p = NULL;

	for (int i = 0; i < c->n_words; i++)
		if (is_named(&c->words[i], entry, grant))
			return true;
	if (!c->by_policy)
		return false;
	if (strcmp(text_of(grant, "policy"), c->hash) == 0)
		return true;
	p = kept_policy(dir);
	return p != NULL && shares_rule(c->file, p);
}

static int
add_run(struct chosen *c, const struct cell_entry *entry, const char *started)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->runs[i].id, entry->id) == 0)
			return 0;
	if (c->n == c->cap) {
		size_t cap = c->cap == 0 ? 64 : c->cap * 2;
		struct run *more = realloc(c->runs, cap * sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		c->runs = more;
		c->cap = cap;
	}
	c->runs[c->n] = (struct run){0};
	memcpy(c->runs[c->n].id, entry->id, sizeof(entry->id));
	snprintf(c->runs[c->n++].started, sizeof(c->runs[0].started), "%.*s", AUDIT_TIME_LEN, started);
	return 0;
}

static void
find_cells_in(struct chosen *c, int folder)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n = 0;

	if (folder < 0 || cell_list(folder, false, &entries, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		for (int k = 0; k < c->n_words; k++)
			c->words[k].is_cell |= is_cell(c->words[k].text, &entries[i]);
}

static int
find_runs_in(struct chosen *c, int folder)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n = 0;
	int r = 0;

	if (folder < 0 || cell_list(folder, false, &entries, &n, NULL) < 0)
		return 0;
	for (size_t i = 0; r == 0 && i < n; i++) {
		OWN(closep) int dir = openat(folder, entries[i].dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		OWN(audit_ends_free) struct audit_ends ends = {0};

		if (dir < 0)
			continue;
		audit_ends_read(&ends, dir, CELL_EVENTS);
		if (ends.boot != NULL && is_wanted(c, &entries[i], json_object_get(json_object_get(ends.boot, "event"), "grant"), dir))
			r = add_run(c, &entries[i], text_of(ends.boot, "time"));
	}
	return r;
}

static int
compare_runs(const void *a, const void *b)
{
	return strcmp(((const struct run *)b)->started, ((const struct run *)a)->started);
}

static int
find_runs(struct chosen *c, struct err *err)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(closep) int ended = state < 0 ? -1 : cell_ended_open(state);

	find_cells_in(c, state);
	find_cells_in(c, ended);
	if (find_runs_in(c, state) < 0 || find_runs_in(c, ended) < 0)
		return err_set(err, ENOMEM, "out of memory");
	if (c->n == 0)
		return err_set(err, ENOENT, "there is no run to review: no cell, agent or policy of that name has any records");
	qsort(c->runs, c->n, sizeof(*c->runs), compare_runs);
	if (c->n > c->last)
		c->n = (size_t)c->last;
	return 0;
}

/* The file that the rule at PLACE is in, if it is here; NULL: it is not, or the rule is in none.  The caller owns it. */
static char *
file_of(const char *place)
{
	const size_t len = strcspn(place, ":");
	OWN(freep) char *file = len == 0 ? NULL : strndup(place, len);
	struct stat st;

	return file != NULL && stat(file, &st) == 0 && S_ISREG(st.st_mode) ? TAKE(file) : NULL;
}

/* Whether FILE is a policy that is the same as KEPT. */
static bool
is_still(const char *file, const struct policy *kept)
{
	const struct policy_reader reader = { .hook = policy_any_hook };
	OWN(policy_freep) struct policy *p = NULL;
	OWN(buf_free) struct buf now = BUF(POLICY_ENCODED_MAX), then = BUF(POLICY_ENCODED_MAX);
	struct policy_limits limits;

	if (policy_load_file(AT_FDCWD, file, &reader, &p, &limits, NULL) < 0)
		return false;
	policy_put(&now, p);
	policy_put(&then, kept);
	return !buf_failed(&now) && !buf_failed(&then) && now.len == then.len && memcmp(now.data, then.data, now.len) == 0;
}

/* Without a policy to compare with, it is that of the last run: its file, if that is here and has not changed, or else
 * the rules alone. */
static int
take_last_policy(struct chosen *c, struct err *err)
{
	OWN(timeline_close) struct timeline t = {0};
	OWN(timeline_event_free) struct timeline_event e = {0};
	OWN(policy_freep) struct policy *p = NULL;

	if (c->file != NULL || timeline_open(c->runs[0].id, &t, NULL) < 0 || timeline_next(&t, &e, NULL) <= 0)
		return 0;
	p = t.dir > 0 ? kept_policy(t.dir) : NULL;
	if (p == NULL)
		return 0;
	c->found = policy_n_own(p) == 0 ? NULL : file_of(policy_rule_place(p, 0));
	if (c->found != NULL && is_still(c->found, p))
		return load_policy(c, c->found, err);
	return review_add_rules(&c->v, p, err);
}

/* ---- the command ---- */

/* If TEXT is a profile, its runs are those of its program. */
static void
add_word(struct chosen *c, const char *text)
{
	OWN(profile_found_freep) struct profile_found *f = NULL;
	struct word *word = &c->words[c->n_words++];

	word->text = text;
	if (profile_cli_find(text, ".", &f, NULL) == 0)
		word->program = strdup(last_part(f->profile->program));
}

/* Words are cells, agents, or the file of a policy. */
static int
take_words(struct chosen *c, int argc, char **argv, struct err *err)
{
	struct stat st;
	int r = c->policy == NULL ? 0 : load_policy(c, c->policy, err);

	c->words = calloc((size_t)argc + 1, sizeof(*c->words));
	if (c->words == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (int i = 0; r == 0 && i < argc; i++) {
		if (stat(argv[i], &st) < 0 || !S_ISREG(st.st_mode)) {
			add_word(c, argv[i]);
			continue;
		}
		if (c->file != NULL)
			return err_set(err, EINVAL, "`review` takes one policy: remove '%s'", argv[i]);
		r = load_policy(c, argv[i], err);
		c->by_policy = true;
	}
	return r;
}

/* The file that the rules are from is named, if it is one and still here. */
static int
explain_no_policy(const struct chosen *c, struct err *err)
{
	OWN(freep) char *file = c->v.rules.n > 0 && c->v.rules.at[0].is_given ? file_of(c->v.rules.at[0].key) : NULL;

	if (file != NULL)
		return err_set(err, ENOTSUP, "'%.200s', the file of these rules, has changed since: add `-p` with it to see one", file);
	return err_set(err, ENOTSUP, "name the policy with -p to see one");
}

static int
print(struct chosen *c, struct err *err)
{
	OWN(buf_free) struct buf diff = BUF(POLICY_FILE_MAX);
	OWN(freep) char *path = c->policy == NULL ? NULL : strdup(c->policy);
	struct err why = {0};
	int r = path == NULL ? explain_no_policy(c, &why) :
	        review_narrow(&c->v, basename(path), c->text, c->len, &diff, &why);
	const char *text, *no_diff = r < 0 ? why.text : NULL;

	buf_put(&diff, "", 1);
	text = r < 0 ? NULL : (const char *)diff.data;
	if (buf_failed(&diff))
		return err_set(err, ENOMEM, "out of memory");
	if (c->diff && r < 0)
		return err_set(err, why.code, "%s", why.text);
	if (c->json)
		review_print_json(&c->v, text, no_diff);
	else if (c->diff)
		fputs(text, stdout);
	else
		review_print(&c->v, text, no_diff);
	return 0;
}

int
cmd_review(int argc, char **argv)
{
	OWN(chosen_free) struct chosen c = { .last = LAST };
	struct err err = {0};
	int rest, r;

	if (cli_parse(cli_review_options, argc, argv, true, take_option, &c, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc)
		return cli_failf("nothing to review is given: cloister review [OPTION...] AGENT|FILE|CELL");
	r = take_words(&c, argc - rest, argv + rest, &err);
	r = r == 0 ? find_runs(&c, &err) : r;
	r = r == 0 ? take_last_policy(&c, &err) : r;
	for (size_t i = 0; r == 0 && i < c.n; i++)
		r = review_read(&c.v, c.runs[i].id, &err);
	r = r == 0 ? print(&c, &err) : r;
	return r < 0 ? cli_fail(&err) : 0;
}
