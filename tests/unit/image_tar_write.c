/* image_tar_write.c - tests of image/tar_write: the system's tar reads what was written. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "image/tar_write.h"
#include "test.h"

static int
put(void *arg, const void *data, size_t len, struct err *err)
{
	struct buf *b = arg;

	buf_put(b, data, len);
	return buf_failed(b) ? err_set(err, E2BIG, "too much") : 0;
}

static char *
list(const struct buf *b)
{
	OWN(freep) char *path = str_format("%s/x.tar", test_dir()), *command = NULL;
	OWN(closep) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	FILE *out;
	char *text = calloc(1, 16384);

	CHECK_OK(write_all(fd, b->data, b->len, NULL));
	command = str_format("tar --numeric-owner --utc --xattrs --full-time -tvvf %s 2>&1", path);
	out = popen(command, "r");
	CHECK(out != NULL && fread(text, 1, 16383, out) > 0 && pclose(out) == 0);
	return text;
}

TEST(tar_write_is_read_by_tar)
{
	OWN(buf_free) struct buf b = BUF(1 << 20), attributes = BUF(TAR_XATTRS_MAX);
	struct tar_write t = { .put = put, .arg = &b };
	char deep[301], text[700];
	OWN(freep) char *got = NULL, *want = NULL;

	memset(deep, 'd', 300);
	deep[150] = '/';
	deep[300] = '\0';
	memset(text, 't', sizeof(text));
	tar_put_xattr(&attributes, "user.a", "b\0c", 3);
	CHECK_OK(tar_entry(&t, &(struct tar_entry){ .path = "a", .mode = S_IFDIR | 01777, .mtime = 5 }, NULL));
	CHECK_OK(tar_entry(&t, &(struct tar_entry){ .path = "a/f", .mode = S_IFREG | 04755, .size = 700, .uid = 1,
	                                            .gid = 3000000000, .xattrs = &attributes }, NULL));
	CHECK_OK(tar_data(&t, text, 100, NULL));
	CHECK_OK(tar_data(&t, text, 600, NULL));
	CHECK_OK(tar_entry(&t, &(struct tar_entry){ .path = "a/empty", .mode = S_IFREG | 0600 }, NULL));
	CHECK_OK(tar_entry(&t, &(struct tar_entry){ .path = "a/h", .mode = S_IFREG | 0755, .hard = "a/f" }, NULL));
	CHECK_OK(tar_entry(&t, &(struct tar_entry){ .path = "a/l", .mode = S_IFLNK | 0777, .link = deep }, NULL));
	CHECK_OK(tar_entry(&t, &(struct tar_entry){ .path = deep, .mode = S_IFREG | 0644, .mtime = 1700000000 }, NULL));
	CHECK_OK(tar_entry(&t, &(struct tar_entry){ .path = "p", .mode = S_IFIFO | 0600 }, NULL));
	CHECK_OK(tar_end(&t, NULL));
	CHECK(b.len % 512 == 0);
	got = list(&b);
	want = str_format("drwxrwxrwt  0/0               0 1970-01-01 00:00:05 a/\n"
	                  "-rwsr-xr-x* 1/3000000000    700 1970-01-01 00:00:00 a/f\n"
	                  "-rw-------  0/0               0 1970-01-01 00:00:00 a/empty\n"
	                  "hrwxr-xr-x  0/0               0 1970-01-01 00:00:00 a/h link to a/f\n"
	                  "lrwxrwxrwx  0/0               0 1970-01-01 00:00:00 a/l -> %s\n"
	                  "-rw-r--r--  0/0               0 2023-11-14 22:13:20 %s\n"
	                  "prw-------  0/0               0 1970-01-01 00:00:00 p\n", deep, deep);
	CHECK_STR(got, want);
}

/* A size of over 8 GiB is in a header of its own. */
TEST(tar_write_large)
{
	OWN(buf_free) struct buf b = BUF(1 << 20);
	struct tar_write t = { .put = put, .arg = &b };
	const char *data;

	CHECK_OK(tar_entry(&t, &(struct tar_entry){ .path = "x", .mode = S_IFREG | 0644, .size = UINT64_C(1) << 33 }, NULL));
	data = (const char *)b.data;
	CHECK(b.len == 3 * 512 && data[156] == 'x' && data[2 * 512 + 156] == '0');
	CHECK(memcmp(data + 512, "19 size=8589934592\n", 20) == 0);
}
