/* disk_make.c - runs mkfs.erofs, which may read the folder and its own libraries, write one file, and nothing else.
 *
 * The same folder makes the same bytes: no time and no random number goes in. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "confine/filter.h"
#include "confine/landlock.h"
#include "proc/disk/disk_proc.h"
#include "vm/disk.h"

#define UUID "-Uc1015e12-0000-4000-8000-000000000000"
#define FIXED_ARGS 8
#define WHY_MAX 200
#define MAKE_SECONDS 600
#define SPARE (UINT64_C(64) << 20)

struct words {
	char *list[FIXED_ARGS + DISK_LEFT_OUT_MAX + 1];
	size_t n;
	bool failed;
};

/* Takes WORD. */
static void
add(struct words *w, char *word)
{
	w->failed = w->failed || word == NULL;
	w->list[w->n++] = word;
}

static void
words_free(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->list[i]);
}

static int
describe(struct words *w, const struct disk_tree *tree, long owner, const char *part, struct err *err)
{
	add(w, strdup("mkfs.erofs"));
	add(w, strdup("--quiet"));
	add(w, strdup(UUID));
	/* No attributes: a cell uses none of them, neither rights of files nor access lists. */
	add(w, strdup("-x-1"));
	if (owner >= 0) {
		add(w, str_format("--force-uid=%ld", owner));
		add(w, str_format("--force-gid=%ld", owner));
	}
	for (size_t i = 0; i < tree->n_left_out; i++)
		add(w, str_format("--exclude-path=%s", tree->left_out[i]));
	add(w, strdup(part));
	add(w, strdup("."));
	return w->failed ? err_set(err, ENOMEM, "out of memory") : 0;
}

/* A folder that grows meanwhile must not fill the disk, nor a pipe in it hold the maker for ever. */
static int
limit_maker(uint64_t size)
{
	const struct rlimit most = { size + size / 8 + SPARE, size + size / 8 + SPARE };

	signal(SIGALRM, SIG_DFL);
	alarm(MAKE_SECONDS);
	return setrlimit(RLIMIT_FSIZE, &most);
}

_Noreturn static void
become_maker(const char *program, char *const *argv, char *const *env, uint64_t size, int landlock, int log)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (limit_maker(size) == 0 && null >= 0 && dup2(null, 0) >= 0 && dup2(null, 1) >= 0 && dup2(log, 2) >= 0 &&
	    prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && landlock_enforce(landlock, NULL) == 0 &&
	    filter_load(FILTER_DISK, NULL) == 0)
		execve(program, argv, env);
	_exit(127);
}

/* The first line of its complaints. */
static int
explain(int log, int status, struct err *err)
{
	char text[WHY_MAX + 1] = "";

	if (pread(log, text, WHY_MAX, 0) > 0)
		text[strcspn(text, "\n")] = '\0';
	if (text[0] == '\0')
		snprintf(text, sizeof(text), "status %d", status);
	return err_set(err, EIO, "mkfs.erofs failed: %s", text);
}

int
disk_make(const struct disk_tree *tree, long owner, const char *part, struct err *err)
{
	const char *readable[] = { ".", "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", NULL };
	const char *writable[] = { part, "/dev/null", NULL };
	OWN(words_free) struct words words = {0};
	OWN(freep) char *time = str_format("SOURCE_DATE_EPOCH=%lld", (long long)tree->newest + 1);
	char *env[] = { time, NULL };
	OWN(closep) int landlock = -1, log = memfd_create("mkfs", MFD_CLOEXEC);
	const char *program = disk_find_maker(err);
	int r = program == NULL ? -ENOENT : describe(&words, tree, owner, part, err), status;
	pid_t pid;

	if (r == 0 && (time == NULL || log < 0))
		r = err_errno(err, "cannot start mkfs.erofs");
	if (r == 0)
		r = landlock_make_program(readable, writable, &landlock, err);
	/* It finds its folder by a path, where another could be meanwhile. */
	if (r == 0 && landlock < 0)
		r = err_set(err, ENOTSUP, "this kernel has no Landlock, which holds mkfs.erofs to that folder");
	if (r < 0)
		return r;
	pid = fork();
	if (pid == 0)
		become_maker(program, words.list, env, tree->size, landlock, log);
	if (pid < 0)
		return err_errno(err, "cannot start mkfs.erofs");
	status = spawn_await(pid, err);
	return status < 0 ? status : status > 0 ? explain(log, status, err) : 0;
}
