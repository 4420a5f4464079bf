/* policy_volume.h - `volumes` and `cache`: what a cell mounts, as `cloister run --volume-name` and `--cache` take it.
 *
 *     volumes: deps:/deps:ro
 *     volumes: ["deps:/deps", "data@monday:/data"]
 *     cache: npm
 *     cache: [npm, "wheels@0123abcd:/wheels"]
 *
 * Pure. */
#ifndef CLOISTER_POLICY_VOLUME_H
#define CLOISTER_POLICY_VOLUME_H
#include <stdbool.h>
#include <stddef.h>

struct err;
struct node;

#define POLICY_VOLUMES_MAX 16
#define POLICY_VOLUME_NAME_MAX 48
#define POLICY_VOLUME_LABEL_MAX 64
#define POLICY_VOLUME_PATH_MAX 255
#define POLICY_CACHES_MAX 8
#define POLICY_CACHE_NAME_MAX 32
#define POLICY_CACHE_VERSION_LEAST 8    /* digits */

struct policy_volume {
	char name[POLICY_VOLUME_NAME_MAX + 1];
	char label[POLICY_VOLUME_LABEL_MAX + 1];        /* of a snapshot; or digits of a cache's version; or "" */
	char path[POLICY_VOLUME_PATH_MAX + 1];  /* absolute, without a '/' at its end; of a cache, or "" */
	bool writes;
};

struct policy_volumes {
	size_t n;
	struct policy_volume at[POLICY_VOLUMES_MAX];
};

/* As volume_name_ok() has it. */
bool policy_volume_name_ok(const char *name);
/* "NAME[@LABEL]:PATH[:ro|:rw]". */
int policy_volume_parse(const char *text, struct policy_volume *ret_volume, struct err *err);
/* "NAME[@VERSION][:PATH]" of a cache. */
int policy_cache_parse(const char *text, struct policy_volume *ret_cache, struct err *err);
/* Read the value of `volumes`, or of `cache`.  Errors begin with the place. */
int policy_volumes_read(const struct node *node, struct policy_volumes *ret_volumes, struct err *err);
int policy_caches_read(const struct node *node, struct policy_volumes *ret_caches, struct err *err);
#endif
