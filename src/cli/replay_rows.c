/* replay_rows.c - prints what happened in rows: columns side by side if the terminal is wide, else one. */
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "cli/replay.h"

#define TIME_WIDTH 9
#define GAP 2                           /* between columns */

static const char *const marks[REPLAY_COLUMNS] = {
	[REPLAY_OUTPUT] = "| ", [REPLAY_PROCESSES] = "", [REPLAY_REQUESTS] = "> "
};

static unsigned
column_width(const struct replay_rows *rows)
{
	return (rows->width - TIME_WIDTH) / REPLAY_COLUMNS - GAP;
}

/* Prints TEXT, cut to WIDTH characters, and fills them with FILL.  Every character counts as one. */
static void
put_cut(FILE *out, const char *text, unsigned width, bool fill)
{
	size_t len = strlen(text), at = 0, end = 0, n;
	unsigned column = 0;
	uint32_t code;

	while (at < len && column < width) {
		n = utf8_next(text + at, len - at, &code);
		if (column + 3 == width)
			end = at;
		at += n > 0 ? n : 1;
		column++;
	}
	if (at < len && width > 3) {
		fwrite(text, 1, end, out);
		fputs("...", out);
	} else {
		fwrite(text, 1, at, out);
	}
	for (; fill && column < width; column++)
		fputc(' ', out);
}

void
replay_rows_head(struct replay_rows *rows)
{
	static const char *const titles[REPLAY_COLUMNS] = { "OUTPUT", "PROCESSES", "REQUESTS" };

	if (!rows->wide)
		return;
	fprintf(rows->out, "%-*s", TIME_WIDTH, "TIME");
	for (size_t i = 0; i < REPLAY_COLUMNS; i++)
		fprintf(rows->out, "%-*s", (int)(i + 1 < REPLAY_COLUMNS ? column_width(rows) + GAP : 0), titles[i]);
	fputc('\n', rows->out);
}

void
replay_rows_flush(struct replay_rows *rows)
{
	size_t last = 0;

	if (!rows->open)
		return;
	for (size_t i = 0; i < REPLAY_COLUMNS; i++)
		if (rows->cells[i][0] != '\0')
			last = i;
	fprintf(rows->out, "%s%-*s%s", rows->colour ? "\033[2m" : "", TIME_WIDTH, rows->time, rows->colour ? "\033[0m" : "");
	for (size_t i = 0; i <= last; i++) {
		put_cut(rows->out, rows->cells[i], column_width(rows), i < last);
		if (i < last)
			fprintf(rows->out, "%*s", GAP, "");
		rows->cells[i][0] = '\0';
	}
	fputc('\n', rows->out);
	fflush(rows->out);
	rows->open = false;
}

static void
make_safe(char *ret_text, const char *text)
{
	FILE *out = fmemopen(ret_text, REPLAY_CELL_MAX, "w");
	size_t len;

	ret_text[0] = '\0';
	if (out == NULL)
		return;
	setvbuf(out, NULL, _IONBF, 0);
	text_print_safe(out, text, strlen(text), false);
	(void)fclose(out);
	ret_text[REPLAY_CELL_MAX - 1] = '\0';
	/* Half a character at the end of a text that was cut. */
	for (len = strlen(ret_text); len >= REPLAY_CELL_MAX - 4 && (ret_text[len - 1] & 0x80) != 0; len--)
		ret_text[len - 1] = '\0';
}

void
replay_rows_put(struct replay_rows *rows, const char *time, enum replay_column column, const char *text)
{
	char safe[REPLAY_CELL_MAX];

	make_safe(safe, text);
	if (!rows->wide) {
		fprintf(rows->out, "%-*s%s", TIME_WIDTH, time, marks[column]);
		if (rows->width > 0)
			put_cut(rows->out, safe, rows->width > TIME_WIDTH + 2 ? rows->width - TIME_WIDTH - 2 : 1, false);
		else
			fputs(safe, rows->out);
		fputc('\n', rows->out);
		fflush(rows->out);
		return;
	}
	/* Within a row, columns are filled from left to right: it reads in the order of time. */
	for (size_t i = column; i < REPLAY_COLUMNS; i++)
		if (rows->open && rows->cells[i][0] != '\0')
			replay_rows_flush(rows);
	if (rows->open && strcmp(rows->time, time) != 0)
		replay_rows_flush(rows);
	snprintf(rows->time, sizeof(rows->time), "%s", time);
	memcpy(rows->cells[column], safe, sizeof(safe));
	rows->open = true;
}
