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
#include "image/tar.h"
#include "proc/image/image_proc.h"

#define BUSYBOX_MAX (16u << 20)
#define LIST_MAX (64 * 1024)
#define APPLETS_MAX 1024
#define NOTE "minimal"                  /* in the store: of which busybox the image was made */
#define NOTE_MAX 256

static const char *const places[] = { "/usr/bin/busybox", "/bin/busybox", "/usr/local/bin/busybox" };

struct busybox {
	const char *path;
	char *bytes, *list;
	size_t len;
	struct stat st;
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
find_busybox(struct busybox *b, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (stat(places[i], &b->st) == 0 && S_ISREG(b->st.st_mode)) {
			b->path = places[i];
			return 0;
		}
	return err_set(err, ENOENT, "the minimal root is made of a static busybox: install one (Debian's package "
	               "busybox-static)");
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
	int r = read_file_at(AT_FDCWD, b->path, BUSYBOX_MAX, &b->bytes, &b->len, err);

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
put_entry(struct buf *tar, enum tar_type type, const char *name, unsigned mode, const char *link, struct err *err)
{
	unsigned char block[TAR_BLOCK];
	int r = tar_header(block, type, name, mode, 0, link, err);

	if (r == 0)
		buf_put(tar, block, sizeof(block));
	return r;
}

static int
put_busybox(struct buf *tar, const struct busybox *b, struct err *err)
{
	static const char zeroes[TAR_BLOCK];
	unsigned char block[TAR_BLOCK];
	int r = tar_header(block, TAR_FILE, "bin/busybox", 0755, b->len, NULL, err);

	buf_put(tar, block, sizeof(block));
	buf_put(tar, b->bytes, b->len);
	buf_put(tar, zeroes, tar_padding(b->len));
	return r;
}

static bool
is_applet(const char *name)
{
	return name[0] != '\0' && strcmp(name, "busybox") != 0 && strlen(name) < TAR_NAME_MAX - 4 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.[") == strlen(name) &&
	       name[0] != '.';
}

static int
put_links(struct buf *tar, struct busybox *b, struct err *err)
{
	char *names[APPLETS_MAX], path[TAR_NAME_MAX], *rest = NULL;
	size_t n = 0;
	int r = 0;

	for (char *name = strtok_r(b->list, "\n", &rest); name != NULL && n < APPLETS_MAX; name = strtok_r(NULL, "\n", &rest))
		if (is_applet(name))
			names[n++] = name;
	qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; r == 0 && i < n; i++) {
		snprintf(path, sizeof(path), "bin/%s", names[i]);
		r = put_entry(tar, TAR_SYMLINK, path, 0777, "busybox", err);
	}
	return r;
}

static int
make_layer(struct busybox *b, struct buf *tar, struct err *err)
{
	static const char end[TAR_END];
	int r = put_entry(tar, TAR_FOLDER, "bin/", 0755, NULL, err);

	if (r == 0)
		r = put_busybox(tar, b, err);
	if (r == 0)
		r = put_links(tar, b, err);
	if (r == 0)
		r = put_entry(tar, TAR_FOLDER, "usr/", 0755, NULL, err);
	if (r == 0)
		r = put_entry(tar, TAR_FOLDER, "usr/bin/", 0755, NULL, err);
	/* Scripts begin with its path. */
	if (r == 0)
		r = put_entry(tar, TAR_SYMLINK, "usr/bin/env", 0777, "/bin/busybox", err);
	buf_put(tar, end, sizeof(end));
	return r == 0 && buf_failed(tar) ? err_set(err, ENOMEM, "out of memory") : r;
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

/* Which busybox this is; a note with it says which image was made of it. */
static void
describe(const struct busybox *b, char ret_text[NOTE_MAX])
{
	snprintf(ret_text, NOTE_MAX, "%s %llu %llu %lld.%09ld %lld.%09ld ", b->path, (unsigned long long)b->st.st_ino,
	         (unsigned long long)b->st.st_size, (long long)b->st.st_mtim.tv_sec, b->st.st_mtim.tv_nsec,
	         (long long)b->st.st_ctim.tv_sec, b->st.st_ctim.tv_nsec);
}

static int
use_made(const struct store *s, const struct busybox *b, struct store_image *ret_image)
{
	OWN(freep) char *note = NULL;
	OWN(store_found_free) struct image_descriptor found = {0};
	char text[NOTE_MAX];
	size_t len = 0;

	describe(b, text);
	if (read_file_at(store_folder(s), NOTE, NOTE_MAX, &note, &len, NULL) < 0 ||
	    strncmp(note, text, strlen(text)) != 0 || store_find(s, IMAGE_MINIMAL, &found, NULL) < 0 ||
	    strcmp(found.digest, note + strlen(text)) != 0)
		return -ENOENT;
	return store_load(s, found.digest, ret_image, NULL);
}

static int
make(struct store *s, struct busybox *b, struct image_descriptor *d, struct err *err)
{
	OWN(buf_free) struct buf tar = BUF(2 * BUSYBOX_MAX);
	char text[NOTE_MAX + HASH_NAME];
	int r = read_busybox(b, err);

	if (r == 0)
		r = make_layer(b, &tar, err);
	if (r == 0)
		r = make_image(s, &tar, d, err);
	if (r < 0)
		return r;
	describe(b, text);
	memcpy(text + strlen(text), d->digest, HASH_NAME + 1);
	return create_file_at(store_folder(s), NOTE, 0600, text, err);
}

int
minimal_load(struct store *s, struct store_image *ret_image, struct err *err)
{
	OWN(busybox_free) struct busybox b = {0};
	OWN(store_image_free) struct store_image image = {0};
	OWN(closep) int adding = -1;
	char name[] = IMAGE_MINIMAL;
	struct image_descriptor d = { .name = name };
	int r = find_busybox(&b, err);

	if (r < 0)
		return r;
	adding = store_adding(s, err);
	if (adding < 0)
		return adding;
	if (use_made(s, &b, &image) < 0) {
		r = make(s, &b, &d, err);
		if (r == 0)
			r = store_set(s, &d, err);
		if (r == 0)
			r = store_load(s, d.digest, &image, err);
	}
	if (r == 0)
		r = unpack_image(s, &image, err);
	if (r < 0)
		return r;
	*ret_image = image;
	image = (struct store_image){0};
	return 0;
}
