/* cache_parts.h - shared by the files of src/volume that are about caches. */
#ifndef CLOISTER_VOLUME_CACHE_PARTS_H
#define CLOISTER_VOLUME_CACHE_PARTS_H
#include "volume/cache.h"
#include "volume/volume_parts.h"

/* Write the description, whole. */
int cache_save(const struct volumes *v, const struct cache *cache, struct err *err);
int cache_unlink(const struct volumes *v, const char *name, struct err *err);
#endif
