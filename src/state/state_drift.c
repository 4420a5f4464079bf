/* state_drift.c - how far commits are from another one: in files, and over a history. */
#include <errno.h>
#include <string.h>

#include "state/state_read.h"

static int
count(void *arg, const struct state_diff *file)
{
	struct state_drift *d = arg;

	*(file->kind == 'A' ? &d->added : file->kind == 'D' ? &d->removed : &d->changed) += 1;
	d->files++;
	d->bytes += file->kind == 'D' ? file->old_size : file->new_size;
	return 0;
}

int
state_drift(struct state *state, const char *from, const char *to, struct state_drift *ret_drift, struct err *err)
{
	struct state_drift d = {0};
	int r = strcmp(from, to) == 0 ? 0 : state_diff(state, from, to, count, &d, err);

	if (r == 0)
		*ret_drift = d;
	return r;
}

int
state_drift_history(struct state *state, const char *from, const char *to, size_t limit, struct state_drift_point *ret_points,
                    size_t *ret_n, struct err *err)
{
	char commit[STATE_ID + 1];
	size_t n = 0;
	int r = state_worker_start(state, -1, -1, err);

	snprintf(commit, sizeof(commit), "%s", to);
	while (r == 0 && n < limit && commit[0] != '\0') {
		OWN(state_text_free) struct state_text text = {0};
		OWN(buf_free) struct buf bytes = {0};
		struct state_drift_point *p = &ret_points[n];

		memcpy(p->commit, commit, sizeof(commit));
		r = state_get_commit(state, commit, &bytes, &text, err);
		r = r == 0 ? state_drift(state, from, commit, &p->drift, err) : r;
		if (r < 0)
			return r;
		p->time = text.time;
		snprintf(commit, sizeof(commit), "%s", text.n_parents > 0 ? text.parents[0] : "");
		n++;
	}
	*ret_n = n;
	return r;
}
