/* checksum.h - computes the checksums that tokens carry. */
#ifndef CLOISTER_CHECKSUM_H
#define CLOISTER_CHECKSUM_H
#include <stddef.h>
#include <stdint.h>

#define CHECKSUM_CRC62_LEN 6            /* digits of base 62 that hold 32 bits */

/* The CRC of Ethernet, gzip and PNG, computed bit by bit: inputs are short and rare. */
uint32_t checksum_crc32(const void *data, size_t len);
/* The same in six digits of base 62, as GitHub and npm end their tokens; no NUL. */
void checksum_crc62(const void *data, size_t len, char ret_digits[CHECKSUM_CRC62_LEN]);
#endif
