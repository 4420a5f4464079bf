/* state_log.c - `cloister state list`, `log`, `show` and `verify`. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/num.h"
#include "base/since.h"
#include "base/text.h"
#include "base/tree.h"
#include "cli/state.h"
#include "state/state_read.h"

#define FOUND 1                         /* the exit status of a verification that found something */
#define COMMITS_MAX 1000000

static const char *const fields[][2] = {
	{ "Reason", "reason" }, { "Who", "who" }, { "Cell", "cell" }, { "Cell-Name", "cell_name" },
	{ "On-Behalf-Of", "behalf" }, { "Dispatch", "dispatch" }, { "Grant", "grant" }, { "Timeline", "timeline" },
	{ "Timeline-Position", "timeline_position" }, { "Review", "review" }, { "Flags", "flags" },
};

/* ---- one commit ---- */

static void
time_of(const struct state_text *t, char ret_text[SINCE_TEXT_MAX])
{
	since_format((uint64_t)t->time * 1000, ret_text);
}

static void
json_commit(struct json *w, const char *commit, const struct state_text *t)
{
	OWN(freep) char *subject = strndup(t->message, strcspn(t->message, "\n"));
	char time_text[SINCE_TEXT_MAX];

	time_of(t, time_text);
	json_str(w, "commit", commit);
	json_open(w, "parents", '[');
	for (size_t i = 0; i < t->n_parents; i++)
		json_str(w, NULL, t->parents[i]);
	json_close(w, ']');
	json_str(w, "time", time_text);
	json_str(w, "author", t->author);
	json_str(w, "subject", subject);
	json_str(w, "tree_sha256", t->sum);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		size_t len;
		const char *value = state_text_field(t, fields[i][0], &len);
		OWN(freep) char *text = value == NULL ? NULL : strndup(value, len);

		if (text != NULL)
			json_str(w, fields[i][1], text);
	}
}

static void
print_line(const char *commit, const struct state_text *t, const struct state_ref *refs, size_t n)
{
	OWN(freep) char *subject = strndup(t->message, strcspn(t->message, "\n"));
	size_t len;
	const char *flags = state_text_field(t, "Flags", &len);
	char time_text[SINCE_TEXT_MAX];

	time_of(t, time_text);
	printf("%.12s  %.19sZ  ", commit, time_text);
	state_print(subject != NULL ? subject : "");
	for (size_t i = 0; i < n; i++)
		if (strcmp(refs[i].id, commit) == 0)
			printf("  (%s)", strchr(refs[i].ref + 5, '/') + 1);
	if (flags != NULL) {
		fputs("  ! ", stdout);
		text_print_safe(stdout, flags, len, false);
	}
	putchar('\n');
}

/* ---- log ---- */

int
state_do_log(const struct state_words *words, struct err *err)
{
	OWN(state_close) struct state state = {0};
	OWN(freep) struct state_ref *refs = NULL;
	char commit[STATE_ID + 1] = "";
	struct json w = { .out = stdout };
	size_t n = 0;
	int r = state_open(words->words[0], &state, err);

	r = r == 0 ? state_ref_list(state.dir, &refs, &n, err) : r;
	r = r == 0 ? state_word(&state, words, 1, commit, err) : r;
	r = r == 0 ? state_worker_start(&state, -1, -1, err) : r;
	if (r == 0 && words->json)
		json_open(&w, NULL, '[');
	for (uint64_t i = 0; r == 0 && i < words->limit && commit[0] != '\0'; i++) {
		OWN(state_text_free) struct state_text text = {0};
		OWN(buf_free) struct buf bytes = {0};

		r = state_get_commit(&state, commit, &bytes, &text, err);
		if (r == 0 && words->json) {
			json_open(&w, NULL, '{');
			json_commit(&w, commit, &text);
			json_close(&w, '}');
		} else if (r == 0) {
			print_line(commit, &text, refs, n);
		}
		snprintf(commit, sizeof(commit), "%s", text.n_parents > 0 ? text.parents[0] : "");
	}
	if (r == 0 && words->json) {
		json_close(&w, ']');
		putchar('\n');
	}
	return r;
}

/* ---- list ---- */

int
state_do_list(const struct state_words *words, struct err *err)
{
	OWN(strv_freep) char **names = NULL;
	struct json w = { .out = stdout };
	int r = state_list(&names, err);

	if (r < 0)
		return r;
	if (words->json)
		json_open(&w, NULL, '[');
	for (size_t i = 0; names[i] != NULL; i++) {
		OWN(state_close) struct state state = {0};
		OWN(freep) struct state_ref *refs = NULL;
		char commit[STATE_ID + 1] = "";
		struct err why = {0};
		size_t n = 0;
		bool good = state_open(names[i], &state, &why) == 0 && state_head(&state, NULL, commit, &why) == 0 &&
		            state_ref_list(state.dir, &refs, &n, &why) == 0;

		if (words->json) {
			json_open(&w, NULL, '{');
			json_str(&w, "state", names[i]);
			json_str(&w, "commit", good ? commit : NULL);
			json_u64(&w, "refs", n);
			json_str(&w, "error", good ? NULL : why.text);
			json_close(&w, '}');
		} else if (good) {
			printf("%-24s %.12s  %zu %s\n", names[i], commit, n, n == 1 ? "branch" : "branches and tags");
		} else {
			printf("%-24s ", names[i]);
			state_print(why.text);
			putchar('\n');
		}
	}
	if (words->json) {
		json_close(&w, ']');
		putchar('\n');
	}
	return 0;
}

/* ---- show ---- */

static int
print_change(void *arg, const struct state_diff *file)
{
	struct json *w = arg;

	if (w != NULL) {
		json_open(w, NULL, '{');
		json_str(w, "path", file->path);
		json_str(w, "change", file->kind == 'A' ? "added" : file->kind == 'D' ? "removed" : "changed");
		json_close(w, '}');
		return 0;
	}
	printf("%c ", file->kind);
	state_print(file->path);
	putchar('\n');
	return 0;
}

static int
show_commit(struct state *state, const struct state_words *words, struct err *err)
{
	OWN(state_text_free) struct state_text text = {0};
	unsigned char key[AUDIT_KEY];
	char commit[STATE_ID + 1], time_text[SINCE_TEXT_MAX];
	struct json w = { .out = stdout };
	int r = state_word(state, words, 1, commit, err);

	r = r == 0 ? state_public_key(key, err) : r;
	r = r == 0 ? state_check_commit(state, commit, key, NULL, &text, err) : r;
	if (r < 0)
		return r;
	if (words->json) {
		json_open(&w, NULL, '{');
		json_commit(&w, commit, &text);
		json_open(&w, "changes", '[');
	} else {
		time_of(&text, time_text);
		printf("commit %s\ntime   %s\nauthor ", commit, time_text);
		state_print(text.author);
		puts("\nsigned with your key, and its files are those of its message\n");
		for (char *at = text.message, *line; (line = strsep(&at, "\n")) != NULL;) {
			if (*line == '\0')
				continue;
			fputs("    ", stdout);
			state_print(line);
			putchar('\n');
		}
		putchar('\n');
	}
	r = state_diff(state, text.n_parents > 0 ? text.parents[0] : "", commit, print_change, words->json ? &w : NULL, err);
	if (words->json) {
		json_close(&w, ']');
		json_close(&w, '}');
		putchar('\n');
	}
	return r;
}

/* The cell that holds a branch, "" for another process, or NULL. */
static char *
writer_of(const struct state *state, const char *branch)
{
	char cell[STATE_CELL_MAX] = "";
	OWN(closep) int fd = state_lock_writer(state, branch, "", cell, NULL);

	return fd == -EBUSY ? strdup(cell) : NULL;
}

static size_t
count_aside(const struct state *state)
{
	OWN(closep) int fd = openat(state->dir, STATE_ASIDE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *list = fd < 0 ? NULL : tree_list(fd);
	const struct dirent *entry;
	size_t n = 0;

	while (list != NULL && (entry = readdir(list)) != NULL)
		n += entry->d_name[0] != '.';
	return n;
}

/* Changes that wait for a person. */
static size_t
count_pending(const struct state *state)
{
	OWN(strv_freep) char **ids = NULL;
	size_t n = 0;

	for (size_t i = 0; (ids != NULL || state_review_list(state, &ids, NULL) == 0) && ids[i] != NULL; i++) {
		OWN(state_review_free) struct state_review review = {0};

		if (state_review_read(state, ids[i], &review, NULL) == 0)
			for (size_t k = 0; k < review.n; k++)
				n += review.items[k].kept == STATE_KEPT_PENDING;
	}
	return n;
}

static void
json_refs(struct json *w, const struct state *state, const struct state_ref *refs, size_t n, bool tags)
{
	json_open(w, tags ? "tags" : "branches", '[');
	for (size_t i = 0; i < n; i++) {
		const char *name = strchr(refs[i].ref + 5, '/') + 1;
		OWN(freep) char *writer = NULL;

		if ((strncmp(refs[i].ref, "refs/tags/", 10) == 0) != tags)
			continue;
		writer = tags ? NULL : writer_of(state, name);
		json_open(w, NULL, '{');
		json_str(w, "name", name);
		json_str(w, "commit", refs[i].id);
		if (!tags)
			json_str(w, "writer", writer);
		json_close(w, '}');
	}
	json_close(w, ']');
}

static void
print_refs(const struct state *state, const struct state_ref *refs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool tag = strncmp(refs[i].ref, "refs/tags/", 10) == 0;
		const char *name = strchr(refs[i].ref + 5, '/') + 1;
		OWN(freep) char *writer = tag ? NULL : writer_of(state, name);

		printf("%-7s %-24s %.12s", tag ? "tag" : "branch", name, refs[i].id);
		if (writer != NULL) {
			printf("  written by cell ");
			state_print(writer);
		}
		putchar('\n');
	}
}

static int
show_state(struct state *state, const struct state_words *words, struct err *err)
{
	const struct state_limits *l = &state->limits;
	OWN(freep) struct state_ref *refs = NULL;
	char bytes[NUM_TEXT_MAX], file[NUM_TEXT_MAX];
	struct json w = { .out = stdout };
	size_t n = 0;
	int r = state_ref_list(state->dir, &refs, &n, err);

	if (r < 0)
		return r;
	if (!words->json) {
		print_refs(state, refs, n);
		printf("limits  %s in all, %s for a file, %" PRIu64 " files\n", num_format_size(bytes, l->bytes),
		       num_format_size(file, l->file_bytes), l->files);
		printf("disk    %s of %s\n", num_format_size(bytes, state_room_used(state, true)), num_format_size(file, l->disk));
		printf("aside   %zu\n", count_aside(state));
		printf("pending %zu\n", count_pending(state));
		return 0;
	}
	json_open(&w, NULL, '{');
	json_str(&w, "state", state->name);
	json_refs(&w, state, refs, n, false);
	json_refs(&w, state, refs, n, true);
	json_open(&w, "limits", '{');
	json_u64(&w, "bytes", l->bytes);
	json_u64(&w, "file_bytes", l->file_bytes);
	json_u64(&w, "files", l->files);
	json_u64(&w, "depth", l->depth);
	json_u64(&w, "path", l->path);
	json_u64(&w, "disk", l->disk);
	json_close(&w, '}');
	json_u64(&w, "disk", state_room_used(state, true));
	json_u64(&w, "aside", count_aside(state));
	json_u64(&w, "pending", count_pending(state));
	json_close(&w, '}');
	putchar('\n');
	return 0;
}

int
state_do_show(const struct state_words *words, struct err *err)
{
	OWN(state_close) struct state state = {0};
	int r = state_open(words->words[0], &state, err);

	state.progress = true;
	return r < 0 ? r : words->n > 1 || words->branch != NULL ? show_commit(&state, words, err) : show_state(&state, words, err);
}

/* ---- verify ---- */

/* Along first parents, and the second ones of merges. */
static int
verify_from(struct state *state, const char *tip, const unsigned char key[AUDIT_KEY], uint64_t *commits, struct err *err)
{
	char commit[STATE_ID + 1], tree[STATE_ID + 1] = "";
	int r = 0;

	snprintf(commit, sizeof(commit), "%s", tip);
	while (r == 0 && commit[0] != '\0') {
		OWN(state_text_free) struct state_text text = {0}, other = {0};

		if (++*commits > COMMITS_MAX)
			return err_set(err, E2BIG, "the history is longer than %d commits", COMMITS_MAX);
		r = state_check_commit(state, commit, key, tree, &text, err);
		if (r < 0)
			return r;
		memcpy(tree, text.tree, sizeof(tree));
		if (text.n_parents > 1)
			r = state_check_commit(state, text.parents[1], key, NULL, &other, err);
		snprintf(commit, sizeof(commit), "%s", text.n_parents > 0 ? text.parents[0] : "");
	}
	return r;
}

/* -EBADMSG: ERR explains what is wrong. */
static int
verify_state(const char *name, const unsigned char key[AUDIT_KEY], uint64_t *ret_commits, struct err *err)
{
	OWN(state_close) struct state state = {0};
	OWN(freep) struct state_ref *refs = NULL;
	size_t n = 0;
	int r = state_open(name, &state, err);

	state.progress = true;
	r = r == 0 ? state_ref_list(state.dir, &refs, &n, err) : r;
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = verify_from(&state, refs[i].id, key, ret_commits, err);
		if (r < 0)
			return err_wrap(err, "'%s'", refs[i].ref);
	}
	return r;
}

int
state_do_verify(const struct state_words *words, struct err *err)
{
	char *one[] = { words->n > 0 ? words->words[0] : NULL, NULL };
	OWN(strv_freep) char **all = NULL;
	unsigned char key[AUDIT_KEY];
	struct json w = { .out = stdout };
	char **names = one;
	bool found = false;
	int r = state_public_key(key, err);

	if (r == 0 && words->n == 0) {
		r = state_list(&all, err);
		names = all;
	}
	if (r == 0 && words->json)
		json_open(&w, NULL, '[');
	for (size_t i = 0; r == 0 && names[i] != NULL; i++) {
		struct err why = {0};
		uint64_t commits = 0;
		bool good = verify_state(names[i], key, &commits, &why) == 0;

		if (!good && words->n > 0 && why.code == ENOENT)
			return err_set(err, ENOENT, "%s", why.text);
		found |= !good;
		if (words->json) {
			json_open(&w, NULL, '{');
			json_str(&w, "state", names[i]);
			json_bool(&w, "sound", good);
			json_u64(&w, "commits", commits);
			json_str(&w, "finding", good ? NULL : why.text);
			json_close(&w, '}');
			continue;
		}
		printf("%s: ", names[i]);
		state_print(good ? "sound, all commits are signed with your key, and their files are what was recorded" : why.text);
		putchar('\n');
	}
	if (r == 0 && words->json) {
		json_close(&w, ']');
		putchar('\n');
	}
	return r < 0 ? r : found ? FOUND : 0;
}
