/* state_drift.c - `cloister state drift`: how far a state is from a tag, by file and over time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/num.h"
#include "base/since.h"
#include "base/text.h"
#include "cli/state.h"
#include "state/state_read.h"

#define FILES_MAX 10000                 /* that are compared line by line; all are counted */

struct file {
	struct state_diff diff;         /* with a copy of its path */
	uint64_t added, removed;        /* lines */
	bool binary;
};
struct files {
	struct file *at;
	size_t n;
};

static void
files_free(struct files *f)
{
	for (size_t i = 0; i < f->n; i++)
		free((char *)(uintptr_t)f->at[i].diff.path);
	free(f->at);
}

static int
note(void *arg, const struct state_diff *diff)
{
	struct files *f = arg;
	struct file *file = &f->at[f->n];

	if (f->n == FILES_MAX)
		return 0;
	*file = (struct file){ .diff = *diff };
	file->diff.path = strdup(diff->path);
	return file->diff.path == NULL ? -ENOMEM : (f->n++, 0);
}

static const char *
word_of(char kind)
{
	return kind == 'A' ? "added" : kind == 'D' ? "removed" : "changed";
}

static void
json_drift(struct json *w, const struct state_drift *d)
{
	json_u64(w, "files", d->files);
	json_u64(w, "bytes", d->bytes);
	json_u64(w, "added", d->added);
	json_u64(w, "changed", d->changed);
	json_u64(w, "removed", d->removed);
}

static void
json_file(struct json *w, const struct file *f)
{
	json_open(w, NULL, '{');
	json_str(w, "path", f->diff.path);
	json_str(w, "change", word_of(f->diff.kind));
	json_u64(w, "old_size", f->diff.old_size);
	json_u64(w, "new_size", f->diff.new_size);
	json_bool(w, "binary", f->binary);
	json_u64(w, "lines_added", f->added);
	json_u64(w, "lines_removed", f->removed);
	json_close(w, '}');
}

struct drift {
	const char *state, *tag;
	char from[STATE_ID + 1], to[STATE_ID + 1];
	struct files files;
	struct state_drift_point *points;
	size_t n_points;
};

static void
print_json(const struct drift *d)
{
	struct json w = { .out = stdout };
	char time[SINCE_TEXT_MAX];

	json_open(&w, NULL, '{');
	json_str(&w, "state", d->state);
	json_str(&w, "tag", d->tag);
	json_str(&w, "from", d->from);
	json_str(&w, "commit", d->to);
	json_open(&w, "files", '[');
	for (size_t i = 0; i < d->files.n; i++)
		json_file(&w, &d->files.at[i]);
	json_close(&w, ']');
	json_open(&w, "history", '[');
	for (size_t i = 0; i < d->n_points; i++) {
		since_format((uint64_t)d->points[i].time * 1000, time);
		json_open(&w, NULL, '{');
		json_str(&w, "commit", d->points[i].commit);
		json_str(&w, "time", time);
		json_drift(&w, &d->points[i].drift);
		json_close(&w, '}');
	}
	json_close(&w, ']');
	json_close(&w, '}');
	putchar('\n');
}

static void
print_file(const struct file *f)
{
	char old[NUM_TEXT_MAX], new[NUM_TEXT_MAX], lines[64] = "binary";

	if (!f->binary)
		snprintf(lines, sizeof(lines), "+%llu -%llu", (unsigned long long)f->added, (unsigned long long)f->removed);
	printf("%c  %-12s  %8s to %8s  ", f->diff.kind, lines, num_format_size(old, f->diff.old_size),
	       num_format_size(new, f->diff.new_size));
	state_print(f->diff.path);
	putchar('\n');
}

static void
print_text(const struct drift *d)
{
	char time[SINCE_TEXT_MAX], bytes[NUM_TEXT_MAX];

	if (d->files.n == 0)
		printf("no file differs from '%s'\n", d->tag);
	for (size_t i = 0; i < d->files.n; i++)
		print_file(&d->files.at[i]);
	if (d->points[0].drift.files > d->files.n)
		printf("and %llu more\n", (unsigned long long)(d->points[0].drift.files - d->files.n));
	putchar('\n');
	for (size_t i = d->n_points; i-- > 0;) {
		const struct state_drift_point *p = &d->points[i];

		since_format((uint64_t)p->time * 1000, time);
		printf("%.12s  %.19sZ  %6llu file%-1s  %8s%s\n", p->commit, time, (unsigned long long)p->drift.files, text_plural(p->drift.files),
		       num_format_size(bytes, p->drift.bytes), strcmp(p->commit, d->from) == 0 ? "  the tagged commit" : "");
	}
}

static int
compare(struct state *state, struct drift *d, uint64_t limit, struct err *err)
{
	int r;

	d->files.at = calloc(FILES_MAX, sizeof(*d->files.at));
	d->points = calloc(limit, sizeof(*d->points));
	if (d->files.at == NULL || d->points == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = state_diff(state, d->from, d->to, note, &d->files, err);
	for (size_t i = 0; r == 0 && i < d->files.n; i++) {
		struct file *f = &d->files.at[i];

		r = state_diff_file(state, d->from, d->to, f->diff.path, NULL, NULL, &f->binary, &f->added, &f->removed, err);
	}
	return r == 0 ? state_drift_history(state, d->from, d->to, limit, d->points, &d->n_points, err) : r;
}

int
state_do_drift(const struct state_words *words, struct err *err)
{
	struct drift d = { .state = words->words[0], .tag = words->n > 1 ? words->words[1] : STATE_KNOWN_GOOD };
	OWN(state_close) struct state state = {0};
	int r = state_open(d.state, &state, err);

	state.progress = true;
	r = r == 0 ? state_head(&state, words->branch, d.to, err) : r;
	if (r == 0 && state_resolve(&state, d.tag, d.from, err) < 0)
		r = words->n > 1 ? -ENOENT : err_set(err, ENOENT, "state '%s' has no tag '" STATE_KNOWN_GOOD "': make it with `cloister state tag %s "
		                                     STATE_KNOWN_GOOD "`, or name another", d.state, d.state);
	r = r == 0 ? compare(&state, &d, words->limit, err) : r;
	if (r == 0 && words->json)
		print_json(&d);
	else if (r == 0)
		print_text(&d);
	files_free(&d.files);
	free(d.points);
	return r;
}
