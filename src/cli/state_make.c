/* state_make.c - the verbs of `cloister state` that change something. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/state.h"

#define CONFLICTS 1                     /* the exit status of a merge that was not made */

/* ---- printing ---- */

void
state_print(const char *text)
{
	text_print_safe(stdout, text, strlen(text), false);
}

int
state_word(struct state *state, const struct state_words *words, int i, char ret_commit[STATE_ID + 1], struct err *err)
{
	return i < words->n ? state_resolve(state, words->words[i], ret_commit, err) :
	       state_head(state, words->branch, ret_commit, err);
}

void
state_print_refused(FILE *out, const struct state_committed *c)
{
	for (size_t i = 0; i < c->n_listed; i++) {
		fputs("! ", out);
		text_print_safe(out, c->refused[i].path, strlen(c->refused[i].path), false);
		fputs("  (", out);
		text_print_safe(out, c->refused[i].why, strlen(c->refused[i].why), false);
		fputs(")\n", out);
	}
	if (c->n_refused > c->n_listed)
		fprintf(out, "! and %llu more\n", (unsigned long long)(c->n_refused - c->n_listed));
}

static void
print_json(const struct state_committed *c)
{
	struct json w = { .out = stdout };

	json_open(&w, NULL, '{');
	json_str(&w, "commit", c->commit);
	json_str(&w, "tree_sha256", c->tree);
	json_bool(&w, "same", c->same);
	json_u64(&w, "n_refused", c->n_refused);
	json_open(&w, "refused", '[');
	for (size_t i = 0; i < c->n_listed; i++) {
		json_open(&w, NULL, '{');
		json_str(&w, "path", c->refused[i].path);
		json_str(&w, "why", c->refused[i].why);
		json_close(&w, '}');
	}
	json_close(&w, ']');
	json_close(&w, '}');
	putchar('\n');
}

void
state_print_committed(const struct state_words *words, const struct state_committed *c, const char *done)
{
	if (words->json) {
		print_json(c);
		return;
	}
	state_print_refused(stderr, c);
	if (c->same)
		printf("nothing changes: it is at %.12s\n", c->commit);
	else
		printf("%s: %.12s\n", done, c->commit);
}

/* ---- verbs ---- */

static int
open_state(const struct state_words *words, struct state *state, struct err *err)
{
	int r = state_open(words->words[0], state, err);

	state->progress = true;
	return r;
}

/* Those that were given, and the defaults. */
static struct state_limits
limits_of(const struct state_words *words)
{
	struct state_limits l = state_limits_default;

	l.bytes = words->limits.bytes != 0 ? words->limits.bytes : l.bytes;
	l.file_bytes = words->limits.file_bytes != 0 ? words->limits.file_bytes : l.file_bytes;
	l.files = words->limits.files != 0 ? words->limits.files : l.files;
	l.disk = words->limits.disk != 0 ? words->limits.disk : l.disk;
	return l;
}

int
state_do_limit(const struct state_words *words, struct err *err)
{
	OWN(state_close) struct state state = {0};
	int r = open_state(words, &state, err);

	return r < 0 ? r : state_set_limits(&state, &words->limits, err);
}

int
state_do_create(const struct state_words *words, struct err *err)
{
	const struct state_limits limits = limits_of(words);
	int r = state_create(words->words[0], &limits, err);

	if (r == 0 && words->json)
		printf("{\"state\":\"%s\"}\n", words->words[0]);
	return r;
}

int
state_do_import(const struct state_words *words, struct err *err)
{
	OWN(state_committed_free) struct state_committed c = {0};
	const struct state_limits limits = limits_of(words);
	int r = state_import(words->words[0], &limits, words->words[1], words->ref, true, &c, err);

	if (r == 0)
		state_print_committed(words, &c, "imported");
	return r;
}

int
state_do_export(const struct state_words *words, struct err *err)
{
	OWN(state_close) struct state state = {0};
	int r = open_state(words, &state, err);

	return r < 0 ? r : state_export(&state, words->words[1], words->bundle, err);
}

static bool
is_sure(const struct state_words *words)
{
	char line[8];

	if (words->yes)
		return true;
	fprintf(stderr, "Remove state '%s' with all of its history? [y/N] ", words->words[0]);
	return fgets(line, sizeof(line), stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
}

int
state_do_remove(const struct state_words *words, struct err *err)
{
	OWN(state_close) struct state state = {0};
	int r = open_state(words, &state, err);

	if (r < 0)
		return r;
	if (!words->yes && !isatty(STDIN_FILENO))
		return err_set(err, EPERM, "the history of state '%s' would be lost: add --yes", state.name);
	if (!is_sure(words))
		return err_set(err, ECANCELED, "state '%s' is as it was", state.name);
	return state_remove(state.name, err);
}

static int
point(const struct state_words *words, bool tag, struct err *err)
{
	const struct state_author author = { .reason = tag ? "tag" : "branch" };
	OWN(state_close) struct state state = {0};
	char commit[STATE_ID + 1] = "";
	int r = open_state(words, &state, err);

	if (r == 0 && words->remove && words->n > 2)
		r = err_set(err, EINVAL, "--remove takes no commit");
	if (r == 0 && !words->remove)
		r = state_word(&state, words, 2, commit, err);
	return r < 0 ? r : state_point(&state, tag, words->words[1], commit, &author, err);
}

int
state_do_tag(const struct state_words *words, struct err *err)
{
	return point(words, true, err);
}

int
state_do_branch(const struct state_words *words, struct err *err)
{
	return point(words, false, err);
}

int
state_do_rollback(const struct state_words *words, struct err *err)
{
	OWN(state_committed_free) struct state_committed c = {0};
	OWN(state_close) struct state state = {0};
	char commit[STATE_ID + 1], subject[STATE_TEXT_MAX];
	const struct state_author author = { .subject = subject, .reason = "rollback" };
	int r = open_state(words, &state, err);

	r = r == 0 ? state_resolve(&state, words->words[1], commit, err) : r;
	snprintf(subject, sizeof(subject), "Go back to %.100s", words->words[1]);
	r = r == 0 ? state_rollback(&state, words->branch, commit, &author, &c, err) : r;
	if (r == 0)
		state_print_committed(words, &c, "rolled back");
	return r;
}

int
state_do_merge(const struct state_words *words, struct err *err)
{
	OWN(state_committed_free) struct state_committed c = {0};
	OWN(state_close) struct state state = {0};
	char commit[STATE_ID + 1], subject[STATE_TEXT_MAX];
	const struct state_author author = { .subject = subject, .reason = "merge" };
	int r = open_state(words, &state, err);

	r = r == 0 ? state_resolve(&state, words->words[1], commit, err) : r;
	snprintf(subject, sizeof(subject), "Merge %.100s", words->words[1]);
	r = r == 0 ? state_merge(&state, words->branch, commit, &author, &c, err) : r;
	if (r < 0)
		return r;
	if (c.n_refused == 0) {
		state_print_committed(words, &c, "merged");
		return 0;
	}
	if (words->json)
		print_json(&c);
	else
		state_print_refused(stdout, &c);
	fprintf(stderr, "cloister: nothing was merged: %llu file%s changed on both sides\n", (unsigned long long)c.n_refused,
	        text_plural(c.n_refused));
	return CONFLICTS;
}

int
state_do_signers(const struct state_words *words, struct err *err)
{
	OWN(freep) char *line = NULL;
	int r = state_signers(&line, err);

	(void)words;
	if (r == 0)
		puts(line);
	return r;
}
