/* workspace_lab.c - see workspace_lab.h. */
#include "workspace_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/tree.h"
#include "test.h"
#include "workspace/workspace_tree.h"

static char lab_path[80];               /* "" : the test's folder */

static const char *
lab_root(void)
{
	return lab_path[0] != '\0' ? lab_path : test_dir();
}

int
lab_open(const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", lab_root(), name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

int
lab_dir(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", lab_root(), name);
	CHECK(mkdir(path, 0755) == 0);
	CHECK(chmod(path, 0755) == 0);
	return lab_open(name);
}

void
lab_case(struct workspace *ws, size_t n)
{
	char name[32];

	snprintf(name, sizeof(name), "real%zu", n);
	ws->real = lab_dir(name);
	snprintf(name, sizeof(name), "changes%zu", n);
	ws->changes = lab_dir(name);
}

void
lab_clean(void)
{
	OWN(closep) int fd = lab_open(".");

	CHECK_OK(tree_empty(fd, NULL));
}

/* ---- making ------------------------------------------------------------------- */

static void
make_folders(int dir, const char *path)
{
	char copy[256];

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *p = strchr(copy, '/'); p != NULL; p = strchr(p + 1, '/')) {
		*p = '\0';
		CHECK(mkdirat(dir, copy, 0755) == 0 || errno == EEXIST);
		*p = '/';
	}
}

/* As it is in a workspace, or as it is kept among changes. */
static void
set_mode(int fd, mode_t mode, bool kept)
{
	CHECK_OK(kept ? wtree_set_mode(fd, mode) : fchmod(fd, mode));
}

static void
make_file(int dir, const char *path, mode_t mode, const char *text, bool kept)
{
	OWN(closep) int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	set_mode(fd, mode, kept);
}

static void
make_dir(int dir, const char *path, mode_t mode, bool kept)
{
	OWN(closep) int fd = -1;

	CHECK(mkdirat(dir, path, 0700) == 0 || errno == EEXIST);
	fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	set_mode(fd, mode, kept);
}

static void
make_one(int dir, const char *line, bool kept)
{
	char what, path[200], word[200] = "", rest[200] = "";
	OWN(closep) int fd = -1;

	CHECK(sscanf(line, " %c %199s %199s %199[^\n]", &what, path, word, rest) >= 2);
	make_folders(dir, path);
	switch (what) {
	case 'f':
		make_file(dir, path, (mode_t)strtoul(word, NULL, 8), rest, kept);
		break;
	case 'd':
		make_dir(dir, path, (mode_t)strtoul(word, NULL, 8), kept);
		break;
	case 'l':
		CHECK(symlinkat(word, dir, path) == 0);
		break;
	case 'w':
		CHECK(mknodat(dir, path, S_IFCHR | 0600, makedev(0, 0)) == 0);
		break;
	case 'o':
		fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fsetxattr(fd, WTREE_OPAQUE, "y", 1, 0) < 0 && errno == EOPNOTSUPP)
			test_skip("no user extended attributes here");
		break;
	case 'x':
		CHECK_OK(wtree_remove(dir, path, NULL, NULL));
		break;
	default:
		test_fail(__FILE__, __LINE__, "lab_make() knows no such line: %s", line);
	}
}

static void
make_all(int dir, const char *script, bool kept)
{
	for (const char *line = script; *line != '\0';) {
		char one[512];
		size_t len = strcspn(line, "\n");

		CHECK(len < sizeof(one));
		memcpy(one, line, len);
		one[len] = '\0';
		if (len > 0)
			make_one(dir, one, kept);
		line += len + (line[len] == '\n');
	}
}

void
lab_make(int dir, const char *script)
{
	make_all(dir, script, false);
}

void
lab_make_kept(int dir, const char *script)
{
	make_all(dir, script, true);
}

/* ---- showing ------------------------------------------------------------------ */

static void
show_file(FILE *out, int dir, const char *name, const struct stat *st)
{
	OWN(closep) int fd = wtree_open_file(dir, name);
	char text[16384];
	ssize_t n;

	fprintf(out, " %03o", fd >= 0 ? wtree_mode(fd, st) : st->st_mode & 07777);
	if (st->st_size > 64) {
		uint64_t sum = 0;

		for (off_t at = 0; fd >= 0 && (n = pread(fd, text, sizeof(text), at)) > 0; at += n)
			for (ssize_t i = 0; i < n; i++)
				sum = sum * 31 + (unsigned char)text[i];
		fprintf(out, " %lld bytes, %llx\n", (long long)st->st_size,
		        (unsigned long long)sum);
		return;
	}
	n = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (n < 0)
		fprintf(out, " ?\n");
	else
		fprintf(out, "%s%.*s\n", n > 0 ? " " : "", (int)n, text);
}

static void
show_dir(FILE *out, int dir, struct wtree_path *path)
{
	OWN(wtree_names_free) struct wtree_names names = {0};
	size_t len = path->len;

	CHECK_OK(wtree_names_load(dir, &names, NULL));
	for (size_t i = 0; i < names.n; i++) {
		const char *name = names.name[i];
		char target[4096] = "";
		OWN(closep) int sub = -1;
		struct stat st;

		CHECK(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
		CHECK_OK(wtree_path_push(path, name, NULL));
		fputs(path->text, out);
		if (S_ISDIR(st.st_mode)) {
			sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			fprintf(out, " %03o/%s\n", sub >= 0 ? wtree_mode(sub, &st) : st.st_mode & 01777,
			        sub < 0 ? " ?" : wtree_is_opaque(sub) ? " opaque" : "");
			if (sub >= 0)
				show_dir(out, sub, path);
		} else if (S_ISREG(st.st_mode)) {
			show_file(out, dir, name, &st);
		} else if (S_ISLNK(st.st_mode)) {
			CHECK(readlinkat(dir, name, target, sizeof(target) - 1) >= 0);
			fprintf(out, " -> %s\n", target);
		} else {
			fputs(wtree_is_whiteout(&st) ? " whiteout\n" : " special\n", out);
		}
		wtree_path_pop(path, len);
	}
}

char *
lab_show(int dir)
{
	OWN(wtree_path_free) struct wtree_path path = {0};
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	CHECK(out != NULL);
	show_dir(out, dir, &path);
	CHECK(fclose(out) == 0);
	return text;
}

char *
lab_list(const struct workspace *ws)
{
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	struct err err = {0};
	char *text = NULL;
	size_t len, n;
	FILE *out = open_memstream(&text, &len);

	CHECK(out != NULL);
	if (workspace_list(ws, &list, &n, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%c %s%s%s\n", list[i].mode_only ? 'm' : "AMD"[list[i].kind],
		        list[i].path, S_ISDIR(list[i].type) ? "/" : "",
		        list[i].held ? " held" : "");
	CHECK(list[n].path == NULL);
	CHECK(fclose(out) == 0);
	return text;
}

char *const *
lab_paths(const char *words)
{
	static char text[256], *paths[16];
	char *rest = NULL;
	size_t n = 0;

	if (words == NULL)
		return NULL;
	snprintf(text, sizeof(text), "%s", words);
	for (char *p = strtok_r(text, " ", &rest); p != NULL;
	     p = strtok_r(NULL, " ", &rest))
		paths[n++] = p;
	paths[n] = NULL;
	return paths;
}

int
lab_apply(const struct workspace *ws, struct workspace_apply how, size_t *ret_applied,
          size_t *ret_held, struct err *err)
{
	struct workspace all = *ws;
	size_t applied = 0, held = 0;
	int r;

	if (how.cell == NULL)
		how.cell = "lab";
	if (all.since_ns == 0)
		all.since_ns = INT64_MAX;
	r = workspace_apply_changes(&all, &how, &applied, &held, err);
	if (ret_applied != NULL)
		*ret_applied = applied;
	if (ret_held != NULL)
		*ret_held = held;
	return r;
}

/* ---- who we are ----------------------------------------------------------------- */

void
lab_must_succeed(int pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFSIGNALED(status))
		test_fail(__FILE__, __LINE__, "a child died: %s", strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status) == 77)
		_exit(77);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool
write_map(const char *path, const char *text)
{
	OWN(closep) int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool
enter_userns(void)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)geteuid());
	snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getegid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       (write_map("/proc/self/setgroups", "deny") || errno == ENOENT) &&
	       write_map("/proc/self/uid_map", uids) && write_map("/proc/self/gid_map", gids) &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

bool
lab_in_userns(void (*fn)(void *), void *arg)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (!enter_userns())
			_exit(99);
		fn(arg);
		fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99)
		return false;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		_exit(77);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return true;
}

void
lab_as_user(void (*fn)(void *), void *arg)
{
	enum { SOMEBODY = 12345 };
	pid_t pid;

	if (geteuid() != 0) {
		fn(arg);
		return;
	}
	fflush(stdout);
	CHECK(chmod(lab_root(), 0711) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		snprintf(lab_path, sizeof(lab_path), "%s/user", test_dir());
		CHECK(mkdir(lab_path, 0700) == 0 && chown(lab_path, SOMEBODY, SOMEBODY) == 0);
		CHECK(setresgid(SOMEBODY, SOMEBODY, SOMEBODY) == 0);
		CHECK(setresuid(SOMEBODY, SOMEBODY, SOMEBODY) == 0);
		CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);  /* or /proc/self is root's */
		fn(arg);
		fflush(stdout);
		_exit(0);
	}
	lab_must_succeed(pid);
}

static int64_t
clock_ns(clockid_t clock)
{
	struct timespec ts;

	CHECK(clock_gettime(clock, &ts) == 0);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t
lab_now_ns(void)
{
	return clock_ns(CLOCK_REALTIME_COARSE);
}

void
lab_tick(void)
{
	/* Files are stamped by either clock, and the coarse one is behind by more than its tick. */
	int64_t then = clock_ns(CLOCK_REALTIME);

	while (lab_now_ns() <= then)
		usleep(500);
}
