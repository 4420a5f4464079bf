/* vm_wait.c - machines that wait for a cell: restored, running, and with nothing of any operator in them.
 *
 * The namespaces, the network, the monitor and the guest are there.  What depends on the cell is made when
 * there is one: its cgroup, and a process that builds the guest's tree and becomes its file server. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/namespace/ns_walls.h"

/* The supervisor's side of a machine that waits. */
struct waiting {
	struct vm vm;
	int keeper;                     /* the other end of vm.waits */
	int server;                     /* the file server's end of vm.alive */
};

static void
close_waiting(struct waiting *waiting)
{
	close_fd(&waiting->keeper);
	close_fd(&waiting->server);
	close_fd(&waiting->vm.waits);
	close_fd(&waiting->vm.alive);
	vm_close(&waiting->vm);
	free(waiting);
}

/* ---- before there is a cell ---- */

static int
make_ends(struct waiting *waiting, struct err *err)
{
	int ends[2], alive[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make the virtual machine's sockets");
	waiting->keeper = ends[0];
	waiting->vm.waits = ends[1];
	if (pipe2(alive, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	waiting->vm.alive = alive[0];
	waiting->server = alive[1];
	return 0;
}

/* A guest that answers an empty message runs as it should. */
static int
await_guest(const struct walls *w, struct waiting *waiting, struct err *err)
{
	const int64_t until = io_now_ms() + VM_BOOT_MS;
	const uint32_t nothing = 0;
	char byte;
	int r = io_await(waiting->keeper, until);

	if (r == 0)
		r = vm_receive_byte(waiting->keeper, NULL, err);
	if (r == 0)
		r = write_all(w->stream, &nothing, sizeof(nothing), err);
	if (r == 0)
		r = io_await(w->stream, until);
	if (r == 0 && read(w->stream, &byte, 1) != 1)
		r = -EPIPE;
	return r < 0 ? err_set(err, -r, "the virtual machine does not answer") : 0;
}

static int
make_waiting(const struct cell_spec *shape, const struct boundary_ground *ground, struct waiting *waiting,
             struct walls **ret_walls, struct err *err)
{
	const struct ns_inside inside = { .build = vm_build, .greet = vm_greet, .arg = &waiting->vm };
	int r = make_ends(waiting, err);

	if (r == 0)
		r = vm_open(shape, ground->slot, &waiting->vm, err);
	if (r == 0)
		r = ns_wait(shape, ground, &inside, ret_walls, err);
	/* The keeper has them now. */
	close_fd(&waiting->vm.waits);
	close_fd(&waiting->vm.alive);
	waiting->vm.waits = waiting->vm.alive = -1;
	if (r == 0)
		r = await_guest(*ret_walls, waiting, err);
	if (r < 0)
		vm_explain(waiting->vm.machine.log, err);
	return r;
}

int
vm_wait(const struct cell_spec *shape, const struct boundary_ground *ground, struct walls **ret_walls,
        struct boundary_waiting *ret_waiting, struct err *err)
{
	struct waiting *waiting = calloc(1, sizeof(*waiting));
	struct walls *walls = NULL;
	int r;

	if (waiting == NULL)
		return err_set(err, ENOMEM, "out of memory");
	waiting->keeper = waiting->server = -1;
	(void)vm_lift_limit(RLIMIT_FSIZE);
	signal(SIGXFSZ, SIG_IGN);
	r = vm_describe(shape, &waiting->vm, err);
	if (r == 0 && waiting->vm.driver->restore != NULL && !waiting->vm.driver->by_sockets)
		r = vm_prepare_template(shape, ground, &waiting->vm, err);
	if (r == 0 && waiting->vm.machine.start != VM_RESTORE)
		r = err_set(err, ENOTSUP, "without a template, no virtual machine can wait for a cell");
	if (r == 0)
		r = make_waiting(shape, ground, waiting, &walls, err);
	if (r < 0) {
		if (walls != NULL)
			ns_abandon(walls);
		close_waiting(waiting);
		return r;
	}
	walls->waiting = waiting;
	snprintf(ret_waiting->label, sizeof(ret_waiting->label), "%s", waiting->vm.template);
	ret_waiting->until_s = waiting->vm.until_s;
	*ret_walls = walls;
	return 0;
}

/* ---- when there is one ---- */

/* The keeper plugs in what it is sent, and ends. */
static int
vm_join(const struct ns_plan *agents, struct err *err)
{
	const struct waiting *waiting = agents->inside->arg;
	OWN(closep) int listener = -1, client = -1;
	struct vm served = waiting->vm;
	struct cell_spec spec = *agents->spec;
	struct ns_plan outer = *agents;
	int r;

	/* As in vm_build(). */
	spec.profile = CELL_PROFILE_DEFAULT;
	outer.spec = &spec;
	served.serves = true;
	r = vm_build_root(&outer, &served, err);
	if (r == 0)
		r = ns_set_limits(&outer, err);
	if (r == 0)
		r = vm_connect_pair(&listener, &client, err);
	if (r == 0)
		r = vm_send_byte(waiting->keeper, client, err);
	if (r == 0)
		close_fd(&client);
	client = -1;
	return r < 0 ? r : vm_become_server(&outer, listener, waiting->server, err);
}

static int
greet_waiting(const struct ns_plan *plan, int stream, struct err *err)
{
	struct waiting *waiting = plan->inside->arg;
	struct ns_inside inside = *plan->inside;
	struct ns_plan greeted = *plan;
	char byte;
	int r = io_await(waiting->keeper, plan->inside->until_ms);

	/* It ends without a word. */
	if (r < 0 || read(waiting->keeper, &byte, 1) != 0)
		return err_set(err, r == -ETIMEDOUT ? ETIMEDOUT : EPIPE, "the virtual machine got no files");
	inside.arg = &waiting->vm;
	greeted.inside = &inside;
	return vm_greet(&greeted, stream, err);
}

/* Whether the monitor and its keeper live. */
static bool
is_alive(struct walls *w, const struct waiting *waiting)
{
	char byte;

	return !ns_reap(w, false) && recv(waiting->keeper, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

int
vm_adopt(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls **ret_walls,
         struct err *err)
{
	struct walls *w = ground->waiting;
	struct waiting *waiting = w->waiting;
	const struct ns_inside inside = { .build = vm_build, .greet = greet_waiting, .join = vm_join, .arg = waiting,
	                                  .until_ms = vm_end_of_start(spec) };
	const bool alive = is_alive(w, waiting);
	int r = alive ? ns_adopt(spec, ground, &inside, w, err) : -EAGAIN;

	if (r < 0 && alive) {
		vm_explain(waiting->vm.machine.log, err);
		/* Nothing can be started a second time. */
		r = r == -EAGAIN ? -EIO : r;
	}
	w->waiting = NULL;
	if (r == 0)
		w->memory = TAKE_FD(waiting->vm.machine.ram);
	close_waiting(waiting);
	if (r < 0)
		ns_abandon(w);
	else
		*ret_walls = w;
	return r;
}
