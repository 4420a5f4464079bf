/* bzimage.h - the kernel within a bzImage, which is how distributions ship kernels for amd64: a program that
 * decompresses the kernel, and the kernel.  Some monitors boot only the latter. */
#ifndef CLOISTER_BZIMAGE_H
#define CLOISTER_BZIMAGE_H
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct err;

/* The compressed kernel in DATA, a whole bzImage.  *RET_SUFFIX is how it is compressed, as a file's name would
 * end: ".gz", ".xz", ".zst" or ".lz4".  Both are borrowed. */
int bzimage_find(const void *data, size_t len, const void **ret_at, size_t *ret_len, const char **ret_suffix,
                 struct err *err);
/* Whether DATA begins like an ELF file. */
bool bzimage_is_elf(const void *data, size_t len);

/* lz4.c: appends the contents of DATA to OUT, as the kernel's own build compresses it: "legacy" frames.
 * -EBADMSG, or -EFBIG if they are over OUT's maximum. */
int lz4_unpack(const void *data, size_t len, struct buf *out);
#endif
