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

static void
side_free(struct compare_side *s)
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

/* ---- hunks ---- */

struct hunks {
	const struct compare_side *old, *new;
	int (*take)(void *arg, const char *data, size_t len);
	void *arg;
};

/* Lines of both sides, from one point where they are in step to the next. */
struct range {
	int32_t old, old_end, new, new_end;
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
put_hunk(const struct hunks *h, struct range at)
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
static struct range
end_change(const struct hunks *h, struct range at)
{
	for (at.old_end = at.old; at.old_end < h->old->n && h->old->changed[at.old_end];)
		at.old_end++;
	for (at.new_end = at.new; at.new_end < h->new->n && h->new->changed[at.new_end];)
		at.new_end++;
	return at;
}

/* The next change from a point where both are in step; false if there is none. */
static bool
next_change(const struct hunks *h, int32_t old, int32_t new, struct range *ret)
{
	for (; old < h->old->n && !h->old->changed[old] && !h->new->changed[new]; old++)
		new++;
	*ret = end_change(h, (struct range){ .old = old, .new = new });
	return ret->old_end > ret->old || ret->new_end > ret->new;
}

/* Changes whose contexts touch share a hunk. */
static int
put_hunks(const struct hunks *h)
{
	struct range change, hunk;
	bool more = next_change(h, 0, 0, &change);
	int r = 0;

	while (more && r == 0) {
		int32_t before = change.old < COMPARE_CONTEXT ? change.old : COMPARE_CONTEXT, behind;

		hunk = (struct range){ change.old - before, change.old_end, change.new - before, change.new_end };
		while ((more = next_change(h, hunk.old_end, hunk.new_end, &change)) &&
		       change.old - hunk.old_end <= 2 * COMPARE_CONTEXT) {
			hunk.old_end = change.old_end;
			hunk.new_end = change.new_end;
		}
		behind = h->old->n - hunk.old_end < COMPARE_CONTEXT ? h->old->n - hunk.old_end : COMPARE_CONTEXT;
		r = put_hunk(h, (struct range){ hunk.old, hunk.old_end + behind, hunk.new, hunk.new_end + behind });
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
	OWN(side_free) struct compare_side old = {0};
	OWN(side_free) struct compare_side new = {0};
	int r = side_split(&old, old_text);

	r = r == 0 ? side_split(&new, new_text) : r;
	r = r == 0 ? compare_mark(&old, &new) : r;
	if (r < 0)
		return r;
	*ret_count = (struct compare_count){ count_changed(&new), count_changed(&old) };
	if (take == NULL)
		return 0;
	compare_settle(&old, &new);
	compare_settle(&new, &old);
	return put_hunks(&(struct hunks){ &old, &new, take, arg });
}
