/* api_changes.c - shows, applies and discards the changes of a cell.
 *
 * The commands `cloister diff`, `apply` and `discard` do the work, each in a process of its own, so that
 * what they check and what they hold back is the same for a browser.  Names and contents of the files
 * are an agent's; the commands make them safe to print. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/exe.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cell/cell_dirs.h"
#include "proc/serve/api.h"

#define OUTPUT_MAX (16u << 20)
#define NOTE_MAX (64u * 1024)
#define GONE_MS 500                     /* how soon a client is missed */
#define PATHS_MAX 1000
#define WORDS_MAX (PATHS_MAX + 8)

/* A command and what it printed. */
struct command {
	char *argv[WORDS_MAX];          /* borrowed */
	size_t n;
	struct buf output;
	bool cut;                       /* there was more of it */
	char *note;                     /* standard error, without "cloister: "; NULL: none */
	int status;
	const struct serve_request *shows;      /* it changes nothing, and is only for this request; NULL: it must end */
};

static void
command_free(struct command *cmd)
{
	buf_free(&cmd->output);
	free(cmd->note);
}

static void
add_word(struct command *cmd, const char *word)
{
	if (cmd->n + 1 < WORDS_MAX)
		cmd->argv[cmd->n++] = (char *)(uintptr_t)word;
}

/* What is over a maximum is read, and dropped: a command that writes must not be stopped by it. */
static void
read_some(int *fd, struct buf *to, size_t max, bool *ret_cut)
{
	char data[16 * 1024];
	ssize_t n = read(*fd, data, sizeof(data));

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		close(*fd);
		*fd = -1;
		return;
	}
	*ret_cut |= to->len + (size_t)n > max;
	if (!*ret_cut)
		buf_put(to, data, (size_t)n);
}

/* Until the command has closed both.  Nobody needs the output of a command that only shows something, once the client
 * has hung up: PID is ended. */
static void
read_all(struct command *cmd, int fds[2], struct buf *notes, pid_t pid)
{
	struct pollfd waits[2];
	bool cut = false;

	while (fds[0] >= 0 || fds[1] >= 0) {
		for (int i = 0; i < 2; i++)
			waits[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
		if (poll(waits, 2, GONE_MS) < 0 && errno != EINTR)
			return;
		if (cmd->shows != NULL && __atomic_load_n(&cmd->shows->is_leaving, __ATOMIC_RELAXED))
			(void)kill(pid, SIGTERM);
		if (waits[0].fd >= 0 && waits[0].revents != 0)
			read_some(&fds[0], &cmd->output, OUTPUT_MAX, &cmd->cut);
		if (waits[1].fd >= 0 && waits[1].revents != 0)
			read_some(&fds[1], notes, NOTE_MAX, &cut);
	}
}

/* The lines of TEXT without "cloister: "; the caller owns them.  NULL: there are none. */
static char *
make_note(const struct buf *text)
{
	static const char prefix[] = "cloister: ";
	OWN(freep) char *lines = text->len == 0 ? NULL : strndup((const char *)text->data, text->len);
	char *out = lines == NULL ? NULL : calloc(1, text->len + 1);
	size_t n = 0;

	for (char *rest = NULL, *line = out == NULL ? NULL : strtok_r(lines, "\n", &rest); line != NULL;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, prefix, sizeof(prefix) - 1) == 0)
			line += sizeof(prefix) - 1;
		n += (size_t)snprintf(out + n, text->len + 1 - n, "%s%s", n > 0 ? "\n" : "", line);
	}
	return out;
}

static int
run(struct command *cmd, struct err *err)
{
	OWN(buf_free) struct buf notes = BUF(NOTE_MAX);
	int out[2] = { -1, -1 }, error[2] = { -1, -1 }, ours[2];
	char path[PATH_MAX];
	pid_t pid = exe_find_cloister(path, err);

	if (pid < 0)
		return pid;
	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(error, O_CLOEXEC) < 0)
		pid = err_errno(err, "cannot start a command");
	buf_init(&cmd->output, OUTPUT_MAX);
	if (pid == 0)
		pid = spawn_start(&(struct spawn){ .argv = cmd->argv, .path = path, .cwd = "/", .n_fds = 3,
			.fds = (struct spawn_fd[]){ { SPAWN_NULL, STDIN_FILENO }, { out[1], STDOUT_FILENO },
			{ error[1], STDERR_FILENO } }, .flags = SPAWN_APART }, NULL, err);
	closep(&out[1]);
	closep(&error[1]);
	ours[0] = out[0];
	ours[1] = error[0];
	if (pid > 0)
		read_all(cmd, ours, &notes, pid);
	closep(&ours[0]);
	closep(&ours[1]);
	if (pid < 0)
		return pid;
	cmd->status = spawn_await(pid, err);
	cmd->note = make_note(&notes);
	return cmd->status < 0 ? cmd->status : 0;
}

/* ---- for all of them ---- */

/* The cell's id, which is in C->id then: a command must not take its name for an option. */
static int
find_cell(struct api_call *c)
{
	struct cell_entry entry;
	OWN(closep) int dir = api_open_state(c->params.at[0], true, &entry, &c->err);

	if (dir < 0)
		return api_fail(c);
	snprintf(c->id, sizeof(c->id), "%s", entry.id);
	return 0;
}

static void
begin(struct command *cmd, const char *verb, const char *option, const char *id)
{
	add_word(cmd, "cloister");
	add_word(cmd, verb);
	if (option != NULL)
		add_word(cmd, option);
	add_word(cmd, "--");
	add_word(cmd, id);
}

static int
fail_with_note(struct api_call *c, const struct command *cmd)
{
	return api_fail_with(c, 409, "refused", "%s", cmd->note != NULL ? cmd->note :
	                     "the command failed, and gave no reason");
}

int
api_changes_list(struct api_call *c)
{
	OWN(command_free) struct command cmd = {0};
	json_t *list;

	if (find_cell(c) < 0)
		return -EINVAL;
	begin(&cmd, "diff", "--json", c->id);
	cmd.shows = c->q;
	if (run(&cmd, &c->err) < 0)
		return api_fail(c);
	if (cmd.cut)
		return api_fail_with(c, 413, "too_large", "there are too many changes for a browser: use "
		                     "`cloister diff %s`", c->id);
	/* With the list, a failure only says that the list is incomplete. */
	list = json_loadb((const char *)cmd.output.data, cmd.output.len, 0, NULL);
	if (!json_is_array(list)) {
		json_decref(list);
		return fail_with_note(c, &cmd);
	}
	c->answer = json_pack("{s:s, s:o, s:s?}", "cell", c->id, "changes", list, "note", cmd.note);
	return 0;
}

int
api_changes_diff(struct api_call *c)
{
	OWN(command_free) struct command cmd = {0};
	const char *path = api_query(c, "path");
	json_t *text;

	if (find_cell(c) < 0)
		return -EINVAL;
	begin(&cmd, "diff", NULL, c->id);
	cmd.shows = c->q;
	if (path != NULL)
		add_word(&cmd, path);
	if (run(&cmd, &c->err) < 0)
		return api_fail(c);
	if (cmd.status != 0 && cmd.output.len == 0)
		return fail_with_note(c, &cmd);
	text = json_stringn(cmd.output.len > 0 ? (const char *)cmd.output.data : "", cmd.output.len);
	if (text == NULL)
		return api_fail_with(c, 500, "internal", "the difference is no text");
	c->answer = json_pack("{s:s, s:o, s:b, s:s?}", "cell", c->id, "text", text, "cut", (int)cmd.cut,
	                      "note", cmd.note);
	return 0;
}

struct counts {
	json_int_t applied, held, conflicts;
};

/* Each line names a file; "!" begins that of one that was left alone, and its end is the reason. */
static void
count_lines(const struct buf *output, struct counts *ret_counts)
{
	static const char held[] = "(held back)";
	const char *line = (const char *)output->data, *end = line + output->len, *newline;

	for (; line < end; line = newline + 1) {
		size_t len;

		newline = memchr(line, '\n', (size_t)(end - line));
		if (newline == NULL)
			newline = end;
		len = (size_t)(newline - line);
		if (line[0] != '!')
			ret_counts->applied++;
		else if (len >= sizeof(held) - 1 && memcmp(newline - sizeof(held) + 1, held, sizeof(held) - 1) == 0)
			ret_counts->held++;
		else
			ret_counts->conflicts++;
	}
}

static int
add_paths(struct api_call *c, struct command *cmd)
{
	const json_t *paths = api_body_get(c, "paths"), *path;
	size_t i;

	if (json_array_size(paths) > PATHS_MAX)
		return api_body_wrong(c, "paths", api_fail_with(c, 400, "invalid", "'paths' has at most %d "
		                      "members", PATHS_MAX));
	json_array_foreach (paths, i, path)
		add_word(cmd, json_string_value(path));
	return 0;
}

int
api_changes_apply(struct api_call *c)
{
	static const struct api_member members[] = { { "paths", API_TEXTS, false },
		{ "force", API_TRUTH, false }, {0} };
	OWN(command_free) struct command cmd = {0};
	struct counts counts = {0};
	json_t *text;
	char n[24];

	if (c->body != NULL && api_body_check(c, members) < 0)
		return -EINVAL;
	if (find_cell(c) < 0)
		return -EINVAL;
	begin(&cmd, "apply", json_is_true(api_body_get(c, "force")) ? "--force" : NULL, c->id);
	if (add_paths(c, &cmd) < 0)
		return -EINVAL;
	snprintf(n, sizeof(n), "%zu", json_array_size(api_body_get(c, "paths")));
	/* The command records what it did, and this who asked for it. */
	if (api_note_first(c, "changes.apply", (const char *const[][2]){ { "cell", c->id }, { "paths", n } },
	                   2) < 0 || run(&cmd, &c->err) < 0)
		return api_fail(c);
	count_lines(&cmd.output, &counts);
	if (cmd.status != 0 && counts.applied + counts.held + counts.conflicts == 0)
		return fail_with_note(c, &cmd);
	text = json_stringn(cmd.output.len > 0 ? (const char *)cmd.output.data : "", cmd.output.len);
	c->answer = json_pack("{s:s, s:I, s:I, s:I, s:b, s:o?, s:s?}", "cell", c->id, "applied",
	                      counts.applied, "held", counts.held, "conflicts", counts.conflicts, "complete", cmd.status == 0, "text", text, "note", cmd.note);
	return 0;
}

int
api_changes_discard(struct api_call *c)
{
	OWN(command_free) struct command cmd = {0};

	if (find_cell(c) < 0)
		return -EINVAL;
	begin(&cmd, "discard", NULL, c->id);
	if (api_note_first(c, "changes.discard", (const char *const[][2]){ { "cell", c->id } }, 1) < 0 ||
	    run(&cmd, &c->err) < 0)
		return api_fail(c);
	if (cmd.status != 0)
		return fail_with_note(c, &cmd);
	c->answer = json_pack("{s:s}", "cell", c->id);
	return 0;
}
