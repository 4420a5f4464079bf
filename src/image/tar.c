/* tar.c - see tar.h. */
#include "image/tar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

/* POSIX.1-1988 (ustar). */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6], version[2];
	char rest[247];
};
_Static_assert(sizeof(struct header) == TAR_BLOCK, "a header is a block");

#define SIZE_OCTAL_MAX ((UINT64_C(1) << 33) - 1)

/* Sizes beyond the octal digits are binary, as GNU and all others read them. */
static void
put_size(char field[12], uint64_t size)
{
	char digits[16];

	if (size <= SIZE_OCTAL_MAX) {
		snprintf(digits, sizeof(digits), "%011llo", (unsigned long long)size);
		memcpy(field, digits, 12);
		return;
	}
	memset(field, 0, 12);
	field[0] = (char)0x80;
	for (int i = 0; i < 8; i++)
		field[11 - i] = (char)(size >> 8 * i);
}

int
tar_header(unsigned char ret_block[TAR_BLOCK], enum tar_type type, const char *name, unsigned mode, uint64_t size,
           const char *link, struct err *err)
{
	struct header h = {0};
	unsigned sum = 0;
	char digits[16];

	if (strlen(name) > TAR_NAME_MAX || (link != NULL && strlen(link) > TAR_NAME_MAX))
		return err_set(err, ENAMETOOLONG, "the name '%s' is too long for an archive", name);
	memcpy(h.name, name, strlen(name));
	if (link != NULL)
		memcpy(h.link, link, strlen(link));
	snprintf(digits, sizeof(digits), "%07o", mode & 07777);
	memcpy(h.mode, digits, sizeof(h.mode));
	memcpy(h.uid, "0000000", sizeof(h.uid));
	memcpy(h.gid, "0000000", sizeof(h.gid));
	put_size(h.size, size);
	memcpy(h.mtime, "00000000000", sizeof(h.mtime));
	h.type = (char)type;
	memcpy(h.magic, "ustar", sizeof(h.magic));
	memcpy(h.version, "00", sizeof(h.version));
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	snprintf(digits, sizeof(digits), "%06o", sum);
	memcpy(h.sum, digits, 7);
	memcpy(ret_block, &h, sizeof(h));
	return 0;
}
