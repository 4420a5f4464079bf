/* local_cell.c - a local cell by its folders and its control socket. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "boundary/halt.h"
#include "cell/cell_control.h"
#include "cell/cell_steer.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"
#include "target/local_parts.h"

#define LOST_S 5                        /* how long to wait for a supervisor's answer */
#define LISTEN_MS 5

/* Cells of targets have no names. */
static int
open_entry(int state, const char *cell)
{
	char entry[CELL_ENTRY_MAX];

	snprintf(entry, sizeof(entry), "%s.", cell);
	return openat(state, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

int
local_open_entry(const char *cell)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	int fd = state < 0 ? -1 : open_entry(state, cell);

	return fd < 0 ? -ENOENT : fd;
}

enum target_state
local_look(const char *cell)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(closep) int entry = state < 0 ? -1 : open_entry(state, cell);

	if (entry < 0)
		return TARGET_NONE;
	if (cell_state_is_live(entry))
		return TARGET_LIVE;
	/* An entry that is only just being made is not locked yet, see cell_state_make(): ask again
	 * when nobody works on it. */
	(void)flock(state, LOCK_EX);
	if (cell_state_is_live(entry))
		return TARGET_LIVE;
	if (faccessat(entry, "record", F_OK, 0) == 0)
		return TARGET_ENDED;
	return tree_has_entries(entry) == 0 ? TARGET_BURIED : TARGET_LOST;
}

/* Finds the folder of running cells, and the cell's entry there. */
static int
find_running(const char *cell, struct cell_entry *ret_entry, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	int r = runtime < 0 ? runtime : cell_find(runtime, true, cell, ret_entry, err);

	if (r == 0 && strcmp(ret_entry->id, cell) != 0)
		r = err_set(err, ENOENT, "there is no cell '%s'", cell);
	return r < 0 ? r : TAKE_FD(runtime);
}

static int
connect_to(const char *cell, struct err *err)
{
	struct cell_entry entry;
	OWN(closep) int runtime = find_running(cell, &entry, err);

	return runtime < 0 ? runtime : cell_connect_now(runtime, &entry, err);
}

int
local_await(const char *cell, struct err *err)
{
	OWN(closep) int fd = connect_to(cell, err);
	int r;

	if (fd < 0)
		return fd;
	r = cell_control_ask(fd, VERB_WAIT, NULL, err);
	if (r == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		r = err_errno(err, "cannot wait for cell %s", cell);
	return r < 0 ? r : TAKE_FD(fd);
}

static int
stop(const char *cell, uint64_t grace_ms, struct err *err)
{
	struct halt h = {0};
	OWN(closep) int runtime = find_running(cell, &h.entry, err);
	int r;

	if (runtime < 0)
		return runtime;
	r = halt_stop(runtime, &h, grace_ms < UINT32_MAX ? (uint32_t)grace_ms : UINT32_MAX, NULL, err);
	halt_close(&h, 1);
	return r;
}

/* A supervisor that has only just begun does not listen yet. */
static int
connect_to_live(const char *cell, struct err *err)
{
	const struct timespec pause = { .tv_nsec = LISTEN_MS * 1000000L };
	int fd = connect_to(cell, err);

	for (int i = 0; fd < 0 && i < LOST_S * 1000 / LISTEN_MS &&
	     local_look(cell) == TARGET_LIVE; i++) {
		(void)nanosleep(&pause, NULL);
		fd = connect_to(cell, err);
	}
	return fd;
}

static int
ask_lost_rights(const char *cell, uint32_t *ret_lost, struct err *err)
{
	const struct timeval patience = { .tv_sec = LOST_S };
	OWN(closep) int fd = connect_to_live(cell, err);
	OWN(ipc_message_free) struct ipc_message answer = {0};
	OWN(buf_free) struct buf message = {0};
	int r;

	if (fd < 0)
		return fd;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	cell_steer_put(&message, NULL, &(struct steer_request){ .verb = VERB_LOST_RIGHTS });
	r = ipc_send(fd, &message, NULL, 0, err);
	r = r == 0 ? ipc_receive(fd, &answer, err) : r;
	if (r == 0 && (answer.type != CONTROL_DONE || buf_get_u32(&answer.body, ret_lost) < 0 ||
	               buf_left(&answer.body) != 0))
		r = err_set(err, EBADMSG, "the cell's supervisor does not say");
	return r;
}

int
local_control(const char *cell, struct target_order *order, struct err *err)
{
	switch (order->verb) {
	case TARGET_STOP:        return stop(cell, order->grace_ms, err);
	case TARGET_LOST_RIGHTS: return ask_lost_rights(cell, &order->lost, err);
	case TARGET_BURY:        return cell_state_bury(cell, err);
	}
	return err_set(err, ENOSYS, "the target local knows no verb %d", order->verb);
}

int
local_stream(const char *cell, enum target_stream stream)
{
	static const char *const names[TARGET_STREAMS] = { CELL_STDOUT, CELL_STDERR, CELL_STEPS };
	OWN(closep) int entry = local_open_entry(cell);
	int fd = entry < 0 ? -1 : openat(entry, names[stream], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -ENOENT : fd;
}

int
local_discard(const char *cell, struct err *err)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	char entry[CELL_ENTRY_MAX];

	snprintf(entry, sizeof(entry), "%s.", cell);
	return state < 0 ? 0 : cell_state_remove(state, entry, err);
}
