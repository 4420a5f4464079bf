/* text.c - see text.h. */
#include "base/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"

/* Longer words are not typos. */
#define WORD_MAX 48

void
text_print_safe(FILE *out, const char *s, size_t len, bool keep_lines)
{
	uint32_t code;
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = utf8_next(s + i, len - i, &code);
		if (n > 0 && (!utf8_is_control(code) ||
		              (keep_lines && (code == '\n' || code == '\t')))) {
			fwrite(s + i, 1, n, out);
			continue;
		}
		n = n > 0 ? n : 1;
		for (size_t j = 0; j < n; j++)
			fprintf(out, "\\x%02x", (unsigned char)s[i + j]);
	}
}

static size_t
min3(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Counts letters added, dropped, changed or swapped with their neighbour. */
static size_t
edit_distance(const char *a, size_t alen, const char *b, size_t blen)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *two_up = rows[0], *up = rows[1], *row = rows[2], *spare;

	for (size_t j = 0; j <= blen; j++)
		row[j] = j;
	for (size_t i = 1; i <= alen; i++) {
		spare = two_up, two_up = up, up = row, row = spare;
		row[0] = i;
		for (size_t j = 1; j <= blen; j++) {
			row[j] = min3(up[j] + 1, row[j - 1] + 1,
			              up[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    row[j] > two_up[j - 2] + 1)
				row[j] = two_up[j - 2] + 1;
		}
	}
	return row[blen];
}

const char *
text_nearest(const char *word, const char *const *names)
{
	const char *best = NULL, *name;
	size_t best_distance, distance, len, name_len;

	/* Ignore an option's dashes. */
	word += strspn(word, "-");
	len = strlen(word);
	if (len < 2 || len > WORD_MAX)
		return NULL;
	best_distance = (len + 2) / 3 + 1;
	for (; *names != NULL; names++) {
		name = *names + strspn(*names, "-");
		name_len = strlen(name);
		if (name_len > WORD_MAX)
			continue;
		distance = edit_distance(word, len, name, name_len);
		if (distance > 1 && strncmp(word, name, len) == 0)
			distance = 1;           /* an abbreviation */
		/* With two typos, at least the first letter must be right. */
		if (distance > 1 && word[0] != name[0])
			continue;
		if (distance < best_distance) {
			best_distance = distance;
			best = *names;
		}
	}
	return best;
}

bool
text_wants_colour(FILE *out)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return (no == NULL || *no == '\0') && term != NULL &&
	       strcmp(term, "dumb") != 0 && isatty(fileno(out));
}

const char *
text_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

bool
text_take(const char **at, const char *end, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(end - *at) < len || memcmp(*at, word, len) != 0)
		return false;
	*at += len;
	return true;
}
