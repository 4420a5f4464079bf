/* minimal.h - whether the minimal image is still that of the machine's busybox. */
#ifndef CLOISTER_IMAGE_MINIMAL_H
#define CLOISTER_IMAGE_MINIMAL_H
#include "image/store.h"

/* The path of the busybox that it is made of; NULL: there is none. */
const char *minimal_busybox(void);
/* The image that was made of this busybox as it is now, or whichever there is if the machine has none; -ENOENT.  Free it
 * with store_found_free().  RET_KEY: for store_made_note(). */
int minimal_find(const struct store *s, struct store_key *ret_key, struct image_descriptor *ret_found);
#endif
