/* changes_now.c - the changes of a cell that still runs: its supervisor has them copied, and the copy is shown. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "boundary/boundary.h"
#include "cell/cell_control.h"
#include "cli/changes.h"
#include "cli/cli.h"
#include "ipc/control_channel.h"

#define NOW "now."                      /* and the pid of the process whose copy it is */
#define TRIES 3                         /* for a cell that cannot be frozen */

void
changes_remove_now(const struct changes *changes)
{
	OWN(closep) int folder = openat(changes->state_dir, changes->now, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (folder >= 0 && tree_empty(folder, NULL) == 0)
		(void)unlinkat(changes->state_dir, changes->now, AT_REMOVEDIR);
}

/* Of a `diff` that was killed. */
static void
remove_stale(const struct changes *changes)
{
	OWN(closedirp) DIR *list = tree_list(changes->state_dir);
	struct changes stale = { .state_dir = changes->state_dir };
	struct dirent *d;
	int pid, n;

	while (list != NULL && (d = readdir(list)) != NULL) {
		if (sscanf(d->d_name, NOW "%d%n", &pid, &n) != 1 || d->d_name[n] != '\0' || pid <= 0 ||
		    (kill(pid, 0) == 0 || errno != ESRCH))
			continue;
		snprintf(stale.now, sizeof(stale.now), NOW "%d", pid);
		changes_remove_now(&stale);
	}
}

/* An empty folder for each overlay, which the cell's inner root fills. */
static int
make_folders(struct changes *changes, unsigned slot, struct err *err)
{
	const struct cell_spec *spec = &changes->record.spec;
	const struct boundary *boundary = boundary_find(spec->boundary, err);
	OWN(closep) int folder = -1;
	char name[32];
	uid_t owner;

	if (boundary == NULL)
		return -EINVAL;
	owner = boundary->inner_root(slot);
	if (mkdirat(changes->state_dir, changes->now, 0700) < 0)
		return err_errno(err, "cannot make room for a copy of the changes");
	folder = openat(changes->state_dir, changes->now, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	for (size_t i = 0; folder >= 0 && i < spec->n_grants; i++) {
		snprintf(name, sizeof(name), "%zu", i);
		if (spec->grants[i].access == CELL_OVERLAY &&
		    (mkdirat(folder, name, 0700) < 0 ||
		     (owner != geteuid() && fchownat(folder, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)))
			return err_errno(err, "cannot make room for a copy of the changes");
	}
	if (folder < 0 || (owner != geteuid() && fchown(folder, owner, owner) < 0))
		return err_errno(err, "cannot make room for a copy of the changes");
	return TAKE_FD(folder);
}

static int
take_answer(struct ipc_message *message, struct changes *changes, struct err *err)
{
	struct cell_record *record = &changes->record;
	uint32_t flags, n;
	const char *text;

	if (message->type == CONTROL_REFUSED && buf_get_u32(&message->body, &flags) == 0 &&
	    buf_get_str(&message->body, &text) == 0)
		return err_set(err, (int)flags, "%s", text);
	if (message->type != CONTROL_DONE || buf_get_u32(&message->body, &flags) < 0 ||
	    buf_get_str(&message->body, &text) < 0 || buf_get_u32(&message->body, &n) < 0 || n > CELL_GRANTS_MAX)
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	snprintf(record->incomplete, sizeof(record->incomplete), "%s", text);
	for (uint32_t i = 0; i < n; i++)
		if (buf_get_u32(&message->body, &record->left_out[i]) < 0)
			return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	changes->how = (flags & CONTROL_COPIED_STILL) != 0 ? CHANGES_FROZEN :
	               (flags & CONTROL_COPIED_CHANGED) != 0 ? CHANGES_MOVING : CHANGES_UNTOUCHED;
	return 0;
}

static int
copy(struct changes *changes, int runtime, const struct cell_entry *entry, struct err *err)
{
	OWN(closep) int folder = make_folders(changes, entry->slot, err), socket = -1;
	OWN(ipc_message_free) struct ipc_message message = {0};
	OWN(buf_free) struct buf request = {0};
	struct timespec now;
	int r = folder < 0 ? folder : cell_connect(runtime, entry, err);

	if (r < 0)
		return r;
	socket = r;
	steer_put(&request, &(struct steer_request){ .verb = VERB_COPY });
	r = ipc_send(socket, &request, &folder, 1, err);
	if (r == 0)
		r = ipc_receive(socket, &message, err);
	clock_gettime(CLOCK_REALTIME, &now);
	changes->now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (r < 0)
		return err_set(err, EPIPE, "cell %s ended meanwhile: try again", entry->id);
	return take_answer(&message, changes, err);
}

/* Until nothing was changed meanwhile. */
static int
copy_still(struct changes *changes, int runtime, const struct cell_entry *entry, struct err *err)
{
	int r;

	for (int i = 0; i < TRIES; i++) {
		if (i > 0)
			changes_remove_now(changes);
		r = copy(changes, runtime, entry, err);
		if (r < 0 || changes->how != CHANGES_MOVING)
			return r;
	}
	return r;
}

static int
open_state(struct changes *changes, const char *id, struct err *err)
{
	OWN(closep) int state = cell_state_open(false, err);

	if (state < 0)
		return state;
	if (cli_find_kept(state, id, &changes->entry, err) < 0)
		return -err->code;
	changes->state_dir = openat(state, changes->entry.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return changes->state_dir < 0 ? err_errno(err, "cannot open the kept data of cell %s", id) : 0;
}

int
changes_open_now(const char *word, struct changes *ret_changes, struct err *err)
{
	OWN(changes_free) struct changes changes = { .state_dir = -1 };
	struct cell_record *record = &changes.record;
	struct cell_entry entry;
	OWN(closep) int runtime = cli_find_running(word, &entry, err);
	struct cell_info info = {0};
	int r = runtime < 0 ? runtime : cell_control_info(runtime, &entry, &info, err);

	record->spec = info.spec;
	if (r == 0 && info.state == CONTROL_STATE_SILENT)
		r = cell_is_silent(&entry, err);
	if (r == 0 && !cell_spec_has_overlay(&record->spec))
		r = err_set(err, ENOENT, "cell '%s' has no overlay workspace (`cloister run -w DIR`), so it has no changes to "
		            "show", word);
	if (r == 0)
		r = open_state(&changes, entry.id, err);
	if (r < 0)
		return r;
	record->started_ns = info.started_ns;
	remove_stale(&changes);
	snprintf(changes.now, sizeof(changes.now), NOW "%d", (int)getpid());
	r = copy_still(&changes, runtime, &entry, err);
	return r < 0 ? r : changes_open_parts(&changes, ret_changes, err);
}

void
changes_tell_now(FILE *out, const struct changes *changes)
{
	static const char *const how[] = {
		[CHANGES_FROZEN] = "it was frozen while its changes were read",
		[CHANGES_UNTOUCHED] = "nothing was changed while its changes were read",
		[CHANGES_MOVING] = "it went on while its changes were read, so they may not fit together",
	};
	time_t seconds = (time_t)(changes->now_ns / 1000000000);
	char text[32] = "";
	struct tm tm;

	if (localtime_r(&seconds, &tm) != NULL)
		(void)strftime(text, sizeof(text), "%F %T", &tm);
	fprintf(out, "%s cell %s still runs; as of %s: %s\n", out == stderr ? "cloister:" : "#", changes->entry.id, text,
	        how[changes->how]);
}
