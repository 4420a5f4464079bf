/* run_blobs.c - finds the blobs of a cell document in the registry's folder, and checks them.
 *
 * Needs no database: the name of each file is the hash of its content. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/hash.h"
#include "cli/run.h"

#define BLOB_MAX (1ull << 30)

static const char *
hex_of(const char *hash)
{
	return hash + strlen(HASH_PREFIX);
}

int
run_find_blob(const char *hash, char **ret_path, struct err *err)
{
	OWN(freep) char *top = data_path("registry/blobs", err), *path = NULL;
	OWN(closep) int fd = -1;
	unsigned char digest[HASH_LEN];
	char name[HASH_NAME + 1];
	uint64_t size;
	int r;

	if (top == NULL)
		return -ENOENT;
	path = str_format("%s/%.2s/%s", top, hex_of(hash), hex_of(hash) + 2);
	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return err_errno(err, "cannot open the blob %s of the document", hash);
	r = hash_fd(fd, BLOB_MAX, digest, &size, err);
	if (r < 0)
		return err_wrap(err, "the blob %s", hash);
	hash_name(digest, name);
	if (strcmp(name, hash) != 0)
		return err_set(err, EUCLEAN, "the blob %s is damaged: look at '%s', then remove it", hash, path);
	*ret_path = TAKE(path);
	return 0;
}
