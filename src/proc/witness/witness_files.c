/* witness_files.c - finds and hashes the files of a program that was executed.
 *
 * The process's own link leads to the file that runs, whatever its name leads to by now.  If the process has already
 * ended, the name is looked up in the cell's root folder: the file there may be another one by then, unless the
 * source said which file it was. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "proc/witness/witness_proc.h"

static int
open_of(pid_t pid, const char *what, int flags)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
	return pid <= 0 ? -1 : open(path, flags | O_CLOEXEC);
}

/* PATH as a process with that root folder sees it; never a pipe or a device. */
static int
open_in(int root, const struct act_text *path)
{
	const struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, .resolve = RESOLVE_IN_ROOT |
	                              RESOLVE_NO_MAGICLINKS };
	char name[ACT_PATH_MAX + 1];
	int fd;

	if (root < 0 || path->at == NULL || path->len == 0 || path->len > ACT_PATH_MAX || path->cut ||
	    memchr(path->at, '\0', path->len) != NULL)
		return -1;
	memcpy(name, path->at, path->len);
	name[path->len] = '\0';
	fd = (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
	return fd;
}

static bool
is_named(const struct act *act, int fd)
{
	struct stat st;

	return act->program.size == 0 ||
	       (fstat(fd, &st) == 0 && (uint64_t)st.st_size == act->program.size &&
	        (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == act->program.modified_ns);
}

static int
open_program(const struct witness *w, const struct act *act, const char **ret_why)
{
	int fd = open_of(act->host_pid, "exe", O_RDONLY);

	if (fd >= 0 && is_named(act, fd))
		return fd;
	closep(&fd);
	fd = act->from_memory || act->program.size == 0 ? -1 : open_in(w->root, &act->path);
	if (fd >= 0 && is_named(act, fd))
		return fd;
	closep(&fd);
	*ret_why = "it had ended before its file could be read";
	return -1;
}

/* By the process's root and working folder, or the cell's root. */
static int
open_script(const struct witness *w, const struct act *act)
{
	const bool absolute = act->script.len > 0 && act->script.at[0] == '/';
	OWN(closep) int from = open_of(act->host_pid, absolute ? "root" : "cwd", O_PATH | O_DIRECTORY);
	int fd = open_in(from, &act->script);

	return fd < 0 && absolute ? open_in(w->root, &act->script) : fd;
}

void
witness_hash(struct witness *w, const struct act *act, struct witness_hashes *ret_hashes)
{
	struct witness_hashes *h = ret_hashes;
	OWN(closep) int program = -1, script = -1;

	*h = (struct witness_hashes){0};
	program = open_program(w, act, &h->why);
	if (program >= 0)
		h->why = programs_hash(w->programs, program, loop_now_ms(), h->program);
	h->has_program = h->why == NULL;
	if (act->script.at == NULL || act->script.len == 0)
		return;
	script = open_script(w, act);
	h->has_script = script >= 0 && programs_hash(w->programs, script, loop_now_ms(), h->script) == NULL;
}
