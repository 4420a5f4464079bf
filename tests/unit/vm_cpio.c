/* vm_cpio.c - tests of vm/cpio. */
#include "vm/cpio.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/io.h"
#include "test.h"

static char *
contents(int fd, size_t *ret_len)
{
	char *text = NULL;

	CHECK_OK(read_whole(fd, 1 << 20, &text, ret_len, NULL));
	return text;
}

#define HEAD(ino, mode, links, size, major, minor, name_size) \
	"070701" ino mode "00000000" "00000000" links "00000000" size "00000000" "00000000" major minor name_size "00000000"
#define NONE "00000000"

/* Names and contents end at multiples of four bytes. */
static const char want[] =
	HEAD("00000000", "000041ED", "00000002", NONE, NONE, NONE, "00000004") "dev\0\0\0"
	HEAD("00000001", "00002180", "00000001", NONE, "00000005", "00000001", "0000000C") "dev/console\0\0\0"
	HEAD("00000002", "000081ED", "00000001", "00000005", NONE, NONE, "00000005") "init\0\0" "hello\0\0\0"
	HEAD("00000003", "0000A1FF", "00000001", "00000004", NONE, NONE, "00000004") "bin\0\0\0" "init"
	HEAD("00000004", "000081A4", "00000001", NONE, NONE, NONE, "00000006") "empty\0"
	HEAD("00000005", "00000000", "00000001", NONE, NONE, NONE, "0000000B") "TRAILER!!!\0\0\0";

TEST(cpio_bytes)
{
	OWN(closep) int fd = memfd_create("cpio", MFD_CLOEXEC);
	OWN(freep) char *got = NULL;
	struct cpio c;
	size_t len;

	cpio_begin(&c, fd);
	cpio_put_folder(&c, "dev", 0755);
	cpio_put_device(&c, "dev/console", 0600, 5, 1);
	cpio_put_file(&c, "init", 0755, "hello", 5);
	cpio_put_link(&c, "bin", "init");
	cpio_put_file(&c, "empty", 0644, NULL, 0);
	CHECK_OK(cpio_end(&c, NULL));
	got = contents(fd, &len);
	/* The string's own NUL is the last byte of padding. */
	CHECK_U64(len, sizeof(want));
	CHECK(memcmp(got, want, len) == 0);
}

TEST(cpio_refuses_names)
{
	static char long_name[CPIO_NAME_MAX + 2];
	const char *const names[] = { "", "/init", long_name };
	OWN(closep) int fd = memfd_create("cpio", MFD_CLOEXEC);
	struct err err = {0};
	struct cpio c;

	memset(long_name, 'x', sizeof(long_name) - 1);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		cpio_begin(&c, fd);
		cpio_put_file(&c, names[i], 0644, "x", 1);
		cpio_put_file(&c, "fine", 0644, "x", 1);
		CHECK_ERR(cpio_end(&c, &err), EINVAL);
		CHECK(strstr(err.text, names[i]) != NULL);
	}
	CHECK(lseek(fd, 0, SEEK_CUR) == 0);
	cpio_begin(&c, fd);
	cpio_put_file(&c, long_name + 1, 0644, "x", 1);
	CHECK_OK(cpio_end(&c, &err));
}

TEST(cpio_keeps_the_first_error)
{
	OWN(closep) int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct err err = {0};
	struct cpio c;

	CHECK(fd >= 0);
	cpio_begin(&c, fd);
	cpio_put_folder(&c, "dev", 0755);
	cpio_put_file(&c, "/bad", 0644, "x", 1);
	CHECK_ERR(cpio_end(&c, &err), ENOSPC);
	CHECK(strstr(err.text, "No space") != NULL);
}
