/* bzimage.c - see bzimage.h.  The header is that of the Linux/x86 boot protocol, from version 2.08 on. */
#include "vm/bzimage.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

#define SECTOR 512
#define AT_SECTORS 0x1f1
#define AT_MAGIC 0x202
#define AT_VERSION 0x206
#define AT_PAYLOAD 0x248                /* its offset and its length, u32 each */
#define HEADER_END 0x250
#define VERSION_LEAST 0x0208
#define SIZE_LEN 4                      /* of the number behind the compressed bytes: the kernel's size */

static uint32_t
get_u32(const unsigned char *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return le32toh(v);
}

bool
bzimage_is_elf(const void *data, size_t len)
{
	return len > 4 && memcmp(data, "\177ELF", 4) == 0;
}

int
bzimage_find(const void *data, size_t len, const void **ret_at, size_t *ret_len, const char **ret_suffix,
             struct err *err)
{
	static const struct {
		const char *suffix, *magic;
		size_t magic_len;
		bool has_size;          /* gzip has its own */
	} ways[] = {
		{ ".gz", "\037\213", 2, false }, { ".xz", "\3757zXZ", 5, true }, { ".zst", "(\265/\375", 4, true },
		{ ".lz4", "\002!L\030", 4, true },
	};
	const unsigned char *bytes = data;
	uint64_t at, size;

	if (len < HEADER_END || memcmp(bytes + AT_MAGIC, "HdrS", 4) != 0 ||
	    (bytes[AT_VERSION] | bytes[AT_VERSION + 1] << 8) < VERSION_LEAST)
		return err_set(err, EINVAL, "it is no bzImage");
	at = (bytes[AT_SECTORS] == 0 ? 5 : bytes[AT_SECTORS] + 1u) * SECTOR + (uint64_t)get_u32(bytes + AT_PAYLOAD);
	size = get_u32(bytes + AT_PAYLOAD + 4);
	if (at > len || size > len - at || size <= SIZE_LEN)
		return err_set(err, EBADMSG, "it is cut off");
	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		if (size > SIZE_LEN + ways[i].magic_len && memcmp(bytes + at, ways[i].magic, ways[i].magic_len) == 0) {
			*ret_at = bytes + at;
			*ret_len = (size_t)size - (ways[i].has_size ? SIZE_LEN : 0);
			*ret_suffix = ways[i].suffix;
			return 0;
		}
	return err_set(err, ENOTSUP, "it is compressed in a way that is unknown here");
}
