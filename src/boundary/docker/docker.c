/* docker.c - the boundary of a container that an engine makes, seen from the supervisor. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/boundary.h"
#include "boundary/capture/capture.h"
#include "boundary/docker/dk.h"
#include "boundary/overlay/overlay.h"
#include "boundary/port/port.h"

#define START_MS 60000
#define LOOK_MS 500                     /* between looks whether the container has ended */
#define WARDEN_MEMORY (UINT64_C(64) << 20)
#define WARDEN_PIDS 16
#define ID_MAP_MAX 4096

const char *
dk_name(char name[DK_NAME_SIZE], const char *id)
{
	snprintf(name, DK_NAME_SIZE, "cloister-%s", id);
	return name;
}

/* ---- the start ---- */

/* The path of a descriptor, as the engine has to know it. */
static int
find_path(int fd, const char *name, char path[PATH_MAX], struct err *err)
{
	char link[40], folder[PATH_MAX - NAME_MAX - 2];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, folder, sizeof(folder) - 1);
	if (n < 0)
		return err_errno(err, "cannot find the path of '%s'", name);
	folder[n] = '\0';
	snprintf(path, PATH_MAX, "%s/%s", folder, name);
	return 0;
}

/* The folder around it is the operator's alone.  Inside, the agent's user connects. */
static int
listen_for_init(int entry, struct err *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	OWN(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/" CELL_PORT, entry);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || fchmodat(entry, CELL_PORT, 0666, 0) < 0 ||
	    listen(fd, 1) < 0)
		return err_errno(err, "cannot make the socket for the container's first process");
	return TAKE_FD(fd);
}

/* The group of its warden: it also shows clear() where those of the egress helpers are. */
static int
make_own_group(const struct cell_spec *spec, const struct boundary_ground *ground, struct dk_container *c,
               struct err *err)
{
	const struct cgroup_limits limits = { .memory = WARDEN_MEMORY, .pids = WARDEN_PIDS };
	unsigned missing;
	int r = cgroup_create(spec->id, &limits, &c->own, &missing, NULL, 0, err);

	if (r == 0 && cgroup_paths(c->own)[0] != '\0')
		r = create_file_at(ground->entry, CELL_WALLS, 0600, cgroup_paths(c->own), err);
	return r < 0 ? r : create_file_at(ground->entry, CELL_ENGINE, 0600, spec->engine, err);
}

static int
create(const struct cell_spec *spec, const struct boundary_ground *ground, bool apart, struct dk_container *c,
       struct err *err)
{
	OWN(freep) char *description = NULL;
	char init[PATH_MAX], port[PATH_MAX];
	int r = find_path(ground->libexec, "cloister-init", init, err);

	if (r == 0)
		r = find_path(ground->entry, CELL_PORT, port, err);
	if (r < 0)
		return r;
	description = dk_describe(spec, init, port, apart);
	return description == NULL ? err_set(err, ENOMEM, "out of memory") :
	       engine_create(c->engine, c->name, description, c->id, err);
}

/* Root's Podman has ids of its own for a container, if the machine assigns some to the user "containers". */
static int
make_container(const struct cell_spec *spec, const struct boundary_ground *ground, struct dk_container *c,
               struct err *err)
{
	const bool apart = geteuid() == 0 && engine_is_podman(c->engine);
	char image[HASH_NAME + 1];
	int r = create(spec, ground, apart, c, err);

	if (r < 0 && apart)
		r = create(spec, ground, false, c, err);
	hash_name(spec->image.digest, image);
	if (r == 0)
		r = engine_check_image(c->engine, c->name, image, err);
	return r < 0 ? r : engine_start(c->engine, c->name, err);
}

static int
accept_init(const struct dk_container *c, int listener, int *ret_stream, struct err *err)
{
	const int64_t deadline = io_now_ms() + START_MS;
	int r;

	for (;;) {
		r = io_await(listener, io_now_ms() + LOOK_MS);
		if (r != -ETIMEDOUT)
			break;
		r = engine_has(c->engine, c->name, err);
		if (r <= 0)
			return r < 0 ? r : err_set(err, EPIPE, "the container ended before its first process was ready");
		if (io_now_ms() > deadline)
			return err_set(err, ETIMEDOUT, "the container's first process was not ready in time");
	}
	if (r < 0)
		return err_set(err, EINTR, "interrupted before the container was ready");
	*ret_stream = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	return *ret_stream < 0 ? err_errno(err, "cannot reach the container's first process") : 0;
}

/* The first id of the map, outside; -1 if it is not the container's root. */
static int64_t
read_base(pid_t pid)
{
	OWN(freep) char *map = NULL;
	unsigned inner, outer;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	if (read_file_at(AT_FDCWD, path, ID_MAP_MAX, &map, NULL, NULL) < 0 || sscanf(map, "%u %u", &inner, &outer) != 2 ||
	    inner != 0)
		return -1;
	return outer;
}

/* The kernel tells who connected, in the numbers of this process. */
static int
find_init(struct walls *w, int stream, struct err *err)
{
	static const char *const kinds[] = { "mnt", "pid", "net", "ipc", "uts" };
	struct dk_container *c = w->container;
	struct ucred peer;
	socklen_t len = sizeof(peer);
	int64_t base;
	int r = 0;

	if (getsockopt(stream, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 0)
		return err_set(err, ENOTSUP, "the container's processes are not seen from here: the engine runs in another "
		               "container or on another machine");
	w->init = peer.pid;
	w->pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
	if (w->pidfd < 0)
		return err_errno(err, "the container's first process died before it was ready");
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(kinds); i++) {
		OWN(closep) int fd = -1;

		r = dk_open_namespace(w->init, kinds[i], &fd, err);
	}
	if (r < 0)
		return r;
	/* Most engines of root's have no user namespaces. */
	if (dk_open_namespace(w->init, "user", &c->userns, NULL) < 0 && geteuid() != 0)
		return err_set(err, ENOTSUP, "the container has no user namespace of its own, and cloister does not run as "
		               "root: use a rootless engine");
	base = c->userns < 0 ? 0 : read_base(w->init);
	if (base < 0 && geteuid() == 0)
		return err_set(err, ENOTSUP, "the container has no root of its own");
	c->base = base < 0 ? 0 : (uid_t)base;
	return 0;
}

/* The engine has set the limits; those that its machine cannot enforce it leaves out with a warning. */
static int
check_limits(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls *w, struct err *err)
{
	unsigned carries, asked = CGROUP_MEMORY | CGROUP_CPUS | CGROUP_PIDS;
	int r;

	cgroup_free(w->cgroup);
	w->cgroup = NULL;
	r = cgroup_adopt(w->init, w->container->id, &w->cgroup, &carries, err);
	if (r < 0)
		return r;
	w->unlimited = asked & ~carries;
	r = ns_judge_limits(spec, ground, w->unlimited, "the engine has no cgroup with that limit for its containers: give it one "
	                    "(a rootless engine needs version 2 of cgroups, and a delegated group)", err);
	w->unlimited |= CGROUP_IO;
	return r;
}

static int
capture_net(const struct cell_spec *spec, struct walls *w, struct err *err)
{
	struct capture made;
	int netns = -1, r = dk_open_namespace(w->init, "net", &netns, err);

	if (r == 0)
		r = capture_make_in(w->container->userns, netns, spec->has_policy, &made, err);
	if (r < 0)
		return r;
	w->netns = made.netns;
	for (size_t i = 0; i < CAPTURE_SOCKETS; i++)
		w->sockets[i] = made.sockets[i];
	return 0;
}

/* Everything is in place: init goes on, and says when it is ready. */
static int
let_go(const struct boundary_ground *ground, struct walls *w, int *stream, struct err *err)
{
	int r = write_all(*stream, "", 1, err);

	if (r == 0)
		r = port_by_stream(ground->loop, *stream, io_now_ms() + START_MS, &w->port, err);
	if (r < 0)
		return r;
	*stream = -1;
	return ns_send_spawn(ground, w, err);
}

static int
start(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls *w, struct err *err)
{
	OWN(closep) int listener = listen_for_init(ground->entry, err), stream = -1;
	int r = listener < 0 ? listener : make_own_group(spec, ground, w->container, err);

	if (r == 0)
		r = make_container(spec, ground, w->container, err);
	if (r == 0)
		r = accept_init(w->container, listener, &stream, err);
	(void)unlinkat(ground->entry, CELL_PORT, 0);
	if (r == 0)
		r = find_init(w, stream, err);
	if (r == 0)
		r = check_limits(spec, ground, w, err);
	if (r == 0)
		r = dk_start_warden(w, err);
	if (r == 0 && ground->meanwhile != NULL)
		r = ground->meanwhile(ground->arg, w, err);
	if (r == 0)
		r = capture_net(spec, w, err);
	if (r == 0)
		r = dk_build(spec, ground, w, err);
	if (r == 0)
		r = let_go(ground, w, &stream, err);
	/* Root's collector reads the changes from outside. */
	if (r == 0 && geteuid() != 0)
		w->userns = fcntl(w->container->userns, F_DUPFD_CLOEXEC, 3);
	return r;
}

static int
docker_close(struct walls *w)
{
	struct dk_container *c = w->container;
	int r = c->warden >= 0 ? dk_warden_remove(w) : c->id[0] != '\0' ? engine_remove(c->engine, c->name, NULL) : 0;
	int own = cgroup_destroy(c->own);

	port_free(w->port);
	cgroup_free(w->cgroup);
	closep(&c->userns);
	free(c);
	free(w);
	return r < 0 ? r : own;
}

static int
docker_start(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls **ret_walls,
             struct err *err)
{
	struct walls *w = ns_new_walls(spec, ground);
	int r;

	if (w == NULL || (w->container = calloc(1, sizeof(*w->container))) == NULL) {
		free(w);
		return err_set(err, ENOMEM, "out of memory");
	}
	*w->container = (struct dk_container){ .engine = spec->engine, .warden = -1, .userns = -1 };
	(void)dk_name(w->container->name, spec->id);
	r = start(spec, ground, w, err);
	if (r < 0) {
		ns_drop_fds(w);
		(void)docker_close(w);
		return r;
	}
	*ret_walls = w;
	return 0;
}

/* ---- a running cell ---- */

static bool
docker_reap(struct walls *w, bool wait)
{
	struct pollfd p = { .fd = w->pidfd, .events = POLLIN };

	if (!w->reaped)
		w->reaped = poll(&p, 1, wait ? -1 : 0) == 1;
	return w->reaped;
}

static void
docker_kill(struct walls *w)
{
	w->frozen = false;
	dk_warden_kill(w);
}

static void
docker_enter_net(const struct walls *w, int ret_fds[BOUNDARY_NET_FDS])
{
	ret_fds[0] = w->container->userns;
	ret_fds[1] = w->netns;
}

/* ---- before there is one ---- */

static int
docker_check(const struct cell_spec *spec, struct err *err)
{
	if (spec->engine == NULL)
		return err_set(err, EINVAL, "the cell's description names no engine");
	if (spec->root)
		return err_set(err, ENOTSUP, "--root is not for containers of an engine: their root may be the machine's; use "
		               "another boundary");
	if (spec->profile == CELL_PROFILE_NESTED)
		return err_set(err, ENOTSUP, "a container of an engine allows no sandboxes in it: use another boundary for "
		               "--nested");
	if ((spec->limits.asked & CELL_LIMIT_IO) != 0)
		return err_set(err, ENOTSUP, "--io cannot be enforced with --boundary docker");
	if (cell_spec_has_overlay(spec) && !overlay_fits_memory())
		return err_set(err, ENOTSUP, "overlay workspaces in a container need a tmpfs with user attributes, which Linux "
		               "6.6 has: use -w DIR:ro or -w DIR:rw");
	return engine_check_owner(spec->engine, err);
}

static unsigned
docker_can(void)
{
	return ns_can();
}

static uid_t
docker_inner_root(unsigned slot)
{
	(void)slot;
	return geteuid();
}

/* The port carries the bytes: the agent has pipes of its own. */
static void
docker_give_to_agent(int fd, unsigned slot, const struct cell_spec *spec)
{
	(void)fd;
	(void)slot;
	(void)spec;
}

const struct boundary boundary_docker = {
	.name = BOUNDARY_DOCKER, .examine = dk_examine, .able = dk_able, .can = docker_can, .check = docker_check,
	.inner_root = docker_inner_root, .keeps_changes = overlay_fits_memory, .give_to_agent = docker_give_to_agent,
	.start = docker_start, .port = ns_port, .died = ns_died, .reap = docker_reap, .kill = docker_kill,
	.freeze = ns_freeze, .thaw = ns_thaw, .usage = ns_usage, .facts = ns_facts, .pids = ns_pids,
	.sockets = ns_sockets, .enter_net = docker_enter_net, .counters = ns_counters, .folders = ns_folders,
	.is_changed = ns_is_changed, .collect = ns_collect, .collector = ns_collector,
	.upper = ns_upper, .close = docker_close,
	.halt = dk_halt, .clear = dk_clear, .clear_unknown = dk_clear_unknown,
};
