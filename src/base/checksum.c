/* checksum.c - see checksum.h. */
#include "base/checksum.h"

uint32_t
checksum_crc32(const void *data, size_t len)
{
	const unsigned char *at = data;
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < len; i++) {
		crc ^= at[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (0xedb88320 & -(crc & 1));
	}
	return ~crc;
}

void
checksum_crc62(const void *data, size_t len, char ret_digits[CHECKSUM_CRC62_LEN])
{
	static const char digits[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	uint32_t crc = checksum_crc32(data, len);

	for (int i = CHECKSUM_CRC62_LEN - 1; i >= 0; i--) {
		ret_digits[i] = digits[crc % 62];
		crc /= 62;
	}
}
