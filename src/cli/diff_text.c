/* diff_text.c - prints a unified diff of files that an agent wrote. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/changes.h"
#include "cli/cli.h"
#include "ipc/compare_channel.h"

/* ---- lines ---- */

struct printer {
	const char *old_label, *new_label;
	bool colour, begun;
	struct buf line;                /* the start of an incomplete line */
};

static void
print_line(const struct printer *p, const char *line, size_t len)
{
	const char *start = "";

	if (p->colour && len > 0)
		start = line[0] == '+' ? "\033[32m" : line[0] == '-' ? "\033[31m" :
		        line[0] == '@' ? "\033[36m" : "";
	fputs(start, stdout);
	text_print_safe(stdout, line, len, true);
	if (*start != '\0')
		fputs("\033[m", stdout);
	putchar('\n');
}

static void
print_label(const struct printer *p, const char *sign, const char *label)
{
	char line[16];

	snprintf(line, sizeof(line), "%s ", sign);
	if (p->colour)
		fputs(sign[0] == '+' ? "\033[32m" : "\033[31m", stdout);
	fputs(line, stdout);
	text_print_safe(stdout, label, strlen(label), true);
	fputs(p->colour ? "\033[m\n" : "\n", stdout);
}

/* A line may come in several messages, and a message may have several lines. */
static int
print_text(void *arg, const char *data, size_t len)
{
	struct printer *p = arg;

	if (len > 0 && !p->begun) {
		print_label(p, "---", p->old_label);
		print_label(p, "+++", p->new_label);
		p->begun = true;
	}
	while (len > 0) {
		const char *end = memchr(data, '\n', len);
		size_t n = end == NULL ? len : (size_t)(end - data);

		if (end == NULL || p->line.len > 0)
			buf_put(&p->line, data, n);
		if (buf_failed(&p->line))
			return -E2BIG;
		if (end != NULL && p->line.len > 0)
			print_line(p, (const char *)p->line.data, p->line.len);
		else if (end != NULL)
			print_line(p, data, n);
		if (end != NULL)
			buf_reset(&p->line);
		n += end != NULL;
		data += n;
		len -= n;
	}
	return 0;
}

void
diff_print_lines(const char *data, size_t len, bool colour)
{
	struct printer p = { .colour = colour, .begun = true };

	buf_init(&p.line, DIFF_LINE_MAX);
	(void)print_text(&p, data, len);
	buf_free(&p.line);
}

static int
compare(struct diff_reader *reader, int old, int new, struct printer *p, struct diff_count *ret_count,
        struct err *err)
{
	OWN(buf_free) struct buf body;
	struct diff_question q = { .body = &body, .take = p == NULL ? NULL : print_text, .arg = p };
	struct diff_answer answer;
	int r;

	ipc_begin(&body, COMPARE_ASK);
	buf_put_u32(&body, (old >= 0 ? COMPARE_OLD : 0u) | (new >= 0 ? COMPARE_NEW : 0u) |
	            (p != NULL ? COMPARE_HUNKS : 0u));
	if (old >= 0)
		q.fds[q.n_fds++] = old;
	if (new >= 0)
		q.fds[q.n_fds++] = new;
	r = diff_ask(reader, &q, &answer, err);
	if (r == 0)
		*ret_count = (struct diff_count){ answer.one, answer.two, answer.binary };
	return r;
}

int
diff_print_text(struct diff_reader *reader, int old, int new, const char *old_label, const char *new_label,
                bool colour, struct err *err)
{
	struct printer p = { .old_label = old_label, .new_label = new_label, .colour = colour };
	struct diff_count count;
	int r;

	buf_init(&p.line, DIFF_LINE_MAX);
	r = compare(reader, old, new, &p, &count, err);
	/* Half a line is all that is left from a process that was killed. */
	if (p.line.len > 0 && !buf_failed(&p.line))
		print_line(&p, (const char *)p.line.data, p.line.len);
	buf_free(&p.line);
	if (r == 0 && count.binary) {
		fputs("Binary files ", stdout);
		text_print_safe(stdout, old_label, strlen(old_label), true);
		fputs(" and ", stdout);
		text_print_safe(stdout, new_label, strlen(new_label), true);
		fputs(" differ\n", stdout);
	}
	return r;
}

int
diff_count_text(struct diff_reader *reader, int old, int new, struct diff_count *ret_count, struct err *err)
{
	return compare(reader, old, new, NULL, ret_count, err);
}
