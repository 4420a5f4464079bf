/* fuzz_cgroup.c - the kernel's tables of mounts and groups.
 *
 * A mountinfo, then after a NUL a /proc/self/cgroup. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/own.h"
#include "boundary/cgroup/cgroup_parts.h"
#include "fuzz.h"

static void
check_line(const struct mountinfo_line *line, const char *text, const char *end)
{
	const char *const fields[] = { line->root, line->point, line->type, line->source,
	                               line->options };

	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		assert(fields[i] >= text && fields[i] + strlen(fields[i]) <= end);
		assert(strchr(fields[i], '\n') == NULL || i != 2);
	}
}

static void
check_hierarchy(const struct cgroup_hierarchy *h)
{
	char dir[PATH_MAX];
	size_t len = strlen(h->point);

	assert(h->version == 1 || h->version == 2);
	assert(h->version == 2 ? h->carries == 0 : h->carries != 0);
	if (!cgroup_own_dir(h, dir))
		return;
	assert(h->own != NULL && h->own[0] == '/');
	assert(strncmp(dir, h->point, len) == 0 && (dir[len] == '/' || dir[len] == '\0'));
	assert(strncmp(dir + len, "/../", 4) != 0);
}

static void
check_tables(char *mounts, char *own)
{
	const char *end = mounts + strlen(mounts);
	struct cgroup_hierarchies hs = { 0 };
	struct mountinfo_line line;
	struct cgroup_disks disks;
	dev_t dev = makedev(0, 0xfffff);

	cgroup_disks_init(&disks, &dev, 1);
	for (char *cursor = mounts; mountinfo_next(&cursor, &line);) {
		check_line(&line, mounts, end);
		cgroup_note_mount(&hs, &line);
		cgroup_note_disk(&disks, &line);
	}
	assert(disks.n <= 1);
	cgroup_note_own(&hs, own);
	assert(hs.n <= CGROUP_HIERARCHIES_MAX);
	for (size_t i = 0; i < hs.n; i++)
		check_hierarchy(&hs.list[i]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *mounts = malloc(size + 1);
	OWN(freep) char *own = malloc(size + 1);
	size_t split;

	if (mounts == NULL || own == NULL)
		return 0;
	memcpy(mounts, data, size);
	mounts[size] = '\0';
	split = strlen(mounts);
	memcpy(own, data + split, size - split);
	own[size - split] = '\0';
	if (split < size)
		memmove(own, own + 1, size - split);
	assert((cgroup_parse_controllers(mounts) & ~(unsigned)CGROUP_ALL) == 0);
	cgroup_parse_key(mounts, "oom_kill");
	cgroup_parse_io(mounts, &(uint64_t){0}, &(uint64_t){0});
	assert(cgroup_parse_pressure(mounts) <= 10099);
	cgroup_is_cell_name(mounts);
	check_tables(mounts, own);
	return 0;
}
