/* image_layered.c - tests of image/layered: several folders as one tree. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/io.h"
#include "image/layered.h"
#include "test.h"

static void
put(const char *path, const char *text)
{
	CHECK_OK(create_file_at(AT_FDCWD, path, 0644, text, NULL));
}

static void
make(const char *path)
{
	CHECK(mkdir(path, 0755) == 0);
}

/* Two layers: the upper one removes, replaces and adds. */
static struct layered
two_layers(void)
{
	static const char *const folders[] = { "low", "low/usr", "low/usr/bin", "low/gone", "low/old", "low/both", "up",
	                                       "up/old", "up/both", "up/top" };
	struct layered t = { .n = 2 };

	CHECK(chdir(test_dir()) == 0);
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		make(folders[i]);
	put("low/usr/bin/a", "lower a");
	put("low/gone/f", "");
	put("low/old/f", "");
	put("low/both/l", "");
	put("low/file", "lower");
	put("secret", "outside");
	put("up/old/g", "");
	put("up/both/u", "");
	put("up/file", "upper");
	CHECK(symlink("usr/bin", "low/bin") == 0 && symlink("/bin/a", "up/top/abs") == 0);
	CHECK(symlink("../bin/a", "up/top/rel") == 0 && symlink("../../../secret", "up/top/out") == 0);
	CHECK(symlink("loop", "up/top/loop") == 0);
	if (mknod("up/gone", S_IFCHR, makedev(0, 0)) < 0)
		test_skip("this user cannot make whiteouts");
	if (setxattr("up/old", "user.overlay.opaque", "y", 1, 0) < 0)
		test_skip("the temporary folder has no attributes");
	t.folders[0] = open("low", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	t.folders[1] = open("up", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return t;
}

static const struct {
	const char *path;
	bool follow;
	int want;
	const char *resolved;
} find_cases[] = {
	{ "/",               true,  0,        "" },
	{ "",                true,  0,        "" },
	{ "/usr/bin/a",      true,  0,        "usr/bin/a" },
	{ "//usr/./bin//a/", true,  0,        "usr/bin/a" },
	{ "bin/a",           true,  0,        "usr/bin/a" },
	{ "bin",             false, 0,        "bin" },
	{ "bin",             true,  0,        "usr/bin" },
	{ "usr/../bin/a",    true,  0,        "usr/bin/a" },
	{ "../../bin/a",     true,  0,        "usr/bin/a" },
	{ "top/abs",         true,  0,        "usr/bin/a" },
	{ "top/rel",         true,  0,        "usr/bin/a" },
	{ "top/rel",         false, 0,        "top/rel" },
	{ "top/out",         true,  -ENOENT,  "secret" },
	{ "top/out",         false, 0,        "top/out" },
	{ "top/loop",        true,  -ELOOP,   NULL },
	{ "gone",            true,  -ENOENT,  "gone" },
	{ "gone/f",          true,  -ENOENT,  "gone/f" },
	{ "old/f",           true,  -ENOENT,  "old/f" },
	{ "old/g",           true,  0,        "old/g" },
	{ "both/l",          true,  0,        "both/l" },
	{ "both/u",          true,  0,        "both/u" },
	{ "file/x",          true,  -ENOTDIR, NULL },
	{ "none/deep/x",     true,  -ENOENT,  "none/deep/x" },
	{ "bin/none",        true,  -ENOENT,  "usr/bin/none" },
};

TEST(layered_find)
{
	const struct layered t = two_layers();

	for (size_t i = 0; i < ARRAY_LEN(find_cases); i++) {
		OWN(layered_close) struct layered_file f = LAYERED_FILE;
		char path[PATH_MAX] = "";
		int r = layered_find(&t, find_cases[i].path, find_cases[i].follow, path, &f);

		if (r != find_cases[i].want || (find_cases[i].resolved != NULL && strcmp(path, find_cases[i].resolved) != 0))
			test_fail(__FILE__, __LINE__, "%s: %d '%s'", find_cases[i].path, r, path);
	}
}

TEST(layered_shows_the_upper_file)
{
	const struct layered t = two_layers();
	OWN(layered_close) struct layered_file f = LAYERED_FILE;
	OWN(freep) char *text = NULL;
	OWN(closep) int fd = -1;
	char path[PATH_MAX];

	CHECK_OK(layered_find(&t, "file", true, path, &f));
	fd = layered_read(&f);
	CHECK_OK(read_open(fd, "file", 100, &text, NULL, NULL));
	CHECK_STR(text, "upper");
}

TEST(layered_lists_both)
{
	const struct layered t = two_layers();
	OWN(layered_close) struct layered_file f = LAYERED_FILE;
	char path[PATH_MAX], **names;
	size_t n;

	CHECK_OK(layered_find(&t, "both", true, path, &f));
	CHECK_OK(layered_list(&f, &names, &n, NULL));
	CHECK(n == 2 && strcmp(names[0], "l") == 0 && strcmp(names[1], "u") == 0);
	layered_free_names(names, n);
}
