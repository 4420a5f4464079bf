/* source.c - opens what images are loaded from.
 *
 * An archive, of a file or from an engine, is unpacked by cloister-unpack into a folder of the store first: this
 * process parses no archive. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"
#include "base/spawn.h"
#include "proc/image/image_proc.h"
#include "trust/trust.h"

#define COPY_BYTES (256 * 1024)

void
source_close(struct source *src)
{
	if (src->is_ours)
		store_layer_abort(src->store, &src->layer);
	else
		closep(&src->dir);
	*src = (struct source){ .dir = -1 };
}

/* ---- kinds ---- */

static int
open_folder(const char *path, struct source *src, struct err *err)
{
	src->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return src->dir < 0 ? err_errno(err, "cannot open the folder '%s'", path) : 0;
}

/* An empty folder of the store's, which source_close() removes. */
static int
make_folder(struct store *s, struct source *src, struct err *err)
{
	int r = store_layer_begin(s, &src->layer, err);

	if (r < 0)
		return r;
	src->store = s;
	src->is_ours = true;
	src->dir = src->layer.fs;
	return 0;
}

static int
unpack_archive(struct store *s, int fd, uint64_t size, struct source *src, struct err *err)
{
	int r = make_folder(s, src, err);

	progress_begin("reading");
	if (r == 0)
		r = unpack_into(fd, src->dir, NULL, false, size, err);
	progress_end();
	return r;
}

static int
open_archive(struct store *s, const char *path, struct source *src, struct err *err)
{
	OWN(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot open '%s'", path);
	r = unpack_archive(s, fd, S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0, src, err);
	return r < 0 ? err_wrap(err, "'%s'", path) : 0;
}

static int
open_daemon(struct store *s, const char *name, struct source *src, struct err *err)
{
	OWN(closep) int fd = daemon_get(name, err);
	int r = fd < 0 ? fd : unpack_archive(s, fd, 0, src, err);

	return r < 0 ? err_wrap(err, "the image '%s' of the Docker engine", name) : 0;
}

/* ---- containers-storage ---- */

static int
run_tool(char *const *argv, struct err *err)
{
	char program[PATH_MAX];
	int status, r = trust_command(TRUST_IMAGE_TOOL, argv, program, err);

	if (r < 0)
		return r;
	if (program[0] != '/')
		return -ENOENT;
	r = trust_program(program, err);
	if (r < 0)
		return r;
	status = spawn_run(&(struct spawn){ .argv = argv, .path = program, .flags = SPAWN_DIES, .fds = (struct spawn_fd[]){
		{ SPAWN_NULL, STDIN_FILENO }, { STDERR_FILENO, STDOUT_FILENO } }, .n_fds = 2 }, err);
	return status <= 0 ? status : err_set(err, EIO, "%s failed with status %d", argv[0], status);
}

static int
run_skopeo(const char *name, const char *folder, struct err *err)
{
	OWN(freep) char *from = str_format("containers-storage:%s", name), *to = str_format("oci:%s", folder);
	char *argv[] = { (char[]){ "skopeo" }, (char[]){ "copy" }, (char[]){ "--quiet" }, from, to, NULL };

	return from == NULL || to == NULL ? err_set(err, ENOMEM, "out of memory") : run_tool(argv, err);
}

static int
run_podman(const char *name, const char *folder, struct err *err)
{
	OWN(freep) char *image = strdup(name), *output = str_format("--output=%s", folder);
	char *argv[] = { (char[]){ "podman" }, (char[]){ "save" }, (char[]){ "--quiet" }, (char[]){ "--format=oci-dir" }, output,
	                 (char[]){ "--" }, image, NULL };

	return image == NULL || output == NULL ? err_set(err, ENOMEM, "out of memory") : run_tool(argv, err);
}

/* Only these programs know where its parts are; they are the operator's own. */
static int
open_storage(struct store *s, const char *name, struct source *src, struct err *err)
{
	OWN(freep) char *folder = NULL;
	int r = make_folder(s, src, err);

	if (r < 0)
		return r;
	folder = str_format("%s/layers/%s/%s", store_path(s), src->layer.name, STORE_LAYER_FS);
	if (folder == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = run_skopeo(name, folder, err);
	if (r == -ENOENT)
		r = run_podman(name, folder, err);
	return r == -ENOENT ? err_set(err, ENOENT, "images of containers-storage are read with skopeo or podman: install one "
	                              "of them (Debian has packages of these names)") : r;
}

int
source_open(struct store *s, const struct image_ref *ref, struct source *ret_source, struct err *err)
{
	OWN(source_close) struct source src = { .dir = -1 };
	int r;

	switch (ref->kind) {
	case IMAGE_REF_OCI:
	case IMAGE_REF_DIR:
		r = open_folder(ref->path, &src, err);
		break;
	case IMAGE_REF_OCI_ARCHIVE:
	case IMAGE_REF_DOCKER_ARCHIVE:
		r = open_archive(s, ref->path, &src, err);
		break;
	case IMAGE_REF_DOCKER_DAEMON:
		r = open_daemon(s, ref->tag, &src, err);
		break;
	case IMAGE_REF_CONTAINERS_STORAGE:
		r = open_storage(s, ref->tag, &src, err);
		break;
	default:
		return err_set(err, EINVAL, "images of registries are pulled: `cloister image pull`");
	}
	if (r < 0)
		return r;
	*ret_source = src;
	src = (struct source){ .dir = -1 };
	return 0;
}

/* ---- files ---- */

int
source_open_file(const struct source *src, const char *path, struct err *err)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
	                        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	OWN(closep) int fd = (int)syscall(SYS_openat2, src->dir, path, &how, sizeof(how));
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot open its file '%.200s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EBADMSG, "its '%.200s' is no file", path);
	return TAKE_FD(fd);
}

bool
source_has(const struct source *src, const char *path)
{
	OWN(closep) int fd = source_open_file(src, path, NULL);

	return fd >= 0;
}

int
source_read(const struct source *src, const char *path, char **ret_text, size_t *ret_len, struct err *err)
{
	OWN(closep) int fd = source_open_file(src, path, err);

	return fd < 0 ? fd : read_open(fd, path, IMAGE_DOCUMENT_MAX, ret_text, ret_len, err);
}

static int
copy_blob(struct store *s, int fd, const char *digest, uint64_t size, char ret_digest[HASH_NAME + 1],
          struct err *err)
{
	OWN(store_blob_abortp) struct store_blob *b = NULL;
	OWN(freep) unsigned char *data = malloc(COPY_BYTES);
	int r = data == NULL ? err_set(err, ENOMEM, "out of memory") : store_blob_begin(s, digest, size, &b, err);
	ssize_t n;

	/* What a download left may be of any state. */
	if (r == 0 && store_blob_offset(b) > 0)
		r = store_blob_restart(b, err);
	while (r == 0 && (n = read(fd, data, COPY_BYTES)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		r = n < 0 ? err_errno(err, "cannot read a blob") : store_blob_write(b, data, (size_t)n, err);
		progress_show(store_blob_offset(b), size == STORE_SIZE_ANY ? 0 : size);
	}
	return r < 0 ? r : store_blob_finish(TAKE(b), ret_digest, err);
}

/* Another command may be storing the same blob: then it is there once that one is done. */
static int
copy_unless_there(const struct source *src, int fd, const char *digest, uint64_t size,
                  char ret_digest[HASH_NAME + 1], struct err *err)
{
	const struct timespec moment = { .tv_nsec = 50 * 1000 * 1000 };
	int r;

	while ((r = copy_blob(src->store, fd, digest, size, ret_digest, err)) == -EBUSY) {
		nanosleep(&moment, NULL);
		if (store_has_blob(src->store, digest)) {
			memcpy(ret_digest, digest, HASH_NAME + 1);
			return 0;
		}
	}
	return r;
}

int
source_store(const struct source *src, const char *path, const char *digest, uint64_t size,
             char ret_digest[HASH_NAME + 1], struct err *err)
{
	OWN(closep) int fd = -1;
	int r;

	if (digest != NULL && store_has_blob(src->store, digest)) {
		memcpy(ret_digest, digest, HASH_NAME + 1);
		return 0;
	}
	fd = source_open_file(src, path, err);
	if (fd < 0)
		return fd;
	progress_begin("copying");
	r = src->is_ours ? store_adopt_blob(src->store, fd, digest, size, ret_digest, err) :
	    copy_unless_there(src, fd, digest, size, ret_digest, err);
	progress_end();
	return r;
}
