/* run_runtime.c - --runtime: the OCI runtime that makes a cell's container. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cli/run.h"
#include "trust/trust.h"

const char *const run_runtimes[] = { "crun", "runc", "runsc", "kata-runtime", NULL };

/* A relative path is one of the operator's folder. */
int
run_set_runtime(struct run *run, const char *text, const char *by, struct err *err)
{
	OWN(freep) char *folder = text[0] != '/' && strchr(text, '/') != NULL ? getcwd(NULL, 0) : NULL;
	OWN(freep) char *path = folder == NULL ? NULL : str_format("%s/%s", folder, text);
	const char *whole = path != NULL ? path : text;
	int r = policy_runtime_check(whole, err);

	if (r < 0)
		return err_wrap(err, "%s", by);
	snprintf(run->boundary.runtime, sizeof(run->boundary.runtime), "%s", whole);
	run->runtime_by = by;
	return 0;
}

/* Folders that belong to root: an ordinary user's PATH may lack some of them. */
bool
run_find_runtime(const char *name, char ret_path[PATH_MAX])
{
	static const char *const folders[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin" };

	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		snprintf(ret_path, PATH_MAX, "%s/%s", folders[i], name);
		if (access(ret_path, X_OK) == 0)
			return true;
	}
	return false;
}

/* The name of the runtime whose path or name this is, or NULL. */
static const char *
known(const char *path)
{
	const char *name = strrchr(path, '/');

	for (size_t i = 0; run_runtimes[i] != NULL; i++)
		if (strcmp(name == NULL ? path : name + 1, run_runtimes[i]) == 0)
			return run_runtimes[i];
	return NULL;
}

void
run_ask_version(const char *program, char ret_line[RUN_VERSION_MAX])
{
	struct spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { -1, STDOUT_FILENO }, { SPAWN_NULL, STDERR_FILENO } };
	int ends[2];
	ssize_t n;
	pid_t pid;

	ret_line[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	fds[1].fd = ends[1];
	pid = spawn_start(&(struct spawn){ .argv = (char *[]){ (char[]){ "runtime" }, (char[]){ "--version" }, NULL },
	                  .path = program, .cwd = "/", .fds = fds, .n_fds = ARRAY_LEN(fds), .flags = SPAWN_DIES }, NULL, NULL);
	close(ends[1]);
	n = pid < 0 ? 0 : read(ends[0], ret_line, RUN_VERSION_MAX - 1);
	close(ends[0]);
	if (pid > 0)
		(void)spawn_await(pid, NULL);
	ret_line[n > 0 ? n : 0] = '\0';
	ret_line[strcspn(ret_line, "\n")] = '\0';
}

/* Only a program that the operator named is run outside of the cell: a policy may come with a project. */
static void
ask_kind(const struct run *run, const char *program, char ret_kind[CELL_RUNTIME_MAX + 1])
{
	char text[RUN_VERSION_MAX];

	if (run->boundary.runtime[0] == '\0' || run->runtime_by == run_by_document)
		return;
	run_ask_version(program, text);
	text[strcspn(text, " ")] = '\0';
	if (known(text) != NULL)
		snprintf(ret_kind, CELL_RUNTIME_MAX + 1, "%s", known(text));
}

/* The program that was asked for, or the first of those that will do. */
static int
choose(const struct run *run, const char *asked, char ret_path[PATH_MAX], struct err *err)
{
	if (asked[0] == '\0' && strcmp(run->spec.boundary, BOUNDARY_GVISOR) == 0)
		asked = "runsc";
	if (asked[0] == '\0')
		return run_find_runtime("crun", ret_path) || run_find_runtime("runc", ret_path) ? 0 :
		       err_set(err, ENOENT, "no OCI runtime is installed: install crun, runc or runsc");
	if (strchr(asked, '/') == NULL)
		return run_find_runtime(asked, ret_path) ? 0 :
		       err_set(err, ENOENT, "the OCI runtime '%.64s' is not installed", asked);
	if (realpath(asked, ret_path) == NULL || access(ret_path, X_OK) < 0)
		return err_errno(err, "cannot run the OCI runtime '%s'", asked);
	/* Links on the way count too. */
	return trust_path(TRUST_RUNTIME, asked, err);
}

bool
run_runtime_is_sandbox(const struct run *run)
{
	const char *asked = run->boundary.runtime, *kind = known(asked);
	char path[PATH_MAX], found[CELL_RUNTIME_MAX + 1] = "";

	if (kind == NULL && asked[0] != '\0' && choose(run, asked, path, NULL) == 0 &&
	    trust_path(TRUST_RUNTIME, path, NULL) == 0)
		ask_kind(run, path, found);
	return strcmp(kind != NULL ? kind : found, "runsc") == 0;
}

int
run_refuse_runtime(const struct run *run, struct err *err)
{
	return run->runtime_by == NULL || strcmp(run->runtime_by, "--runtime") != 0 ? 0 :
	       err_set(err, EINVAL, "--runtime needs --boundary " BOUNDARY_OCI " or " BOUNDARY_GVISOR);
}

int
run_finish_runtime(struct run *run, const char *runtime, struct err *err)
{
	char found[PATH_MAX], path[PATH_MAX];
	int r;

	if (strcmp(run->spec.boundary, BOUNDARY_OCI) != 0 && strcmp(run->spec.boundary, BOUNDARY_GVISOR) != 0)
		return run_refuse_runtime(run, err);
	r = choose(run, runtime, found, err);
	/* Whoever mounts it follows no link. */
	if (r == 0 && realpath(found, path) == NULL)
		r = err_errno(err, "cannot find '%s'", found);
	if (r == 0)
		r = trust_path(TRUST_RUNTIME, path, err);
	if (r == 0)
		r = trust_program(path, err);
	if (r < 0)
		return r;
	if (known(found) != NULL)
		snprintf(run->spec.runtime_kind, sizeof(run->spec.runtime_kind), "%s", known(found));
	else
		ask_kind(run, path, run->spec.runtime_kind);
	if (strcmp(run->spec.boundary, BOUNDARY_OCI) == 0 && strcmp(run->spec.runtime_kind, "runsc") == 0)
		snprintf(run->spec.boundary, sizeof(run->spec.boundary), BOUNDARY_GVISOR);
	trust_believe(path);
	run->spec.runtime = strdup(path);
	return run->spec.runtime == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}
