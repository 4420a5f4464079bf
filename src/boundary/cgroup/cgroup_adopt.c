/* cgroup_adopt.c - a group that a container engine has made, to read and to freeze. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup_parts.h"

/* Cuts DIR behind the part that contains MARK: the process may be in a group beneath that. */
static bool
cut_behind(char *dir, const char *mark)
{
	char *at = strstr(dir, mark);

	if (at == NULL)
		return false;
	at[strcspn(at, "/")] = '\0';
	return true;
}

static int
adopt_part(struct cgroup *cg, const struct cgroup_hierarchy *h, const char *mark, unsigned *carries)
{
	char dir[PATH_MAX], text[CGROUP_FILE_MAX];
	OWN(closep) int fd = -1;
	OWN(freep) char *path = NULL;
	struct cgroup_part *p;

	if (cg->n == CGROUP_PARTS_MAX || !cgroup_own_dir(h, dir) || !cut_behind(dir, mark))
		return 0;
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	path = strdup(dir);
	if (path == NULL)
		return -ENOMEM;
	if (fd < 0)
		return 0;
	p = cgroup_add_part(cg, h->version);
	p->carries = h->carries;
	if (h->version == 2 && cgroup_get(fd, "cgroup.controllers", text))
		p->carries = cgroup_parse_controllers(text);
	p->path = TAKE(path);
	p->dir = TAKE_FD(fd);
	*carries |= p->carries & CGROUP_ALL;
	return 0;
}

size_t
cgroup_folders(const struct cgroup *cg, int ret_fds[CGROUP_FOLDERS_MAX])
{
	for (size_t i = 0; i < cg->n; i++)
		ret_fds[i] = cg->parts[i].dir;
	return cg->n;
}

int
cgroup_adopt(pid_t pid, const char *mark, struct cgroup **ret_cgroup, unsigned *ret_carries, struct err *err)
{
	OWN(cgroup_freep) struct cgroup *cg = calloc(1, sizeof(*cg));
	OWN(freep) char *mounts = NULL, *own = NULL;
	struct cgroup_hierarchies hs;
	char path[40];
	unsigned carries = 0;
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (cg == NULL || (cg->paths = strdup("")) == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = read_file_at(AT_FDCWD, path, CGROUP_TABLE_MAX, &own, NULL, err);
	if (r == 0)
		r = read_file_at(AT_FDCWD, "/proc/self/mountinfo", CGROUP_TABLE_MAX, &mounts, NULL, err);
	if (r < 0)
		return r;
	cgroup_read_mounts(mounts, &hs, NULL);
	cgroup_note_own(&hs, own);
	/* Version 2 is first in every group. */
	for (int version = 2; version >= 1; version--)
		for (size_t i = 0; r == 0 && i < hs.n; i++)
			if (hs.list[i].version == version)
				r = adopt_part(cg, &hs.list[i], mark, &carries);
	if (r < 0)
		return err_set(err, -r, "cannot look at the container's cgroup: %s", strerrordesc_np(-r));
	*ret_cgroup = TAKE(cg);
	*ret_carries = carries;
	return 0;
}
