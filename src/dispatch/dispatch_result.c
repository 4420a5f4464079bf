/* dispatch_result.c - reads the results of a dispatch. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "registry/registry.h"

/* Reads a whole blob that is cloister's own JSON. */
static int
read_blob_json(struct registry *reg, const char *hash, json_t **ret_value, struct err *err)
{
	OWN(closep) int fd = registry_open_blob(reg, hash, err);
	OWN(freep) char *text = NULL;
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || st.st_size > DISPATCH_JSON_MAX)
		return err_set(err, EFBIG, "blob %s is too large", hash);
	text = malloc((size_t)st.st_size + 1);
	if (text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = read_exactly(fd, text, (size_t)st.st_size, err);
	return r < 0 ? r : canon_read(text, (size_t)st.st_size, ret_value, err);
}

/* While it runs: what there is so far. */
static int
open_live(const struct dispatch *d, enum dispatch_stream stream, struct err *err)
{
	const struct target *target;
	int fd = dispatch_target(d, &target, err);

	if (fd < 0)
		return fd;
	fd = target->stream(d->cell, stream == DISPATCH_STDOUT ? TARGET_STDOUT : TARGET_STDERR);
	if (fd < 0)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "cannot open the output of dispatch %s", d->id) : fd;
}

int
dispatch_open_output(struct registry *reg, const char *id, enum dispatch_stream stream,
                     bool *ret_truncated, struct err *err)
{
	OWN(dispatch_free) struct dispatch d = {0};
	OWN(json_decrefp) json_t *result = NULL;
	const json_t *part;
	int r = dispatch_get(reg, id, &d, err);

	if (r < 0)
		return r;
	if (ret_truncated != NULL)
		*ret_truncated = false;
	if (!dispatch_state_is_over(d.state))
		return open_live(&d, stream, err);
	r = dispatch_get_result(reg, d.id, &result, err);
	if (r < 0)
		return r;
	part = json_object_get(result, stream == DISPATCH_STDOUT ? "stdout" : "stderr");
	/* The dispatch ended before there was any. */
	if (!json_is_object(part)) {
		r = open("/dev/null", O_RDONLY | O_CLOEXEC);
		return r < 0 ? err_errno(err, "cannot open /dev/null") : r;
	}
	if (ret_truncated != NULL)
		*ret_truncated = json_is_true(json_object_get(part, "truncated"));
	return registry_open_blob(reg, dispatch_text(part, "hash"), err);
}

int
dispatch_get_files(struct registry *reg, const char *id, json_t **ret_files, struct err *err)
{
	OWN(dispatch_free) struct dispatch d = {0};
	OWN(json_decrefp) json_t *result = NULL;
	const char *hash;
	int r = dispatch_get(reg, id, &d, err);

	if (r == 0 && !dispatch_state_is_over(d.state))
		r = err_set(err, EBUSY, "dispatch %s is %s: it has files once it is over", d.id,
		            dispatch_state_name(d.state));
	if (r == 0)
		r = dispatch_get_result(reg, d.id, &result, err);
	if (r < 0)
		return r;
	hash = dispatch_text(json_object_get(result, "files"), "hash");
	if (hash[0] != '\0')
		return read_blob_json(reg, hash, ret_files, err);
	*ret_files = json_pack("{s:[],s:i,s:b}", "files", "skipped", 0, "truncated", 0);
	return *ret_files != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

int
dispatch_open_file(struct registry *reg, const char *id, const char *path, struct err *err)
{
	OWN(json_decrefp) json_t *files = NULL;
	json_t *file;
	size_t i;
	int r = dispatch_get_files(reg, id, &files, err);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(files, "files"), i, file)
		if (strcmp(dispatch_text(file, "path"), path) == 0)
			return registry_open_blob(reg, dispatch_text(file, "hash"), err);
	return err_set(err, ENOENT, "dispatch %s has no file '%.200s': see `cloister dispatches files "
	               "%s`", id, path, id);
}
