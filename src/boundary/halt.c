/* halt.c - see halt.h. */
#include "boundary/halt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "boundary/boundary.h"
#include "cell/cell_control.h"
#include "cell/cell_far.h"
#include "cell/cell_series.h"
#include "cell/cell_steer.h"
#include "ipc/control_channel.h"

#define PAUSE_MS 2
#define FIRST_END_MS 1000               /* beyond its grace, before the cell's state is checked */

/* Tries once: -EAGAIN if the supervisor cannot be reached at the moment. */
static void
ask(int runtime, struct halt *h, const struct cell_steer_who *who)
{
	OWN(closep) int fd = cell_connect_now(runtime, &h->entry, &h->err);

	h->socket = 0;
	if (fd == -ENOENT)
		h->state = h->asked ? HALT_DEAD : HALT_GONE;
	if (fd < 0 || cell_control_ask(fd, VERB_KILL, who, &h->err) < 0)
		return;
	h->asked = true;
	h->socket = TAKE_FD(fd);
}

static void
hang_up(struct halt *h)
{
	close_fd(&h->socket);
}

/* Waits until the supervisor reports the cell dead, or the DEADLINE. */
static void
await(int runtime, struct halt *h, const struct cell_steer_who *who, int64_t deadline)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };

	while (h->state == HALT_ASKED) {
		if (h->socket > 0 && !io_is_readable(h->socket, deadline))
			return;
		if (h->socket > 0 && cell_control_await_dead(h->socket, &h->err) == 0) {
			h->state = HALT_DEAD;
			return;
		}
		/* The supervisor hung up, or could not be reached. */
		hang_up(h);
		if (io_now_ms() >= deadline && cell_is_alive(runtime, &h->entry))
			return;
		(void)nanosleep(&pause, NULL);
		ask(runtime, h, who);
	}
}

/* Kills the cell without its supervisor, as its boundary does it. */
static int
halt_by_kernel(int runtime, struct halt *h, const struct cell_steer_who *who)
{
	OWN(closep) int entry = openat(runtime, h->entry.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	const struct boundary *kind = boundary_of(entry);
	char machine[CELL_MACHINE_MAX + 1];

	if (h->entry.far)
		return !cell_is_alive(runtime, &h->entry) ? 0 :
		       err_set(&h->err, EHOSTUNREACH, "cell %s is on the machine %s, which does not answer: it may still run",
		               h->entry.id, cell_far_machine(runtime, &h->entry, machine) ? machine : "?");
	if (kind == NULL && cell_is_alive(runtime, &h->entry))
		return err_set(&h->err, ENOTSUP, "cell %s does not answer, and this version of cloister does "
		               "not know its boundary: kill it with the version that started it", h->entry.id);
	return kind == NULL ? 0 : kind->halt(runtime, &h->entry, h->socket, who, &h->err);
}

static void
force(int runtime, struct halt *h, const struct cell_steer_who *who)
{
	int r = halt_by_kernel(runtime, h, who);

	/* If nothing of it ran any more, its supervisor tidies up, and reports when that is done. */
	if (r != 0)
		hang_up(h);
	h->forced = r > 0;
	h->state = r >= 0 ? HALT_DEAD : HALT_FAILED;
}

static void
kill_together(int runtime, struct halt *halts, size_t n, const struct cell_steer_who *who)
{
	int64_t deadline;

	for (size_t i = 0; i < n; i++)
		ask(runtime, &halts[i], who);
	deadline = io_now_ms() + CELL_ANSWER_MS;
	for (size_t i = 0; i < n; i++)
		await(runtime, &halts[i], who, deadline);
	for (size_t i = 0; i < n; i++)
		if (halts[i].state == HALT_ASKED)
			force(runtime, &halts[i], who);
}

void
halt_kill(int runtime, struct halt *halts, size_t n, const struct cell_steer_who *who)
{
	size_t max = cell_connect_max();

	/* First: otherwise the next cell might start before a supervisor that does not answer is killed. */
	for (size_t i = 0; i < n; i++)
		(void)cell_series_end_each(runtime, halts[i].entry.id);
	for (; n > max; halts += max, n -= max) {
		kill_together(runtime, halts, max, who);
		halt_close(halts, max);
	}
	kill_together(runtime, halts, n, who);
}

/* The state that its supervisor reports: enum control_state, or CONTROL_STATE_SILENT. */
static uint32_t
look(int runtime, const struct halt *h)
{
	struct cell_info info;
	uint32_t state;
	int r = cell_control_info(runtime, &h->entry, &info, NULL);

	if (r < 0)
		return r == -ENOENT ? CONTROL_STATE_DEAD : CONTROL_STATE_SILENT;
	state = info.state;
	cell_spec_free(&info.spec);
	return state;
}

static int
give_up(const struct halt *h, struct err *err)
{
	return err_set(err, h->err.code, "%s", h->err.text);
}

int
halt_stop(int runtime, struct halt *h, uint32_t grace_ms, const struct cell_steer_who *who, struct err *err)
{
	int r;

	(void)cell_series_end_each(runtime, h->entry.id);
	h->socket = cell_connect(runtime, &h->entry, err);
	if (h->socket == -ENOENT) {
		h->state = HALT_GONE;
		return -ENOENT;
	}
	r = h->socket < 0 ? h->socket : cell_control_ask_stop(h->socket, grace_ms, who, err);
	h->asked = h->stops = r == 0;
	/* The supervisor answers a stop only at the very end, so this asks for the state. */
	if (r == 0 && look(runtime, h) != CONTROL_STATE_SILENT)
		return 0;
	force(runtime, h, who);
	return h->state == HALT_FAILED ? give_up(h, err) : 0;
}

int
halt_await_end(int runtime, struct halt *h, uint32_t grace_ms, uint32_t *ret_status, char cause[256],
               struct err *err)
{
	int64_t deadline = io_now_ms() + grace_ms + FIRST_END_MS;
	int r;

	if (h->socket > 0 && h->state == HALT_DEAD && !h->stops)
		(void)cell_control_ask(h->socket, VERB_WAIT, NULL, NULL);
	if (h->socket > 0 && h->state == HALT_ASKED && !io_is_readable(h->socket, deadline) &&
	    look(runtime, h) != CONTROL_STATE_DEAD)
		force(runtime, h, NULL);
	r = h->socket <= 0 ? err_set(err, EPIPE, "the cell is dead, and its supervisor says no more") :
	                    cell_control_await_end(h->socket, ret_status, cause, err);
	if (r == 0)
		h->state = HALT_DEAD;
	/* The supervisor hung up, and may not have carried out the order. */
	if (r < 0 && h->state == HALT_ASKED) {
		if (cell_is_alive(runtime, &h->entry) && look(runtime, h) != CONTROL_STATE_DEAD)
			force(runtime, h, NULL);
		else
			h->state = HALT_DEAD;
	}
	return h->state == HALT_FAILED ? give_up(h, err) : r;
}

void
halt_close(struct halt *halts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hang_up(&halts[i]);
}

void
halt_describe(const struct halt *h, char text[HALT_TEXT_MAX])
{
	text[0] = '\0';
	if (h->forced)
		snprintf(text, HALT_TEXT_MAX, "the supervisor of cell %s did not answer within %d s: the kernel "
		         "killed the cell without it", h->entry.id, CELL_ANSWER_MS / 1000);
}
