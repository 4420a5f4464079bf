/* dispatch_harvest.c - makes the result from what a cell left: output, and the files of /out.
 *
 * The agent made that tree, so it is walked as src/workspace walks changes, with limits. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "base/utf8.h"
#include "canon/canon.h"
#include "cell/cell_dirs.h"
#include "dispatch/dispatch_parts.h"
#include "registry/registry.h"
#include "workspace/workspace.h"

#define SMALL_MAX (256 * 1024)          /* of each stream */
#define PATHS_MAX (DISPATCH_JSON_MAX / 8)       /* all together: a byte takes up to six in JSON */

static int
out_of_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* Null without output: an empty stream needs no blob. */
static int
harvest_stream(struct registry *reg, int entry, const char *name, bool cut, json_t **ret_stream,
               struct err *err)
{
	OWN(closep) int fd = openat(entry, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char hash[HASH_NAME + 1];
	uint64_t size = 0;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0) {
		*ret_stream = json_null();
		return 0;
	}
	r = registry_put_blob_fd(reg, fd, CELL_STREAM_MAX, hash, &size, err);
	if (r < 0)
		return err_wrap(err, "cannot keep the agent's %s", name);
	*ret_stream = json_pack("{s:s,s:I,s:b}", "hash", hash, "size", (json_int_t)size, "truncated",
	                        (int)cut);
	return *ret_stream != NULL ? 0 : out_of_memory(err);
}

/* ---- files ---- */

struct reaping {
	struct registry *reg;
	int changes;
	json_t *files;
	uint64_t size, skipped;
	size_t paths;                   /* bytes */
	bool truncated;
};

static bool
is_text(const char *path)
{
	size_t len = strlen(path), step;
	uint32_t code;

	for (size_t i = 0; i < len; i += step)
		if ((step = utf8_next(path + i, len - i, &code)) == 0)
			return false;
	return true;
}

static int
reap_file(struct reaping *reap, const struct workspace_change *change, struct err *err)
{
	OWN(closep) int fd = -1;
	char hash[HASH_NAME + 1];
	uint64_t size;
	json_t *file;
	int r;

	if (json_array_size(reap->files) == DISPATCH_FILES_MAX ||
	    change->size > DISPATCH_FILES_BYTES_MAX - reap->size ||
	    strlen(change->path) > PATHS_MAX - reap->paths) {
		reap->truncated = true;
		return 0;
	}
	fd = workspace_open(reap->changes, change->path, err);
	if (fd < 0)
		return fd;
	r = registry_stage_blob(reap->reg, fd, NULL, change->size, hash, &size, err);
	if (r < 0)
		return r;
	file = json_pack("{s:b,s:s,s:s,s:I}", "executable", (change->mode & 0111) != 0, "hash", hash,
	                 "path", change->path, "size", (json_int_t)size);
	if (file == NULL || json_array_append_new(reap->files, file) < 0)
		return out_of_memory(err);
	reap->size += size;
	reap->paths += strlen(change->path);
	return 0;
}

/* Folders count only as the way to files.  Files that could not be requested by path are left out,
 * and so are links.  FIFOs and the like did not come here. */
static bool
is_result(const struct workspace_change *change)
{
	return S_ISREG(change->type) && is_text(change->path) && strlen(change->path) < PATH_MAX;
}

static int
reap_all(struct reaping *reap, int empty, struct err *err)
{
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	const struct workspace ws = { .changes = reap->changes, .real = empty };
	size_t n;
	int r = workspace_list(&ws, &list, &n, err);

	/* The agent caused this, and would again. */
	if (r == -E2BIG || r == -ENAMETOOLONG) {
		reap->truncated = true;
		return 0;
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (list[i].kind != WORKSPACE_ADDED || S_ISDIR(list[i].type))
			continue;
		if (!is_result(&list[i]))
			reap->skipped++;
		else
			r = reap_file(reap, &list[i], err);
	}
	if (r == 0 && json_array_size(reap->files) > 0)
		r = registry_settle_staged(reap->reg, err);
	if (r < 0)
		registry_drop_staged(reap->reg);
	return r;
}

/* *ret_left_out: how many did not leave the cell. */
static int
open_changes(int entry, const struct cell_record *record, uint64_t *ret_left_out)
{
	char name[64];

	*ret_left_out = 0;
	for (size_t i = 0; i < record->spec.n_grants; i++)
		if (strcmp(record->spec.grants[i].cell, DISPATCH_OUT) == 0) {
			*ret_left_out = record->left_out[i];
			snprintf(name, sizeof(name), CELL_CHANGES "/%zu", i);
			return openat(entry, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		}
	return -1;
}

static int
harvest_files(struct registry *reg, int entry, const struct cell_record *record, json_t **ret_files,
              struct err *err)
{
	OWN(json_decrefp) json_t *files = json_array(), *list = NULL;
	struct reaping reap = { .reg = reg, .files = files };
	OWN(closep) int changes = open_changes(entry, record, &reap.skipped), empty = -1;
	OWN(freep) char *text = NULL;
	char hash[HASH_NAME + 1];
	size_t len;
	int r = 0;

	reap.changes = changes;
	if (changes >= 0)
		r = empty = dispatch_empty(err);
	if (r >= 0 && changes >= 0)
		r = reap_all(&reap, empty, err);
	if (r < 0)
		return err_wrap(err, "cannot keep the files of " DISPATCH_OUT);
	if (json_array_size(files) == 0 && reap.skipped == 0 && !reap.truncated) {
		*ret_files = json_null();
		return 0;
	}
	list = json_pack("{s:O,s:I,s:b}", "files", files, "skipped", (json_int_t)reap.skipped,
	                 "truncated", (int)reap.truncated);
	if (list == NULL)
		return out_of_memory(err);
	r = canon_dump(list, DISPATCH_JSON_MAX, &text, &len, err);
	if (r == 0)
		r = registry_put_blob(reg, text, len, hash, err);
	if (r < 0)
		return r;
	*ret_files = json_pack("{s:I,s:s,s:I,s:I,s:b}", "count", (json_int_t)json_array_size(files),
	                       "hash", hash, "size", (json_int_t)reap.size, "skipped",
	                       (json_int_t)reap.skipped, "truncated", (int)reap.truncated);
	return *ret_files != NULL ? 0 : out_of_memory(err);
}

/* ---- all of it ---- */

static json_t *
safe_text(const char *text)
{
	json_t *value = json_string(text);

	return value != NULL ? value : json_string("");
}

int
dispatch_harvest_take(struct registry *reg, const struct dispatch *d, json_t **ret_result,
                      struct err *err)
{
	OWN(cell_record_free) struct cell_record record = {0};
	OWN(json_decrefp) json_t *result = json_object();
	OWN(closep) int entry = dispatch_cell_open(d->cell);
	json_t *out = NULL, *errors = NULL, *files = NULL;
	int r;

	if (entry < 0)
		return err_set(err, ENOENT, "what was kept of cell %s is gone", d->cell);
	r = cell_record_read(entry, &record, err);
	if (r == 0)
		r = harvest_stream(reg, entry, CELL_STDOUT, (record.cut & CELL_CUT_STDOUT) != 0, &out, err);
	if (r == 0)
		r = harvest_stream(reg, entry, CELL_STDERR, (record.cut & CELL_CUT_STDERR) != 0, &errors,
		                   err);
	if (r == 0)
		r = harvest_files(reg, entry, &record, &files, err);
	json_object_set_new(result, "stdout", out != NULL ? out : json_null());
	json_object_set_new(result, "stderr", errors != NULL ? errors : json_null());
	json_object_set_new(result, "files", files != NULL ? files : json_null());
	json_object_set_new(result, "cell", json_string(d->cell));
	json_object_set_new(result, "cause", safe_text(record.cause));
	json_object_set_new(result, "incomplete", safe_text(record.incomplete));
	json_object_set_new(result, "end", json_integer(record.end));
	json_object_set_new(result, "status", json_integer(record.status));
	json_object_set_new(result, "taken", json_integer(record.taken));
	if (r == 0)
		*ret_result = TAKE(result);
	return r;
}

int
dispatch_harvest(struct registry *reg, const struct dispatch *d, struct err *err)
{
	OWN(json_decrefp) json_t *result = NULL;
	OWN(closep) int folder = dispatch_folder(d->id, true, err);
	OWN(freep) char *text = NULL;
	size_t len = 0;
	int r = folder < 0 ? folder : dispatch_harvest_take(reg, d, &result, err);

	if (r == 0)
		r = canon_dump(result, DISPATCH_RESULT_MAX, &text, &len, err);
	return r < 0 ? r : dispatch_write_file(folder, DISPATCH_RESULT_FILE, text, len, true, err);
}

static bool
is_small_file(int entry, const char *name)
{
	struct stat st;

	return fstatat(entry, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_size <= SMALL_MAX;
}

bool
dispatch_harvest_is_small(const struct dispatch *d)
{
	OWN(cell_record_free) struct cell_record record = {0};
	uint64_t left_out;
	OWN(closep) int entry = dispatch_cell_open(d->cell);
	OWN(closep) int changes = entry < 0 || cell_record_read(entry, &record, NULL) < 0 ? -1 :
	                          open_changes(entry, &record, &left_out);
	int copy = changes < 0 ? -1 : openat(changes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	while (dir != NULL && (e = readdir(dir)) != NULL)
		if (!tree_is_dots(e->d_name))
			return false;
	return entry >= 0 && is_small_file(entry, CELL_STDOUT) && is_small_file(entry, CELL_STDERR);
}

int
dispatch_harvest_start(const struct dispatch *d, int lock, struct err *err)
{
	char id[DISPATCH_ID_LEN + 1], parent[32];
	char *const argv[] = { (char[]){ "cloister-dispatch" }, (char[]){ "harvest" }, (char[]){ "--" },
	                       id, parent, NULL };

	snprintf(id, sizeof(id), "%s", d->id);
	snprintf(parent, sizeof(parent), "%d", getpid());
	return dispatch_spawn(NULL, argv, (const int[]){ -1, -1, -1, lock }, err);
}

json_t *
dispatch_harvest_read(const char *id, const char *cell)
{
	OWN(closep) int folder = dispatch_folder(id, false, NULL);
	OWN(json_decrefp) json_t *result = NULL;
	OWN(freep) char *text = NULL;
	size_t len;

	if (folder < 0 || cell[0] == '\0' ||
	    read_file_at(folder, DISPATCH_RESULT_FILE, DISPATCH_RESULT_MAX, &text, &len, NULL) < 0 ||
	    canon_read(text, len, &result, NULL) < 0 ||
	    strcmp(dispatch_text(result, "cell"), cell) != 0)
		return NULL;
	return TAKE(result);
}
