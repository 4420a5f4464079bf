/* policy_volume.h - `volumes`: the volumes that a cell mounts, as `cloister run --volume-name` takes them.
 *
 *     volumes: deps:/deps:ro
 *     volumes: ["deps:/deps", "data@monday:/data"]
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
#define POLICY_VOLUME_PATH_MAX 255

struct policy_volume {
	char name[POLICY_VOLUME_NAME_MAX + 1], label[POLICY_VOLUME_NAME_MAX + 1];       /* LABEL: of a snapshot, or "" */
	char path[POLICY_VOLUME_PATH_MAX + 1];  /* absolute, without a '/' at its end */
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
/* Read the value of `volumes`.  Errors begin with the place. */
int policy_volumes_read(const struct node *node, struct policy_volumes *ret_volumes, struct err *err);
#endif
