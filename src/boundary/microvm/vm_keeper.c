/* vm_keeper.c - the keeper of a virtual machine: the process that has its monitor's control socket
 * until the machine runs for a cell. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"

#define CHUNK ((off_t)1 << 20)

static int
copy_range(const char *from, int to, off_t at, off_t end, struct err *err)
{
	while (at < end) {
		ssize_t n = pwrite(to, from + at, (size_t)(end - at < CHUNK ? end - at : CHUNK), at);

		if (n <= 0)
			return err_errno(err, "cannot copy a template's memory");
		at += n;
	}
	return 0;
}

/* Whoever maps the template itself could not share the memory with a file server.  What was never
 * written is not copied. */
static int
copy_memory(int from, int to, uint64_t size, struct err *err)
{
	char *data = mmap(NULL, size, PROT_READ, MAP_SHARED, from, 0);
	off_t at = 0, end = 0, most = (off_t)size;
	int r = 0;

	if (data == MAP_FAILED)
		return err_errno(err, "cannot read a template");
	while (r == 0 && (at = lseek(from, end, SEEK_DATA)) >= 0 && at < most) {
		end = lseek(from, at, SEEK_HOLE);
		end = end < 0 || end > most ? most : end;
		r = copy_range(data, to, at, end, err);
	}
	munmap(data, size);
	return r;
}

static int
restore(const struct vm *vm, struct vm_control *c, struct err *err)
{
	const struct vm_machine *m = &vm->machine;
	/* Meanwhile the monitor starts. */
	int r = m->start == VM_FORK ? 0 : copy_memory(vm->memory, m->ram, m->memory, err);

	if (r == 0 && vm->driver->begin != NULL)
		r = vm->driver->begin(c, err);
	if (r == 0)
		r = vm->driver->restore(c, m, err);
	if (r == 0 && vm->waits < 0 && m->start != VM_FORK)
		r = vm->driver->plug(c, m, false, err);
	return r < 0 ? r : vm->driver->resume(c, err);
}

/* The guest of a machine that waits has run, but nothing of a cell's has been in it. */
static int
await_share(const struct vm *vm, struct vm_control *c, struct err *err)
{
	struct vm_machine m = vm->machine;
	int r = vm_send_byte(vm->waits, -1, err);

	if (r == 0)
		r = vm_receive_byte(vm->waits, &m.share, err);
	if (r == 0 && m.share < 0)
		r = err_set(err, EBADMSG, "the virtual machine got no files");
	return r < 0 ? r : vm->driver->plug(c, &m, true, err);
}

/* A monitor that has ended has said why; what it said before is of less use than the keeper's reason. */
static void
complain(int log, const struct err *why)
{
	char line[ERR_TEXT_MAX + 1];
	int len = snprintf(line, sizeof(line), "%s\n", why->text);

	if (why->code == EPIPE)
		(void)!write(log, line, (size_t)len);
	else
		(void)!pwrite(log, line, (size_t)len, 0);
}

/* The guest's first byte: it waits for a cell, or its reason why it cannot begins. */
static int
take_word(int port, struct err *err)
{
	char byte = 0;
	int r = read_exactly(port, &byte, 1, err);

	return r == 0 && byte != 0 ? err_set(err, EAGAIN, "the guest could not get ready: try again") : r;
}

/* The guest says on PORT that it waits for a cell. */
static int
await_guest(const struct vm *vm, int port, struct err *err)
{
	OWN(closep) int guest = -1;

	if (!vm->driver->by_sockets)
		return take_word(port, err);
	guest = accept4(port, NULL, NULL, SOCK_CLOEXEC);
	if (guest < 0)
		return err_errno(err, "the guest has no port to its host");
	/* No connection must be part of a template: from now on, nobody is there. */
	close(port);
	return take_word(guest, err);
}

static int
record(const struct vm *vm, int port, struct vm_control *c, struct err *err)
{
	const struct vm_machine *m = &vm->machine;
	int r = vm->driver->by_sockets ? vm->driver->boot(c, m, err) : vm->driver->begin(c, err);

	if (r == 0)
		r = await_guest(vm, port, err);
	if (r == 0)
		r = vm->driver->pause(c, err);
	if (r == 0 && vm->driver->by_sockets)
		r = copy_memory(vm->memory, m->ram, m->memory, err);
	if (r == 0)
		r = vm->driver->snapshot(c, m, err);
	if (r == 0)
		r = write_all(vm->recorded, "", 1, err);
	else if (r == -EAGAIN)
		(void)write_all(vm->recorded, "\1", 1, NULL);
	return r;
}

/* The guest connects to PORT once it runs. */
static int
stay(const struct vm *vm, int port, struct vm_control *c, struct err *err)
{
	int r = vm->machine.start == VM_BOOT ? vm->driver->boot(c, &vm->machine, err) : restore(vm, c, err);

	if (vm->machine.tap >= 0)
		close(vm->machine.tap);
	return r < 0 ? r : vm_relay(port, vm->machine.port, err);
}

static int
keep(const struct vm *vm, int port, struct vm_control *c, struct err *err)
{
	int r;

	if (vm->machine.start == VM_RECORD)
		return record(vm, port, c, err);
	if (vm->driver->by_sockets)
		return stay(vm, port, c, err);
	r = restore(vm, c, err);
	if (r == 0 && vm->points >= 0)
		r = vm_serve_points(vm, c, err);
	return r < 0 || vm->waits < 0 ? r : await_share(vm, c, err);
}

static int
by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* It is a copy of the supervisor: all that it holds but what the keeper needs goes, and nobody may look
 * into it.  The supervisor waits for the end of its channel, and the keeper for the end of the other
 * end of its socket. */
static int
let_go(const struct vm *vm, int port, int landlock, struct err *err)
{
	const bool stays = vm->driver->by_sockets;
	int kept[] = { vm->waits, vm->points, vm->machine.keeper, vm->machine.ram, vm->machine.state, vm->machine.log, vm->memory,
	               vm->recorded, port, landlock, stays ? vm->machine.port : -1, stays ? vm->machine.tap : -1 };
	unsigned next = 0;

	qsort(kept, ARRAY_LEN(kept), sizeof(kept[0]), by_number);
	for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
		if (kept[i] < 0 || (unsigned)kept[i] < next)
			continue;
		if ((unsigned)kept[i] > next && close_range(next, (unsigned)kept[i] - 1, 0) < 0)
			return err_errno(err, "cannot close descriptors");
		next = (unsigned)kept[i] + 1;
	}
	if (close_range(next, ~0u, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
		return err_errno(err, "cannot close descriptors");
	return 0;
}

int
vm_keep(const struct vm *vm, int port, int landlock, struct err *err)
{
	struct vm_control control = { .fd = vm->machine.keeper };
	struct err why = {0};
	pid_t pid = fork();
	int r;

	if (pid != 0)
		return pid < 0 ? err_errno(err, "cannot start the virtual machine's keeper") : 0;
	r = let_go(vm, port, landlock, &why);
	if (r == 0)
		r = vm_lock_down(vm, landlock, &why);
	if (r == 0)
		r = keep(vm, port, &control, &why);
	if (r < 0)
		complain(vm->machine.log, &why);
	/* The supervisor need not wait for a monitor that does not answer. */
	if (vm->driver->by_sockets)
		close(vm->machine.port);
	if (r < 0 || vm->driver->by_sockets || vm->machine.start == VM_RECORD)
		vm->driver->end(&control);
	_exit(r < 0);
}
