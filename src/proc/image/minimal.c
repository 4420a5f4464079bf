/* minimal.c - makes the minimal image: the machine's static busybox, and links for its applets. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/spawn.h"
#include "image/minimal.h"
#include "image/tar_write.h"
#include "proc/image/image_proc.h"

#define BUSYBOX_MAX (16u << 20)
#define LIST_MAX (64 * 1024)
#define APPLETS_MAX 1024
#define APPLET_MAX 64                   /* bytes of a name */

struct busybox {
	const char *path;
	char *bytes, *list;
	size_t len;
};

static void
busybox_free(struct busybox *b)
{
	free(b->bytes);
	free(b->list);
}

/* A program without an interpreter needs no library. */
static bool
is_static(const char *bytes, size_t len)
{
	Elf64_Ehdr head;
	Elf64_Phdr part;

	if (len < sizeof(head))
		return false;
	memcpy(&head, bytes, sizeof(head));
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof(part) || head.e_phoff > len ||
	    (len - head.e_phoff) / sizeof(part) < head.e_phnum)
		return false;
	for (size_t i = 0; i < head.e_phnum; i++) {
		memcpy(&part, bytes + head.e_phoff + i * sizeof(part), sizeof(part));
		if (part.p_type == PT_INTERP)
			return false;
	}
	return true;
}

static int
list_applets(struct busybox *b, struct err *err)
{
	char option[] = "--list", program[] = "busybox";
	char *argv[] = { program, option, NULL };
	int ends[2], r, status;
	size_t len;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot start '%s'", b->path);
	pid = spawn_start(&(struct spawn){ .argv = argv, .path = b->path, .fds = (struct spawn_fd[]){
		{ SPAWN_NULL, STDIN_FILENO }, { ends[1], STDOUT_FILENO } }, .n_fds = 2, .flags = SPAWN_DIES | SPAWN_ONLY }, NULL,
		err);
	close(ends[1]);
	r = pid < 0 ? (int)pid : read_open(ends[0], b->path, LIST_MAX, &b->list, &len, err);
	close(ends[0]);
	if (pid < 0)
		return r;
	status = spawn_await(pid, err);
	return r < 0 || status < 0 ? (r < 0 ? r : status) :
	       status > 0 ? err_set(err, EIO, "'%s --list' failed", b->path) : 0;
}

static int
read_busybox(struct busybox *b, struct err *err)
{
	int r;

	b->path = minimal_busybox();
	if (b->path == NULL)
		return err_set(err, ENOENT, "the minimal root is made of a static busybox: install one (Debian's package "
		               "busybox-static)");
	r = read_file_at(AT_FDCWD, b->path, BUSYBOX_MAX, &b->bytes, &b->len, err);
	if (r == 0 && !is_static(b->bytes, b->len))
		r = err_set(err, ENOEXEC, "'%s' is not static: install Debian's package busybox-static", b->path);
	return r < 0 ? r : list_applets(b, err);
}

/* ---- its layer ---- */

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
put(void *arg, const void *data, size_t len, struct err *err)
{
	struct buf *b = arg;

	buf_put(b, data, len);
	return buf_failed(b) ? err_set(err, ENOMEM, "out of memory") : 0;
}

static int
put_folder(struct tar_write *t, const char *path, struct err *err)
{
	return tar_entry(t, &(struct tar_entry){ .path = path, .mode = S_IFDIR | 0755 }, err);
}

static int
put_link(struct tar_write *t, const char *path, const char *target, struct err *err)
{
	return tar_entry(t, &(struct tar_entry){ .path = path, .mode = S_IFLNK | 0777, .link = target }, err);
}

static int
put_busybox(struct tar_write *t, const struct busybox *b, struct err *err)
{
	int r = tar_entry(t, &(struct tar_entry){ .path = "bin/busybox", .mode = S_IFREG | 0755, .size = b->len }, err);

	return r < 0 ? r : tar_data(t, b->bytes, b->len, err);
}

static bool
is_applet(const char *name)
{
	return name[0] != '\0' && strcmp(name, "busybox") != 0 && strlen(name) < APPLET_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.[") == strlen(name) &&
	       name[0] != '.';
}

static int
put_links(struct tar_write *t, struct busybox *b, struct err *err)
{
	char *names[APPLETS_MAX] = {0}, path[APPLET_MAX + 4], *rest = NULL;
	size_t n = 0;
	int r = 0;

	for (char *name = strtok_r(b->list, "\n", &rest); name != NULL && n < APPLETS_MAX; name = strtok_r(NULL, "\n", &rest))
		if (is_applet(name))
			names[n++] = name;
	qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; r == 0 && i < n; i++) {
		snprintf(path, sizeof(path), "bin/%s", names[i]);
		r = put_link(t, path, "busybox", err);
	}
	return r;
}

static int
make_layer(struct busybox *b, struct buf *layer, struct err *err)
{
	struct tar_write t = { .put = put, .arg = layer };
	int r = put_folder(&t, "bin", err);

	if (r == 0)
		r = put_busybox(&t, b, err);
	if (r == 0)
		r = put_links(&t, b, err);
	if (r == 0)
		r = put_folder(&t, "usr", err);
	if (r == 0)
		r = put_folder(&t, "usr/bin", err);
	/* Scripts begin with its path. */
	if (r == 0)
		r = put_link(&t, "usr/bin/env", "/bin/busybox", err);
	return r < 0 ? r : tar_end(&t, err);
}

/* ---- the image ---- */

static int
make_image(struct store *s, const struct buf *tar, struct image_descriptor *d, struct err *err)
{
	OWN(freep) char *config = NULL, *manifest = NULL;
	char layer[HASH_NAME + 1], digest[HASH_NAME + 1];
	int r = store_put_blob(s, tar->data, tar->len, layer, err);

	config = str_format("{\"architecture\":\"%s\",\"config\":{\"Cmd\":[\"/bin/sh\"],\"Env\":[\"PATH=/bin:/usr/bin\"]},"
	                    "\"created\":\"1970-01-01T00:00:00Z\",\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[\"%s\"],"
	                    "\"type\":\"layers\"}}", image_architecture(), layer);
	if (r == 0 && config == NULL)
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0)
		r = store_put_blob(s, config, strlen(config), digest, err);
	if (r < 0)
		return r;
	manifest = str_format("{\"config\":{\"digest\":\"%s\",\"mediaType\":\"" IMAGE_TYPE_OCI_CONFIG "\",\"size\":%zu},"
	                      "\"layers\":[{\"digest\":\"%s\",\"mediaType\":\"" IMAGE_TYPE_OCI_LAYER "\",\"size\":%zu}],"
	                      "\"mediaType\":\"" IMAGE_TYPE_OCI_MANIFEST "\",\"schemaVersion\":2}", digest,
	                      strlen(config), layer, tar->len);
	if (manifest == NULL)
		return err_set(err, ENOMEM, "out of memory");
	snprintf(d->media_type, sizeof(d->media_type), "%s", IMAGE_TYPE_OCI_MANIFEST);
	d->size = strlen(manifest);
	return store_put_blob(s, manifest, d->size, d->digest, err);
}

static int
make(struct store *s, struct image_descriptor *d, struct err *err)
{
	OWN(busybox_free) struct busybox b = {0};
	OWN(buf_free) struct buf layer = BUF(2 * BUSYBOX_MAX);
	int r = read_busybox(&b, err);

	if (r == 0)
		r = make_layer(&b, &layer, err);
	return r < 0 ? r : make_image(s, &layer, d, err);
}

/* If another busybox comes while it is made, the note is of the earlier one, and does not count. */
static int
find_or_make(struct store *s, char ret_digest[HASH_NAME + 1], struct err *err)
{
	OWN(store_found_free) struct image_descriptor found = {0};
	struct store_key key = { "" };
	char name[] = IMAGE_MINIMAL;
	struct image_descriptor d = { .name = name };
	int r = minimal_find(s, &key, &found);

	if (r == 0) {
		memcpy(ret_digest, found.digest, HASH_NAME + 1);
		return 0;
	}
	r = make(s, &d, err);
	if (r == 0)
		r = store_set(s, &d, err);
	if (r < 0)
		return r;
	store_made_note(s, &key, d.digest, IMAGE_MINIMAL);
	memcpy(ret_digest, d.digest, HASH_NAME + 1);
	return 0;
}

int
minimal_load(struct store *s, struct store_image *ret_image, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	OWN(closep) int adding = store_adding(s, err);
	char digest[HASH_NAME + 1];
	int r = adding < 0 ? adding : find_or_make(s, digest, err);

	if (r == 0)
		r = store_load(s, digest, &image, err);
	if (r == 0)
		r = unpack_image(s, &image, err);
	if (r < 0)
		return r;
	*ret_image = image;
	image = (struct store_image){0};
	return 0;
}
