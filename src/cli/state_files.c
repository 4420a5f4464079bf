/* state_files.c - `cloister state files`, `cat` and `diff`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/state.h"
#include "state/state_read.h"

#define DIFFS_MAX 100000
#define PLAIN_MODE 0100644              /* not a link, not a program */

struct printing {
	bool json;
	struct json w;
};

/* ---- files ---- */

static const char *
type_of(uint32_t mode)
{
	return mode == 0120000 ? "link" : mode == 0100755 ? "program" : "file";
}

static int
print_file(void *arg, const struct state_file *file)
{
	struct printing *p = arg;

	if (p->json) {
		json_open(&p->w, NULL, '{');
		json_str(&p->w, "path", file->path);
		json_str(&p->w, "type", type_of(file->mode));
		json_u64(&p->w, "size", file->size);
		json_close(&p->w, '}');
		return 0;
	}
	printf("%-7s %10llu  ", type_of(file->mode), (unsigned long long)file->size);
	state_print(file->path);
	putchar('\n');
	return 0;
}

int
state_do_files(const struct state_words *words, struct err *err)
{
	struct printing p = { .json = words->json, .w = { .out = stdout } };
	OWN(state_close) struct state state = {0};
	char commit[STATE_ID + 1];
	int r = state_open(words->words[0], &state, err);

	state.progress = true;
	r = r == 0 ? state_word(&state, words, 1, commit, err) : r;
	if (r < 0)
		return r;
	if (p.json)
		json_open(&p.w, NULL, '[');
	r = state_files(&state, commit, print_file, &p, err);
	if (p.json)
		json_close(&p.w, ']');
	if (p.json)
		putchar('\n');
	return r;
}

/* ---- cat ---- */

static int
print_bytes(void *arg, const void *data, size_t len)
{
	/* A terminal would obey an agent's escape sequences. */
	if (*(bool *)arg)
		text_print_safe(stdout, data, len, true);
	else
		fwrite(data, 1, len, stdout);
	return 0;
}

int
state_do_cat(const struct state_words *words, struct err *err)
{
	bool terminal = isatty(STDOUT_FILENO);
	OWN(state_close) struct state state = {0};
	char commit[STATE_ID + 1];
	int r = state_open(words->words[0], &state, err);

	state.progress = true;
	r = r == 0 ? state_word(&state, words, 2, commit, err) : r;
	if (r < 0)
		return r;
	r = state_cat(&state, commit, words->words[1], print_bytes, &terminal, err);
	return r != -ENOENT ? r : err_set(err, ENOENT, "commit %.12s of state '%s' has no file '%.200s': `cloister state files %s` lists them",
	                                  commit, state.name, words->words[1], state.name);
}

/* ---- diff ---- */

struct differences {
	struct state_diff *at;          /* with copies of their paths */
	size_t n;
};

static void
differences_free(struct differences *d)
{
	for (size_t i = 0; i < d->n; i++)
		free((char *)(uintptr_t)d->at[i].path);
	free(d->at);
}

static int
note(void *arg, const struct state_diff *file)
{
	struct differences *d = arg;
	struct state_diff *more = d->at;

	if (d->n >= DIFFS_MAX)
		return -E2BIG;
	if ((d->n & (d->n - 1)) == 0)
		more = realloc(d->at, (d->n == 0 ? 1 : 2 * d->n) * sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	d->at = more;
	more[d->n] = *file;
	more[d->n].path = strdup(file->path);
	return more[d->n].path == NULL ? -ENOMEM : (d->n++, 0);
}

static int
print_hunk(void *arg, const void *data, size_t len)
{
	(void)arg;
	text_print_safe(stdout, data, len, true);
	return 0;
}

static void
print_side(const char *sign, const char *side, bool is_there, const char *path)
{
	printf("%s %s", sign, is_there ? side : "/dev/null");
	if (is_there)
		state_print(path);
	putchar('\n');
}

static int
print_diff(struct state *state, bool names, const struct state_diff *file, const char *old, const char *new, struct err *err)
{
	uint64_t added, removed;
	bool binary;

	printf("%c ", file->kind);
	state_print(file->path);
	putchar('\n');
	if (names)
		return 0;
	if (file->old_mode != file->new_mode && file->kind == 'M')
		printf("mode %06o to %06o\n", file->old_mode, file->new_mode);
	if (file->kind == 'A' && file->new_mode != PLAIN_MODE)
		printf("mode %06o\n", file->new_mode);
	print_side("---", "a/", file->kind != 'A', file->path);
	print_side("+++", "b/", file->kind != 'D', file->path);
	if (state_diff_file(state, old, new, file->path, print_hunk, NULL, &binary, &added, &removed, err) < 0)
		return -err->code;
	if (binary)
		printf("binary: %llu bytes, then %llu\n", (unsigned long long)file->old_size, (unsigned long long)file->new_size);
	return 0;
}

static void
json_diff(struct json *w, const struct state_diff *file)
{
	json_open(w, NULL, '{');
	json_str(w, "path", file->path);
	json_str(w, "change", file->kind == 'A' ? "added" : file->kind == 'D' ? "removed" : "changed");
	json_u64(w, "old_size", file->old_size);
	json_u64(w, "new_size", file->new_size);
	json_close(w, '}');
}

/* From the commit before, unless two are named. */
static int
find_sides(struct state *state, const struct state_words *words, char old[STATE_ID + 1], char new[STATE_ID + 1],
           struct err *err)
{
	OWN(state_text_free) struct state_text text = {0};
	OWN(buf_free) struct buf bytes = {0};
	int r = state_word(state, words, 2, new, err);

	if (r == 0 && words->n > 1)
		return state_resolve(state, words->words[1], old, err);
	r = r == 0 ? state_worker_start(state, -1, -1, err) : r;
	r = r == 0 ? state_get_commit(state, new, &bytes, &text, err) : r;
	if (r == 0)
		snprintf(old, STATE_ID + 1, "%s", text.n_parents > 0 ? text.parents[0] : "");
	return r;
}

static int
list_diffs(struct state *state, const char *old, const char *new, struct differences *ret, struct err *err)
{
	int r = state_diff(state, old, new, note, ret, err);

	return r == -E2BIG || r == -ENOMEM ? err_set(err, -r, "over %d files differ: name two commits that are nearer", DIFFS_MAX) : r;
}

int
state_print_diffs(struct state *state, const char *old, const char *new, bool names, struct err *err)
{
	OWN(differences_free) struct differences d = {0};
	int r = list_diffs(state, old, new, &d, err);

	for (size_t i = 0; r == 0 && i < d.n; i++)
		r = print_diff(state, names, &d.at[i], old, new, err);
	return r;
}

int
state_do_diff(const struct state_words *words, struct err *err)
{
	OWN(differences_free) struct differences d = {0};
	OWN(state_close) struct state state = {0};
	char old[STATE_ID + 1], new[STATE_ID + 1];
	struct json w = { .out = stdout };
	int r = state_open(words->words[0], &state, err);

	state.progress = true;
	r = r == 0 ? find_sides(&state, words, old, new, err) : r;
	if (r < 0)
		return r;
	if (!words->json)
		return state_print_diffs(&state, old, new, words->names, err);
	r = list_diffs(&state, old, new, &d, err);
	if (r < 0)
		return r;
	json_open(&w, NULL, '[');
	for (size_t i = 0; i < d.n; i++)
		json_diff(&w, &d.at[i]);
	json_close(&w, ']');
	putchar('\n');
	return 0;
}
