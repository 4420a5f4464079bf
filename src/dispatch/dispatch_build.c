/* dispatch_build.c - identifies this build of cloister by a hash over its executables. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"

#define CACHE "build.json"
#define CACHE_MAX 65536
#define EXECUTABLE_MAX (1ull << 30)
#define EXECUTABLES_MAX 64

static int
is_ours(const struct dirent *d)
{
	return strncmp(d->d_name, "cloister-", 9) == 0;
}

/* {"cloister":"DEV:INO:SIZE:MTIME:CTIME", ...}: changes whenever one of them does. */
static int
describe(const char *name, const char *path, json_t *stamps, json_t *paths, struct err *err)
{
	OWN(freep) char *stamp = NULL;
	struct stat st;

	if (stat(path, &st) < 0)
		return err_errno(err, "cannot look at '%s'", path);
	stamp = str_format("%llu:%llu:%lld:%lld.%09ld:%lld.%09ld", (unsigned long long)st.st_dev,
	                   (unsigned long long)st.st_ino, (long long)st.st_size,
	                   (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
	                   (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	if (stamp == NULL || json_object_set_new(stamps, name, json_string(stamp)) < 0 ||
	    json_object_set_new(paths, name, json_string(path)) < 0)
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

static int
describe_all(json_t *stamps, json_t *paths, struct err *err)
{
	char dir[PATH_MAX], path[PATH_MAX + 300];
	struct dirent **found = NULL;
	int r = exe_folder(dir, err), n = r < 0 ? 0 : scandir(dir, &found, is_ours, alphasort);

	if (n < 0 || n > EXECUTABLES_MAX)
		r = err_set(err, EIO, "cannot list '%s'", dir);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, found[i]->d_name);
		if (r == 0)
			r = describe(found[i]->d_name, path, stamps, paths, err);
		free(found[i]);
	}
	free(found);
	if (r == 0)
		r = exe_find_cloister(path, err);
	return r < 0 ? r : describe("cloister", path, stamps, paths, err);
}

/* {"cloister":"sha256:..","cloister-init":..} as canonical JSON, hashed. */
static int
hash_all(json_t *paths, char ret_hash[HASH_NAME + 1], struct err *err)
{
	OWN(json_decrefp) json_t *hashes = json_object();
	unsigned char hash[HASH_LEN];
	const char *name;
	json_t *path;
	uint64_t size;
	int r = 0;

	json_object_foreach(paths, name, path) {
		OWN(closep) int fd = open(json_string_value(path), O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			return err_errno(err, "cannot read '%s'", json_string_value(path));
		r = hash_fd(fd, EXECUTABLE_MAX, hash, &size, err);
		if (r < 0)
			return err_wrap(err, "'%s'", json_string_value(path));
		hash_name(hash, ret_hash);
		if (json_object_set_new(hashes, name, json_string(ret_hash)) < 0)
			return err_set(err, ENOMEM, "out of memory");
	}
	return dispatch_hash_json(hashes, CACHE_MAX, ret_hash, err);
}

/* The last result: a service that is asked often gets the same each time. */
static struct {
	pthread_mutex_t lock;
	json_t *stamps;
	char hash[HASH_NAME + 1];
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool
is_known(const json_t *stamps, char ret_hash[HASH_NAME + 1])
{
	bool found;

	pthread_mutex_lock(&known.lock);
	found = known.stamps != NULL && json_equal(known.stamps, stamps);
	if (found)
		memcpy(ret_hash, known.hash, sizeof(known.hash));
	pthread_mutex_unlock(&known.lock);
	return found;
}

static void
make_known(const json_t *stamps, const char hash[HASH_NAME + 1])
{
	pthread_mutex_lock(&known.lock);
	json_decref(known.stamps);
	known.stamps = json_deep_copy(stamps);
	memcpy(known.hash, hash, sizeof(known.hash));
	pthread_mutex_unlock(&known.lock);
}

static bool
is_cached(int top, const json_t *stamps, char ret_hash[HASH_NAME + 1])
{
	OWN(json_decrefp) json_t *cache = NULL;
	OWN(freep) char *text = NULL;
	unsigned char hash[HASH_LEN];
	size_t len;

	if (read_file_at(top, CACHE, CACHE_MAX, &text, &len, NULL) < 0 ||
	    canon_read(text, len, &cache, NULL) < 0 ||
	    !json_equal(json_object_get(cache, "stamps"), stamps) ||
	    !hash_parse_name(dispatch_text(cache, "hash"), hash))
		return false;
	hash_name(hash, ret_hash);
	return true;
}

int
dispatch_build_hash(char ret_hash[HASH_NAME + 1], struct err *err)
{
	OWN(json_decrefp) json_t *stamps = json_object(), *paths = json_object(), *cache = NULL;
	OWN(closep) int top = -1;
	OWN(freep) char *text = NULL;
	size_t len;
	int r = describe_all(stamps, paths, err);

	if (r < 0 || is_known(stamps, ret_hash))
		return r;
	top = dispatch_top(err);
	if (top < 0)
		return top;
	if (is_cached(top, stamps, ret_hash)) {
		make_known(stamps, ret_hash);
		return 0;
	}
	r = hash_all(paths, ret_hash, err);
	if (r < 0)
		return err_wrap(err, "cannot tell which cloister this is");
	cache = json_pack("{s:s,s:O}", "hash", ret_hash, "stamps", stamps);
	/* Without the cache, the next call takes a little longer. */
	if (cache != NULL && canon_dump(cache, CACHE_MAX, &text, &len, NULL) == 0)
		(void)dispatch_write_file(top, CACHE, text, len, false, NULL);
	make_known(stamps, ret_hash);
	return 0;
}
