/* vm_fork.c - copies of a machine: a cell that holds still is written to two files, from which others start.
 *
 * The keeper of a machine that can be copied stays beside the monitor, with the monitor's restrictions.  The supervisor
 * asks it for the state of the devices, which it gets from the monitor: a guest may have taken that over, so the keeper
 * believes nothing that it reads there but whether the state is complete, and the supervisor reads none of it.  Whoever
 * starts from it is a monitor with the same restrictions.
 *
 * The memory is copied once.  All that start from a point map the same file, privately: they share what none of them
 * changes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/namespace/ns_walls.h"

#define POINT_MS 30000                  /* for each answer of the keeper */

/* ---- the keeper ---- */

/* The monitor reports events at any time.  Nobody needs them. */
static int
drop_lines(struct vm_control *c, struct err *err)
{
	const char *end;

	if (c->len == sizeof(c->text))
		return err_set(err, EBADMSG, "the virtual machine's monitor broke the rules");
	if (vm_control_read(c, err) < 0)
		return -err->code;
	end = memrchr(c->text, '\n', c->len);
	if (end == NULL)
		return 0;
	c->len -= (size_t)(end + 1 - c->text);
	memmove(c->text, end + 1, c->len);
	return 0;
}

static int
await_request(const struct vm *vm, struct vm_control *c, struct err *err)
{
	struct pollfd fds[] = { { .fd = vm->points, .events = POLLIN }, { .fd = c->fd, .events = POLLIN } };
	int r = 0;

	while (r == 0) {
		if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
			return err_errno(err, "cannot wait for a request");
		if (fds[0].revents != 0)
			return 0;
		if (fds[1].revents != 0)
			r = drop_lines(c, err);
	}
	return r;
}

static int
answer(const struct vm *vm, int r)
{
	return write_all(vm->points, r == 0 ? "\0" : "\1", 1, NULL);
}

int
vm_serve_points(const struct vm *vm, struct vm_control *c, struct err *err)
{
	for (;;) {
		struct vm_machine m = vm->machine;
		bool gone;
		int r = await_request(vm, c, err);

		if (r < 0)
			return r;
		if (vm_receive_byte(vm->points, &m.state, &(struct err){0}) < 0)
			return 0;
		r = m.state < 0 ? -EBADMSG : vm->driver->pause(c, err);
		if (r == 0)
			r = vm->driver->snapshot(c, &m, err);
		closep(&m.state);
		/* The memory is copied meanwhile. */
		gone = answer(vm, r) < 0 || vm_receive_byte(vm->points, NULL, &(struct err){0}) < 0;
		r = vm->driver->resume(c, err);
		if (r < 0 || gone || answer(vm, 0) < 0)
			return r;
	}
}

/* ---- the supervisor ---- */

static int
hear_keeper(const struct walls *w, struct err *err)
{
	char byte = 1;
	int r = io_await(w->points, io_now_ms() + POINT_MS);

	if (r == 0 && read(w->points, &byte, 1) != 1)
		r = -EPIPE;
	/* It lets the machine go on, and ends: a late answer must not be taken for that to a later request. */
	if (r < 0)
		(void)shutdown(w->points, SHUT_RDWR);
	return r < 0 || byte != 0 ? err_set(err, EIO, "the state of the virtual machine could not be copied: %s",
	                                    r < 0 ? strerrordesc_np(-r) : "its monitor refused") : 0;
}

int
vm_take_point(const struct walls *w, int memory, int state, struct err *err)
{
	const off_t size = w->memory < 0 ? -1 : lseek(w->memory, 0, SEEK_END);
	int r, resumed;

	if (w->points < 0 || size < 0)
		return err_set(err, ENOTSUP, "this cell cannot be copied: start it with --forkable");
	r = vm_send_byte(w->points, state, NULL) < 0 ? err_set(err, EPIPE, "the state of the virtual machine could not be copied: "
	                                                           "its keeper has ended") : hear_keeper(w, err);
	if (r == -EPIPE)
		return r;
	if (r == 0 && (ftruncate(memory, size) < 0 || (r = vm_copy_memory(w->memory, memory)) < 0))
		r = err_set(err, r < 0 ? -r : errno, "cannot copy the memory of the cell: %s", strerrordesc_np(r < 0 ? -r : errno));
	/* It goes on in any case. */
	resumed = vm_send_byte(w->points, -1, r == 0 ? err : NULL);
	resumed = resumed == 0 ? hear_keeper(w, r == 0 ? err : NULL) : resumed;
	return r < 0 ? r : resumed;
}

/* ---- a copy ---- */

int
vm_begin_fork(const struct cell_spec *spec, const struct boundary_ground *ground, struct vm *vm, struct err *err)
{
	struct vm_machine *m = &vm->machine;
	char state[32];

	if (vm->driver != &vm_qemu || !m->has_disk || m->has_share)
		return err_set(err, ENOTSUP, "cell %s cannot be copied: its machine shares files", spec->fork_of.id);
	m->start = VM_FORK;
	m->ram = fcntl(ground->memory, F_DUPFD_CLOEXEC, 3);
	/* Others read it at the same time: each has a place of its own in it. */
	snprintf(state, sizeof(state), "/proc/self/fd/%d", ground->state);
	m->state = open(state, O_RDONLY | O_CLOEXEC);
	if (m->ram < 0 || m->state < 0 || lseek(m->ram, 0, SEEK_END) != (off_t)m->memory)
		return err_set(err, EINVAL, "the copy of cell %s is not complete", spec->fork_of.id);
	return 0;
}
