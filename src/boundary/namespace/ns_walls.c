/* ns_walls.c - the walls of a running cell: its death, its cgroup, its network, its remains. */
#include "boundary/namespace/ns_walls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/port/port.h"

#define WALLS_FILE_MAX 65536
#define CHILDREN_MAX (1 << 20)

struct port *
ns_port(const struct walls *w)
{
	return w->port;
}

int
ns_died(const struct walls *w)
{
	return w->pidfd;
}

bool
ns_reap(struct walls *w, bool wait)
{
	siginfo_t info = {0};

	if (!w->reaped && w->pidfd >= 0 &&
	    waitid(P_PIDFD, (id_t)w->pidfd, &info, WEXITED | (wait ? 0 : WNOHANG)) == 0)
		w->reaped = info.si_pid != 0;
	return w->reaped;
}

void
ns_kill(struct walls *w)
{
	/* A group frozen by version 1 dies only when it is thawed, and runs not one instruction more. */
	if (w->frozen)
		cgroup_kill(w->cgroup);
	w->frozen = false;
	/* This is pid 1 of the cell: the kernel kills everything else with it. */
	(void)syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
}

int
ns_freeze(struct walls *w, struct err *err)
{
	int r = cgroup_freeze(w->cgroup, true, err);

	w->frozen = w->frozen || r == 0;
	return r;
}

int
ns_thaw(struct walls *w, struct err *err)
{
	int r = cgroup_freeze(w->cgroup, false, err);

	w->frozen = w->frozen && r < 0;
	return r;
}

void
ns_usage(const struct walls *w, struct boundary_usage *ret_usage)
{
	struct cgroup_usage usage;
	struct statvfs fs = {0};
	const bool has_disk = fstatvfs(w->scratch, &fs) == 0;

	cgroup_read_usage(w->cgroup, &usage);
	*ret_usage = (struct boundary_usage){
		.memory = usage.memory, .memory_peak = usage.memory_peak, .cpu_us = usage.cpu_us,
		.pids = usage.pids, .pids_peak = usage.pids_peak, .oom_kills = usage.oom_kills, .pids_refused = usage.pids_refused,
		.disk = (fs.f_blocks - fs.f_bfree) * fs.f_frsize,
		.disk_full = has_disk && (fs.f_bavail == 0 || fs.f_favail == 0),
		.read = usage.read, .written = usage.written, .has_io = usage.has_io,
		.pressure_cpu = usage.pressure_cpu, .pressure_io = usage.pressure_io,
		.pressure_memory = usage.pressure_memory, .has_pressure = usage.has_pressure,
	};
}

struct boundary_facts
ns_facts(const struct walls *w)
{
	static const struct { unsigned bit, limit; } rows[] = {
		{ CGROUP_MEMORY, CELL_LIMIT_MEMORY }, { CGROUP_CPUS, CELL_LIMIT_CPUS }, { CGROUP_IO, CELL_LIMIT_IO },
	};
	struct boundary_facts facts = { .counts_cpu = cgroup_counts_cpu(w->cgroup),
	                                .can_freeze = cgroup_can_freeze(w->cgroup) };

	/* Without a cgroup, processes are limited all the same. */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if ((w->unlimited & rows[i].bit) != 0)
			facts.unlimited |= rows[i].limit;
	return facts;
}

/* The agent is init's first child, as the kernel lists them. */
void
ns_pids(const struct walls *w, pid_t *ret_first, pid_t *ret_agent)
{
	OWN(freep) char *children = NULL;
	char path[64];

	*ret_first = w->init;
	*ret_agent = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)w->init, (int)w->init);
	if (read_file_at(AT_FDCWD, path, CHILDREN_MAX, &children, NULL, NULL) == 0)
		*ret_agent = (pid_t)strtoul(children, NULL, 10);
}

int
ns_listener(struct walls *w, uint32_t *ret_filter)
{
	*ret_filter = w->filter;
	return TAKE_FD(w->listener);
}

void
ns_sockets(struct walls *w, int ret_sockets[BOUNDARY_SOCKETS])
{
	for (size_t i = 0; i < BOUNDARY_SOCKETS; i++)
		ret_sockets[i] = TAKE_FD(w->sockets[i]);
}

void
ns_enter_net(const struct walls *w, int ret_fds[BOUNDARY_NET_FDS])
{
	ret_fds[0] = w->userns;
	ret_fds[1] = w->netns;
}

int
ns_counters(const struct walls *w)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/net/snmp", (int)w->init);
	return open(path, O_RDONLY | O_CLOEXEC);
}

size_t
ns_folders(const struct walls *w, int ret_fds[CELL_GRANTS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < CELL_GRANTS_MAX; i++)
		if (w->uppers[i] >= 0)
			ret_fds[n++] = w->uppers[i];
	return n;
}

int
ns_close(struct walls *w)
{
	int r;

	ns_remove_overlay_folders(w);
	port_free(w->port);
	r = cgroup_destroy(w->cgroup);
	/* The namespaces end with this process: taking them down would delay its last messages. */
	free(w);
	return r;
}

int
ns_clear(const struct walls *w, int entry, const char *id)
{
	OWN(freep) char *written = NULL;
	OWN(freep) char *paths = w == NULL ? NULL : cgroup_paths_of(w->cgroup, w->id, id);
	int r;

	(void)read_file_at(entry, CELL_WALLS, WALLS_FILE_MAX, &written, NULL, NULL);
	r = cgroup_clear_stale(written != NULL ? written : "");
	/* In case the list was not written yet: this name, wherever W has a group. */
	if (paths != NULL && cgroup_clear_stale(paths) < 0)
		r = -EBUSY;
	return r;
}

void
ns_clear_unknown(const struct walls *w, bool (*is_known)(void *arg, const char *id), void *arg)
{
	cgroup_clear_forgotten(w->cgroup, w->id, is_known, arg);
}
