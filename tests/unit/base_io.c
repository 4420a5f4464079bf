/* base_io.c - tests of base/io. */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "test.h"

static int
open_test_dir(void)
{
	int fd = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

TEST(io_file_round_trip)
{
	OWN(closep) int dir = open_test_dir();
	OWN(freep) char *text = NULL;
	struct err err = {0};
	struct stat st;
	size_t len;

	CHECK_OK(create_file_at(dir, "f", 0640, "hello\n", &err));
	CHECK_OK(read_file_at(dir, "f", 6, &text, &len, &err));
	CHECK_STR(text, "hello\n");
	CHECK(len == 6);
	CHECK(fstatat(dir, "f", &st, 0) == 0 && (st.st_mode & 07777 & ~0640u) == 0);
	CHECK_OK(write_filef_at(dir, "f", &err, "%d%s", 12, "cd"));
	free(TAKE(text));
	CHECK_OK(read_file_at(dir, "f", 100, &text, NULL, &err));
	CHECK_STR(text, "12cdo\n");
	CHECK_OK(create_file_at(dir, "f", 0600, "", &err));
	free(TAKE(text));
	CHECK_OK(read_file_at(dir, "f", 0, &text, &len, &err));
	CHECK(len == 0 && *text == '\0');
}

TEST(io_read_file_has_a_maximum)
{
	OWN(closep) int dir = open_test_dir();
	static char big[20001];
	char *text = NULL;
	struct err err = {0};
	size_t len;

	memset(big, 'x', sizeof(big) - 1);
	CHECK_OK(create_file_at(dir, "f", 0600, big, &err));
	CHECK_ERR(read_file_at(dir, "f", 19999, &text, &len, &err), EFBIG);
	CHECK_STR(err.text, "'f' is over 19999 bytes");
	CHECK_ERR(read_file_at(dir, "f", 0, &text, &len, &err), EFBIG);
	CHECK(text == NULL);
	CHECK_OK(read_file_at(dir, "f", 20000, &text, &len, &err));
	CHECK(len == 20000 && strcmp(text, big) == 0);
	free(text);
}

TEST(io_reads_proc)
{
	OWN(freep) char *text = NULL;

	CHECK_OK(read_file_at(AT_FDCWD, "/proc/self/status", 1 << 16, &text, NULL, NULL));
	CHECK(strstr(text, "Pid:") != NULL);
}

TEST(io_refuses)
{
	OWN(closep) int dir = open_test_dir();
	static char big[5000];
	struct err err = {0};
	char *text = NULL;

	CHECK_ERR(read_file_at(dir, "none", 9, &text, NULL, &err), ENOENT);
	CHECK_STR(err.text, "cannot open 'none': No such file or directory");
	CHECK_ERR(write_file_at(dir, "none", "x", &err), ENOENT);
	CHECK_ERR(read_file_at(dir, ".", 9, &text, NULL, &err), EISDIR);
	/* Creating follows no link, dangling or not. */
	CHECK(symlinkat("elsewhere", dir, "link") == 0);
	CHECK_ERR(create_file_at(dir, "link", 0600, "x", &err), ELOOP);
	CHECK_OK(create_file_at(dir, "f", 0600, "", &err));
	memset(big, 'x', sizeof(big) - 1);
	CHECK_ERR(write_filef_at(dir, "f", &err, "%s", big), EFBIG);
}

TEST(io_exact_reads_and_writes)
{
	struct err err = {0};
	char got[6] = "";
	int fds[2];

	CHECK(pipe(fds) == 0);
	CHECK_OK(write_all(fds[1], "abcdefgh", 8, &err));
	CHECK_OK(read_exactly(fds[0], got, 5, &err));
	CHECK_STR(got, "abcde");
	close(fds[1]);
	CHECK_ERR(read_exactly(fds[0], got, 4, &err), EBADMSG);
	CHECK_STR(err.text, "ended too early");
	CHECK_ERR(write_all(fds[0], "x", 1, &err), EBADF);
}

TEST(io_str_format)
{
	OWN(freep) char *s = str_format("%s-%05d", "a", 42);

	CHECK_STR(s, "a-00042");
}
