/* workspace_collect.c - tests of bringing an upper folder to the host. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "test.h"
#include "workspace_lab.h"

static uint64_t
collect(int from, int to)
{
	struct err err = {0};
	uint64_t skipped = 99;

	if (workspace_collect(from, to, &skipped, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	return skipped;
}

static const char kept[] =
	"d d 755\no d\nf d/a 600 text\nf d/none 000 secret\nf d/ro 444\nf d/locked/a 644\n"
	"d d/locked 000\nd d/tmp 1777\nl d/loop loop\nl l /etc/passwd\nw gone\nd empty 500\n";

/* Whoever collects can read what the agent locked. */
static void
collect_kept(void *arg)
{
	int from = lab_open("from"), to = lab_open("to");
	OWN(freep) char *want = NULL;
	struct stat st;

	(void)arg;
	lab_make(from, kept);
	want = lab_show(from);
	CHECK(strstr(want, "d/none 000 secret\n") != NULL);
	CHECK_U64(collect(from, to), 0);
	LAB_CHECK_TREE(to, want);
	/* The owner is never kept out of what was kept. */
	CHECK(fstatat(to, "d/none", &st, 0) == 0 && (st.st_mode & 07777) == 0600);
	CHECK(fstatat(to, "d/locked", &st, 0) == 0 && (st.st_mode & 07777) == 0700);
}

static void
collect_in_userns(void *arg)
{
	(void)arg;
	lab_dir("from");
	lab_dir("to");
	if (!lab_in_userns(collect_kept, NULL))
		test_skip("no user namespaces here");
	lab_clean();
}

TEST(workspace_collect_keeps)
{
	collect_in_userns(NULL);
}

TEST(workspace_collect_keeps_as_user)
{
	lab_as_user(collect_in_userns, NULL);
}

TEST(workspace_collect_drops_privileged_bits)
{
	int from = lab_dir("from"), to = lab_dir("to");
	struct stat st;

	lab_make(from, "f f 755\nd d 755\n");
	CHECK(fchmodat(from, "f", 07755, 0) == 0 && fchmodat(from, "d", 07777, 0) == 0);
	CHECK_U64(collect(from, to), 0);
	CHECK(fstatat(to, "f", &st, 0) == 0 && (st.st_mode & 07777) == 0755);
	CHECK(fstatat(to, "d", &st, 0) == 0 && (st.st_mode & 07777) == 01777);
}

TEST(workspace_collect_leaves_out_special_files)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int from = lab_dir("from"), to = lab_dir("to");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t want = 3;

	CHECK(mkfifoat(from, "fifo", 0666) == 0);
	snprintf(name.sun_path, sizeof(name.sun_path), "/proc/self/fd/%d/socket", from);
	CHECK(bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0);
	lab_make(from, "f .cloister-x.tmp 644\nw w\n");
	/* Only root can make the likes of these. */
	if (mknodat(from, "null", S_IFCHR | 0666, makedev(1, 3)) == 0)
		want++;
	if (mknodat(from, "block", S_IFBLK | 0666, makedev(0, 0)) == 0)
		want++;
	CHECK_U64(collect(from, to), want);
	LAB_CHECK_TREE(to, "w whiteout\n");
	close(fd);
}

TEST(workspace_collect_hard_links)
{
	int from = lab_dir("from"), to = lab_dir("to");
	struct stat a, b, c;

	lab_make(from, "f a 644 x\nd d 755\nf c 644 y\n");
	CHECK(linkat(from, "a", from, "d/b", 0) == 0 && linkat(from, "c", from, "e", 0) == 0);
	CHECK_U64(collect(from, to), 0);
	CHECK(fstatat(to, "a", &a, 0) == 0 && fstatat(to, "d/b", &b, 0) == 0 &&
	      fstatat(to, "c", &c, 0) == 0);
	CHECK(a.st_ino == b.st_ino && a.st_ino != c.st_ino && a.st_nlink == 2);
	LAB_CHECK_TREE(to, "a 644 x\nc 644 y\nd 755/\nd/b 644 x\ne 644 y\n");
	CHECK(faccessat(to, ".cloister-links.tmp", F_OK, 0) < 0);
}

TEST(workspace_collect_holes_and_times)
{
	const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1000000000, .tv_nsec = 5 } };
	int from = lab_dir("from"), to = lab_dir("to"), fd;
	struct stat st;

	lab_make(from, "d d 755\nl l x\n");
	fd = openat(from, "d/f", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	CHECK(ftruncate(fd, 100 << 20) == 0 && pwrite(fd, "x", 1, 50 << 20) == 1);
	CHECK(futimens(fd, times) == 0 && utimensat(from, "d", times, 0) == 0 &&
	      utimensat(from, "l", times, AT_SYMLINK_NOFOLLOW) == 0);
	CHECK_U64(collect(from, to), 0);
	CHECK(fstatat(to, "d/f", &st, 0) == 0 && st.st_size == 100 << 20);
	CHECK(st.st_blocks < 1000);
	CHECK(st.st_mtim.tv_sec == 1000000000 && st.st_mtim.tv_nsec == 5);
	CHECK(fstatat(to, "d", &st, 0) == 0 && st.st_mtim.tv_sec == 1000000000);
	CHECK(fstatat(to, "l", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mtim.tv_sec == 1000000000);
	close(fd);
}

/* A message is one line, and cannot speak to a terminal. */
TEST(workspace_collect_prints_names_safely)
{
	int from = lab_dir("from"), to = lab_dir("to");
	struct err err = {0};
	uint64_t skipped;

	CHECK(mkdirat(from, "\033[2J\n\xff", 0755) == 0);
	CHECK(mkdirat(to, "\033[2J\n\xff", 0755) == 0);
	CHECK_ERR(workspace_collect(from, to, &skipped, &err), EEXIST);
	CHECK_STR(err.text, "cannot keep '\\x1b[2J\\x0a\\xff': File exists");
}

/* Whether a copy was disturbed is known from the times of files. */
TEST(workspace_collect_live)
{
	int from = lab_dir("from"), to = lab_dir("to"), twice = lab_dir("twice");
	uint64_t skipped = 0;
	bool changed = true;
	struct err err = {0};

	lab_make(from, "f file 644 old\nf d/a 644 text\n");
	lab_tick();
	CHECK_OK(workspace_collect_live(from, to, &skipped, &changed, &err));
	CHECK(!changed);
	LAB_CHECK_TREE(to, "d 755/\nd/a 644 text\nfile 644 old\n");
	/* A name that is there already: a file was renamed while its folder was listed. */
	lab_make(twice, "f file 644 other\n");
	CHECK_OK(workspace_collect_live(from, twice, &skipped, &changed, &err));
	CHECK(changed && faccessat(twice, "d/a", F_OK, 0) == 0);
	lab_clean();
}
