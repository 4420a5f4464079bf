/* boundary_cgroup.c - tests of boundary/cgroup against this machine's kernel.
 *
 * A limit is tested by a process that runs into it.  Without a cgroup of our own
 * (an ordinary user without delegation) those tests are skipped, with the reason. */
#include "boundary/cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#include "base/err.h"
#include "test.h"

#define MIB (1ull << 20)

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void
sleep_ms(long ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static const char *
make_id(void)
{
	static char id[CGROUP_ID_MAX];
	static int n;

	snprintf(id, sizeof(id), "unit-%d-%d", (int)getpid(), n++);
	return id;
}

/* The bits of LIMITS that are not in force; *ret_cg is made in any case. */
static unsigned
try_limits(const struct cgroup_limits *limits, struct cgroup **ret_cg, char why[512])
{
	struct err err = { 0 };
	unsigned missing = ~0u;

	if (cgroup_create(make_id(), limits, ret_cg, &missing, why, 512, &err) < 0)
		test_fail(__FILE__, __LINE__, "cgroup_create: %s", err.text);
	CHECK((missing == 0) == (*why == '\0'));
	return missing;
}

/* Where a machine is to blame for a missing limit, not the module. */
static bool
is_no_place(const char *why)
{
	static const char *const places[] = {
		"only root may", "no delegated cgroup", "may not be changed", "read-only",
		"has processes in it", "controller", "no cgroup file system", "on no disk",
	};

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (strstr(why, places[i]) != NULL)
			return true;
	return false;
}

static struct cgroup *
make_or_skip(const struct cgroup_limits *limits)
{
	struct cgroup *cg = NULL;
	char why[512];

	if (try_limits(limits, &cg, why) != 0) {
		CHECK_OK(cgroup_destroy(cg));
		if (!is_no_place(why))
			test_fail(__FILE__, __LINE__, "%s", why);
		test_skip(why);
	}
	return cg;
}

/* A group with nothing to limit, by which processes can be killed and frozen. */
static struct cgroup *
make_for_control(void)
{
	static const struct cgroup_limits limits = { .pids = 500 };

	return make_or_skip(&limits);
}

/* As the boundary does it: born in the v2 part, entering the v1 parts itself. */
static pid_t
start_in(const struct cgroup *cg, void (*run)(void *), void *arg)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	struct err err = { 0 };
	pid_t pid;

	if (cgroup_clone_fd(cg) >= 0) {
		args.flags = CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_clone_fd(cg);
	}
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	CHECK(pid >= 0);
	if (pid > 0)
		return pid;
	if (cgroup_enter_self(cg, &err) < 0) {
		dprintf(1, "cgroup_enter_self: %s\n", err.text);
		_exit(99);
	}
	run(arg);
	_exit(0);
}

static int
wait_for(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

/* Whether every directory that PATHS names, and the group between, is gone. */
static bool
all_gone(const char *paths)
{
	char text[4096], *rest = text, *line;

	snprintf(text, sizeof(text), "%s", paths);
	while ((line = strsep(&rest, "\n")) != NULL) {
		if (*line != '\0' && access(line, F_OK) == 0)
			return false;
	}
	return true;
}

static void
destroy_and_check(struct cgroup *cg)
{
	char paths[4096];

	CHECK(*cgroup_paths(cg) != '\0');
	snprintf(paths, sizeof(paths), "%s", cgroup_paths(cg));
	CHECK(!all_gone(paths));
	CHECK_OK(cgroup_destroy(cg));
	CHECK(all_gone(paths));
}

static void
touch_memory(void *arg)
{
	size_t size = *(size_t *)arg;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(98);
	memset(p, 1, size);
}

TEST(cgroup_memory_strikes)
{
	struct cgroup_limits limits = { .memory = 32 * MIB };
	struct cgroup *cg = make_or_skip(&limits);
	size_t fits = 8 * MIB, over = 96 * MIB;
	struct cgroup_usage u;
	int status;

	status = wait_for(start_in(cg, touch_memory, &fits));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cgroup_read_usage(cg, &u);
	CHECK_U64(u.oom_kills, 0);
	status = wait_for(start_in(cg, touch_memory, &over));
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	cgroup_read_usage(cg, &u);
	CHECK_U64(u.oom_kills, 1);
	/* Kernels before 5.19 do not tell the peak. */
	CHECK(u.memory_peak == 0 || (u.memory_peak > 16 * MIB && u.memory_peak <= 32 * MIB));
	destroy_and_check(cg);
}

static void
fork_many(void *arg)
{
	int refused = 0;
	pid_t pid;

	(void)arg;
	for (int i = 0; i < 20; i++) {
		pid = fork();
		if (pid == 0) {
			pause();
			_exit(0);
		}
		refused += pid < 0 && errno == EAGAIN;
	}
	_exit(refused);
}

TEST(cgroup_pids_strikes)
{
	struct cgroup_limits limits = { .pids = 8 };
	struct cgroup *cg = make_or_skip(&limits);
	struct cgroup_usage u;
	int status;

	status = wait_for(start_in(cg, fork_many, NULL));
	CHECK(WIFEXITED(status));
	CHECK_U64((uint64_t)WEXITSTATUS(status), 20 - 7);
	cgroup_read_usage(cg, &u);
	CHECK(u.pids_refused > 0);
	CHECK_U64(u.pids, 7);
	/* Seven are alive: destroying kills them, and waits. */
	destroy_and_check(cg);
}

static void
spin(void *arg)
{
	int64_t end = now_ms() + *(int *)arg;
	struct timespec t;

	while (now_ms() < end)
		;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	/* In hundredths of the time that passed. */
	_exit((int)((t.tv_sec * 1000 + t.tv_nsec / 1000000) * 100 / *(int *)arg));
}

TEST(cgroup_cpus_strikes)
{
	struct cgroup_limits limits = { .cpus_milli = 100 };
	struct cgroup *cg = make_or_skip(&limits);
	struct cgroup_usage u;
	int ms = 1000, status;

	status = wait_for(start_in(cg, spin, &ms));
	CHECK(WIFEXITED(status));
	/* A tenth, and what the kernel is late by. */
	CHECK(WEXITSTATUS(status) <= 25);
	cgroup_read_usage(cg, &u);
	CHECK(u.cpu_us == 0 || (u.cpu_us > 50000 && u.cpu_us < 300000));
	destroy_and_check(cg);
}

TEST(cgroup_cpus_smallest)
{
	struct cgroup_limits limits = { .cpus_milli = 1 };

	destroy_and_check(make_or_skip(&limits));
}

static int
put(const char *dir, const char *file, const char *text)
{
	char path[512];
	int fd, r;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	r = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -errno;
	close(fd);
	return r;
}

/* v1 refuses to give more than a group above has. */
TEST(cgroup_v1_cpus_under_a_tighter_group)
{
	static const char root[] = "/sys/fs/cgroup/cpu";
	struct cgroup_limits limits = { .cpus_milli = 1500 };
	char outer[128], middle[160];
	struct cgroup *cg = NULL;
	int ms = 1000, status;
	unsigned missing;
	char why[512];

	snprintf(outer, sizeof(outer), "%s/cloister-unit-outer-%d", root, (int)getpid());
	snprintf(middle, sizeof(middle), "%s/middle", outer);
	if (geteuid() != 0 || mkdir(outer, 0755) < 0)
		test_skip("no v1 hierarchy of ours");
	status = mkdir(middle, 0755) == 0 && put(outer, "cpu.cfs_quota_us", "20000") == 0 &&
	         put(middle, "tasks", "0") == 0 ? 0 : -1;
	missing = try_limits(&limits, &cg, why);
	if (status == 0)
		status = wait_for(start_in(cg, spin, &ms));
	put(root, "tasks", "0");
	CHECK_OK(cgroup_destroy(cg));
	CHECK(rmdir(middle) == 0 && rmdir(outer) == 0);
	CHECK(missing == 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) > 5 && WEXITSTATUS(status) <= 40);
}

static void
write_direct(void *arg)
{
	static char block[MIB] __attribute__((aligned(4096)));
	int fd = open(arg, O_WRONLY | O_CREAT | O_DIRECT, 0600);

	if (fd < 0)
		_exit(97);
	for (int i = 0; i < 3; i++)
		if (write(fd, block, sizeof(block)) != sizeof(block))
			_exit(96);
}

TEST(cgroup_io_strikes)
{
	struct cgroup_limits limits = { .io = 2 * MIB, .n_devices = 1 };
	char path[128];
	struct cgroup *cg;
	int64_t began;
	struct stat st;
	int status;

	snprintf(path, sizeof(path), "%s/file", test_dir());
	CHECK(stat(test_dir(), &st) == 0);
	limits.devices = &st.st_dev;
	cg = make_or_skip(&limits);
	began = now_ms();
	status = wait_for(start_in(cg, write_direct, path));
	/* Before the CHECKs: a skipped test must leave nothing. */
	destroy_and_check(cg);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 97)
		test_skip("this file system has no direct writes");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	if (major(st.st_dev) == 0)
		test_skip("the test folder is on no disk");
	CHECK(now_ms() - began >= 900);
}

struct family {
	int daemons;
	int ready[2];                   /* a pipe, for one byte */
};

static void
live_until_killed(void *arg)
{
	struct family *f = arg;

	/* Forked twice, so that nothing but the group still holds them. */
	for (int i = 0; i < f->daemons; i++) {
		if (fork() == 0) {
			setsid();
			if (fork() == 0)
				for (;;)
					pause();
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	if (write(f->ready[1], "", 1) != 1)
		_exit(95);
	for (;;)
		pause();
}

static pid_t
start_family(const struct cgroup *cg, int daemons)
{
	struct family f = { .daemons = daemons };
	pid_t pid;
	char c;

	CHECK(pipe(f.ready) == 0);
	pid = start_in(cg, live_until_killed, &f);
	CHECK(read(f.ready[0], &c, 1) == 1);
	return pid;
}

static void
wait_for_pids(const struct cgroup *cg, uint64_t pids)
{
	struct cgroup_usage u;

	for (int i = 0; i < 2000; i++) {
		cgroup_read_usage(cg, &u);
		if (u.pids == pids)
			return;
		sleep_ms(1);
	}
	test_fail(__FILE__, __LINE__, "%llu processes, not %llu", (unsigned long long)u.pids,
	          (unsigned long long)pids);
}

static void
kill_a_family(struct cgroup *cg)
{
	int killed = 0, status;
	int64_t began;

	/* The dead count until they are waited for. */
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	start_family(cg, 20);
	wait_for_pids(cg, 21);
	began = now_ms();
	cgroup_kill(cg);
	while (wait(&status) > 0)
		killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	CHECK(killed == 21);
	wait_for_pids(cg, 0);
	CHECK(now_ms() - began < 500);
	destroy_and_check(cg);
}

TEST(cgroup_kill_takes_daemons)
{
	kill_a_family(make_for_control());
}

static void
count_up(void *arg)
{
	for (volatile uint64_t *n = arg;; (*n)++)
		sleep_ms(1);
}

static void
freeze_and_thaw(struct cgroup *cg)
{
	volatile uint64_t *n = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
	                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct err err = { 0 };
	uint64_t seen;
	pid_t pid;

	CHECK(n != MAP_FAILED);
	pid = start_in(cg, count_up, (void *)(uintptr_t)n);
	while (*n < 3)
		sleep_ms(1);
	CHECK_OK(cgroup_freeze(cg, true, &err));
	sleep_ms(50);
	seen = *n;
	sleep_ms(100);
	CHECK_U64(*n, seen);
	CHECK_OK(cgroup_freeze(cg, false, &err));
	sleep_ms(100);
	CHECK(*n > seen);
	/* A frozen cell can be killed. */
	CHECK_OK(cgroup_freeze(cg, true, &err));
	cgroup_kill(cg);
	CHECK(WTERMSIG(wait_for(pid)) == SIGKILL);
	destroy_and_check(cg);
}

TEST(cgroup_freeze)
{
	freeze_and_thaw(make_for_control());
}

/* A private mount namespace in which only v1 is there. */
static void
hide_v2_or_skip(void)
{
	struct cgroup_report report;

	cgroup_examine(&report);
	if (report.version != 1)
		test_skip("no v1 hierarchies that can be used");
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		test_skip("cannot make a mount namespace");
	umount2("/sys/fs/cgroup/unified", MNT_DETACH);
}

TEST(cgroup_v1_freezer_kills)
{
	struct cgroup *cg;

	hide_v2_or_skip();
	cg = make_for_control();
	CHECK(cgroup_clone_fd(cg) == -1);
	CHECK(strstr(cgroup_paths(cg), "freezer") != NULL);
	kill_a_family(cg);
}

TEST(cgroup_v1_freezer_freezes)
{
	hide_v2_or_skip();
	freeze_and_thaw(make_for_control());
}

TEST(cgroup_enter_from_outside)
{
	struct cgroup_limits limits = { .memory = 64 * MIB, .pids = 5, .cpus_milli = 500 };
	struct cgroup *cg = make_or_skip(&limits);
	struct err err = { 0 };
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		for (;;)
			pause();
	}
	CHECK_OK(cgroup_enter(cg, pid, &err));
	wait_for_pids(cg, 1);
	cgroup_kill(cg);
	CHECK(WTERMSIG(wait_for(pid)) == SIGKILL);
	CHECK_ERR(cgroup_enter(cg, pid, &err), ESRCH);
	CHECK(strstr(err.text, "cannot put process") != NULL);
	destroy_and_check(cg);
}

/* What a cell could leave behind in a cgroup file system of its own. */
TEST(cgroup_destroy_takes_groups_below)
{
	struct cgroup *cg = make_for_control();
	int fd = cgroup_clone_fd(cg);

	if (fd < 0) {
		cgroup_destroy(cg);
		test_skip("no v2 hierarchy");
	}
	CHECK(mkdirat(fd, "a", 0755) == 0 && mkdirat(fd, "a/b", 0755) == 0);
	CHECK(mkdirat(fd, "a/b/c", 0755) == 0 && mkdirat(fd, "a/d", 0755) == 0);
	CHECK(mkdirat(fd, "e", 0755) == 0);
	destroy_and_check(cg);
}

/* What a cell that may mount can do: look at its own group. */
static void
reach_for_limits(void *arg)
{
	(void)arg;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWCGROUP) < 0 ||
	    mount("none", "/tmp", "cgroup2", 0, NULL) < 0 ||
	    access("/tmp/cgroup.procs", W_OK) < 0)
		_exit(94);
	_exit(open("/tmp/pids.max", O_WRONLY) >= 0 || open("/tmp/../pids.max", O_WRONLY) >= 0);
}

/* The owner of the limits is the cell's user too: it must be one below them. */
TEST(cgroup_users_cell_is_below_its_limits)
{
	struct cgroup *cg;
	char made[16];
	int fd, status, n = 0;

	if (geteuid() == 0)
		test_skip("root's files are not the cell's");
	cg = make_for_control();
	fd = cgroup_clone_fd(cg);
	CHECK(fd >= 0);
	CHECK(faccessat(fd, "pids.max", F_OK, 0) < 0 && errno == ENOENT);
	CHECK(faccessat(fd, "../pids.max", F_OK, 0) == 0);
	status = wait_for(start_in(cg, reach_for_limits, NULL));
	do
		snprintf(made, sizeof(made), "g%d", n++);
	while (n < 1000 && mkdirat(fd, made, 0755) == 0);
	destroy_and_check(cg);
	CHECK(n < 100);
	CHECK(WIFEXITED(status));
	CHECK_U64((uint64_t)WEXITSTATUS(status), 0);
}

TEST(cgroup_stale_is_cleared)
{
	struct cgroup *cg = make_for_control();
	char paths[4096];
	pid_t pid;

	pid = start_family(cg, 3);
	wait_for_pids(cg, 4);
	snprintf(paths, sizeof(paths), "%s", cgroup_paths(cg));
	cgroup_free(cg);
	CHECK(!all_gone(paths));
	cgroup_clear_stale(paths);
	CHECK(WTERMSIG(wait_for(pid)) == SIGKILL);
	CHECK(all_gone(paths));
	cgroup_clear_stale(paths);
}

/* A cell's helpers have a group beside its own, which goes with it. */
TEST(cgroup_of_helpers)
{
	static const struct cgroup_limits limits = { .pids = 16 };
	struct cgroup *cg = make_for_control(), *helpers = NULL;
	char paths[4096], theirs[4096], id[CGROUP_ID_MAX], why[512];
	unsigned missing;
	pid_t pid;

	snprintf(paths, sizeof(paths), "%s", cgroup_paths(cg));
	snprintf(id, sizeof(id), "%s" CGROUP_HELPERS, strrchr(paths, '/') + strlen("/cloister-"));
	CHECK_OK(cgroup_create(id, &limits, &helpers, &missing, why, sizeof(why), NULL));
	CHECK_U64(missing, 0);
	snprintf(theirs, sizeof(theirs), "%s", cgroup_paths(helpers));
	CHECK(strstr(theirs, id) != NULL);
	pid = start_family(helpers, 3);
	wait_for_pids(helpers, 4);
	cgroup_free(helpers);
	cgroup_free(cg);
	CHECK_OK(cgroup_clear_stale(paths));
	CHECK(WTERMSIG(wait_for(pid)) == SIGKILL);
	CHECK(all_gone(paths) && all_gone(theirs));
}

TEST(cgroup_stale_touches_only_ours)
{
	struct cgroup *cg = make_for_control();
	char first[1024], other[2048], plain[256], text[4096];

	snprintf(first, sizeof(first), "%.*s", (int)strcspn(cgroup_paths(cg), "\n"),
	         cgroup_paths(cg));
	snprintf(other, sizeof(other), "%s/other", first);
	snprintf(plain, sizeof(plain), "%s/cloister-abc", test_dir());
	CHECK(mkdir(other, 0755) == 0 && mkdir(plain, 0755) == 0);
	snprintf(text, sizeof(text), "%s\n%s\n%s/../cloister-x y\n\n/\ncloister-a\n", other, plain,
	         first);
	cgroup_clear_stale(text);
	CHECK(access(other, F_OK) == 0 && access(plain, F_OK) == 0);
	cgroup_clear_stale("");
	CHECK(rmdir(other) == 0);
	destroy_and_check(cg);
}

/* ---- forgotten ---- */

static struct cgroup *
make_named(const char *id, const char *suffix)
{
	static const struct cgroup_limits limits = { .pids = 16 };
	char name[CGROUP_ID_MAX], why[512];
	struct cgroup *cg = NULL;
	unsigned missing;

	snprintf(name, sizeof(name), "%s%s", id, suffix);
	CHECK_OK(cgroup_create(name, &limits, &cg, &missing, why, sizeof(why), NULL));
	CHECK_U64(missing, 0);
	return cg;
}

/* As if they had been made so many seconds ago; with FIRST the first of them alone. */
static void
set_age(const char *paths, long seconds, bool first)
{
	struct timespec times[2] = { { .tv_sec = time(NULL) - seconds }, { .tv_sec = time(NULL) - seconds } };
	char text[4096], *rest = text, *line;

	snprintf(text, sizeof(text), "%s", paths);
	while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
		CHECK_OK(utimensat(AT_FDCWD, line, times, 0));
		if (first)
			break;
	}
}

/* Groups of others are none of our concern. */
static bool
is_anothers(void *arg, const char *id)
{
	return strcmp(id, arg) != 0;
}

#define YOUNG (CGROUP_FORGOTTEN_S - 20)
#define OLD (CGROUP_FORGOTTEN_S + 20)

static const struct {
	long cell, first, helpers;      /* how old; FIRST: the first of the cell's */
	bool stays;
} forgotten_cases[] = {
	{ OLD,   OLD,   OLD,   false },
	{ 0,     0,     0,     true },
	{ YOUNG, YOUNG, YOUNG, true },
	{ YOUNG, YOUNG, OLD,   true },
	{ OLD,   OLD,   YOUNG, true },
	{ OLD,   YOUNG, OLD,   true },
};

TEST(cgroup_forgotten_ones_go_when_they_are_old)
{
	char id[CGROUP_ID_MAX], other[CGROUP_ID_MAX], paths[4096], theirs[4096];
	struct cgroup *cg;

	CHECK_OK(cgroup_destroy(make_for_control()));
	snprintf(id, sizeof(id), "unit%08xa", (unsigned)getpid());
	snprintf(other, sizeof(other), "unit%08xb", (unsigned)getpid());
	cg = make_named(id, "");
	for (size_t i = 0; i < ARRAY_LEN(forgotten_cases); i++) {
		struct cgroup *cell = make_named(other, ""), *helpers = make_named(other, CGROUP_HELPERS);

		snprintf(paths, sizeof(paths), "%s", cgroup_paths(cell));
		snprintf(theirs, sizeof(theirs), "%s", cgroup_paths(helpers));
		set_age(paths, forgotten_cases[i].cell, false);
		set_age(paths, forgotten_cases[i].first, true);
		set_age(theirs, forgotten_cases[i].helpers, false);
		cgroup_clear_forgotten(cg, id, is_anothers, other);
		CHECK(all_gone(paths) == !forgotten_cases[i].stays);
		CHECK(all_gone(theirs) == !forgotten_cases[i].stays);
		CHECK_OK(cgroup_destroy(helpers));
		CHECK_OK(cgroup_destroy(cell));
	}
	destroy_and_check(cg);
}

TEST(cgroup_refuses_ids)
{
	static const char *const bad[] = {
		"", "a/b", "..", "a b", "a\n",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};
	struct cgroup_limits limits = { .pids = 5 };
	struct cgroup *cg = NULL;
	struct err err = { 0 };
	unsigned missing;
	char why[512];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_ERR(cgroup_create(bad[i], &limits, &cg, &missing, why, sizeof(why), &err),
		          EINVAL);
	CHECK(cg == NULL);
}

TEST(cgroup_refuses_a_second_of_the_name)
{
	struct cgroup_limits limits = { .pids = 5, .memory = 64 * MIB };
	struct cgroup *cg = make_or_skip(&limits), *second = NULL;
	const char *name = strrchr(cgroup_paths(cg), '/') + strlen("/cloister-");
	struct err err = { 0 };
	unsigned missing;
	char why[512];

	CHECK_ERR(cgroup_create(name, &limits, &second, &missing, why, sizeof(why), &err), EEXIST);
	CHECK(second == NULL);
	destroy_and_check(cg);
}

TEST(cgroup_nothing_asked)
{
	struct cgroup_limits limits = { .io = 5 };
	struct cgroup *cg = NULL;
	char why[512];

	CHECK(try_limits(&limits, &cg, why) == 0);
	CHECK_OK(cgroup_destroy(cg));
}

/* In any place: what is missing is said, with what to do about it. */
TEST(cgroup_missing_is_reported)
{
	struct cgroup_limits limits = { .memory = 64 * MIB, .cpus_milli = 500, .pids = 50 };
	struct cgroup *cg = NULL;
	const char *told;
	char why[512];
	unsigned missing;

	if (geteuid() == 0 && setresuid(65534, 65534, 65534) < 0)
		test_skip("cannot become another user");
	missing = try_limits(&limits, &cg, why);
	if (missing != 0) {
		told = strstr(why, "cannot be limited: ");
		CHECK(told != NULL && strstr(told + strlen("cannot be limited: "), ": ") != NULL);
	}
	CHECK_OK(cgroup_destroy(cg));
}

TEST(cgroup_unlimitable_disk_is_only_io)
{
	struct cgroup_limits limits = { .pids = 50, .io = 1024, .n_devices = 1 };
	dev_t none = makedev(0, 0xfffff);   /* mounted nowhere */
	struct cgroup *cg = NULL;
	char why[512];
	unsigned missing;

	if (access("/sys/fs/btrfs", F_OK) == 0 && access("/sys/fs/btrfs/features", F_OK) < 0)
		test_skip("this may be a btrfs subvolume");
	limits.devices = &none;
	missing = try_limits(&limits, &cg, why);
	CHECK_OK(cgroup_destroy(cg));
	CHECK((missing & CGROUP_IO) != 0);
	if ((missing & CGROUP_PIDS) != 0)
		test_skip(why);
	CHECK(missing == CGROUP_IO);
	CHECK(strstr(why, "on no disk") != NULL);
}

TEST(cgroup_examine)
{
	struct cgroup_report r;

	cgroup_examine(&r);
	CHECK(*r.text != '\0');
	CHECK(r.version >= 0 && r.version <= 2);
	CHECK((r.enforceable & ~(unsigned)CGROUP_ALL) == 0);
	if (r.enforceable == CGROUP_ALL)
		CHECK(strstr(r.text, "can be limited") != NULL);
	if (r.version == 2)
		CHECK(r.can_freeze && (r.enforceable != CGROUP_ALL || *r.todo == '\0'));
	if (r.enforceable == 0)
		CHECK(strstr(r.text, "cannot be limited") != NULL && *r.todo != '\0');
}

/* Cells come and go under the group between while others are being made. */
TEST(cgroup_many_at_once)
{
	struct cgroup_limits limits = { .memory = 64 * MIB, .pids = 50, .cpus_milli = 500 };
	struct cgroup *cg;
	pid_t pids[4];

	CHECK_OK(cgroup_destroy(make_or_skip(&limits)));
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		pids[i] = fork();
		if (pids[i] != 0)
			continue;
		for (int n = 0; n < 30; n++) {
			cg = make_or_skip(&limits);
			destroy_and_check(cg);
		}
		_exit(0);
	}
	for (size_t i = 0; i < ARRAY_LEN(pids); i++)
		CHECK(wait_for(pids[i]) == 0);
}
