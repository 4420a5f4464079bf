/* client.c - connects to running cells, and finds ended ones. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "cell/cell_control.h"
#include "cli/cli.h"
#include "ipc/control_channel.h"

#define TIDY_WAITS 1000                 /* of 5 ms: time for a supervisor to tidy up */

static bool
has_ended(const char *word)
{
	OWN(closep) int state = cell_state_open(false, NULL), ended = -1;
	struct cell_entry entry;

	if (state < 0)
		return false;
	ended = cell_ended_open(state);
	return cell_find(state, false, word, &entry, NULL) == 0 ||
	       (ended >= 0 && cell_find(ended, false, word, &entry, NULL) != -ENOENT);
}

bool
cli_is_kept(const char *word)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	struct cell_entry entry;

	return state >= 0 && cell_find(state, false, word, &entry, NULL) == 0 &&
	       (strcmp(entry.id, word) == 0 || strcmp(entry.name, word) == 0);
}

int
cli_find_running(const char *word, struct cell_entry *ret_entry, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	int r;

	if (runtime < 0)
		return runtime;
	r = cell_find(runtime, true, word, ret_entry, err);
	if (r == -ENOENT && has_ended(word))
		return err_set(err, ENOENT, "cell '%s' has ended: see `cloister events %s`", word, word);
	return r < 0 ? r : TAKE_FD(runtime);
}

int
cli_connect(const char *word, struct cell_entry *ret_entry, struct err *err)
{
	OWN(closep) int runtime = cli_find_running(word, ret_entry, err);

	return runtime < 0 ? runtime : cell_connect(runtime, ret_entry, err);
}

/* The supervisor answers no more requests: it is at its very end. */
static bool
await_unlocked(const char *id)
{
	const struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
	OWN(closep) int state = cell_state_open(false, NULL), dir = -1;
	struct cell_entry entry;

	if (state < 0 || cell_find(state, false, id, &entry, NULL) < 0)
		return true;
	dir = openat(state, entry.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	for (int i = 0; i < TIDY_WAITS && dir >= 0 && cell_state_is_live(dir); i++)
		nanosleep(&pause, NULL);
	return dir < 0 || !cell_state_is_live(dir);
}

bool
cli_await_tidy(const char *id)
{
	const struct timeval patience = { .tv_sec = 2 };
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct cell_entry entry;
	OWN(closep) int fd = cli_connect(id, &entry, NULL);
	uint32_t state = CONTROL_STATE_DEAD;

	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (fd >= 0 && cell_control_ask_info(fd, &message, &state, NULL) == -EBADMSG)
		return false;
	return state == CONTROL_STATE_DEAD && await_unlocked(id);
}

/* A worker has it, and it runs. */
static bool
is_far(const char *word)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);
	struct cell_entry entry;

	return runtime >= 0 && cell_find(runtime, true, word, &entry, NULL) == 0 && entry.far;
}

int
cli_find_kept(int state, const char *word, struct cell_entry *ret_entry, struct err *err)
{
	OWN(closep) int ended = -1;
	struct cell_entry entry;
	int r = cell_find(state, false, word, ret_entry, err);

	if (r != -ENOENT)
		return r;
	ended = cell_ended_open(state);
	r = ended < 0 ? -ENOENT : cell_find(ended, false, word, &entry, NULL);
	if (r == -ENOENT)
		return -ENOENT;
	if (is_far(word))
		return err_set(err, ENOENT, "cell '%s' is on another machine, which has its files", word);
	return err_set(err, ENOENT, "cell '%s' has ended, and only its events are kept: see `cloister "
	               "events %s`", word, word);
}

int
cli_open_record(const char *word, struct cell_entry *ret_entry, int *ret_dir,
                struct cell_record *ret_record, struct err *err)
{
	OWN(closep) int state = cell_state_open(false, err);
	OWN(closep) int dir = -1;
	int r;

	if (state < 0)
		return state != -ENOENT ? state :
		       err_set(err, ENOENT, "there is no cell '%s': see `cloister ps -a`", word);
	r = cli_find_kept(state, word, ret_entry, err);
	if (r < 0)
		return r;
	dir = openat(state, ret_entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir < 0)
		return err_errno(err, "cannot open the kept data of cell %s", ret_entry->id);
	r = cell_record_read(dir, ret_record, err);
	if (r == -ENOENT && cell_state_is_live(dir))
		return err_set(err, EBUSY, "cell '%s' is still running: `cloister stop %s` first",
		               word, word);
	if (r == -ENOENT)
		return err_set(err, ENOENT, "the changes of cell %s are lost: its supervisor was "
		               "killed, or the disk was full", ret_entry->id);
	if (r < 0)
		return r;
	*ret_dir = TAKE_FD(dir);
	return 0;
}
