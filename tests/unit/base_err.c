/* base_err.c - tests of base/err. */
#include "base/err.h"

#include <errno.h>

#include "test.h"

TEST(err_set)
{
	struct err err = {0};

	CHECK_ERR(err_set(&err, EPERM, "no %s", "entry"), EPERM);
	CHECK(err.code == EPERM);
	CHECK_STR(err.text, "no entry");
	CHECK_ERR(err_set(NULL, EPERM, "x"), EPERM);
}

TEST(err_errno_gives_the_reason)
{
	struct err err = {0};

	errno = ENOENT;
	CHECK_ERR(err_errno(&err, "cannot open '%s'", "a"), ENOENT);
	CHECK_STR(err.text, "cannot open 'a': No such file or directory");
	errno = 4095;
	CHECK(err_errno(&err, "x") == -4095);
	CHECK_STR(err.text, "x: unknown error");
}

TEST(err_wrap_puts_context_in_front)
{
	struct err err = {0};

	err_set(&err, EFBIG, "too big");
	CHECK_ERR(err_wrap(&err, "file %d", 3), EFBIG);
	CHECK_ERR(err_wrap(&err, "cell"), EFBIG);
	CHECK_STR(err.text, "cell: file 3: too big");
	CHECK(err_wrap(NULL, "x") < 0);
}

TEST(err_truncates_long_text)
{
	char longer[2 * ERR_TEXT_MAX];
	struct err err = {0};

	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	err_set(&err, EINVAL, "%s", longer);
	CHECK(strlen(err.text) == ERR_TEXT_MAX - 1);
	errno = ENOENT;
	err_errno(&err, "%s", longer);
	CHECK(strlen(err.text) == ERR_TEXT_MAX - 1);
	err_wrap(&err, "%s", longer);
	CHECK(strlen(err.text) == ERR_TEXT_MAX - 1);
}
