/* dispatch_harvest.c - makes the result from what a cell left: output, and the files of /out.
 *
 * The agent made those files: their number, sizes and paths have limits. */
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
#include "base/spawn.h"
#include "base/utf8.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "registry/registry.h"

#define SMALL_MAX (256 * 1024)          /* of each stream */
#define PATHS_MAX (DISPATCH_JSON_MAX / 8)       /* all together: a byte takes up to six in JSON */

static int
out_of_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* Null without output: an empty stream needs no blob. */
static int
harvest_stream(struct registry *reg, const struct target *target, const char *cell,
               enum target_stream stream, bool cut, json_t **ret_stream, struct err *err)
{
	OWN(closep) int fd = target->stream(cell, stream);
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
		return err_wrap(err, "the agent's %s", stream == TARGET_STDOUT ? "stdout" : "stderr");
	*ret_stream = json_pack("{s:s,s:I,s:b}", "hash", hash, "size", (json_int_t)size, "truncated",
	                        (int)cut);
	return *ret_stream != NULL ? 0 : out_of_memory(err);
}

/* ---- files ---- */

struct reaping {
	struct registry *reg;
	const struct target *target;
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
reap_file(struct reaping *reap, const struct target_file *left, struct err *err)
{
	OWN(closep) int fd = -1;
	char hash[HASH_NAME + 1];
	uint64_t size;
	json_t *file;
	int r;

	if (json_array_size(reap->files) == DISPATCH_FILES_MAX ||
	    left->size > DISPATCH_FILES_BYTES_MAX - reap->size ||
	    strlen(left->path) > PATHS_MAX - reap->paths) {
		reap->truncated = true;
		return 0;
	}
	fd = reap->target->open_file(left, err);
	if (fd < 0)
		return fd;
	r = registry_stage_blob(reap->reg, fd, NULL, left->size, hash, &size, err);
	if (r < 0)
		return r;
	file = json_pack("{s:b,s:s,s:s,s:I}", "executable", (left->mode & 0111) != 0, "hash", hash,
	                 "path", left->path, "size", (json_int_t)size);
	if (file == NULL || json_array_append_new(reap->files, file) < 0)
		return out_of_memory(err);
	reap->size += size;
	reap->paths += strlen(left->path);
	return 0;
}

/* Folders count only as the way to files.  Files that could not be requested by path are left out,
 * and so are links.  FIFOs and the like did not come here. */
static int
reap_one(void *arg, const struct target_file *left, struct err *err)
{
	struct reaping *reap = arg;

	if (S_ISREG(left->mode) && is_text(left->path) && strlen(left->path) < PATH_MAX)
		return reap_file(reap, left, err);
	reap->skipped++;
	return 0;
}

/* The files are staged as blobs. */
static int
reap_all(struct reaping *reap, const char *cell, struct target_end *ret_end, struct err *err)
{
	const struct target_harvest how = { .folder = DISPATCH_OUT, .file = reap_one, .arg = reap };
	OWN(closep) int empty = dispatch_empty(err);
	int r = empty < 0 ? empty : reap->target->harvest(cell, &how, ret_end, err);

	if (r == 0 && json_array_size(reap->files) > 0)
		r = registry_settle_staged(reap->reg, err);
	if (r < 0) {
		registry_drop_staged(reap->reg);
		return err_wrap(err, "the files of " DISPATCH_OUT);
	}
	reap->skipped += ret_end->left_out;
	reap->truncated |= ret_end->too_many;
	return 0;
}

static int
describe_files(const struct reaping *reap, json_t **ret_files, struct err *err)
{
	OWN(json_decrefp) json_t *list = NULL;
	OWN(freep) char *text = NULL;
	char hash[HASH_NAME + 1];
	size_t len;
	int r;

	if (json_array_size(reap->files) == 0 && reap->skipped == 0 && !reap->truncated) {
		*ret_files = json_null();
		return 0;
	}
	list = json_pack("{s:O,s:I,s:b}", "files", reap->files, "skipped", (json_int_t)reap->skipped,
	                 "truncated", (int)reap->truncated);
	if (list == NULL)
		return out_of_memory(err);
	r = canon_dump(list, DISPATCH_JSON_MAX, &text, &len, err);
	if (r == 0)
		r = registry_put_blob(reap->reg, text, len, hash, err);
	if (r < 0)
		return r;
	*ret_files = json_pack("{s:I,s:s,s:I,s:I,s:b}", "count", (json_int_t)json_array_size(reap->files),
	                       "hash", hash, "size", (json_int_t)reap->size, "skipped",
	                       (json_int_t)reap->skipped, "truncated", (int)reap->truncated);
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
	OWN(json_decrefp) json_t *result = json_object(), *list = json_array();
	json_t *out = NULL, *errors = NULL, *files = NULL;
	struct reaping reap = { .reg = reg, .files = list };
	struct target_end end = {0};
	int r = dispatch_target(d, &reap.target, err);

	r = r == 0 ? reap_all(&reap, d->cell, &end, err) : r;
	if (r == 0)
		r = harvest_stream(reg, reap.target, d->cell, TARGET_STDOUT, end.cut[0], &out, err);
	if (r == 0)
		r = harvest_stream(reg, reap.target, d->cell, TARGET_STDERR, end.cut[1], &errors, err);
	if (r == 0)
		r = describe_files(&reap, &files, err);
	json_object_set_new(result, "stdout", out != NULL ? out : json_null());
	json_object_set_new(result, "stderr", errors != NULL ? errors : json_null());
	json_object_set_new(result, "files", files != NULL ? files : json_null());
	json_object_set_new(result, "cell", json_string(d->cell));
	json_object_set_new(result, "cause", safe_text(end.cause));
	json_object_set_new(result, "incomplete", safe_text(end.incomplete));
	json_object_set_new(result, "end", json_integer(end.end));
	json_object_set_new(result, "status", json_integer(end.status));
	json_object_set_new(result, "taken", json_integer(end.lost));
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
is_small(const struct target *target, const char *cell, enum target_stream stream)
{
	OWN(closep) int fd = target->stream(cell, stream);
	struct stat st;

	return fd < 0 || fstat(fd, &st) < 0 || st.st_size <= SMALL_MAX;
}

bool
dispatch_harvest_is_small(const struct dispatch *d)
{
	const struct target_harvest how = { .folder = DISPATCH_OUT };
	const struct target *target;
	struct target_end end;

	return dispatch_target(d, &target, NULL) == 0 && target->harvest(d->cell, &how, &end, NULL) == 0 &&
	       !end.has_files && is_small(target, d->cell, TARGET_STDOUT) &&
	       is_small(target, d->cell, TARGET_STDERR);
}

int
dispatch_harvest_start(const struct dispatch *d, int lock, struct loop *loop, struct child *child, int *ret_said,
                       struct err *err)
{
	return dispatch_spawn_for(child, loop, "harvest", d->id, lock, ret_said, err);
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
