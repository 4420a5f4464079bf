/* compare.c - see compare.h. */
#include "workspace/compare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "workspace/compare_parts.h"

bool
compare_is_binary(const char *start, size_t len)
{
	return memchr(start, '\0', len < COMPARE_SNIFF ? len : COMPARE_SNIFF) != NULL;
}

void
compare_side_free(struct compare_side *s)
{
	free(s->start);
	free(s->changed);
}

/* A last line without a newline is a line, and differs from the same line with one. */
static int
side_split(struct compare_side *s, struct compare_text text)
{
	const char *p = text.at, *end = text.at + text.len;
	size_t n = 0;

	for (const char *at = p; at < end; n++) {
		at = memchr(at, '\n', (size_t)(end - at));
		at = at == NULL ? end : at + 1;
	}
	if (n >= COMPARE_LINES_MAX)
		return -E2BIG;
	s->text = text.at;
	s->n = (int32_t)n;
	s->start = reallocarray(NULL, n + 1, sizeof(*s->start));
	s->changed = calloc(n + 1, sizeof(*s->changed));
	if (s->start == NULL || s->changed == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		s->start[i] = (size_t)(p - text.at);
		p = memchr(p, '\n', (size_t)(end - p));
		p = p == NULL ? end : p + 1;
	}
	s->start[n] = text.len;
	return 0;
}

int
compare_sides(struct compare_side *old, struct compare_text old_text, struct compare_side *new,
              struct compare_text new_text)
{
	int r = side_split(old, old_text);

	r = r == 0 ? side_split(new, new_text) : r;
	return r == 0 ? compare_mark(old, new) : r;
}

/* ---- hunks ---- */

struct hunks {
	const struct compare_side *old, *new;
	int (*take)(void *arg, const char *data, size_t len);
	void *arg;
};

static int
put_line(const struct hunks *h, char sign, const struct compare_side *s, int32_t i)
{
	static const char without[] = "\n\\ No newline at end of file\n";
	const char *line = s->text + s->start[i];
	size_t len = compare_line_len(s, i);
	int r = h->take(h->arg, &sign, 1);

	if (r == 0)
		r = h->take(h->arg, line, len);
	if (r == 0 && line[len - 1] != '\n')
		r = h->take(h->arg, without, sizeof(without) - 1);
	return r;
}

/* Line numbers count from 1; an empty range names the line before it. */
static int
put_place(const struct hunks *h, char sign, int32_t start, int32_t end)
{
	char text[40];
	int32_t n = end - start;
	int len = n == 1 ? snprintf(text, sizeof(text), " %c%d", sign, start + 1) :
	          snprintf(text, sizeof(text), " %c%d,%d", sign, n == 0 ? start : start + 1, n);

	return h->take(h->arg, text, (size_t)len);
}

static int
put_hunk(const struct hunks *h, struct compare_range at)
{
	int r = h->take(h->arg, "@@", 2);

	r = r == 0 ? put_place(h, '-', at.old, at.old_end) : r;
	r = r == 0 ? put_place(h, '+', at.new, at.new_end) : r;
	r = r == 0 ? h->take(h->arg, " @@\n", 4) : r;
	while (r == 0 && (at.old < at.old_end || at.new < at.new_end)) {
		if (at.old < at.old_end && h->old->changed[at.old]) {
			r = put_line(h, '-', h->old, at.old++);
		} else if (at.new < at.new_end && h->new->changed[at.new]) {
			r = put_line(h, '+', h->new, at.new++);
		} else {
			r = put_line(h, ' ', h->old, at.old++);
			at.new++;
		}
	}
	return r;
}

/* Find the end of the change that begins at AT. */
static struct compare_range
end_change(const struct compare_side *old, const struct compare_side *new, struct compare_range at)
{
	for (at.old_end = at.old; at.old_end < old->n && old->changed[at.old_end];)
		at.old_end++;
	for (at.new_end = at.new; at.new_end < new->n && new->changed[at.new_end];)
		at.new_end++;
	return at;
}

bool
compare_next_change(const struct compare_side *old, const struct compare_side *new, int32_t at_old,
                    int32_t at_new, struct compare_range *ret)
{
	for (; at_old < old->n && !old->changed[at_old] && !new->changed[at_new]; at_old++)
		at_new++;
	*ret = end_change(old, new, (struct compare_range){ .old = at_old, .new = at_new });
	return ret->old_end > ret->old || ret->new_end > ret->new;
}

bool
compare_next_hunk(const struct compare_side *old, const struct compare_side *new, int32_t at_old,
                  int32_t at_new, struct compare_range *ret)
{
	struct compare_range change;

	if (!compare_next_change(old, new, at_old, at_new, ret))
		return false;
	while (compare_next_change(old, new, ret->old_end, ret->new_end, &change) &&
	       change.old - ret->old_end <= 2 * COMPARE_CONTEXT) {
		ret->old_end = change.old_end;
		ret->new_end = change.new_end;
	}
	return true;
}

static int
put_hunks(const struct hunks *h)
{
	struct compare_range at = {0};
	int r = 0;

	while (r == 0 && compare_next_hunk(h->old, h->new, at.old_end, at.new_end, &at)) {
		int32_t left = h->old->n - at.old_end;
		int32_t before = at.old < COMPARE_CONTEXT ? at.old : COMPARE_CONTEXT;
		int32_t behind = left < COMPARE_CONTEXT ? left : COMPARE_CONTEXT;

		r = put_hunk(h, (struct compare_range){ at.old - before, at.old_end + behind, at.new - before,
		                                        at.new_end + behind });
	}
	return r;
}

static uint64_t
count_changed(const struct compare_side *s)
{
	uint64_t n = 0;

	for (int32_t i = 0; i < s->n; i++)
		n += s->changed[i];
	return n;
}

int
compare_texts(struct compare_text old_text, struct compare_text new_text,
              int (*take)(void *arg, const char *data, size_t len), void *arg,
              struct compare_count *ret_count)
{
	OWN(compare_side_free) struct compare_side old = {0};
	OWN(compare_side_free) struct compare_side new = {0};
	int r = compare_sides(&old, old_text, &new, new_text);

	if (r < 0)
		return r;
	*ret_count = (struct compare_count){ count_changed(&new), count_changed(&old) };
	if (take == NULL)
		return 0;
	compare_settle_both(&old, &new);
	return put_hunks(&(struct hunks){ &old, &new, take, arg });
}
