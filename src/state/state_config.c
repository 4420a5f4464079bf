/* state_config.c - the limits of a state, in its config.json. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/io.h"
#include "base/json.h"
#include "state/state_parts.h"

const struct state_limits state_limits_default = {
	.bytes = STATE_BYTES, .file_bytes = STATE_FILE_BYTES, .files = STATE_FILES, .depth = STATE_DEPTH, .path = STATE_PATH,
	.disk = STATE_DISK,
};
static const struct state_limits most = {
	.bytes = STATE_BYTES_MOST, .file_bytes = STATE_FILE_BYTES_MOST, .files = STATE_FILES_MOST, .depth = STATE_DEPTH_MOST,
	.path = STATE_PATH_MAX - 1, .disk = STATE_DISK_MOST,
};


static int
check_one(const char *what, uint64_t value, uint64_t limit, struct err *err)
{
	return value >= 1 && value <= limit ? 0 :
	       err_set(err, EINVAL, "a state's limit of %s is between 1 and %llu", what, (unsigned long long)limit);
}

int
state_check_limits(const struct state_limits *l, struct err *err)
{
	int r = check_one("bytes", l->bytes, most.bytes, err);

	r = r == 0 ? check_one("a file's bytes", l->file_bytes, most.file_bytes, err) : r;
	r = r == 0 ? check_one("files", l->files, most.files, err) : r;
	r = r == 0 ? check_one("folders in folders", l->depth, most.depth, err) : r;
	r = r == 0 ? check_one("a path's bytes", l->path, most.path, err) : r;
	return r == 0 ? check_one("bytes on the disk", l->disk, most.disk, err) : r;
}

static uint64_t
take(const json_t *root, const char *key, uint64_t otherwise)
{
	const json_t *value = json_object_get(root, key);

	return value == NULL ? otherwise : json_is_integer(value) && json_integer_value(value) > 0 ?
	       (uint64_t)json_integer_value(value) : 0;
}

int
state_read_limits(int dir, struct state_limits *ret_limits, struct err *err)
{
	OWN(json_decrefp) json_t *root = NULL;
	OWN(freep) char *text = NULL;
	struct state_limits l;
	size_t len;
	int r = read_file_at(dir, STATE_CONFIG, STATE_CONFIG_MAX, &text, &len, err);

	if (r < 0)
		return r;
	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(root))
		return err_set(err, EBADMSG, "'" STATE_CONFIG "' is not a JSON object");
	l = (struct state_limits){
		.bytes = take(root, "bytes", STATE_BYTES), .file_bytes = take(root, "file_bytes", STATE_FILE_BYTES),
		.files = take(root, "files", STATE_FILES), .depth = take(root, "depth", STATE_DEPTH),
		.path = take(root, "path", STATE_PATH), .disk = take(root, "disk", STATE_DISK),
	};
	r = state_check_limits(&l, err);
	if (r == 0)
		*ret_limits = l;
	return r < 0 ? err_wrap(err, "'" STATE_CONFIG "'") : 0;
}

int
state_write_limits(int dir, const struct state_limits *limits, struct err *err)
{
	OWN(freep) char *text = str_format("{\"bytes\": %llu, \"file_bytes\": %llu, \"files\": %llu, \"depth\": %llu, "
	                                   "\"path\": %llu, \"disk\": %llu}\n", (unsigned long long)limits->bytes,
	                                   (unsigned long long)limits->file_bytes, (unsigned long long)limits->files,
	                                   (unsigned long long)limits->depth, (unsigned long long)limits->path, (unsigned long long)limits->disk);

	return text == NULL ? err_set(err, ENOMEM, "out of memory") :
	       state_replace(dir, STATE_CONFIG, text, strlen(text), err);
}

int
state_set_limits(struct state *state, const struct state_limits *limits, struct err *err)
{
	struct state_limits new = state->limits;
	OWN(closep) int lock = -1;
	int r;

	new.bytes = limits->bytes != 0 ? limits->bytes : new.bytes;
	new.file_bytes = limits->file_bytes != 0 ? limits->file_bytes : new.file_bytes;
	new.files = limits->files != 0 ? limits->files : new.files;
	new.disk = limits->disk != 0 ? limits->disk : new.disk;
	r = state_check_limits(&new, err);
	lock = r < 0 ? r : state_lock(state, err);
	r = lock < 0 ? lock : state_write_limits(state->dir, &new, err);
	if (r == 0)
		state->limits = new;
	return r;
}
