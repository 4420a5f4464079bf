/* main.c - cloister-top: the program of `cloister top`. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NCURSES_WIDECHAR 1
#include <curses.h>

#include "base/args.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tell.h"
#include "base/text.h"
#include "proc/top/top.h"

void
top_safe_lines(char *ret_text, size_t max, const char *text, bool lines)
{
	OWN(freep) char *safe = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&safe, &size);

	ret_text[0] = '\0';
	if (out == NULL)
		return;
	text_print_safe(out, text, strnlen(text, max), lines);
	if (fclose(out) == 0)
		snprintf(ret_text, max, "%s", safe);
}

void
top_safe(char ret_text[TOP_TEXT], const char *text)
{
	top_safe_lines(ret_text, TOP_TEXT, text, false);
}

void
top_say(struct top *t, bool bad, const char *fmt, ...)
{
	char text[TOP_TEXT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	top_safe(t->said, text);
	t->said_bad = bad;
}

/* If the selection is gone, or there is none, selects the first row; waiting approvals come first. */
static void
settle(struct top *t)
{
	const struct top_cell *cell = top_find_cell(t, t->cell);

	if (cell == NULL && t->inside) {
		t->inside = false;
		top_say(t, false, "the cell has ended: `cloister events %s` shows its timeline", t->cell);
	}
	if (cell == NULL || (size_t)(cell - t->cells) >= t->n_shown)
		snprintf(t->cell, sizeof(t->cell), "%s", t->n_shown > 0 ? t->cells[0].entry.id : "");
	if (top_chosen_asked(t) == NULL) {
		/* The reason being typed was for the approval that is gone. */
		if (t->reason != NULL)
			top_say(t, true, "this request no longer waits");
		free(TAKE(t->reason));
		if (t->n_asked > 0 && t->approval[0] == '\0')
			t->pane = TOP_ASKED;
		snprintf(t->approval, sizeof(t->approval), "%s", t->n_asked > 0 ? t->asked[0].id : "");
		t->chosen_ms = io_now_ms();
	}
	if (t->n_asked == 0)
		t->pane = TOP_CELLS;
}

/* The time until the next look, or until a key applies to the selection. */
static unsigned
patience(const struct top *t, int64_t looked)
{
	int64_t now = io_now_ms(), end = looked + TOP_LOOK_MS, seen = t->chosen_ms + TOP_EYE_MS;

	if (t->n_asked > 0 && seen > now && seen < end)
		end = seen;
	return end > now ? (unsigned)(end - now) : 0;
}

static int
watch(struct top *t, struct err *err)
{
	int64_t looked = 0;
	int r = 0, key;

	while (!t->quit && r == 0) {
		int64_t now = io_now_ms();

		if (looked == 0 || now - looked >= TOP_LOOK_MS) {
			r = top_look(t, err);
			settle(t);
			looked = io_now_ms();
		}
		top_draw(t);
		key = top_key(patience(t, looked));
		if (key != ERR && key != KEY_RESIZE) {
			top_press(t, key);
			looked = 0;
		}
	}
	return r;
}

int
main(int argc, char **argv)
{
	struct top t = {0};
	struct err err = {0};
	struct args args;
	int r;

	if (!args_parse(argc, argv, &args))
		r = err_set(&err, EINVAL, "cloister-top is started by `cloister top`");
	else if (args.n_words > 0)
		r = err_set(&err, EINVAL, "'top' takes no argument: remove '%.64s'", args.words[0]);
	else
		r = top_screen_open(&t, &err);
	if (r == 0) {
		r = watch(&t, &err);
		top_screen_close();
	}
	top_forget(&t);
	return r < 0 ? tell_error(&err) : 0;
}
