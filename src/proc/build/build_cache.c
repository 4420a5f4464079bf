/* build_cache.c - layers that steps made before, by the hash of everything that went into the step.
 *
 * An entry is a small file in the store's folder; it counts while its layer is in the store. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "proc/build/build.h"

#define ENTRY_MAX 4096

static int
open_folder(const struct build *b)
{
	if (mkdirat(store_folder(b->store), STORE_BUILDS, 0700) < 0 && errno != EEXIST)
		return -errno;
	return openat(store_folder(b->store), STORE_BUILDS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool
take_text(const json_t *entry, const char *name, char *field, size_t size)
{
	const char *text = json_string_value(json_object_get(entry, name));

	return text != NULL && (size_t)snprintf(field, size, "%s", text) < size;
}

int
build_cached(struct build *b, const unsigned char hash[HASH_LEN], struct layer_made *ret_made)
{
	OWN(closep) int folder = open_folder(b);
	OWN(freep) char *text = NULL;
	struct layer_made made = {0};
	char name[HASH_NAME + 1];
	json_t *entry;
	bool ok;

	hash_name(hash, name);
	if (b->no_cache || folder < 0 || read_file_at(folder, name, ENTRY_MAX, &text, NULL, NULL) < 0)
		return -ENOENT;
	entry = json_loads(text, 0, NULL);
	made.empty = json_is_true(json_object_get(entry, "empty"));
	made.size = (uint64_t)json_integer_value(json_object_get(entry, "size"));
	ok = take_text(entry, "diff_id", made.diff_id, sizeof(made.diff_id)) &&
	     take_text(entry, "digest", made.digest, sizeof(made.digest)) &&
	     take_text(entry, "cell", made.cell, sizeof(made.cell)) &&
	     take_text(entry, "timeline", made.timeline, sizeof(made.timeline));
	json_decref(entry);
	if (!ok || (!made.empty && !store_has_blob(b->store, made.digest))) {
		(void)unlinkat(folder, name, 0);
		return -ENOENT;
	}
	*ret_made = made;
	return 0;
}

/* A cache that cannot be written is only slow. */
void
build_remember(struct build *b, const unsigned char hash[HASH_LEN], const struct layer_made *made)
{
	OWN(closep) int folder = open_folder(b);
	char name[HASH_NAME + 1], part[HASH_NAME + 16];
	json_t *entry = json_pack("{s:b, s:s, s:s, s:I, s:s, s:s}", "empty", made->empty, "diff_id", made->diff_id, "digest",
	                          made->digest, "size", (json_int_t)made->size, "cell", made->cell, "timeline",
	                          made->timeline);
	OWN(freep) char *text = entry == NULL ? NULL : json_dumps(entry, JSON_COMPACT);

	json_decref(entry);
	hash_name(hash, name);
	snprintf(part, sizeof(part), "%s.%d", name, getpid());
	if (folder >= 0 && text != NULL && create_file_at(folder, part, 0600, text, NULL) == 0)
		(void)renameat(folder, part, folder, name);
}
