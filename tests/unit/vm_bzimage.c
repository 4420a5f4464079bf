/* vm_bzimage.c - the kernel within a bzImage, and LZ4's blocks. */
#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "test.h"
#include "vm/bzimage.h"

#define MAGIC "\002!L\030"

static const struct {
	const char *data;
	size_t len;
	const char *want;               /* NULL: refused */
} lz4_cases[] = {
#define CASE(bytes, want) { MAGIC bytes, sizeof(MAGIC bytes) - 1, want }
	CASE("", ""),
	CASE("\x04\0\0\0\x30" "abc", "abc"),
	/* Two blocks. */
	CASE("\x02\0\0\0\x10" "a\x02\0\0\0\x10" "b", "ab"),
	/* Four bytes from one byte back: they overlap what they make.  A block ends with five that are given. */
	CASE("\x0a\0\0\0\x10" "a\x01\0\x50vwxyz", "aaaaavwxyz"),
	CASE("\x0b\0\0\0\x20" "ab\x02\0\x50vwxyz", "abababvwxyz"),
	CASE("\x06\0\0\0\x10" "a\x01\0\x10z", NULL),
	/* Nothing is that far back; nor is anything before this block. */
	CASE("\x0a\0\0\0\x10" "a\x02\0\x50vwxyz", NULL),
	CASE("\x02\0\0\0\x10" "a\x09\0\0\0\0\x01\0\x50vwxyz", NULL),
	/* Cut off: the block, literals, a distance, a length. */
	CASE("\x05\0\0\0\x30" "abc", NULL),
	CASE("\x03\0\0\0\x30" "ab", NULL),
	CASE("\x03\0\0\0\x10" "a\x01", NULL),
	CASE("\x04\0\0\0\x1f" "a\x01\0", NULL),
	CASE("\x01\0\0\0\xf0", NULL),
	CASE("\0\0\0\0", NULL),
	CASE("\x01\0", NULL),
};

TEST(lz4_unpack)
{
	for (size_t i = 0; i < ARRAY_LEN(lz4_cases); i++) {
		OWN(buf_free) struct buf out = BUF(64);
		int r = lz4_unpack(lz4_cases[i].data, lz4_cases[i].len, &out);

		if (lz4_cases[i].want == NULL) {
			CHECK(r == -EBADMSG);
			continue;
		}
		CHECK(r == 0 && out.len == strlen(lz4_cases[i].want));
		CHECK(out.len == 0 || memcmp(out.data, lz4_cases[i].want, out.len) == 0);
	}
}

TEST(lz4_maximum)
{
	static const char data[] = MAGIC "\x0c\0\0\0\x1f" "a\x01\0\xff\x30\x50vwxyz";
	OWN(buf_free) struct buf out = BUF(64);

	CHECK(lz4_unpack(data, sizeof(data) - 1, &out) == -EFBIG);
	CHECK(lz4_unpack(data, 3, &out) == -EBADMSG);
}

TEST(bzimage_find)
{
	unsigned char data[2048] = {0};
	const char *suffix = NULL;
	const void *at = NULL;
	size_t len = 0;

	data[0x1f1] = 1;
	memcpy(data + 0x202, "HdrS\x0f\x02", 6);
	data[0x248] = 16;
	data[0x24c] = 20;
	memcpy(data + 1024 + 16, "\037\213", 2);
	CHECK(bzimage_find(data, sizeof(data), &at, &len, &suffix, NULL) == 0);
	CHECK(at == data + 1040 && len == 20);
	CHECK_STR(suffix, ".gz");
	/* Behind the others is the kernel's size. */
	memcpy(data + 1040, MAGIC, 4);
	CHECK(bzimage_find(data, sizeof(data), &at, &len, &suffix, NULL) == 0 && len == 16);
	CHECK_STR(suffix, ".lz4");
	memcpy(data + 1040, "BZh9", 4);
	CHECK(bzimage_find(data, sizeof(data), &at, &len, &suffix, NULL) == -ENOTSUP);
	CHECK(bzimage_find(data, 1059, &at, &len, &suffix, NULL) == -EBADMSG);
	CHECK(bzimage_find(data, 0x24f, &at, &len, &suffix, NULL) == -EINVAL);
	data[0x206] = 7;
	CHECK(bzimage_find(data, sizeof(data), &at, &len, &suffix, NULL) == -EINVAL);
	CHECK(bzimage_is_elf("\177ELF\2", 5) && !bzimage_is_elf("\177EL", 3) && !bzimage_is_elf("MZ\0\0\0", 5));
}
