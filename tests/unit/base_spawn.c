/* base_spawn.c - tests of base/spawn. */
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "test.h"

#define SAID_MAX 4096

static char *const *
shell(const char *script)
{
	static char *argv[4];

	argv[0] = (char *)(uintptr_t)"sh";
	argv[1] = (char *)(uintptr_t)"-c";
	argv[2] = (char *)(uintptr_t)script;
	return argv;
}

/* Runs SCRIPT with FDS and FLAGS, and returns what it prints. */
static const char *
say(const char *script, const struct spawn_fd *fds, size_t n, struct spawn how)
{
	static char said[SAID_MAX];
	OWN(closep) int out = memfd_create("out", MFD_CLOEXEC);
	struct spawn_fd all[8] = { { out, STDOUT_FILENO } };
	struct err err = {0};
	ssize_t len;
	int r;

	if (n > 0)
		memcpy(all + 1, fds, n * sizeof(*fds));
	how.argv = shell(script);
	how.path = "/bin/sh";
	how.fds = all;
	how.n_fds = n + 1;
	r = spawn_run(&how, &err);
	if (r != 0)
		test_fail(__FILE__, __LINE__, "'%s' ends with %d %s", script, r, err.text);
	len = pread(out, said, sizeof(said) - 1, 0);
	said[len > 0 ? len : 0] = '\0';
	return said;
}

static int
file_with(const char *text)
{
	int fd = memfd_create("text", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_OK(write_all(fd, text, strlen(text), NULL));
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

TEST(spawn_places_descriptors_that_are_in_each_others_places)
{
	OWN(closep) int a = file_with("a"), b = file_with("b");
	char script[64];

	snprintf(script, sizeof(script), "cat <&%d; cat <&%d", a, b);
	CHECK_STR(say(script, (struct spawn_fd[]){ { a, b }, { b, a } }, 2, (struct spawn){0}), "ba");
}

TEST(spawn_gives_one_descriptor_twice)
{
	OWN(closep) int a = file_with("a");

	CHECK_STR(say("cat <&8; cat </proc/self/fd/9", (struct spawn_fd[]){ { a, 8 }, { a, 9 } }, 2,
	              (struct spawn){0}), "aa");
}

TEST(spawn_null_is_empty_and_takes_all)
{
	CHECK_STR(say("cat; echo x >&2; readlink /proc/self/fd/0 /proc/self/fd/2", (struct spawn_fd[]){
		{ SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDERR_FILENO } }, 2, (struct spawn){0}),
		"/dev/null\n/dev/null\n");
}

TEST(spawn_passes_other_descriptors_unless_only)
{
	static const char script[] = "test -e /proc/self/fd/7 && echo 7; test -e /proc/self/fd/8 && echo 8; "
		"test -e /proc/self/fd/9 && echo 9; true";
	OWN(closep) int a = file_with("a");
	struct spawn_fd fds[] = { { a, 7 }, { -1, 8 } };

	CHECK(dup2(a, 8) == 8 && dup2(a, 9) == 9);
	CHECK_STR(say(script, fds, 2, (struct spawn){0}), "7\n8\n9\n");
	CHECK_STR(say(script, fds, 2, (struct spawn){ .flags = SPAWN_ONLY }), "7\n");
}

TEST(spawn_runs_in_a_folder_with_an_environment)
{
	char *env[] = { (char[]){ "A=1" }, NULL };

	CHECK_STR(say("pwd; echo $A$HOME", NULL, 0, (struct spawn){ .cwd = "/usr", .env = env }), "/usr\n1\n");
}

TEST(spawn_env_replaces_and_adds)
{
	OWN(freep) char **env = NULL;

	CHECK(setenv("SPAWN_A", "old", 1) == 0 && setenv("SPAWN_AB", "kept", 1) == 0);
	env = spawn_env((char *[]){ (char[]){ "SPAWN_A=new" }, (char[]){ "SPAWN_C=added" }, NULL });
	CHECK(env != NULL);
	CHECK_STR(say("echo $SPAWN_A $SPAWN_AB $SPAWN_C; env | grep -c ^SPAWN_A=", NULL, 0,
	              (struct spawn){ .env = env }), "new kept added\n1\n");
}

TEST(spawn_reports_a_program_that_cannot_be_run)
{
	struct err err = {0};
	int pidfd = -7;

	CHECK_ERR(spawn_start(&(struct spawn){ .argv = shell("true"), .path = "/nowhere/sh" }, &pidfd, &err),
	          ENOENT);
	CHECK_STR(err.text, "cannot run '/nowhere/sh': No such file or directory");
	CHECK(pidfd == -7);
	CHECK_ERR(spawn_start(&(struct spawn){ .argv = shell("true"), .path = "/bin/sh", .cwd = "/nowhere" },
	                      NULL, &err), ENOENT);
	CHECK_ERR(spawn_start(&(struct spawn){ .argv = shell("true"), .path = "/bin/sh", .n_fds = 1,
	                      .fds = &(struct spawn_fd){ 900, 3 } }, NULL, &err), EBADF);
	CHECK_ERR(spawn_become(&(struct spawn){ .argv = shell("true"), .path = "/nowhere/sh" }, &err), ENOENT);
	/* Nothing is left to wait for. */
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

/* The error of a vfork's child would be returned. */
TEST(spawn_aside_goes_on_and_the_status_shows_the_error)
{
	struct spawn how = { .argv = shell("exit 7"), .path = "/bin/sh", .flags = SPAWN_ASIDE };
	pid_t pid = spawn_start(&how, NULL, NULL);

	CHECK(pid > 0 && spawn_await(pid, NULL) == 7);
	how.path = "/nonexistent/program";
	pid = spawn_start(&how, NULL, NULL);
	CHECK(pid > 0 && spawn_await(pid, NULL) == 127);
}

TEST(spawn_finds_a_program_in_a_folder)
{
	OWN(closep) int dir = open("/bin", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err err = {0};

	CHECK(spawn_run(&(struct spawn){ .argv = shell("exit 3"), .path = "sh", .dir = dir,
	                .flags = SPAWN_ONLY }, &err) == 3);
}

TEST(spawn_command_runs_a_script_without_a_first_line)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char path[4096];
	struct err err = {0};
	struct spawn how = { .argv = shell("true"), .path = path, .flags = SPAWN_COMMAND };

	snprintf(path, sizeof(path), "%s/script", test_dir());
	CHECK_OK(create_file_at(dir, "script", 0700, "exit 5\n", &err));
	CHECK(fchmodat(dir, "script", 0700, 0) == 0);
	CHECK(spawn_run(&how, &err) == 5);
	how.flags = 0;
	CHECK_ERR(spawn_run(&how, &err), ENOEXEC);
}

TEST(spawn_returns_the_status_or_the_signal)
{
	struct err err = {0};

	CHECK(spawn_run(&(struct spawn){ .argv = shell("exit 42"), .path = "/bin/sh" }, &err) == 42);
	CHECK(spawn_run(&(struct spawn){ .argv = shell("kill -9 $$"), .path = "/bin/sh" }, &err) ==
	      SPAWN_KILLED + SIGKILL);
}

TEST(spawn_gives_a_descriptor_of_the_process)
{
	OWN(closep) int pidfd = -1;
	struct pollfd p = { .events = POLLIN };
	struct err err = {0};
	pid_t pid = spawn_start(&(struct spawn){ .argv = shell("exit 0"), .path = "/bin/sh" }, &pidfd, &err);

	CHECK(pid > 0 && pidfd >= 0);
	p.fd = pidfd;
	CHECK(poll(&p, 1, -1) == 1);
	CHECK(spawn_await(pid, &err) == 0);
}

static void
ignore(int number)
{
	(void)number;
}

/* The masks of blocked and ignored signals, and whether the session is the process's own. */
TEST(spawn_apart_has_its_own_session_and_usual_signals)
{
	static const char script[] = "grep -E '^Sig(Blk|Ign)' /proc/self/status; read -r line </proc/self/stat; "
		"set -- $line; test \"$6\" = \"$$\" && echo own; true";
	/* As the kernel has it: the handler, flags, what restores, the mask. */
	static const unsigned long usual[4], ignored[4] = { 1 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	for (int number = 1; number < NSIG; number++)
		(void)syscall(SYS_rt_sigaction, number, usual, NULL, NSIG / 8);
	/* One of those that the C library uses itself and leaves ignored in some children. */
	CHECK(syscall(SYS_rt_sigaction, 32, ignored, NULL, NSIG / 8) == 0);
	CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR && signal(SIGUSR2, ignore) != SIG_ERR);
	CHECK_STR(say(script, NULL, 0, (struct spawn){0}),
	          "SigBlk:\t0000000000000000\nSigIgn:\t0000000080001000\n");
	CHECK_STR(say(script, NULL, 0, (struct spawn){ .flags = SPAWN_APART }),
	          "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nown\n");
	/* Ours are as they were. */
	CHECK(sigprocmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, SIGUSR1) == 1 &&
	      sigismember(&set, SIGTERM) == 0);
	CHECK(signal(SIGUSR2, SIG_DFL) == ignore);
}

/* The pipe ends when the program, which would wait for ever, is dead. */
TEST(spawn_dies_with_its_parent)
{
	int ends[2], begun[2];
	char byte;
	pid_t pid;

	CHECK(pipe2(ends, O_CLOEXEC) == 0 && pipe2(begun, O_CLOEXEC) == 0);
	pid = fork();
	if (pid == 0) {
		struct spawn how = { .argv = shell("exec sleep infinity"), .path = "/bin/sh", .n_fds = 1,
			.fds = &(struct spawn_fd){ ends[1], 5 }, .flags = SPAWN_DIES };

		(void)!write(begun[1], spawn_start(&how, NULL, NULL) > 0 ? "+" : "-", 1);
		pause();
		_exit(0);
	}
	close(ends[1]);
	CHECK(read(begun[0], &byte, 1) == 1 && byte == '+');
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	CHECK(read(ends[0], &byte, 1) == 0);
}
