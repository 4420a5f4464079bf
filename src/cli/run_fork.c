/* run_fork.c - `run --forkable`, and the start of a fork: the same command line as that of its source, once more. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "policy/policy_boundary.h"

enum { PART_ID, PART_AT, PART_HEAD, PART_MACHINE, PART_MEMORY, PART_STATE, PARTS };

static int
take_fd(const char *text, int *ret_fd)
{
	uint64_t number;

	if (num_parse_count(text, 3, INT_MAX, &number, NULL) < 0)
		return -EINVAL;
	*ret_fd = fcntl((int)number, F_DUPFD_CLOEXEC, CELL_FDS_END);
	return *ret_fd < 0 ? -errno : 0;
}

/* "ID:N:HASH:HASH:FD:FD[:NAME]", as cmd_fork() makes it. */
int
run_set_fork(struct run *run, const char *value, struct err *err)
{
	struct cell_origin *origin = &run->spec.fork_of;
	OWN(freep) char *text = strdup(value);
	char *parts[PARTS] = { NULL }, *rest = text;

	for (size_t i = 0; i < PARTS && rest != NULL; i++)
		parts[i] = strsep(&rest, ":");
	if (parts[PART_STATE] == NULL || !cell_id_ok(parts[PART_ID]) ||
	    num_parse_count(parts[PART_AT], 0, INT64_MAX, &origin->at, NULL) < 0 ||
	    strlen(parts[PART_HEAD]) > HASH_HEX || strlen(parts[PART_MACHINE]) != HASH_HEX ||
	    take_fd(parts[PART_MEMORY], &run->point_memory) < 0 || take_fd(parts[PART_STATE], &run->point_state) < 0)
		return err_set(err, EINVAL, "--fork-of is for `cloister fork`");
	memcpy(origin->id, parts[PART_ID], sizeof(origin->id));
	memcpy(origin->head, parts[PART_HEAD], strlen(parts[PART_HEAD]) + 1);
	memcpy(run->fork_machine, parts[PART_MACHINE], HASH_HEX + 1);
	run->fork_name = rest == NULL ? "" : value + (rest - text);
	return 0;
}

/* The name and the set-ups were the source's. */
void
run_settle_fork(struct run *run)
{
	char *name;

	if (run->spec.fork_of.id[0] == '\0' || (name = strdup(run->fork_name)) == NULL)
		return;
	free(run->spec.name);
	run->spec.name = name;
	strv_free(run->spec.setups);
	run->spec.setups = NULL;
	run->forkable = false;
}

/* What stands in the way of copies of the cell; NULL: nothing does. */
static const char *
find_obstacle(const struct run *run)
{
	const struct cell_spec *spec = &run->spec;

	if (strcmp(spec->boundary, BOUNDARY_MICROVM) != 0 || spec->vm_boots)
		return "a virtual machine that starts from a template: use --boundary microvm, without --vm-boot";
	if (strcmp(spec->vm_monitor, "") != 0 && strcmp(spec->vm_monitor, "qemu") != 0)
		return "QEMU: remove --vm-monitor";
	if (!spec->detached || spec->tty || spec->held || spec->input)
		return "a cell in the background: add -d, and remove -t, --hold and --input";
	if (spec->vm_disk == NULL || spec->image.name != NULL)
		return "programs on a disk: use --rootfs DIR, without --image, and install erofs-utils";
	if (spec->n_grants > 0)
		return "a cell without files of this machine, which no copy could have for itself: remove -w, -v, --state and "
		       "--volume-name, and copy files in with `cloister exec`";
	if (spec->n_ports > 0)
		return "a cell without published ports, which only one cell can have: remove --publish";
	if (spec->known_hosts != NULL && spec->known_hosts[0] != '\0')
		return "a cell without an SSH agent";
	if (run->restarts || run->spec.claim || spec->has_tools || spec->has_hooks)
		return "a cell of its own: remove --restart and --id, and `tools` and `hook` of its policy";
	return NULL;
}

/* The words behind `run`. */
static int
keep_words(struct run *run, char **argv, struct err *err)
{
	const size_t n = strv_len(argv);
	char folder[PATH_MAX];

	run->spec.again = calloc(n + 1, sizeof(*run->spec.again));
	for (size_t i = 1; run->spec.again != NULL && i < n; i++)
		if ((run->spec.again[i - 1] = strdup(argv[i])) == NULL)
			return err_set(err, ENOMEM, "out of memory");
	if (run->spec.again == NULL || getcwd(folder, sizeof(folder)) == NULL ||
	    (run->spec.again_in = strdup(folder)) == NULL)
		return err_errno(err, "cannot keep the command line for forks");
	return 0;
}

int
run_finish_fork(struct run *run, char **argv, struct err *err)
{
	const bool is_fork = run->spec.fork_of.id[0] != '\0';
	const char *obstacle = run->forkable || is_fork ? find_obstacle(run) : NULL;
	char machine[HASH_HEX + 1];

	if (obstacle != NULL)
		return err_set(err, ENOTSUP, "--forkable needs %s", obstacle);
	cell_spec_hash_machine(&run->spec, machine);
	if (is_fork && strcmp(machine, run->fork_machine) != 0)
		return err_set(err, ESTALE, "cell %s was started with another kernel, disk, memory or policy kind than a cell gets now: "
		               "start it again", run->spec.fork_of.id);
	return run->forkable ? keep_words(run, argv, err) : 0;
}
