/* volume.c - see volume.h: the folders, the locks and the descriptions. */
#include "volume/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/tree.h"
#include "canon/canon.h"
#include "volume/volume_parts.h"

#define DESCRIPTION "volume"
#define DESCRIPTION_NEW "volume.new"
#define DESCRIPTION_MAX (64 * 1024)

OWN_BY(json_freep, json_t *, json_decref)

/* ---- folders ---- */

static int
open_folder(const struct volumes *v, const char *name, bool make, int *ret_fd, struct err *err)
{
	if (make && mkdirat(v->top, name, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make '%s/%s'", v->path, name);
	*ret_fd = openat(v->top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (*ret_fd < 0 && errno == ENOENT)
		return err_set(err, ENOENT, "there are no volumes yet: `cloister volume create NAME` makes one");
	return *ret_fd < 0 ? err_errno(err, "cannot open '%s/%s'", v->path, name) : 0;
}

int
volumes_open(bool make, struct volumes *ret_volumes, struct err *err)
{
	OWN(volumes_close) struct volumes v = { .top = -1, .names = -1, .trees = -1, .locks = -1 };
	int r;

	v.path = data_path(VOLUME_FOLDER, err);
	if (v.path == NULL)
		return -ENOENT;
	v.top = data_folder(VOLUME_FOLDER, make, err);
	if (v.top == -ENOENT)
		return err_set(err, ENOENT, "there are no volumes yet: `cloister volume create NAME` makes one");
	if (v.top < 0)
		return v.top;
	r = open_folder(&v, "names", make, &v.names, err);
	r = r == 0 ? open_folder(&v, "trees", make, &v.trees, err) : r;
	if (r < 0)
		return r;
	v.locks = openat(v.top, "locks", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (v.locks < 0)
		return err_errno(err, "cannot open '%s/locks'", v.path);
	*ret_volumes = v;
	v = (struct volumes){ .top = -1, .names = -1, .trees = -1, .locks = -1 };
	return 0;
}

void
volumes_close(struct volumes *v)
{
	close_fd(&v->top);
	close_fd(&v->names);
	close_fd(&v->trees);
	close_fd(&v->locks);
	free(v->path);
	v->path = NULL;
}

int
volume_folder(const struct volumes *v, const char *name, struct err *err)
{
	int fd = openat(v->names, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 && errno == ENOENT)
		return err_set(err, ENOENT, "there is no volume '%s': `cloister volume create %s` makes it", name, name);
	return fd < 0 ? err_errno(err, "cannot open the volume '%s'", name) : fd;
}

bool
volume_name_ok(const char *name)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t len = strlen(name);

	return len > 0 && len <= VOLUME_NAME_MAX && strchr("-_.", name[0]) == NULL && strspn(name, ok) == len;
}

int
volume_parse(const char *text, char ret_name[VOLUME_NAME_MAX + 1], char ret_label[VOLUME_NAME_MAX + 1],
             struct err *err)
{
	const char *at = strchr(text, '@');
	size_t len = at != NULL ? (size_t)(at - text) : strlen(text);

	ret_label[0] = '\0';
	if (len <= VOLUME_NAME_MAX) {
		memcpy(ret_name, text, len);
		ret_name[len] = '\0';
	}
	if (len > VOLUME_NAME_MAX || !volume_name_ok(ret_name))
		return err_set(err, EINVAL, "'%.100s' cannot be the name of a volume: use up to %d letters, digits, '-', '_' "
		               "and '.'", text, VOLUME_NAME_MAX);
	if (at == NULL)
		return 0;
	if (!volume_name_ok(at + 1))
		return err_set(err, EINVAL, "'%.100s' cannot be the label of a snapshot: use up to %d letters, digits, '-', "
		               "'_' and '.'", at + 1, VOLUME_NAME_MAX);
	snprintf(ret_label, VOLUME_NAME_MAX + 1, "%s", at + 1);
	return 0;
}

int
volume_new_id(char ret_id[VOLUME_ID + 1], struct err *err)
{
	unsigned char random[VOLUME_ID / 2];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_errno(err, "cannot get random bytes");
	codec_hex(random, sizeof(random), ret_id);
	return 0;
}

/* ---- locks ---- */

int
volume_lock(const struct volumes *v, struct err *err)
{
	OWN(closep) int fd = openat(v->top, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	int r;

	if (fd < 0)
		return err_errno(err, "cannot open '%s/lock'", v->path);
	do
		r = flock(fd, LOCK_EX);
	while (r < 0 && errno == EINTR);
	return r < 0 ? err_errno(err, "cannot lock '%s/lock'", v->path) : TAKE_FD(fd);
}

static struct flock
byte_of(enum volume_byte byte, const char *id, short type)
{
	const uint64_t at = strtoull(id, NULL, 16) >> 3;

	return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(at * 4 + byte), .l_len = 1 };
}

int
volume_hold(const struct volumes *v, enum volume_byte byte, const char *id, bool alone, struct err *err)
{
	struct flock lock = byte_of(byte, id, alone ? F_WRLCK : F_RDLCK);

	if (fcntl(v->locks, F_OFD_SETLK, &lock) == 0)
		return 0;
	return errno == EAGAIN || errno == EACCES ? -EBUSY : err_errno(err, "cannot lock a byte of '%s/locks'", v->path);
}

void
volume_release(const struct volumes *v, enum volume_byte byte, const char *id)
{
	struct flock lock = byte_of(byte, id, F_UNLCK);

	(void)fcntl(v->locks, F_OFD_SETLK, &lock);
}

/* What cannot be known is in use. */
bool
volume_is_held(const struct volumes *v, enum volume_byte byte, const char *id)
{
	struct flock lock = byte_of(byte, id, F_WRLCK);

	return fcntl(v->locks, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

bool
volume_is_written(const struct volumes *v, const struct volume *volume)
{
	return volume_is_held(v, VOLUME_WRITER, volume->id);
}

bool
volume_is_used(const struct volumes *v, const struct volume *volume)
{
	return volume_is_written(v, volume) || volume_is_held(v, VOLUME_USERS, volume->id);
}

/* ---- descriptions ---- */

static int
take_id(const json_t *value, char ret_id[VOLUME_ID + 1])
{
	const char *text = json_string_value(value);

	if (text == NULL || strlen(text) != VOLUME_ID || strspn(text, "0123456789abcdef") != VOLUME_ID)
		return -EBADMSG;
	memcpy(ret_id, text, VOLUME_ID + 1);
	return 0;
}

static int
take_number(const json_t *value, uint64_t *ret_number)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return -EBADMSG;
	*ret_number = (uint64_t)json_integer_value(value);
	return 0;
}

static int
take_snapshots(const json_t *list, struct volume *volume)
{
	const json_t *item;
	size_t i;
	int r = json_is_array(list) && json_array_size(list) <= VOLUME_SNAPSHOTS_MAX ? 0 : -EBADMSG;

	json_array_foreach(list, i, item) {
		struct volume_snapshot *s = &volume->snapshots[i];
		const char *label = json_string_value(json_object_get(item, "label"));

		if (r < 0 || label == NULL || !volume_name_ok(label))
			return -EBADMSG;
		snprintf(s->label, sizeof(s->label), "%s", label);
		r = take_id(json_object_get(item, "tree"), s->tree);
		r = r == 0 ? take_number(json_object_get(item, "made"), &s->made_ms) : r;
		volume->n_snapshots = i + 1;
	}
	return r;
}

int
volume_load(const struct volumes *v, const char *name, struct volume *ret_volume, struct err *err)
{
	OWN(closep) int folder = volume_folder(v, name, err);
	OWN(json_freep) json_t *doc = NULL;
	OWN(freep) char *text = NULL;
	struct volume volume = {0};
	size_t len;
	int r;

	if (folder < 0)
		return folder;
	r = read_file_at(folder, DESCRIPTION, DESCRIPTION_MAX, &text, &len, err);
	if (r < 0)
		return err_wrap(err, "the volume '%s'", name);
	doc = canon_value(text, len);
	snprintf(volume.name, sizeof(volume.name), "%s", name);
	r = take_id(json_object_get(doc, "id"), volume.id);
	r = r == 0 ? take_id(json_object_get(doc, "tree"), volume.tree) : r;
	r = r == 0 ? take_number(json_object_get(doc, "size"), &volume.size) : r;
	r = r == 0 ? take_number(json_object_get(doc, "ttl"), &volume.ttl_ms) : r;
	r = r == 0 ? take_number(json_object_get(doc, "made"), &volume.made_ms) : r;
	r = r == 0 ? take_number(json_object_get(doc, "used"), &volume.used_ms) : r;
	r = r == 0 ? take_snapshots(json_object_get(doc, "snapshots"), &volume) : r;
	if (r < 0)
		return err_set(err, -r, "the description of the volume '%s' is damaged: `cloister volume remove %s` removes it", name,
		               name);
	*ret_volume = volume;
	return 0;
}

int
volume_save(const struct volumes *v, const struct volume *volume, struct err *err)
{
	OWN(closep) int folder = volume_folder(v, volume->name, err);
	OWN(json_freep) json_t *doc = NULL;
	OWN(closep) int fd = -1;
	OWN(freep) char *text = NULL;
	json_t *list = json_array();
	size_t len;
	int r;

	for (size_t i = 0; i < volume->n_snapshots; i++) {
		const struct volume_snapshot *s = &volume->snapshots[i];

		json_array_append_new(list, json_pack("{s:s,s:I,s:s}", "label", s->label, "made", (json_int_t)s->made_ms, "tree",
		                                      s->tree));
	}
	doc = json_pack("{s:s,s:I,s:I,s:o,s:s,s:I,s:I}", "id", volume->id, "made", (json_int_t)volume->made_ms, "size",
	                (json_int_t)volume->size, "snapshots", list, "tree", volume->tree, "ttl", (json_int_t)volume->ttl_ms,
	                "used", (json_int_t)volume->used_ms);
	if (folder < 0)
		return folder;
	r = doc == NULL ? err_set(err, ENOMEM, "out of memory") : canon_dump(doc, DESCRIPTION_MAX, &text, &len, err);
	if (r < 0)
		return r;
	fd = openat(folder, DESCRIPTION_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? err_errno(err, "cannot write '%s'", DESCRIPTION_NEW) : write_all(fd, text, len, err);
	if (r == 0 && (fsync(fd) < 0 || renameat(folder, DESCRIPTION_NEW, folder, DESCRIPTION) < 0 || fsync(folder) < 0))
		r = err_errno(err, "cannot write '%s'", DESCRIPTION);
	return r < 0 ? err_wrap(err, "the volume '%s'", volume->name) : 0;
}

static int
order_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int
volume_list(const struct volumes *v, char ***ret_names, struct err *err)
{
	OWN(closedirp) DIR *dir = tree_list(v->names);
	OWN(strv_freep) char **names = calloc(VOLUMES_MAX + 1, sizeof(*names));
	struct dirent *d;
	size_t n = 0;

	if (dir == NULL || names == NULL)
		return err_errno(err, "cannot list '%s/names'", v->path);
	while (n < VOLUMES_MAX && (d = readdir(dir)) != NULL) {
		if (!volume_name_ok(d->d_name))
			continue;
		names[n] = strdup(d->d_name);
		if (names[n++] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	qsort(names, n, sizeof(*names), order_names);
	*ret_names = TAKE(names);
	return 0;
}

const struct volume_snapshot *
volume_find_snapshot(const struct volume *volume, const char *label)
{
	for (size_t i = 0; i < volume->n_snapshots; i++)
		if (strcmp(volume->snapshots[i].label, label) == 0)
			return &volume->snapshots[i];
	return NULL;
}

int
volume_measure(const struct volumes *v, const char *id, uint64_t *ret_bytes, uint64_t *ret_entries, struct err *err)
{
	OWN(freep) char *path = str_format("%s/" VOLUME_SIZE, id), *text = NULL;
	int r = path == NULL ? err_set(err, ENOMEM, "out of memory") : read_file_at(v->trees, path, 64, &text, NULL, err);

	if (r == 0 && sscanf(text, "%" SCNu64 " %" SCNu64, ret_bytes, ret_entries) != 2)
		r = err_set(err, EBADMSG, "the tree '%s' of a volume is damaged", id);
	return r;
}

uint64_t
volume_entries_max(uint64_t size)
{
	/* One file per 4 KiB, as file systems are usually made. */
	return size / 4096 + 256;
}

bool
volume_is_over(const struct volumes *v, const struct volume *volume, uint64_t now_ms)
{
	return volume->ttl_ms != 0 && now_ms > volume->used_ms && now_ms - volume->used_ms >= volume->ttl_ms &&
	       !volume_is_used(v, volume);
}

bool
volume_is_unsettled(const struct volumes *v, const struct volume *volume)
{
	OWN(closep) int folder = volume_folder(v, volume->name, NULL);

	return folder >= 0 && faccessat(folder, VOLUME_NEW, F_OK, AT_SYMLINK_NOFOLLOW) == 0 && !volume_is_written(v, volume);
}
