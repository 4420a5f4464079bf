/* run_disk.c - `cloister run --boundary microvm` with --rootfs or --image: the disk that the virtual machine has as its root. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/tree.h"
#include "canon/hash.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "vm/disk.h"

#define ANSWER_MAX (PATH_MAX + HASH_NAME + 3)
#define PATIENCE_MS 2000
#define FIXED_WORDS 7

/* Somebody who waits at a terminal is told why. */
static void
await_answer(int fd, const struct cell_spec *spec)
{
	struct pollfd answer = { .fd = fd, .events = POLLIN };

	if (poll(&answer, 1, PATIENCE_MS) == 0 && !spec->quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "cloister: making a disk of '%s', once for all cells that use it...\n",
		        spec->image.layers != NULL ? spec->image.name : spec->rootfs);
}

/* Two lines: the disk's path and its hash. */
static bool
read_answer(int fd, struct cell_spec *spec)
{
	char text[ANSWER_MAX] = "", *hash, *end;
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(text) - 1 && (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	hash = strchr(text, '\n');
	end = hash == NULL ? NULL : strchr(hash + 1, '\n');
	if (end == NULL || end[1] != '\0')
		return false;
	*hash = *end = '\0';
	if (!hash_parse_name(hash + 1, spec->vm_disk_hash))
		return false;
	/* Whoever mounts it follows no link. */
	spec->vm_disk = realpath(text, NULL);
	return spec->vm_disk != NULL;
}

void
run_find_disk(struct cell_spec *spec, const char *cache)
{
	const bool is_image = spec->image.layers != NULL;
	char agent[16], digest[HASH_NAME + 1];
	char *argv[FIXED_WORDS + CELL_LAYERS_MAX + 1] = { (char[]){ "cloister-disk" }, (char[]){ "--agent" }, agent,
		(char[]){ "--cache" }, (char *)(uintptr_t)cache, is_image ? (char[]){ "--image" } : (char[]){ "--folder" },
		is_image ? digest : spec->rootfs };
	struct spawn_fd out = { -1, STDOUT_FILENO };
	struct err err = {0};
	int ends[2], status;
	bool found;
	pid_t pid;

	/* The supervisor will refuse a root around cloister's own folders. */
	if (!is_image && tree_is_beneath(cache, spec->rootfs))
		return;
	if (disk_find_maker(NULL) == NULL || pipe2(ends, O_CLOEXEC) < 0)
		return;
	snprintf(agent, sizeof(agent), "%d", spec->root ? 0 : CELL_AGENT_ID);
	out.fd = ends[1];
	hash_name(spec->image.digest, digest);
	for (size_t i = 0; i < strv_len(spec->image.layers); i++)
		argv[FIXED_WORDS + i] = spec->image.layers[i];
	pid = spawn_start(&(struct spawn){ .argv = argv, .fds = &out, .n_fds = 1, .flags = SPAWN_DIES }, NULL, &err);
	close(ends[1]);
	if (pid >= 0) {
		await_answer(ends[0], spec);
		found = read_answer(ends[0], spec);
		status = spawn_await(pid, &err);
		if (status != 0 || !found) {
			free(spec->vm_disk);
			spec->vm_disk = NULL;
		}
	}
	close(ends[0]);
}
