/* workspace_interrupt.c - applying is killed at every step, and run again.
 *
 * Whenever it was killed, every file of the workspace is as it was or as it will
 * be; and once it ran to its end, all is as if it had not been killed. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "test.h"
#include "workspace_lab.h"

static const struct {
	const char *name, *real, *changes;
	const char *paths;              /* applied first, killed, again; then all is applied */
} interrupt_cases[] = {
	{ "every kind", "f mod 644 x\nf mode 644 x\nf gone 644\nf dir/a 644\nf dir/s/b 644\nl link a\n"
	  "f tofile/a 644\nf todir 644\nl linkdir /etc\nd tolink 755\n",
	  "f mod 600 yy\nf mode 755 x\nw gone\nw dir\nl link b\nf tofile 644\nf todir/a 644\n"
	  "f linkdir/passwd 644 x\nl tolink /etc\nd new 700\nf new/deep/er 644 text\nf equal 644\n",
	  NULL },
	{ "opaque", "f d/a 644 x\nf d/b 644\nf d/c 644\nf d/s/a 644\nf d/s/b 644\nf d/t/a 644\n",
	  "d d 755\no d\nf d/a 644 y\nf d/s/a 644 y\nf d/new 644\n", NULL },
	{ "some of an opaque folder",
	  "f d/a 644 x\nf d/b 644\nf d/c 644\nf d/s/a 644\nf d/s/b 644\nf d/t/a 644\n",
	  "d d 755\no d\nf d/a 644 y\nf d/s/a 644 y\nf d/new 644\nf d/t/b 644\n", "d/a d/b d/s/a" },
	{ "locked", "d d 755\nf d/in/a 644 x\nd d/in 500\nd d 000\n",
	  "d d 100\nd d/in 000\nf d/in/a 000 y\nf d/in/b 000 y\nd new 000\nf new/a 000 x\n", NULL },
	{ "held", "f .git/config 644 x\nf d/.envrc 644\nf d/a 644\n",
	  "f .git/config 644 y\nf .git/hooks/a 755\nf .git/HEAD 644\nd d 755\no d\n", ".git/hooks d" },
};

static bool
changes_something(uint64_t call)
{
	static const long calls[] = {
		SYS_openat, SYS_mkdirat, SYS_symlinkat, SYS_unlinkat, SYS_renameat2, SYS_fchmod,
		SYS_fchmodat, SYS_mknodat, SYS_fsetxattr, SYS_fremovexattr, SYS_pwrite64,
		SYS_ftruncate, SYS_utimensat, SYS_fsync, SYS_syncfs,
#ifdef SYS_renameat
		SYS_renameat,
#endif
	};

	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		if ((uint64_t)calls[i] == call)
			return true;
	return false;
}

/* Apply in a child that is killed when it is about to change something for the
 * Nth time; whether it lived that long. */
static bool
apply_and_kill(const struct workspace *ws, const struct workspace_apply *how, unsigned n)
{
	struct __ptrace_syscall_info info;
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(98);
		raise(SIGSTOP);
		_exit(lab_apply(ws, *how, NULL, NULL, NULL) < 0 ? 1 : 0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 98)
		test_skip("no ptrace here");
	CHECK(ptrace(PTRACE_SETOPTIONS, pid, NULL,
	             PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD) == 0);
	while (WIFSTOPPED(status)) {
		if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0 &&
		    info.op == PTRACE_SYSCALL_INFO_ENTRY && changes_something(info.entry.nr) &&
		    n-- == 0) {
			kill(pid, SIGKILL);
			CHECK(waitpid(pid, &status, 0) == pid);
			return true;
		}
		CHECK(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
		CHECK(waitpid(pid, &status, 0) == pid);
	}
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return false;
}


struct run {
	struct workspace ws;
	struct workspace_apply how;
};

static void
set_up(struct run *run, size_t c)
{
	*run = (struct run){ { .real = lab_dir("real"), .changes = lab_dir("changes") }, {0} };
	lab_make(run->ws.real, interrupt_cases[c].real);
	lab_make_kept(run->ws.changes, interrupt_cases[c].changes);
	lab_tick();
	run->ws.since_ns = lab_now_ns();
	run->how.paths = lab_paths(interrupt_cases[c].paths);
	lab_tick();
}

/* What it wrote itself before must be no conflict. */
static void
finish(struct run *run, size_t c, unsigned n)
{
	struct err err = {0};

	for (int all = 0; all < 2; all++) {
		/* What it took out of the changes already is not found there. */
		if (lab_apply(&run->ws, run->how, NULL, NULL, &err) < 0 && (all || err.code != ENOENT))
			test_fail(__FILE__, __LINE__, "%s, killed at %u: %s", interrupt_cases[c].name, n,
			          err.text);
		run->how.paths = NULL;
	}
}

static void
tear_down(struct run *run)
{
	close(run->ws.real);
	close(run->ws.changes);
	lab_clean();
}

static void
check_same(const char *got, const char *want, size_t c, unsigned n)
{
	if (strcmp(got, want) != 0)
		test_fail(__FILE__, __LINE__, "%s, killed at %u:\n%snot\n%s", interrupt_cases[c].name,
		          n, got, want);
}

/* Every file is as it was or as it will be; folders may be on their way. */
static void
check_whole(const char *now, const char *before, const char *after, size_t c, unsigned n)
{
	if (strstr(before, " ?\n") != NULL)
		return;                 /* locked against us then, but not now */
	for (const char *line = now, *end; *line != '\0'; line = end) {
		OWN(freep) char *one = NULL;

		end = strchr(line, '\n') + 1;
		one = str_format("\n%.*s", (int)(end - line), line);
		if (strstr(one, "/\n") == NULL && strstr(one, "/ ?\n") == NULL &&
		    strstr(before, one) == NULL && strstr(after, one) == NULL)
			test_fail(__FILE__, __LINE__, "%s, killed at %u: neither old nor new:%s",
			          interrupt_cases[c].name, n, one);
	}
}

static char *
show_behind_newline(int dir)
{
	OWN(freep) char *text = lab_show(dir);

	return str_format("\n%s", text);
}

static void
interrupt(size_t c)
{
	OWN(freep) char *before = NULL, *after = NULL, *left = NULL;
	struct run run;
	struct err err = {0};
	unsigned n = 0;
	bool killed;

	set_up(&run, c);
	before = show_behind_newline(run.ws.real);
	CHECK_OK(lab_apply(&run.ws, run.how, NULL, NULL, &err));
	finish(&run, c, 0);
	after = show_behind_newline(run.ws.real);
	left = lab_show(run.ws.changes);
	tear_down(&run);
	do {
		OWN(freep) char *now = NULL, *then = NULL, *rest = NULL;

		set_up(&run, c);
		killed = apply_and_kill(&run.ws, &run.how, n);
		now = lab_show(run.ws.real);
		check_whole(now, before, after, c, n);
		finish(&run, c, n);
		then = show_behind_newline(run.ws.real);
		check_same(then, after, c, n);
		rest = lab_show(run.ws.changes);
		check_same(rest, left, c, n);
		CHECK(faccessat(run.ws.real, ".cloister-lab.tmp", F_OK, AT_SYMLINK_NOFOLLOW) < 0);
		tear_down(&run);
		n += n < 30 ? 1 : 2;
	} while (killed);
	CHECK(n > 20);
}

static void
interrupt_named(const char *name)
{
	for (size_t c = 0; c < ARRAY_LEN(interrupt_cases); c++)
		if (strcmp(interrupt_cases[c].name, name) == 0)
			interrupt(c);
}

TEST(workspace_interrupt_every_kind)
{
	interrupt_named("every kind");
}

TEST(workspace_interrupt_opaque)
{
	interrupt_named("opaque");
	interrupt_named("some of an opaque folder");
}

TEST(workspace_interrupt_held)
{
	interrupt_named("held");
}

static void
interrupt_locked(void *arg)
{
	(void)arg;
	interrupt_named("locked");
}

/* Only an ordinary user is kept out by modes. */
TEST(workspace_interrupt_locked)
{
	lab_as_user(interrupt_locked, NULL);
}
