/* lines.c - see lines.h. */
#include "base/lines.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

struct line {
	const char *at;
	size_t len;                     /* without its newline */
};

static struct line *
split(const char *text, size_t len, size_t *ret_n)
{
	struct line *lines;
	size_t n = 1;

	for (size_t i = 0; i < len && n < LINES_MAX; i++)
		n += text[i] == '\n';
	lines = calloc(n, sizeof(*lines));
	*ret_n = 0;
	for (size_t at = 0; lines != NULL && at < len;) {
		const char *end = *ret_n == LINES_MAX - 1 ? NULL : memchr(text + at, '\n', len - at);
		size_t size = end != NULL ? (size_t)(end - text) - at : len - at;

		lines[(*ret_n)++] = (struct line){ text + at, size };
		at += size + 1;
	}
	return lines;
}

static bool
same(const struct line *a, const struct line *b)
{
	return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

static void
put_line(struct buf *b, char sign, const struct line *line)
{
	buf_put(b, &sign, 1);
	buf_put(b, line->at, line->len);
	buf_put(b, "\n", 1);
}

struct diff {
	struct buf *out;
	const struct line *a, *b;
	size_t n_a, n_b;
	size_t told;                    /* lines of B before this are printed or skipped */
	bool begun;
};

/* Print common lines up to B's TO: the last ones before a difference, or the first ones after it. */
static void
put_common(struct diff *d, size_t to, bool more)
{
	size_t from = d->told, end = to;
	char mark[32];

	if (d->begun && to - from > LINES_CONTEXT * (more ? 2 : 1))
		end = from + LINES_CONTEXT;
	for (size_t i = from; d->begun && i < end; i++)
		put_line(d->out, ' ', &d->b[i]);
	if (more && (!d->begun || end < to)) {
		from = to > LINES_CONTEXT ? to - LINES_CONTEXT : 0;
		from = from < d->told ? d->told : from;
		snprintf(mark, sizeof(mark), "@@ %zu\n", from + 1);
		buf_put_text(d->out, mark);
		for (size_t i = from; i < to; i++)
			put_line(d->out, ' ', &d->b[i]);
	}
	d->begun |= more;
	d->told = to;
}

/* Print that lines A0 to A1 of A became B0 to B1 of B. */
static void
put_change(struct diff *d, size_t a0, size_t a1, size_t b0, size_t b1)
{
	if (a0 == a1 && b0 == b1)
		return;
	put_common(d, b0, true);
	for (size_t i = a0; i < a1; i++)
		put_line(d->out, '-', &d->a[i]);
	for (size_t i = b0; i < b1; i++)
		put_line(d->out, '+', &d->b[i]);
	d->told = b1;
}

/* Longest common subsequence between A0, B0 and A1, B1, computed from the end: LEFT[i][j] is its
 * length behind the first i and j lines. */
static void
put_between(struct diff *d, size_t a0, size_t a1, size_t b0, size_t b1)
{
	size_t n = a1 - a0, m = b1 - b0, w = m + 1, i = 0, j = 0;
	OWN(freep) uint16_t *left = NULL;

	if (n < UINT16_MAX && m < UINT16_MAX && (n + 1) * w <= LINES_EXACT)
		left = calloc((n + 1) * w, sizeof(*left));
	if (left == NULL) {
		put_change(d, a0, a1, b0, b1);
		return;
	}
	for (size_t x = n; x-- > 0;)
		for (size_t y = m; y-- > 0;)
			left[x * w + y] = same(&d->a[a0 + x], &d->b[b0 + y]) ? left[(x + 1) * w + y + 1] + 1 :
			                  left[(x + 1) * w + y] > left[x * w + y + 1] ? left[(x + 1) * w + y] :
			                                                                left[x * w + y + 1];
	while (i < n || j < m) {
		size_t i0 = i, j0 = j;

		while ((i < n || j < m) &&
		       !(i < n && j < m && same(&d->a[a0 + i], &d->b[b0 + j]))) {
			if (j == m || (i < n && left[(i + 1) * w + j] >= left[i * w + j + 1]))
				i++;
			else
				j++;
		}
		put_change(d, a0 + i0, a0 + i, b0 + j0, b0 + j);
		while (i < n && j < m && same(&d->a[a0 + i], &d->b[b0 + j])) {
			i++;
			j++;
		}
	}
}

void
lines_diff(struct buf *b, const char *old, size_t n_old, const char *new, size_t n_new)
{
	struct diff d = { .out = b };
	OWN(freep) struct line *before = split(old, n_old, &d.n_a);
	OWN(freep) struct line *after = split(new, n_new, &d.n_b);
	size_t front = 0, back = 0;

	if (before == NULL || after == NULL) {
		b->failed = true;
		return;
	}
	d.a = before;
	d.b = after;
	while (front < d.n_a && front < d.n_b && same(&d.a[front], &d.b[front]))
		front++;
	while (back < d.n_a - front && back < d.n_b - front &&
	       same(&d.a[d.n_a - 1 - back], &d.b[d.n_b - 1 - back]))
		back++;
	put_between(&d, front, d.n_a - back, front, d.n_b - back);
	if (d.begun)
		put_common(&d, d.n_b, false);
}
