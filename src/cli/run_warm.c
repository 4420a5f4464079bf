/* run_warm.c - hands a cell to a supervisor that waits with a virtual machine, see ipc/warm_channel.h. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cell/cell_warm.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "ipc/ipc.h"
#include "ipc/warm_channel.h"

#define SENT_MAX 16

/* At most IPC_FDS_MAX at a time. */
static int
send_files(int socket, const struct spawn_fd *files, size_t n)
{
	OWN(buf_free) struct buf message;
	int fds[IPC_FDS_MAX];

	ipc_begin(&message, WARM_FILES);
	for (size_t i = 0; i < n; i++) {
		buf_put_u32(&message, (uint32_t)files[i].at);
		fds[i] = files[i].fd;
	}
	return ipc_send(socket, &message, fds, n, NULL);
}

/* Standard input and output too.  0 and -1 of FILES are none: see spawn.h. */
static int
send_all(int socket, const struct spawn_fd *files, size_t n)
{
	OWN(buf_free) struct buf message;
	struct spawn_fd sent[SENT_MAX] = { { 0, 0 }, { 1, 1 }, { 2, 2 } };
	size_t n_sent = 3;
	int r = 0;

	for (size_t i = 0; i < n && n_sent < SENT_MAX; i++)
		if (files[i].fd > 0)
			sent[n_sent++] = files[i];
	for (size_t i = 0; i < n_sent && r == 0; i += IPC_FDS_MAX)
		r = send_files(socket, sent + i, n_sent - i < IPC_FDS_MAX ? n_sent - i : IPC_FDS_MAX);
	ipc_begin(&message, WARM_START);
	return r < 0 ? r : ipc_send(socket, &message, NULL, 0, NULL);
}

static bool
is_taken(int socket)
{
	OWN(ipc_message_free) struct ipc_message message = {0};

	return ipc_receive(socket, &message, NULL) == 0 && message.type == WARM_TAKEN;
}

int
run_hand_over(const struct run *run, const struct spawn_fd *files, size_t n)
{
	OWN(closep) int folder = -1;
	struct cell_warm list[CELL_WARM_MAX];
	char shape[CELL_SHAPE_SIZE];
	size_t n_waiting;

	if (!run->warm || run->timing || !cell_warm_shape(&run->spec, shape))
		return -ENOENT;
	folder = cell_warm_folder(false, NULL);
	n_waiting = cell_warm_list(folder, list);
	for (size_t i = 0; i < n_waiting; i++) {
		OWN(closep) int socket = strcmp(list[i].shape, shape) == 0 ? cell_warm_connect(folder, &list[i]) : -1;

		if (socket >= 0 && send_all(socket, files, n) == 0 && is_taken(socket))
			return TAKE_FD(socket);
	}
	return -ENOENT;
}

int
run_handed_status(int socket)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	uint32_t status;

	if (ipc_receive(socket, &message, NULL) < 0 || message.type != WARM_ENDED ||
	    buf_get_u32(&message.body, &status) < 0 || status == 0 || status > 255)
		return CLI_FAILED;
	return (int)status;
}
