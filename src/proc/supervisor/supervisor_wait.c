/* supervisor_wait.c - a supervisor that waits for its cell, with a virtual machine ready for it.
 *
 * It has an operator's rights, as any supervisor before its lockdown.  In the machine there is nobody yet. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_warm.h"
#include "ipc/warm_channel.h"
#include "proc/supervisor/supervisor.h"
#include "vm/template.h"

#define CLIENT_S 10                     /* for a client's messages */
#define FDS_END CELL_FDS_END

/* What it waits with. */
struct wait {
	struct cell_spec shape;
	char shape_name[CELL_SHAPE_SIZE];
	struct boundary_waiting about;
	struct cell_warm warm;
	int folder, listener;
};

int
supervisor_keep_numbers(struct err *err)
{
	int fd;

	if (syscall(SYS_close_range, (unsigned)CELL_SPEC_FD + 1, ~0u, 0u) < 0)
		return err_errno(err, "cannot close descriptors");
	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd < FDS_END - 1);
	return fd < 0 ? err_errno(err, "cannot open /dev/null") : 0;
}

static int
read_shape(struct supervisor *sv, struct wait *wait, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct buf b;
	size_t len;
	int r = read_file_at(AT_FDCWD, "/proc/self/fd/3", CELL_SPEC_MAX, &text, &len, err);

	if (r < 0)
		return r;
	buf_init_borrowed(&b, text, len);
	r = cell_spec_get(&b, &wait->shape, err);
	if (r < 0)
		return r;
	sv->boundary = boundary_find(wait->shape.boundary, err);
	if (sv->boundary == NULL)
		return -EINVAL;
	if (sv->boundary->wait == NULL || !cell_warm_shape(&wait->shape, wait->shape_name))
		return err_set(err, EINVAL, "no cell of this kind can be waited for");
	return sv->boundary->check(&wait->shape, err);
}

static void
tell_nobody(void *arg, const char *topic, const char *text)
{
	(void)arg;
	(void)topic;
	(void)text;
}

static int
make_machine(struct supervisor *sv, struct wait *wait, struct err *err)
{
	struct boundary_ground ground = { .libexec = sv->libexec, .changes = -1, .memory = -1, .state = -1, .tell_once = tell_nobody };
	int r = cell_place_take(&wait->shape, &sv->place, err);

	if (r < 0)
		return r;
	ground.slot = sv->place.entry.slot;
	/* A template may have to be made, in a cell of its own. */
	ground.entry = sv->place.dir;
	r = sv->boundary->wait(&wait->shape, &ground, &sv->waiting, &wait->about, err);
	cell_place_vacate(&sv->place);
	return r;
}

static int
begin_listening(struct wait *wait, struct err *err)
{
	const char *label = wait->about.label;

	wait->folder = cell_warm_folder(true, err);
	if (wait->folder < 0)
		return wait->folder;
	label += strncmp(label, TEMPLATE_PREFIX, strlen(TEMPLATE_PREFIX)) == 0 ? strlen(TEMPLATE_PREFIX) : 0;
	wait->listener = cell_warm_listen(wait->folder, wait->shape_name, label, &wait->warm, err);
	return wait->listener < 0 ? wait->listener : 0;
}

static void
stop_listening(struct wait *wait)
{
	if (wait->folder >= 0)
		(void)unlinkat(wait->folder, wait->warm.file, 0);
	close_fd(&wait->listener);
	close_fd(&wait->folder);
}

_Noreturn static void
leave(struct supervisor *sv, struct wait *wait)
{
	stop_listening(wait);
	sv->boundary->kill(sv->waiting);
	(void)sv->boundary->reap(sv->waiting, true);
	exit(0);
}

/* The descriptors of the cell, by their numbers; -1: it has none. */
static int
receive_files(int client, int fds[FDS_END], struct err *err)
{
	for (;;) {
		OWN(ipc_message_free) struct ipc_message message = {0};
		uint32_t number;
		int r = ipc_receive(client, &message, err);

		if (r < 0 || message.type == WARM_START)
			return r;
		if (message.type != WARM_FILES)
			return -EBADMSG;
		for (size_t i = 0; i < message.n_fds; i++) {
			if (buf_get_u32(&message.body, &number) < 0 || number >= FDS_END || fds[number] >= 0)
				return -EBADMSG;
			fds[number] = ipc_take_fd(&message, i);
		}
	}
}

/* Whether the cell that a client describes fits; other operators cannot reach the socket. */
static bool
fits(const struct wait *wait, int spec_fd)
{
	OWN(cell_spec_free) struct cell_spec spec = {0};
	OWN(freep) char *text = NULL;
	char shape[CELL_SHAPE_SIZE];
	struct buf b;
	size_t len;

	if (spec_fd < 0 || lseek(spec_fd, 0, SEEK_SET) < 0 || read_whole(spec_fd, CELL_SPEC_MAX, &text, &len, NULL) < 0)
		return false;
	buf_init_borrowed(&b, text, len);
	return cell_spec_get(&b, &spec, NULL) == 0 && spec.detached && cell_warm_shape(&spec, shape) &&
	       strcmp(shape, wait->shape_name) == 0 && lseek(spec_fd, 0, SEEK_SET) == 0;
}

static int
put_in_place(const int fds[FDS_END])
{
	for (int i = 0; i < FDS_END; i++) {
		if (fds[i] >= 0 && dup2(fds[i], i) < 0)
			return -errno;
		closep(&fds[i]);
	}
	return 0;
}

/* Standard input is a socket of the service, if there is one. */
static void
tell_service(char word)
{
	(void)send(STDIN_FILENO, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* True if the client's cell is this process's from now on. */
static bool
take(struct supervisor *sv, struct wait *wait, int client)
{
	const struct timeval patience = { .tv_sec = CLIENT_S };
	OWN(buf_free) struct buf message;
	int fds[FDS_END];
	bool taken;

	for (size_t i = 0; i < FDS_END; i++)
		fds[i] = -1;
	ipc_begin(&message, WARM_TAKEN);
	taken = setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
	        receive_files(client, fds, NULL) == 0 && fits(wait, fds[CELL_SPEC_FD]) &&
	        !sv->boundary->reap(sv->waiting, false) &&
	        ipc_send(client, &message, NULL, 0, NULL) == 0;
	if (!taken)
		return false;
	tell_service(WARM_GONE);
	if (put_in_place(fds) < 0)
		exit(125);
	return true;
}

/* Ends the process unless a client has come. */
static int
await_client(struct supervisor *sv, struct wait *wait)
{
	struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = sv->boundary->died(sv->waiting),
	                        .events = POLLIN }, { .fd = wait->listener, .events = POLLIN } };

	for (;;) {
		int64_t left = wait->about.until_s - (int64_t)time(NULL);

		if (left <= 0 || fds[0].revents != 0 || fds[1].revents != 0)
			leave(sv, wait);
		if (fds[2].revents != 0)
			return accept4(wait->listener, NULL, NULL, SOCK_CLOEXEC);
		if (poll(fds, ARRAY_LEN(fds), left > 3600 ? 3600 * 1000 : (int)left * 1000) < 0 && errno != EINTR)
			leave(sv, wait);
	}
}

int
supervisor_wait(struct supervisor *sv, struct err *err)
{
	struct wait wait = { .folder = -1, .listener = -1 };
	int client, r = read_shape(sv, &wait, err);

	if (r == 0)
		r = make_machine(sv, &wait, err);
	if (r == 0)
		r = begin_listening(&wait, err);
	if (r < 0)
		return r;
	tell_service(WARM_READY);
	client = await_client(sv, &wait);
	/* One client, once: whoever is behind it looks for another. */
	stop_listening(&wait);
	if (client < 0 || !take(sv, &wait, client))
		leave(sv, &wait);
	cell_spec_free(&wait.shape);
	sv->taker = client;
	return 0;
}

void
supervisor_tell_taker(const struct supervisor *sv, int status)
{
	OWN(buf_free) struct buf message = {0};

	if (sv->taker < 0)
		return;
	ipc_begin(&message, WARM_ENDED);
	buf_put_u32(&message, (uint32_t)status);
	(void)ipc_send(sv->taker, &message, NULL, 0, NULL);
}
