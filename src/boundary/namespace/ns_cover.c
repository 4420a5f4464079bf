/* ns_cover.c - covers cloister's own folders where a grant contains them, and keeps the cover from
 * being moved.
 *
 * With access to them, the agent would act as operator of an ordinary user's other cells.  An empty
 * folder, mounted over each of them, hides it.  That alone is not enough: an agent that renames a
 * folder above the cover moves the hidden files to a path that no cell has covered.  So each folder
 * between the grant and the cover is mounted on itself.  The kernel does not move, exchange or
 * remove a folder on which something is mounted in the caller's mount namespace (EBUSY), whatever
 * path leads to it.
 *
 * An agent that makes mount namespaces of its own could leave these mounts behind, so the
 * supervisor grants it no such folder for writing (cell_grants.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "boundary/namespace/ns_plan.h"

/* Whether PATH is beneath a covered one. */
static bool
is_covered(const struct boundary_ground *ground, const char *const *own)
{
	for (const char *const *other = ground->hidden; other < own; other++)
		if (tree_is_beneath(*own, *other))
			return true;
	return false;
}

/* Whether something is mounted there: then it is already pinned. */
static bool
is_mount(int target)
{
	struct statx st;

	return statx(target, "", AT_EMPTY_PATH, 0, &st) == 0 &&
	       (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

static int
pin(int target, const char *path, struct err *err)
{
	OWN(closep) int mount = -1;

	if (is_mount(target))
		return 0;
	mount = open_tree(target, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
	if (mount < 0)
		return err_errno(err, "cannot take the mount of '%s'", path);
	return mounts_attach(mount, target, "", err);
}

/* Pins every folder above PATH and beneath the grant's own LEN bytes, the outermost first; and PATH
 * itself, if ALL.  Stops at a folder that does not exist. */
static int
pin_way(int root, const char *path, size_t len, bool all, struct err *err)
{
	OWN(freep) char *part = strdup(path);
	int r = 0;

	if (part == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (char *slash = part + len; r == 0 && *slash == '/';) {
		OWN(closep) int target = -1;
		size_t more = 1 + strcspn(slash + 1, "/");
		char was = slash[more];

		if (was == '\0' && !all)
			return 0;
		slash[more] = '\0';
		target = mounts_open_inside(root, part);
		if (target < 0 && (errno == ENOENT || errno == ENOTDIR))
			return 0;
		r = target < 0 ? err_errno(err, "cannot open '%s' in the cell", part) : pin(target, part, err);
		slash[more] = was;
		slash += more;
	}
	return r;
}

/* INSIDE: the folder's path in the grant; its first LEN bytes are the grant's. */
static int
cover(const struct ns_plan *plan, int root, const char *inside, size_t len, enum cell_access access,
      bool is_there, struct err *err)
{
	uid_t agent = cell_spec_uid(plan->spec);
	OWN(closep) int target = -1;
	int r = access == CELL_READ ? 0 : pin_way(root, inside, len, !is_there, err);

	if (r < 0 || !is_there)
		return r;
	target = mounts_follow_target(root, inside, false, agent, err);
	return target < 0 ? target : mounts_bind(root, "sys", target, "", MOUNTS_QUIET | MOUNT_ATTR_RDONLY, err);
}

int
ns_cover_own(const struct ns_plan *plan, int root, size_t i, struct err *err)
{
	const struct cell_grant *grant = &plan->spec->grants[i];
	/* The grant is the whole machine, which only real root can prepare: here "/" is already the
	 * cell's own. */
	size_t len = plan->range && strcmp(grant->host, "/") == 0 ? 0 : strlen(grant->host);

	for (const char *const *own = plan->ground->hidden; *own != NULL; own++) {
		OWN(freep) char *inside = NULL;
		bool is_there = (plan->not_in[i] >> (own - plan->ground->hidden) & 1) == 0;

		if (strncmp(*own, grant->host, len) != 0 || (*own)[len] != '/' || is_covered(plan->ground, own))
			continue;
		inside = str_format("%s%s", grant->cell, *own + len);
		if (inside == NULL)
			return err_set(err, ENOMEM, "out of memory");
		if (cover(plan, root, inside, strlen(grant->cell), grant->access, is_there, err) < 0)
			return err_wrap(err, "cannot hide cloister's own folder '%s'", *own);
	}
	return 0;
}
