/* logs.c - `cloister logs`: prints the output of a detached cell. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/timeline.h"

const struct cli_option cli_logs_options[] = {
	{ "follow", 'f', NULL, "continue until the cell ends", CLI_BOOL },
	{0}
};

/* Prints the rest of FD.  On a terminal the agent's bytes are made harmless. */
static int
print_rest_to(FILE *out, int fd, struct err *err)
{
	char data[65536];
	ssize_t n;

	while ((n = read(fd, data, sizeof(data))) > 0) {
		if (isatty(fileno(out))) {
			text_print_safe(out, data, (size_t)n, true);
			fflush(out);
		} else if (write_all(fileno(out), data, (size_t)n, err) < 0) {
			return -EPIPE;
		}
	}
	return n < 0 ? err_errno(err, "cannot read the log") : 0;
}

static int
print_rest(int fd, struct err *err)
{
	return print_rest_to(stdout, fd, err);
}

/* Waits for a change to the log; a second at most, because the lock that shows the cell's end
 * causes no event. */
static void
await_change(int notify)
{
	struct pollfd p = { .fd = notify, .events = POLLIN };
	char events[4096];

	if (poll(&p, 1, 1000) == 1)
		(void)!read(notify, events, sizeof(events));
}

static int
watch(int dir, struct err *err)
{
	OWN(closep) int notify = inotify_init1(IN_CLOEXEC);
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
	if (notify < 0 || inotify_add_watch(notify, path, IN_MODIFY | IN_CREATE | IN_MOVE |
	                                    IN_CLOSE_WRITE) < 0)
		return err_errno(err, "cannot follow the log");
	return TAKE_FD(notify);
}

/* Prints new output of one of the streams, if its file exists by now. */
static int
print_stream(int dir, const char *name, FILE *to, int *fd, struct err *err)
{
	if (*fd < 0)
		*fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	return *fd < 0 ? 0 : print_rest_to(to, *fd, err);
}

/* With --streams: prints each stream to its own. */
static int
print_streams(int dir, bool goes_on, struct err *err)
{
	OWN(closep) int out = -1, errors = -1, notify = -1;
	bool live = true;
	int r = 0;

	if (faccessat(dir, CELL_STEPS, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, ENOENT, "it has no log: only detached cells (run -d) have one");
	if (goes_on && (notify = watch(dir, err)) < 0)
		return notify;
	while (r == 0 && live) {
		/* Ask before reading, so that output from before the end is not missed. */
		live = goes_on && cell_state_is_live(dir);
		r = print_stream(dir, CELL_STDOUT, stdout, &out, err);
		if (r == 0)
			r = print_stream(dir, CELL_STDERR, stderr, &errors, err);
		if (r == 0 && live)
			await_change(notify);
	}
	return r;
}

static int
follow(int dir, int fd, struct err *err)
{
	OWN(closep) int notify = watch(dir, err);
	OWN(closep) int current = TAKE_FD(fd);
	struct stat now, latest;
	bool live = true;
	int r = notify < 0 ? notify : 0;

	while (r == 0 && live) {
		/* Ask before reading, so that output from before the end is not missed. */
		live = cell_state_is_live(dir);
		r = print_rest(current, err);
		/* The log was rotated: continue with the new one. */
		if (r == 0 && fstat(current, &now) == 0 &&
		    fstatat(dir, CELL_LOG, &latest, 0) == 0 && now.st_ino != latest.st_ino) {
			close(current);
			current = openat(dir, CELL_LOG, O_RDONLY | O_CLOEXEC);
			continue;
		}
		if (r == 0 && live)
			await_change(notify);
	}
	return r;
}

/* The output of a cell of another machine is where its timeline is: among those of ended cells. */
static int
open_far(int state, const char *word, struct cell_entry *ret_entry)
{
	OWN(closep) int ended = cell_ended_open(state);
	OWN(closep) int dir = -1;

	if (ended < 0 || cell_find(ended, false, word, ret_entry, NULL) < 0)
		return -ENOENT;
	dir = openat(ended, ret_entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return dir >= 0 && faccessat(dir, CELL_STEPS, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? TAKE_FD(dir) : -ENOENT;
}

/* Of several cells with one name, such as a series of `run --restart`, the newest: as for `events`. */
static int
find_newest(int state, const char *word, struct cell_entry *ret_entry, struct err *err)
{
	OWN(timeline_close) struct timeline t = {0};
	int r = timeline_open(word, &t, err);

	return r < 0 ? r : cli_find_kept(state, t.entry.id, ret_entry, err);
}

static int
open_entry(int state, const char *word, struct cell_entry *ret_entry, struct err *err)
{
	int dir, r = cli_find_kept(state, word, ret_entry, err);

	r = r == -ENOTUNIQ ? find_newest(state, word, ret_entry, err) : r;
	if (r == -ENOENT && (dir = open_far(state, word, ret_entry)) >= 0)
		return dir;
	if (r < 0)
		return r;
	dir = openat(state, ret_entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return dir < 0 ? err_errno(err, "cannot open what is kept of cell %s", ret_entry->id) : dir;
}

int
cmd_logs(int argc, char **argv)
{
	OWN(closep) int state = -1, dir = -1, fd = -1, older = -1;
	struct cell_entry entry;
	struct err err = {0};
	bool goes_on = false;
	int rest, r;

	if (cli_parse(cli_logs_options, argc, argv, true, NULL, &goes_on, &rest, &err) < 0)
		return cli_fail(&err);
	if (argc - rest != 1)
		return cli_failf("no cell is given: cloister logs [-f] CELL");
	state = cell_state_open(false, &err);
	if (state < 0 && state != -ENOENT)
		return cli_fail(&err);
	if (state < 0)
		return cli_failf("there is no cell '%s' with a log: see `cloister ps -a`", argv[rest]);
	dir = open_entry(state, argv[rest], &entry, &err);
	if (dir < 0)
		return cli_fail(&err);
	fd = openat(dir, CELL_LOG, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		r = print_streams(dir, goes_on, &err);
		if (r < 0)
			(void)err_wrap(&err, "cell %s", entry.id);
		return r < 0 ? cli_fail(&err) : 0;
	}
	older = openat(dir, CELL_LOG ".1", O_RDONLY | O_CLOEXEC);
	r = older < 0 ? 0 : print_rest(older, &err);
	if (r == 0)
		r = goes_on ? follow(dir, TAKE_FD(fd), &err) : print_rest(fd, &err);
	return r < 0 ? cli_fail(&err) : 0;
}
