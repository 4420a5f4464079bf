/* diff_stat.c - `cloister diff --stat`: prints how much of each file changed. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "cli/changes.h"

#define COLUMNS 80              /* without a terminal */
#define NAME_MAX_COLUMNS 60     /* longer names overflow the column */
#define BAR_MIN 10

struct diff_stat_row {
	char *name;                     /* safe to print */
	size_t width;
	struct diff_count n;
	uint64_t old_size, new_size;
	bool has_lines;
	char note[80];                  /* "" or a remark */
};

void
diff_stat_free(struct diff_stat *stat)
{
	for (size_t i = 0; i < stat->n; i++)
		free(stat->rows[i].name);
	free(stat->rows);
	*stat = (struct diff_stat){0};
}

/* ---- one file ------------------------------------------------------------------- */

static char *
make_name(const struct changes_part *part, const struct workspace_change *change)
{
	char *name = NULL;
	size_t len;
	FILE *out = open_memstream(&name, &len);

	if (out == NULL)
		return NULL;
	if (change->from != NULL) {
		changes_print_path(out, part, change->from);
		fputs(" => ", out);
	}
	changes_print_path(out, part, change->path);
	if (S_ISDIR(change->type))
		fputc('/', out);
	if (fclose(out) == 0)
		return name;
	free(name);
	return NULL;
}

static size_t
count_columns(const char *s)
{
	size_t columns = 0, n;
	uint32_t code;

	for (size_t len = strlen(s); len > 0; s += n, len -= n, columns++) {
		n = utf8_next(s, len, &code);
		if (n == 0)
			n = 1;
	}
	return columns;
}

static void
add_note(struct diff_stat_row *row, const char *note)
{
	size_t len = strlen(row->note);

	snprintf(row->note + len, sizeof(row->note) - len, "%s%s", len > 0 ? ", " : "", note);
}

static void
note_kind(struct diff_stat_row *row, const struct workspace_change *change)
{
	static const char *const kinds[] = { "added", "changed", "deleted" };
	char text[48];

	if (S_ISLNK(change->mode) || S_ISLNK(change->old_mode) || S_ISDIR(change->type)) {
		snprintf(text, sizeof(text), "%s %s", S_ISDIR(change->type) ? "folder" : "link",
		         kinds[change->kind]);
		add_note(row, text);
	}
	if (change->kind == WORKSPACE_MODIFIED && change->old_mode != change->mode) {
		snprintf(text, sizeof(text), "mode %04o -> %04o", change->old_mode & 07777u,
		         change->mode & 07777u);
		add_note(row, text);
	}
	if (change->held)
		add_note(row, "held back");
	if (change->newer)
		add_note(row, "changed here too");
}

static uint64_t
size_of(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int
count_file(struct diff_stat_row *row, struct diff_reader *reader, const struct changes_part *part,
           const struct workspace_change *change, bool *ret_hidden, struct err *err)
{
	OWN(diff_files_close) struct diff_files files = { -1, -1, DIFF_HERE_NOT, 0 };
	int r = diff_open(reader, part, change, &files, err), why = files.why;

	if (r < 0)
		return r;
	if (why == 0) {
		row->old_size = size_of(files.old);
		row->new_size = size_of(files.new);
		r = diff_count_text(reader, files.old, files.new, &row->n, err);
		row->has_lines = r == 0;
		if (r != -E2BIG)
			return r;
		why = EFBIG;
	}
	*ret_hidden = true;
	add_note(row, "not compared");
	add_note(row, strerrordesc_np(why));
	return 0;
}

static int
grow(struct diff_stat *stat, struct err *err)
{
	size_t cap = stat->cap == 0 ? 64 : stat->cap * 2;
	struct diff_stat_row *more;

	if (stat->n < stat->cap)
		return 0;
	more = reallocarray(stat->rows, cap, sizeof(*more));
	if (more == NULL)
		return err_errno(err, "cannot show a change");
	stat->rows = more;
	stat->cap = cap;
	return 0;
}

int
diff_stat_add(struct diff_stat *stat, struct diff_reader *reader, const struct changes_part *part,
              const struct workspace_change *change, bool more, struct err *err)
{
	struct diff_stat_row row = {0};
	bool hidden = false;
	int r = 0;

	/* A folder is represented by its contents. */
	if (S_ISDIR(change->type) && change->kind != WORKSPACE_MODIFIED && more)
		return 0;
	if ((S_ISREG(change->mode) || S_ISREG(change->old_mode)) && !change->mode_only)
		r = count_file(&row, reader, part, change, &hidden, err);
	note_kind(&row, change);
	if (r == 0)
		r = grow(stat, err);
	if (r < 0)
		return r;
	row.name = make_name(part, change);
	if (row.name == NULL)
		return err_errno(err, "cannot show a change");
	row.width = count_columns(row.name);
	stat->rows[stat->n++] = row;
	stat->hidden += hidden;
	return 0;
}

/* ---- all of them ---------------------------------------------------------------- */

struct layout {
	size_t name, number, bar;
	uint64_t most;                  /* lines of a file */
	bool colour;
};

static size_t
count_digits(uint64_t n)
{
	size_t digits = 1;

	for (; n >= 10; n /= 10)
		digits++;
	return digits;
}

static struct layout
lay_out(const struct diff_stat *stat, bool colour)
{
	struct layout l = { .colour = colour };
	struct winsize size = {0};
	size_t columns, taken;

	for (size_t i = 0; i < stat->n; i++) {
		const struct diff_stat_row *row = &stat->rows[i];
		uint64_t lines = row->n.added + row->n.removed;

		l.most = lines > l.most ? lines : l.most;
		l.name = row->width > l.name ? row->width : l.name;
	}
	l.name = l.name > NAME_MAX_COLUMNS ? NAME_MAX_COLUMNS : l.name;
	l.number = count_digits(l.most);
	columns = ioctl(fileno(stdout), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS;
	taken = l.name + l.number + strlen("  |  ");
	l.bar = columns > taken + BAR_MIN ? columns - taken : BAR_MIN;
	return l;
}

static void
print_bar(const struct layout *l, uint64_t lines, char sign, const char *start)
{
	/* Every number but 0 gets at least one sign. */
	uint64_t n = lines == 0 || l->most <= l->bar ? lines :
	             1 + (uint64_t)((double)lines * (double)(l->bar - 2) / (double)l->most);

	if (l->colour && n > 0)
		fputs(start, stdout);
	for (; n > 0; n--)
		putchar(sign);
	if (l->colour && lines > 0)
		fputs("\033[m", stdout);
}

static void
print_row(const struct layout *l, const struct diff_stat_row *row)
{
	printf(" %s%*s |", row->name, row->width < l->name ? (int)(l->name - row->width) : 0, "");
	if (row->has_lines && row->n.binary) {
		printf(" %*s %" PRIu64 " -> %" PRIu64 " bytes", (int)l->number, "Bin", row->old_size,
		       row->new_size);
	} else if (row->has_lines) {
		printf(" %*" PRIu64 "%s", (int)l->number, row->n.added + row->n.removed,
		       row->n.added + row->n.removed > 0 ? " " : "");
		print_bar(l, row->n.added, '+', "\033[32m");
		print_bar(l, row->n.removed, '-', "\033[31m");
	}
	if (row->note[0] != '\0')
		printf(" (%s)", row->note);
	putchar('\n');
}

void
diff_stat_print(const struct diff_stat *stat, bool colour)
{
	const struct layout l = lay_out(stat, colour);
	uint64_t added = 0, removed = 0;

	for (size_t i = 0; i < stat->n; i++) {
		print_row(&l, &stat->rows[i]);
		added += stat->rows[i].n.added;
		removed += stat->rows[i].n.removed;
	}
	if (stat->n > 0)
		printf(" %zu file%s changed, %" PRIu64 " insertion%s(+), %" PRIu64 " deletion%s(-)\n", stat->n,
		       stat->n == 1 ? "" : "s", added, added == 1 ? "" : "s", removed, removed == 1 ? "" : "s");
}
