/* image_tar.c - headers of tar archives. */
#include <errno.h>

#include "base/err.h"
#include "image/tar.h"
#include "test.h"

TEST(tar_header)
{
	unsigned char block[TAR_BLOCK], again[TAR_BLOCK];
	unsigned sum = 0;

	CHECK_OK(tar_header(block, TAR_FILE, "bin/x", 0755, 1234, NULL, NULL));
	CHECK_OK(tar_header(again, TAR_FILE, "bin/x", 0755, 1234, NULL, NULL));
	CHECK(memcmp(block, again, sizeof(block)) == 0);
	CHECK_STR((char *)block, "bin/x");
	CHECK_STR((char *)block + 124, "00000002322");
	CHECK_STR((char *)block + 257, "ustar");
	memcpy(again, block, sizeof(block));
	memset(again + 148, ' ', 8);
	for (size_t i = 0; i < sizeof(again); i++)
		sum += again[i];
	CHECK_U64(strtoul((char *)block + 148, NULL, 8), sum);
	CHECK_U64(tar_padding(0), 0);
	CHECK_U64(tar_padding(1), 511);
	CHECK_U64(tar_padding(512), 0);
}

TEST(tar_header_large)
{
	unsigned char block[TAR_BLOCK];
	char name[TAR_NAME_MAX + 2];

	CHECK_OK(tar_header(block, TAR_FILE, "x", 0644, UINT64_C(1) << 33, NULL, NULL));
	CHECK(block[124] == 0x80 && block[131] == 2 && block[135] == 0);
	memset(name, 'a', sizeof(name));
	name[TAR_NAME_MAX + 1] = '\0';
	CHECK_ERR(tar_header(block, TAR_FILE, name, 0644, 0, NULL, NULL), ENAMETOOLONG);
	CHECK_ERR(tar_header(block, TAR_SYMLINK, "x", 0644, 0, name, NULL), ENAMETOOLONG);
	name[TAR_NAME_MAX] = '\0';
	CHECK_OK(tar_header(block, TAR_SYMLINK, name, 0644, 0, name, NULL));
}
