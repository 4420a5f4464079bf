/* tar.h - writes tar archives: the same entries make the same bytes.
 *
 * Everything belongs to root and is from 1970. */
#ifndef CLOISTER_IMAGE_TAR_H
#define CLOISTER_IMAGE_TAR_H
#include <stddef.h>
#include <stdint.h>

struct err;

#define TAR_BLOCK 512
#define TAR_NAME_MAX 100                /* bytes of a name, and of a link's target */

enum tar_type { TAR_FILE = '0', TAR_LINK = '1', TAR_SYMLINK = '2', TAR_FOLDER = '5' };

/* The header of an entry.  SIZE bytes of data follow it, and tar_padding() zeroes.  LINK is the target of a link,
 * else NULL.  -ENAMETOOLONG. */
int tar_header(unsigned char ret_block[TAR_BLOCK], enum tar_type type, const char *name, unsigned mode, uint64_t size,
               const char *link, struct err *err);
static inline size_t
tar_padding(uint64_t size)
{
	return (size_t)(-size % TAR_BLOCK);
}
#define TAR_END (2 * TAR_BLOCK)         /* zeroes at the end */
#endif
