/* cgroup_disk.c - finds the whole disks behind file systems, to limit them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/own.h"
#include "boundary/cgroup/cgroup_parts.h"

/* File systems in memory count against the memory limit. */
static const char *const diskless[] = {
	"tmpfs", "ramfs", "devtmpfs", "devpts", "proc", "sysfs", "mqueue", "cgroup", "cgroup2",
	"hugetlbfs", "securityfs", "debugfs", "tracefs", "bpf", "rootfs", "efivarfs",
};

static void
add_disk(struct cgroup_disks *d, dev_t disk)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->list[i] == disk)
			return;
	if (d->n < CGROUP_DEVICES_MAX)
		d->list[d->n++] = disk;
	else
		d->unknown = true;
}

/* "8:1", the format of sysfs's `dev` files. */
static bool
read_dev_file(const char *path, dev_t *ret_dev)
{
	char text[CGROUP_FILE_MAX];
	unsigned major, minor;

	if (!cgroup_get(AT_FDCWD, path, text) || sscanf(text, "%u:%u", &major, &minor) != 2)
		return false;
	*ret_dev = makedev(major, minor);
	return true;
}

/* Limits are set on whole disks: a partition is a part of its parent. */
static bool
find_whole_disk(dev_t dev, dev_t *ret_disk)
{
	char path[96];

	*ret_disk = dev;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", major(dev), minor(dev));
	if (access(path, F_OK) < 0)
		return true;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/../dev", major(dev), minor(dev));
	return read_dev_file(path, ret_disk);
}

void
cgroup_disks_init(struct cgroup_disks *d, const dev_t *devices, size_t n)
{
	*d = (struct cgroup_disks){ 0 };
	for (size_t i = 0; i < n; i++) {
		if (major(devices[i]) != 0)
			add_disk(d, devices[i]);
		else if (d->n_pending < CGROUP_DEVICES_MAX)
			d->pending[d->n_pending++] = devices[i];
		else
			d->unknown = true;
	}
}

static bool
is_diskless(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(diskless); i++)
		if (strcmp(type, diskless[i]) == 0)
			return true;
	return false;
}

void
cgroup_note_disk(struct cgroup_disks *d, const struct mountinfo_line *line)
{
	dev_t dev = makedev(line->major, line->minor);
	struct stat st;

	for (size_t i = 0; i < d->n_pending; i++) {
		if (d->pending[i] != dev || d->settled[i] || strcmp(line->type, "btrfs") == 0)
			continue;
		d->settled[i] = true;
		if (is_diskless(line->type))
			continue;
		if (line->source[0] == '/' && stat(line->source, &st) == 0 && S_ISBLK(st.st_mode))
			add_disk(d, st.st_rdev);
		else
			d->unknown = true;
	}
}

/* A btrfs subvolume's st_dev is in no table, and one file system may have many disks.  So all disks
 * of all of them are limited: more than necessary, never fewer. */
static bool
add_btrfs_disks(struct cgroup_disks *d)
{
	OWN(closedirp) DIR *all = opendir("/sys/fs/btrfs");
	char path[PATH_MAX];
	struct dirent *fs, *dev;
	bool found = false;
	dev_t disk;

	while (all != NULL && (fs = readdir(all)) != NULL) {
		OWN(closedirp) DIR *devices = NULL;

		snprintf(path, sizeof(path), "/sys/fs/btrfs/%s/devices", fs->d_name);
		if (fs->d_name[0] == '.' || (devices = opendir(path)) == NULL)
			continue;
		while ((dev = readdir(devices)) != NULL) {
			if (dev->d_name[0] == '.')
				continue;
			snprintf(path, sizeof(path), "/sys/fs/btrfs/%s/devices/%s/dev", fs->d_name,
			         dev->d_name);
			if (!read_dev_file(path, &disk))
				return false;
			add_disk(d, disk);
			found = true;
		}
	}
	return found;
}

void
cgroup_disks_finish(struct cgroup_disks *d)
{
	for (size_t i = 0; i < d->n_pending; i++) {
		if (d->settled[i])
			continue;
		if (!add_btrfs_disks(d))
			d->unknown = true;
		return;
	}
}

void
cgroup_disks_make_whole(struct cgroup_disks *d)
{
	struct cgroup_disks whole = { .unknown = d->unknown };
	dev_t disk;

	for (size_t i = 0; i < d->n; i++) {
		if (find_whole_disk(d->list[i], &disk))
			add_disk(&whole, disk);
		else
			whole.unknown = true;
	}
	*d = whole;
}
