/* oci_state.c - the state of containers: a folder for each, in the folder that the engine names. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "canon/canon.h"
#include "cell/cell_control.h"
#include "ipc/control_channel.h"
#include "proc/oci/oci.h"

#define STATE "state.json"
#define STARTED "started"
#define STATE_MAX (4u << 20)

const char *const oci_status_names[] = { "created", "running", "paused", "stopped" };

void
oci_state_free(struct oci_state *state)
{
	free(state->bundle);
	free(state->created);
	json_decref(state->annotations);
}

static int
make_parents(char *path, struct err *err)
{
	for (char *slash = path; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
		*slash = '\0';
		if (mkdir(path, 0711) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make '%s'", path);
	}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make '%s'", path);
	return 0;
}

int
oci_state_root(const struct oci *oci, struct err *err)
{
	OWN(freep) char *runtime = oci->root != NULL ? NULL : data_runtime_path(err);
	OWN(freep) char *path = oci->root != NULL ? strdup(oci->root) :
	                        runtime == NULL ? NULL : str_format("%s-oci", runtime);
	OWN(closep) int fd = -1;
	struct stat st;
	int r;

	if (path == NULL)
		return err->code != 0 ? -err->code : err_set(err, ENOMEM, "out of memory");
	r = make_parents(path, err);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot open '%s'", path);
	/* Whoever writes here names the process that gets signals. */
	if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022) != 0)
		return err_set(err, EPERM, "'%s' can be written by others: use another --root", path);
	return TAKE_FD(fd);
}

static int
check_id(const char *id, struct err *err)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.";
	size_t len = strlen(id);

	if (len == 0 || len > OCI_ID_MAX || strspn(id, ok) != len || strcmp(id, ".") == 0 || strcmp(id, "..") == 0)
		return err_set(err, EINVAL, "'%.80s' cannot be a container's id: use letters, digits, '_', '+', '-' and "
		               "'.'", id);
	return 0;
}

int
oci_state_make(int root, const char *id, struct err *err)
{
	int fd, r = check_id(id, err);

	if (r < 0)
		return r;
	if (mkdirat(root, id, 0700) < 0)
		return errno == EEXIST ? err_set(err, EEXIST, "container with id exists: %s", id) :
		       err_errno(err, "cannot make the state of container '%s'", id);
	fd = openat(root, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 ? fd : err_errno(err, "cannot open the state of container '%s'", id);
}

int
oci_state_write(int dir, const struct oci_state *state, struct err *err)
{
	OWN(json_decrefp) json_t *value = json_pack("{s:s,s:s,s:i,s:I,s:s,s:s,s:O*}", "id", state->id, "cell",
		state->cell, "pid", (int)state->pid, "since", (json_int_t)state->since, "bundle", state->bundle, "created",
		state->created, "annotations", state->annotations);
	OWN(freep) char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT);
	int r;

	if (text == NULL)
		return err_set(err, EINVAL, "the container's state is not UTF-8");
	r = create_file_at(dir, STATE ".new", 0600, text, err);
	if (r == 0 && renameat(dir, STATE ".new", dir, STATE) < 0)
		r = err_errno(err, "cannot write the state of the container");
	return r;
}

int
oci_state_mark_started(int root, const char *id, struct err *err)
{
	char path[OCI_ID_MAX + sizeof("/" STARTED)];

	snprintf(path, sizeof(path), "%s/" STARTED, id);
	return create_file_at(root, path, 0600, "", err);
}

static int
take(json_t *value, struct oci_state *ret_state)
{
	const char *cell = oci_text(value, "cell"), *bundle = oci_text(value, "bundle");
	const char *created = oci_text(value, "created");

	if (cell == NULL || !cell_id_ok(cell) || bundle == NULL || created == NULL)
		return -EBADMSG;
	snprintf(ret_state->cell, sizeof(ret_state->cell), "%s", cell);
	ret_state->pid = (pid_t)json_integer_value(json_object_get(value, "pid"));
	ret_state->since = (uint64_t)json_integer_value(json_object_get(value, "since"));
	ret_state->bundle = strdup(bundle);
	ret_state->created = strdup(created);
	ret_state->annotations = json_incref(json_object_get(value, "annotations"));
	return ret_state->bundle == NULL || ret_state->created == NULL ? -ENOMEM : ret_state->pid > 1 ? 0 : -EBADMSG;
}

int
oci_state_read(int root, const char *id, struct oci_state *ret_state, struct err *err)
{
	OWN(closep) int dir = -1;
	OWN(freep) char *text = NULL;
	OWN(json_decrefp) json_t *value = NULL;
	size_t len;
	int r = check_id(id, err);

	*ret_state = (struct oci_state){0};
	if (r < 0)
		return r;
	snprintf(ret_state->id, sizeof(ret_state->id), "%s", id);
	dir = openat(root, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	r = dir < 0 ? -errno : read_file_at(dir, STATE, STATE_MAX, &text, &len, err);
	if (r == -ENOENT)
		return err_set(err, ENOENT, "container '%s' does not exist", id);
	if (r < 0)
		return err_set(err, -r, "cannot read the state of container '%s'", id);
	value = canon_value(text, len);
	r = take(value, ret_state);
	ret_state->is_started = faccessat(dir, STARTED, F_OK, 0) == 0;
	return r < 0 ? err_set(err, -r, "the state of container '%s' is malformed", id) : 0;
}

void
oci_state_remove(int root, const char *id)
{
	OWN(closep) int dir = openat(root, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (dir >= 0)
		(void)tree_empty(dir, NULL);
	(void)unlinkat(root, id, AT_REMOVEDIR);
}

uint64_t
oci_process_since(pid_t pid)
{
	OWN(freep) char *text = NULL;
	char path[32], state;
	const char *at;
	unsigned long long since;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (read_file_at(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0)
		return 0;
	/* The name, which is in brackets, may contain anything. */
	at = strrchr(text, ')');
	if (at == NULL || sscanf(at, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
	                         &state, &since) != 2 || state == 'Z' || state == 'X')
		return 0;
	return since;
}

bool
oci_state_is_alive(const struct oci_state *state)
{
	return state->since != 0 && oci_process_since(state->pid) == state->since;
}

static bool
is_frozen(const struct oci_state *state)
{
	struct cell_entry entry;
	OWN(closep) int runtime = oci_find_cell(state, &entry, NULL);
	struct cell_info info = {0};
	bool frozen = runtime >= 0 && cell_control_info(runtime, &entry, &info, NULL) == 0 &&
	              info.state == CONTROL_STATE_FROZEN;

	cell_spec_free(&info.spec);
	return frozen;
}

enum oci_status
oci_state_status(const struct oci_state *state)
{
	if (!oci_state_is_alive(state))
		return OCI_STOPPED;
	if (!state->is_started)
		return OCI_CREATED;
	return is_frozen(state) ? OCI_PAUSED : OCI_RUNNING;
}
