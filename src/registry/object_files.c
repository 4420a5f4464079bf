/* object_files.c - the files of a capability. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "registry/object_parts.h"
#include "registry/registry_parts.h"

#define DEPTH_MAX 32                    /* folders in folders */
#define PART_MAX 255

const char *const object_setups[OBJECT_SETUPS] = { "agora-setup.sh", "setup.sh" };

bool
object_is_setup(const char *path)
{
	for (size_t i = 0; i < OBJECT_SETUPS; i++)
		if (strcmp(path, object_setups[i]) == 0)
			return true;
	return false;
}

static bool
is_text(const char *path)
{
	size_t len = strlen(path), step;
	uint32_t code;

	for (size_t i = 0; i < len; i += step) {
		step = utf8_next(path + i, len - i, &code);
		if (step == 0 || utf8_is_control(code))
			return false;
	}
	return true;
}

int
object_check_path(const char *path, struct err *err)
{
	const char *part = path;
	unsigned depth = 0;
	size_t n;

	if (strlen(path) > OBJECT_PATH_MAX)
		return err_set(err, ENAMETOOLONG, "a file's path is at most %d bytes", OBJECT_PATH_MAX);
	if (!is_text(path))
		return err_set(err, EINVAL, "a file's path is UTF-8 without control characters");
	if (strcmp(path, OBJECT_ABOUT) == 0)
		return err_set(err, EINVAL, OBJECT_ABOUT " is not one of the files: what it says are members "
		               "of the capability");
	for (;; part += n + 1) {
		n = strcspn(part, "/");
		if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
			return err_set(err, EINVAL, "the path '%.64s' leads out of the capability: write it as "
			               "folder/file, without '.', '..' and '//'", path);
		if (n > PART_MAX)
			return err_set(err, ENAMETOOLONG, "the path '%.64s...' has a name that is too long for a "
			               "file system", path);
		if (++depth > DEPTH_MAX)
			return err_set(err, ENAMETOOLONG, "the path '%.64s...' is over %d folders deep", path,
			               DEPTH_MAX);
		if (part[n] == '\0')
			return 0;
	}
}

int
object_add_file(struct registry *r, struct object_files *files, const char *path, int fd,
                const void *data, size_t len, bool executable, struct err *err)
{
	char hash[HASH_NAME + 1];
	uint64_t left = OBJECT_TREE_MAX - files->size, size = len;
	struct stat st;
	json_t *file;
	int n = object_check_path(path, err);

	if (n < 0)
		return n;
	if (fd >= 0)
		size = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
	if (json_array_size(files->list) == OBJECT_FILES_MAX)
		return err_set(err, EFBIG, "a capability has at most %d files", OBJECT_FILES_MAX);
	if (size > left)
		n = -EFBIG;
	else
		n = registry_stage_blob(r, fd, fd < 0 ? data : NULL, fd < 0 ? len : left, hash, &size, err);
	if (n == -EFBIG)
		return err_set(err, EFBIG, "the files of a capability are at most %llu MiB together",
		               OBJECT_TREE_MAX >> 20);
	if (n < 0)
		return n;
	files->size += size;
	file = json_pack("{s:b,s:s,s:s,s:I}", "executable", executable || object_is_setup(path),
	                 "hash", hash, "path", path, "size", (json_int_t)size);
	return json_array_append_new(files->list, file) < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}

static const char *
path_of(json_t *file)
{
	return json_string_value(json_object_get(file, "path"));
}

static int
compare_paths(const void *a, const void *b)
{
	return strcmp(path_of(*(json_t *const *)a), path_of(*(json_t *const *)b));
}

/* The path is in KNOWN as a file; its folders must not be. */
static int
check_folders(json_t *known, const char *path, struct err *err)
{
	OWN(freep) char *folder = strdup(path);

	if (folder == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (char *slash; (slash = strrchr(folder, '/')) != NULL;) {
		*slash = '\0';
		if (json_object_get(known, folder) != NULL)
			return err_set(err, EEXIST, "'%.80s' cannot be both a file and the folder of '%.80s'",
			               folder, path);
	}
	return 0;
}

static int
check_paths(json_t *list, struct err *err)
{
	OWN(json_decrefp) json_t *known = json_object();
	int r = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *path = path_of(json_array_get(list, i));

		if (json_object_get(known, path) != NULL)
			return err_set(err, EEXIST, "the file '%.80s' is there twice", path);
		if (json_object_set_new(known, path, json_true()) < 0)
			return err_set(err, ENOMEM, "out of memory");
	}
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
		r = check_folders(known, path_of(json_array_get(list, i)), err);
	return r;
}

int
object_sort_files(struct object_files *files, struct err *err)
{
	size_t n = json_array_size(files->list);
	OWN(freep) json_t **at = calloc(n + 1, sizeof(json_t *));
	OWN(json_decrefp) json_t *sorted = json_array();
	int r = check_paths(files->list, err);

	if (r < 0)
		return r;
	if (at == NULL || sorted == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		at[i] = json_array_get(files->list, i);
	qsort(at, n, sizeof(json_t *), compare_paths);
	for (size_t i = 0; i < n; i++)
		if (json_array_append(sorted, at[i]) < 0)
			return err_set(err, ENOMEM, "out of memory");
	if (json_array_clear(files->list) < 0 || json_array_extend(files->list, sorted) < 0)
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}
