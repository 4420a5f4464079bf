/* base_tree.c - tests of base/tree. */
#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/io.h"
#include "test.h"

static bool
is_empty(int dir)
{
	OWN(closedirp) DIR *stream = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	size_t n = 0;

	while (readdir(stream) != NULL)
		n++;
	return n == 2;
}

TEST(tree_empty_removes_what_strangers_made)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closep) int out = -1, in = -1;

	CHECK_OK(mkdirat(dir, "out", 0700));
	CHECK_OK(mkdirat(dir, "in", 0700));
	out = openat(dir, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	in = openat(dir, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(create_file_at(out, "canary", 0600, "x", NULL));
	CHECK_OK(symlinkat("../out", in, "link"));
	CHECK_OK(mkdirat(in, "closed", 0700));
	CHECK_OK(mkdirat(in, "closed/inner", 0700));
	CHECK_OK(create_file_at(in, "closed/inner/file", 0000, "", NULL));
	CHECK_OK(mkfifoat(in, "fifo", 0600));
	CHECK_OK(fchmodat(in, "closed/inner", 0000, 0));
	CHECK_OK(fchmodat(in, "closed", 0000, 0));
	CHECK_OK(tree_empty(in, NULL));
	CHECK(is_empty(in));
	CHECK_OK(faccessat(out, "canary", F_OK, 0));
}

/* Deeper than descriptors or a path could go. */
TEST(tree_empty_any_depth)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int at = dup(dir);

	for (int i = 0; i < 3000; i++) {
		int next;

		CHECK_OK(mkdirat(at, "d", 0700));
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK_OK(next);
		close(at);
		at = next;
	}
	close(at);
	CHECK_OK(tree_empty(dir, NULL));
	CHECK(is_empty(dir));
}
