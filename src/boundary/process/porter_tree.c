/* porter_tree.c - the processes of the cell, which are the porter's descendants, and the cell's folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/tree.h"
#include "boundary/process/porter.h"
#include "boundary/process/pr.h"

#define ROUND_MS 2
#define ROUNDS 3                        /* in which single processes are killed */

struct process {
	pid_t pid, parent;
};

static struct process all[PORTER_PROCESSES_MAX];

/* False: it has ended, or is a zombie. */
static bool
read_parent(int proc, const char *name, pid_t *ret_parent)
{
	char path[32], text[512], state, *at;
	OWN(closep) int fd = -1;
	ssize_t n;
	int parent;

	snprintf(path, sizeof(path), "%.16s/stat", name);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	/* The name of the program, which the agent chooses, is in parentheses. */
	at = strrchr(text, ')');
	if (at == NULL || sscanf(at, ") %c %d", &state, &parent) != 2 || state == 'Z' || state == 'X')
		return false;
	*ret_parent = parent;
	return true;
}

static size_t
list_all(void)
{
	OWN(closedirp) DIR *proc = opendir("/proc");
	struct dirent *d;
	size_t n = 0;

	while (proc != NULL && n < PORTER_PROCESSES_MAX && (d = readdir(proc)) != NULL)
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9' && read_parent(dirfd(proc), d->d_name, &all[n].parent))
			all[n++].pid = (pid_t)strtol(d->d_name, NULL, 10);
	return n;
}

size_t
porter_list(pid_t ret_pids[PORTER_PROCESSES_MAX])
{
	const size_t n = list_all();
	const pid_t self = getpid();
	size_t found = 0;
	bool more = true;

	/* Children may have lower numbers than their parents. */
	while (more) {
		more = false;
		for (size_t i = 0; i < n; i++) {
			bool is_ours = all[i].parent == self;

			for (size_t k = 0; k < found && !is_ours; k++)
				is_ours = ret_pids[k] == all[i].parent;
			if (!is_ours || all[i].pid == 0)
				continue;
			ret_pids[found++] = all[i].pid;
			all[i].pid = 0;
			more = true;
		}
	}
	return found;
}

void
porter_kill_all(bool at_once)
{
	static pid_t pids[PORTER_PROCESSES_MAX];

	for (unsigned round = 0;; round++) {
		size_t n = 0;

		/* What forks faster than it can be listed. */
		if (at_once || round >= ROUNDS)
			(void)kill(-1, SIGKILL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		n = porter_list(pids);
		if (n == 0)
			return;
		for (size_t i = 0; i < n; i++)
			(void)kill(pids[i], SIGKILL);
		(void)poll(NULL, 0, ROUND_MS);
	}
}

void
porter_remove_folder(const char *path, bool whole)
{
	OWN(closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(closedirp) DIR *list = dir < 0 ? NULL : tree_list(dir);
	struct dirent *d;

	while (list != NULL && (d = readdir(list)) != NULL) {
		OWN(closep) int fd = -1;

		if (tree_is_dots(d->d_name) || (!whole && strcmp(d->d_name, PR_OUT) == 0))
			continue;
		fd = tree_open_dir_anyway(dir, d->d_name);
		if (fd < 0 || tree_empty(fd, NULL) == 0)
			(void)unlinkat(dir, d->d_name, fd < 0 ? 0 : AT_REMOVEDIR);
	}
	(void)rmdir(path);
}
