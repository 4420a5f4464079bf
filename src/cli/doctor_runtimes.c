/* doctor_runtimes.c - which OCI runtimes are installed, and which of them can carry a cell. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/spawn.h"
#include "boundary/findings.h"
#include "cli/doctor.h"
#include "cli/run.h"

#define VERSION_MAX 120

/* The first line of what the program prints about itself: "crun version 1.8.1". */
static void
read_version(const char *program, char ret_version[VERSION_MAX])
{
	struct spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { -1, STDOUT_FILENO }, { SPAWN_NULL, STDERR_FILENO } };
	int ends[2];
	ssize_t n;
	pid_t pid;

	snprintf(ret_version, VERSION_MAX, "%.100s", program);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	fds[1].fd = ends[1];
	pid = spawn_start(&(struct spawn){ .argv = (char *[]){ (char[]){ "runtime" }, (char[]){ "--version" }, NULL },
	                  .path = program, .cwd = "/", .fds = fds, .n_fds = ARRAY_LEN(fds), .flags = SPAWN_DIES }, NULL, NULL);
	close(ends[1]);
	n = pid < 0 ? 0 : read(ends[0], ret_version, VERSION_MAX - 1);
	close(ends[0]);
	if (pid > 0)
		(void)spawn_await(pid, NULL);
	if (n > 0)
		ret_version[n] = '\0';
	ret_version[strcspn(ret_version, "\n")] = '\0';
}

void
doctor_runtimes(struct findings *f)
{
	char path[PATH_MAX], version[VERSION_MAX], why[DOCTOR_WHY_MAX];
	bool any = false;

	for (size_t i = 0; run_runtimes[i] != NULL; i++) {
		if (!run_find_runtime(run_runtimes[i], path))
			continue;
		any = true;
		read_version(path, version);
		if (doctor_try_cell(run_runtimes[i], why) == 0)
			findings_add(f, run_runtimes[i], FINDING_OK, "%s carries a cell, for --boundary oci", version);
		else
			findings_add(f, run_runtimes[i], FINDING_LIMITED, "%s cannot carry a cell: %.300s", version, why);
	}
	if (!any)
		findings_advise(findings_add(f, "OCI runtimes", FINDING_MISSING, "none is installed"),
		                "install crun, runc or runsc for --boundary oci");
}
