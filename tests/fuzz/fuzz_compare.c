/* fuzz_compare.c - two texts: whoever has the old one and the hunks has the new one, and the hunks count
 * what was counted.  A change of one side, or the same of both, merges without a conflict. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "fuzz.h"
#include "workspace/compare.h"
#include "workspace/compare_merge.h"

#define TEXT_MAX (1 << 22)

static int
gather(void *arg, const char *data, size_t len)
{
	buf_put(arg, data, len);
	return 0;
}

/* The line at *P without its sign and, if the next says so, without its end; *P is behind both. */
static struct compare_text
take_line(const char **p, const char *end)
{
	const char *line = *p + 1, *nl = memchr(line, '\n', (size_t)(end - line));
	struct compare_text text;

	assert(nl != NULL);
	text = (struct compare_text){ line, (size_t)(nl + 1 - line) };
	*p = nl + 1;
	if (*p < end && **p == '\\') {
		text.len--;
		*p = memchr(*p, '\n', (size_t)(end - *p));
		assert(*p != NULL);
		(*p)++;
	}
	return text;
}

/* As patch(1) does it: contexts must be there. */
static void
apply(struct compare_text old, const struct buf *hunks, struct buf *new, struct compare_count *seen)
{
	const char *p = hunks->len == 0 ? "" : (const char *)hunks->data, *end = p + hunks->len, *from = old.at;
	const char *old_end = old.at + old.len;
	size_t line = 0;

	while (p < end) {
		unsigned start, n = 1;

		if (*p == '@') {
			char head[64] = "";

			memcpy(head, p, (size_t)(end - p) < sizeof(head) ? (size_t)(end - p) : sizeof(head) - 1);
			assert(sscanf(head, "@@ -%u,%u", &start, &n) >= 1);
			for (; line + (n > 0) < start; line++) {
				const char *nl = memchr(from, '\n', (size_t)(old_end - from));

				assert(nl != NULL);
				buf_put(new, from, (size_t)(nl + 1 - from));
				from = nl + 1;
			}
			p = memchr(p, '\n', (size_t)(end - p));
			assert(p != NULL);
			p++;
			continue;
		}
		const char sign = *p;
		struct compare_text text = take_line(&p, end);

		assert(sign == ' ' || sign == '+' || sign == '-');
		if (sign != '+') {
			assert(text.len <= (size_t)(old_end - from) && memcmp(from, text.at, text.len) == 0);
			from += text.len;
			line++;
		}
		if (sign != '-')
			buf_put(new, text.at, text.len);
		seen->added += sign == '+';
		seen->removed += sign == '-';
	}
	buf_put(new, from, (size_t)(old_end - from));
}

static bool
is_same(const struct buf *made, struct compare_text text)
{
	return !buf_failed(made) && made->len == text.len && (text.len == 0 || memcmp(made->data, text.at, text.len) == 0);
}

static void
merge(struct compare_text old, struct compare_text new)
{
	const struct compare_merge cases[] = {
		{ .base = old, .ours = old, .theirs = new }, { .base = old, .ours = new, .theirs = old },
		{ .base = old, .ours = new, .theirs = new },
	};
	uint64_t conflicts, common;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(buf_free) struct buf made = {0};

		buf_init(&made, TEXT_MAX);
		assert(compare_merge(&cases[i], gather, &made, &conflicts) == 0 && conflicts == 0);
		assert(is_same(&made, new));
	}
	assert(compare_likeness(old, new, &common) == 0 && common <= old.len && common <= new.len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(buf_free) struct buf hunks = {0}, made = {0};
	struct compare_count count, counted, seen = {0};
	struct compare_text old, new;
	const char *text = (const char *)data, *middle = size == 0 ? NULL : memchr(text, '\0', size);

	if (middle == NULL)
		return 0;
	old = (struct compare_text){ text, (size_t)(middle - text) };
	new = (struct compare_text){ middle + 1, size - old.len - 1 };
	buf_init(&hunks, TEXT_MAX);
	buf_init(&made, TEXT_MAX);
	assert(compare_texts(old, new, gather, &hunks, &count) == 0);
	assert(compare_texts(old, new, NULL, NULL, &counted) == 0);
	apply(old, &hunks, &made, &seen);
	assert(!buf_failed(&hunks) && !buf_failed(&made));
	assert(is_same(&made, new));
	merge(old, new);
	assert(seen.added == count.added && seen.removed == count.removed);
	assert(counted.added == count.added && counted.removed == count.removed);
	return 0;
}
