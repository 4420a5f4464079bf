/* dispatch_layers.c - tests of finding programs in the layers of an image. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "dispatch/dispatch_parts.h"
#include "test.h"

#define LAYERS 3

/* One entry of a layer. */
static const struct entry {
	int layer;                      /* 0 is the lowest */
	char kind;                      /* File, Plain (not executable), Link, Whiteout, Directory, Opaque one */
	const char *path, *to;
} entries[] = {
	{ 0, 'D', "bin", NULL }, { 0, 'F', "bin/low", NULL }, { 0, 'F', "bin/both", NULL }, { 0, 'F', "bin/gone", NULL },
	{ 0, 'D', "old", NULL }, { 0, 'F', "old/a", NULL }, { 0, 'D', "hidden", NULL }, { 0, 'F', "hidden/a", NULL },
	{ 0, 'D', "file", NULL }, { 0, 'F', "file/a", NULL },
	{ 1, 'D', "bin", NULL }, { 1, 'F', "bin/both", NULL }, { 1, 'W', "bin/gone", NULL }, { 1, 'W', "old", NULL },
	{ 1, 'O', "hidden", NULL }, { 1, 'F', "hidden/b", NULL }, { 1, 'F', "file", NULL },
	{ 1, 'L', "sh", "/bin/low" }, { 1, 'L', "up", "bin/../bin/./low" }, { 1, 'L', "loop", "loop" },
	{ 1, 'L', "out", "../../../../../../etc/passwd" }, { 1, 'L', "folder", "/bin" }, { 1, 'P', "plain", NULL },
	/* A lower layer's folder is a link to the host: an upper one's is a folder. */
	{ 1, 'L', "trap", "/" }, { 2, 'D', "trap", NULL }, { 2, 'F', "bin", NULL },
};

static void
make(const char *top, const struct entry *e)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%d/%s", top, e->layer, e->path);
	switch (e->kind) {
	case 'D':
	case 'O':
		CHECK(mkdir(path, 0755) == 0 || errno == EEXIST);
		if (e->kind == 'O' && setxattr(path, "user.overlay.opaque", "y", 1, 0) < 0)
			test_skip("this file system has no extended attributes");
		break;
	case 'L':
		CHECK(symlink(e->to, path) == 0);
		break;
	case 'W':
		if (mknod(path, S_IFCHR, 0) < 0)
			test_skip("whiteouts cannot be made here");
		break;
	default:
		CHECK_OK(create_file_at(AT_FDCWD, path, e->kind == 'P' ? 0644 : 0755, "x", NULL));
	}
}

static const struct {
	size_t n;                       /* of the layers */
	const char *path;
	int layer;                      /* that has it; -1: nothing is there */
	const char *file;
} cases[] = {
	{ 2, "/bin/low", 0, "/bin/low" }, { 2, "bin//low", 0, "/bin/low" }, { 2, "/bin/both", 1, "/bin/both" },
	{ 1, "/bin/both", 0, "/bin/both" }, { 1, "/bin/gone", 0, "/bin/gone" }, { 2, "/bin/gone", -1, NULL },
	{ 1, "/old/a", 0, "/old/a" }, { 2, "/old/a", -1, NULL }, { 2, "/hidden/a", -1, NULL },
	{ 2, "/hidden/b", 1, "/hidden/b" }, { 2, "/file/a", -1, NULL }, { 2, "/file", 1, "/file" },
	{ 2, "/sh", 0, "/bin/low" }, { 2, "/up", 0, "/bin/low" }, { 2, "/loop", -1, NULL }, { 2, "/out", -1, NULL },
	{ 2, "/folder/both", 1, "/bin/both" }, { 2, "/folder", -1, NULL }, { 2, "/bin", -1, NULL }, { 2, "/", -1, NULL },
	{ 2, "/plain", -1, NULL }, { 2, "/../bin/low", 0, "/bin/low" }, { 3, "/trap/bin/sh", -1, NULL },
	{ 3, "/bin/low", -1, NULL }, { 0, "/bin/low", -1, NULL },
};

TEST(dispatch_layers_are_as_overlayfs_shows_them)
{
	const char *top = test_dir();
	char path[512];

	for (int i = 0; i < LAYERS; i++) {
		snprintf(path, sizeof(path), "%s/%d", top, i);
		CHECK(mkdir(path, 0755) == 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(entries); i++)
		make(top, &entries[i]);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(dispatch_root_close) struct dispatch_root root = {0};
		struct dispatch_found found = { .fd = -1 };
		OWN(closep) int fd = -1;
		char host[1024];

		for (size_t k = 0; k < cases[i].n; k++) {
			snprintf(path, sizeof(path), "%s/%zu", top, k);
			CHECK_OK(dispatch_root_add(&root, path, NULL));
		}
		if (cases[i].layer < 0) {
			CHECK_ERR(dispatch_root_find(&root, cases[i].path, &found), ENOENT);
			continue;
		}
		CHECK_OK(dispatch_root_find(&root, cases[i].path, &found));
		fd = found.fd;
		CHECK_STR(found.file, cases[i].file);
		snprintf(host, sizeof(host), "%s/%d%s", top, cases[i].layer, cases[i].file);
		CHECK_STR(found.host, host);
	}
}

TEST(dispatch_layers_of_the_host)
{
	OWN(dispatch_root_close) struct dispatch_root root = { .is_host = true };
	struct dispatch_found found = { .fd = -1 };
	OWN(closep) int fd = -1;
	OWN(freep) char *real = realpath("/bin/sh", NULL);

	CHECK_OK(dispatch_root_add(&root, "/", NULL));
	CHECK_OK(dispatch_root_find(&root, "/bin/sh", &found));
	fd = found.fd;
	CHECK_STR(found.file, real);
	CHECK_STR(found.host, real);
	/* A cell does not see these. */
	CHECK_ERR(dispatch_root_find(&root, "/proc/self/exe", &found), ENOENT);
	CHECK_ERR(dispatch_root_find(&root, "/etc/passwd", &found), ENOENT);
}
