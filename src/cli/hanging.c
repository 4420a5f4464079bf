/* hanging.c - see hanging.h. */
#include "cli/hanging.h"

#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>

#define ROOM_MIN 20                     /* less than that is no column for a text */

size_t
hanging_width(FILE *out)
{
	struct winsize size;

	return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* The bytes of one character, or of one sequence for a colour; how many columns it takes. */
static size_t
next(const char *at, size_t *ret_columns)
{
	size_t n = 1;

	*ret_columns = *at != '\033';
	if (*at == '\033')
		return strcspn(at, "m") + (strchr(at, 'm') != NULL);
	while (((unsigned char)at[n] & 0xc0) == 0x80)
		n++;
	return n;
}

/* The bytes of TEXT that fit in ROOM columns.  RET_WORDS: those of whole words; 0: the first word does not fit. */
static size_t
fit(const char *text, size_t room, size_t *ret_words)
{
	size_t at = 0, used = 0, n, columns;

	*ret_words = 0;
	while (text[at] != '\0') {
		n = next(text + at, &columns);
		if (used + columns > room && text[at] != ' ')
			return at;
		if (text[at] == ' ')
			*ret_words = at;
		if (used + columns > room)
			return at;
		used += columns;
		at += n;
	}
	*ret_words = at;
	return at;
}

/* Whether the first word of TEXT fits a line of its own. */
static bool
fits(const char *text, size_t room)
{
	size_t words;

	(void)fit(text, room, &words);
	return words > 0;
}

void
hanging_print(FILE *out, const char *text, size_t indent, size_t width)
{
	const size_t room = width > indent ? width - indent : 0;

	while (room >= ROOM_MIN) {
		size_t words, n = fit(text, room, &words);

		/* A word that is too long for any line may as well begin on this one. */
		if (words > 0 && (text[n] == '\0' || fits(text + words + strspn(text + words, " "), room)))
			n = words;
		fwrite(text, 1, n, out);
		text += n + strspn(text + n, " ");
		if (*text == '\0')
			break;
		fprintf(out, "\n%*s", (int)indent, "");
	}
	fprintf(out, "%s\n", text);
}
