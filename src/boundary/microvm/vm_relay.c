/* vm_relay.c - the port of a machine that has it as a socket of its monitor: bytes are carried between that
 * and the cell's stream. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/microvm/vm_guest.h"

#define PIECE 65536

struct direction {
	int from, to;
	size_t at, len;
	char bytes[PIECE];
};

int
vm_listen(const char *path, int *ret_listener, struct err *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	OWN(closep) int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listener, 1) < 0)
		return err_errno(err, "cannot make the virtual machine's socket '%s'", path);
	*ret_listener = TAKE_FD(listener);
	return 0;
}

/* Whether it goes on.  A side that takes no more bytes may have more to say. */
static bool
carry(struct direction *d)
{
	ssize_t n = 1;

	if (d->len == 0) {
		n = read(d->from, d->bytes, sizeof(d->bytes));
		d->at = 0;
		d->len = n > 0 ? (size_t)n : 0;
	}
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return false;
	n = d->len > 0 ? send(d->to, d->bytes + d->at, d->len, MSG_NOSIGNAL) : 0;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		n = (ssize_t)d->len;
	d->at += n > 0 ? (size_t)n : 0;
	d->len -= n > 0 ? (size_t)n : 0;
	return true;
}

static struct pollfd
watch(int fd, const struct direction *reads, const struct direction *writes)
{
	short events = (short)((reads->len == 0 ? POLLIN : 0) | (writes->len > 0 ? POLLOUT : 0));

	/* Its end can wait until somebody has taken its bytes. */
	return (struct pollfd){ events != 0 ? fd : -1, events, 0 };
}

/* Until one side ends.  Everything that it has sent is passed on then. */
static int
carry_all(int guest, int stream, struct err *err)
{
	static struct direction out, in;

	out.from = in.to = guest;
	in.from = out.to = stream;
	for (;;) {
		struct pollfd fds[] = { watch(guest, &out, &in), watch(stream, &in, &out) };

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return err_errno(err, "cannot wait for the guest's port");
		if (!carry(&out) || !carry(&in))
			return 0;
	}
}

int
vm_relay(int listener, int stream, struct err *err)
{
	OWN(closep) int guest = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (guest < 0 || fcntl(stream, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(err, "the guest has no port to its host");
	/* One guest has one port. */
	close(listener);
	return carry_all(guest, stream, err);
}
