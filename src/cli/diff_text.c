/* diff_text.c - prints a unified diff of files that an agent wrote.
 *
 * cloister-compare reads them: one process for all files, started with the first.  Its output is
 * not trusted to be more than text. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "cli/changes.h"
#include "cli/cli.h"
#include "ipc/compare_channel.h"

void
diff_reader_close(struct diff_reader *reader)
{
	if (reader->pid <= 0)
		return;
	close(reader->channel);
	while (waitpid(reader->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*reader = (struct diff_reader){0};
}

static int
reader_start(struct diff_reader *reader, struct err *err)
{
	OWN(closep) int theirs = -1;
	int ends[2];

	if (reader->pid > 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot create a socket");
	theirs = ends[1];
	reader->pid = spawn_start(&(struct spawn){ .argv = (char *[]){ (char[]){ "cloister-compare" }, NULL },
		.fds = &(struct spawn_fd){ theirs, COMPARE_FD }, .n_fds = 1, .flags = SPAWN_APART }, NULL, err);
	if (reader->pid < 0) {
		close(ends[0]);
		return reader->pid;
	}
	reader->channel = ends[0];
	return 0;
}

static int
ask(struct diff_reader *reader, int old, int new, bool hunks, struct err *err)
{
	OWN(buf_free) struct buf body;
	int fds[2];
	size_t n = 0;

	ipc_begin(&body, COMPARE_ASK);
	buf_put_u32(&body, (old >= 0 ? COMPARE_OLD : 0u) | (new >= 0 ? COMPARE_NEW : 0u) |
	            (hunks ? COMPARE_HUNKS : 0u));
	if (old >= 0)
		fds[n++] = old;
	if (new >= 0)
		fds[n++] = new;
	return ipc_send(reader->channel, &body, fds, n, err);
}

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
print_text(struct printer *p, const char *data, size_t len)
{
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

/* ---- the answer ---- */

/* 1: that was the last message. */
static int
take_message(struct printer *p, struct ipc_message *message, struct diff_count *ret_count)
{
	struct diff_count count = {0};
	uint32_t failed, binary;
	int r;

	if (message->type != COMPARE_TEXT && message->type != COMPARE_DONE)
		return -EBADMSG;
	if (message->type == COMPARE_DONE &&
	    (buf_get_u32(&message->body, &failed) < 0 || buf_get_u32(&message->body, &binary) < 0 ||
	     buf_get_u64(&message->body, &count.added) < 0 || buf_get_u64(&message->body, &count.removed) < 0))
		return -EBADMSG;
	r = p == NULL ? 0 : print_text(p, (const char *)message->body.data + message->body.pos,
	                               buf_left(&message->body));
	if (r < 0 || message->type == COMPARE_TEXT)
		return r;
	if (failed != 0)
		return -E2BIG;
	count.binary = binary != 0;
	*ret_count = count;
	return 1;
}

/* A process that crashed on a file, or sends nonsense, is replaced for the next file. */
static int
await_answer(struct diff_reader *reader, struct printer *p, struct diff_count *ret_count, struct err *err)
{
	int r = 0, status;

	while (r == 0) {
		OWN(ipc_message_free) struct ipc_message message = {0};

		r = ipc_receive(reader->channel, &message, NULL);
		r = r == 0 ? take_message(p, &message, ret_count) : r;
		reader->answered = reader->answered || r >= 0;
	}
	if (r == 1)
		return 0;
	if (r == -E2BIG)
		return err_set(err, E2BIG, "it could not be compared");
	close(reader->channel);
	while (waitpid(reader->pid, &status, 0) < 0 && errno == EINTR)
		;
	reader->pid = 0;
	/* It prints the reason itself. */
	return reader->answered || WIFSIGNALED(status) ? err_set(err, E2BIG, "it could not be compared") :
	       err_set(err, EPERM, "files cannot be compared safely on this machine: use --name-status");
}

static int
compare(struct diff_reader *reader, int old, int new, struct printer *p, struct diff_count *ret_count,
        struct err *err)
{
	int r = reader_start(reader, err);

	r = r == 0 ? ask(reader, old, new, p != NULL, err) : r;
	return r == 0 || r == -EPIPE ? await_answer(reader, p, ret_count, err) : r;
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
