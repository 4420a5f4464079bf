/* layer_limits.h - what the layer of an image may have at most: none that is larger is unpacked, or built. */
#ifndef CLOISTER_IMAGE_LAYER_LIMITS_H
#define CLOISTER_IMAGE_LAYER_LIMITS_H
#include <stdint.h>

#define LAYER_ENTRIES_MAX 1000000       /* with folders that are only implied */
#define LAYER_SIZE_MAX (UINT64_C(64) << 30)     /* bytes of all files, holes too; of the archive */
#define LAYER_FILE_MAX (UINT64_C(16) << 30)     /* bytes of a file, with its holes */
/* More than LAYER_RATIO_MAX bytes out of each byte in is a bomb, once there are LAYER_RATIO_FROM. */
#define LAYER_RATIO_MAX 200
#define LAYER_RATIO_FROM (UINT64_C(1) << 30)
#endif
