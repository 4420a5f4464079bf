/* volume_change.c - makes, copies, restores and removes volumes: each change is one rename of a description or a folder. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/since.h"
#include "volume/volume_parts.h"

#define PAGE 4096

static int
no_snapshot(const char *name, const char *label, struct err *err)
{
	return err_set(err, ENOENT, "the volume '%s' has no snapshot '%s': see `cloister volume show %s`", name, label, name);
}

/* The description of NAME, and with LABEL the tree of that snapshot. */
static int
load_at(const struct volumes *v, const char *name, const char *label, struct volume *ret_volume, struct err *err)
{
	const struct volume_snapshot *s;
	int r = volume_load(v, name, ret_volume, err);

	if (r < 0 || label[0] == '\0')
		return r;
	s = volume_find_snapshot(ret_volume, label);
	if (s == NULL)
		return no_snapshot(name, label, err);
	memmove(ret_volume->tree, s->tree, sizeof(ret_volume->tree));
	return 0;
}

/* The folder appears with its description, by one rename. */
static int
put_new(const struct volumes *v, const struct volume *volume, struct err *err)
{
	char part[VOLUME_PART_MAX];
	struct volume as_part = *volume;
	struct stat st;
	int r;

	if (fstatat(v->names, volume->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, EEXIST, "there is a volume '%s' already: remove it first, or choose another name", volume->name);
	snprintf(part, sizeof(part), VOLUME_PART "%s", volume->id);
	if (mkdirat(v->names, part, 0700) < 0)
		return err_errno(err, "cannot make the volume '%s'", volume->name);
	snprintf(as_part.name, sizeof(as_part.name), "%s", part);
	r = volume_save(v, &as_part, err);
	if (r == 0 && renameat2(v->names, part, v->names, volume->name, RENAME_NOREPLACE) < 0)
		r = err_errno(err, "cannot make the volume '%s'", volume->name);
	return r;
}

static int
check_room(const struct volumes *v, struct err *err)
{
	OWN(strv_freep) char **names = NULL;
	int r = volume_list(v, &names, err);

	if (r == 0 && strv_len(names) >= VOLUMES_MAX)
		r = err_set(err, E2BIG, "there are %d volumes already: remove some (see `cloister volume list`)", VOLUMES_MAX);
	return r;
}

int
volume_create(struct volumes *v, const char *name, uint64_t size, uint64_t ttl_ms, const char *tree, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closep) int lock = volume_lock(v, err);
	int r = lock < 0 ? lock : volume == NULL ? err_set(err, ENOMEM, "out of memory") : check_room(v, err);

	if (r < 0)
		return r;
	snprintf(volume->name, sizeof(volume->name), "%s", name);
	volume->size = size;
	volume->ttl_ms = ttl_ms;
	volume->made_ms = volume->used_ms = since_now_ms();
	r = volume_new_id(volume->id, err);
	if (r == 0 && tree == NULL)
		r = volume_make_tree(v, -1, -1, 1, volume->tree, err);
	else if (r == 0)
		snprintf(volume->tree, sizeof(volume->tree), "%s", tree);
	return r == 0 ? put_new(v, volume, err) : r;
}

int
volume_clone(struct volumes *v, const char *name, const char *label, const char *new, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closep) int lock = volume_lock(v, err);
	int r = lock < 0 ? lock : volume == NULL ? err_set(err, ENOMEM, "out of memory") : check_room(v, err);

	r = r == 0 ? load_at(v, name, label, volume, err) : r;
	r = r == 0 ? volume_new_id(volume->id, err) : r;
	if (r < 0)
		return r;
	snprintf(volume->name, sizeof(volume->name), "%s", new);
	volume->n_snapshots = 0;
	volume->made_ms = volume->used_ms = since_now_ms();
	return put_new(v, volume, err);
}

/* "20261119-204001", and a letter if there is one of that second. */
static void
make_label(const struct volume *volume, uint64_t now_ms, char ret_label[VOLUME_NAME_MAX + 1])
{
	time_t now = (time_t)(now_ms / 1000);
	struct tm tm;
	size_t len;

	gmtime_r(&now, &tm);
	len = strftime(ret_label, VOLUME_NAME_MAX, "%Y%m%d-%H%M%S", &tm);
	for (int i = 0; volume_find_snapshot(volume, ret_label) != NULL; i++)
		snprintf(ret_label + len, VOLUME_NAME_MAX + 1 - len, "-%d", i + 2);
}

int
volume_snapshot(struct volumes *v, const char *name, const char *label, char ret_label[VOLUME_NAME_MAX + 1],
                struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closep) int lock = volume_lock(v, err);
	int r = lock < 0 ? lock : volume == NULL ? err_set(err, ENOMEM, "out of memory") : volume_load(v, name, volume, err);
	struct volume_snapshot *s;

	if (r < 0)
		return r;
	if (volume->n_snapshots == VOLUME_SNAPSHOTS_MAX)
		return err_set(err, E2BIG, "the volume '%s' has %d snapshots already: remove some with `cloister volume remove "
		               "%s@LABEL`", name, VOLUME_SNAPSHOTS_MAX, name);
	if (volume_find_snapshot(volume, label) != NULL)
		return err_set(err, EEXIST, "the volume '%s' has a snapshot '%s' already: choose another label", name, label);
	s = &volume->snapshots[volume->n_snapshots];
	s->made_ms = since_now_ms();
	if (label[0] == '\0')
		make_label(volume, s->made_ms, s->label);
	else
		snprintf(s->label, sizeof(s->label), "%s", label);
	snprintf(s->tree, sizeof(s->tree), "%s", volume->tree);
	snprintf(ret_label, VOLUME_NAME_MAX + 1, "%s", s->label);
	volume->n_snapshots++;
	return volume_save(v, volume, err);
}

int
volume_restore(struct volumes *v, const char *name, const char *label, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closep) int lock = volume_lock(v, err);
	int r = lock < 0 ? lock : volume == NULL ? err_set(err, ENOMEM, "out of memory") : load_at(v, name, label, volume, err);

	if (r == 0 && volume_is_written(v, volume))
		r = err_set(err, EBUSY, "a cell writes to the volume '%s': wait until it has ended (see `cloister ps`)", name);
	if (r < 0)
		return r;
	volume->used_ms = since_now_ms();
	return volume_save(v, volume, err);
}

int
volume_remove_snapshot(struct volumes *v, const char *name, const char *label, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closep) int lock = volume_lock(v, err);
	int r = lock < 0 ? lock : volume == NULL ? err_set(err, ENOMEM, "out of memory") : volume_load(v, name, volume, err);
	size_t i = 0;

	if (r < 0)
		return r;
	while (i < volume->n_snapshots && strcmp(volume->snapshots[i].label, label) != 0)
		i++;
	if (i == volume->n_snapshots)
		return no_snapshot(name, label, err);
	memmove(&volume->snapshots[i], &volume->snapshots[i + 1], (volume->n_snapshots - i - 1) * sizeof(volume->snapshots[0]));
	volume->n_snapshots--;
	return volume_save(v, volume, err);
}

int
volume_remove(struct volumes *v, const char *name, bool over, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closep) int lock = volume_lock(v, err);
	struct err why = {0};
	int r = lock < 0 ? lock : volume == NULL ? err_set(err, ENOMEM, "out of memory") : volume_load(v, name, volume, &why);

	/* A damaged one can be removed, too. */
	if (r < 0 && r != -EBADMSG)
		return why.code != 0 ? err_set(err, why.code, "%s", why.text) : r;
	if (over && (r < 0 || !volume_is_over(v, volume, since_now_ms())))
		return -EAGAIN;
	if (r == 0 && volume_is_used(v, volume))
		return err_set(err, EBUSY, "a cell uses the volume '%s': wait until it has ended (see `cloister ps`)", name);
	return volume_put_aside(v, v->names, name, err);
}

/* ---- cells ---- */

void
volume_use_free(struct volume_use *use)
{
	free(use->tree);
	free(use->out);
	*use = (struct volume_use){0};
}

static int
take_writer(const struct volumes *v, const struct volume *volume, struct volume_use *use, struct err *err)
{
	OWN(closep) int folder = volume_folder(v, volume->name, err);
	uint64_t bytes = 0, entries = 0;
	int r = folder < 0 ? folder : volume_hold(v, VOLUME_WRITER, volume->id, true, err);

	if (r == -EBUSY)
		return err_set(err, EBUSY, "another cell writes to the volume '%s': wait until it has ended (see `cloister ps`), or "
		               "mount it with :ro", volume->name);
	r = r == 0 ? volume_measure(v, volume->tree, &bytes, &entries, err) : r;
	if (r < 0)
		return r;
	if (mkdirat(folder, VOLUME_NEW, 0700) < 0)
		return errno == EEXIST ? -EAGAIN : err_errno(err, "cannot make room for the changes of the volume '%s'", volume->name);
	/* Whole pages: the kernel would round it up. */
	use->size = bytes < volume->size ? (volume->size - bytes) / PAGE * PAGE : 0;
	/* On a tmpfs, the mark that an older file is gone takes an entry, too. */
	use->entries = volume_entries_max(volume->size);
	use->out = str_format("%s/names/%s/" VOLUME_NEW, v->path, volume->name);
	return use->out == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
volume_take(struct volumes *v, const char *name, const char *label, bool writes, struct volume_use *ret_use,
            struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume)), *at = calloc(1, sizeof(*volume));
	OWN(volume_use_free) struct volume_use use = {0};
	OWN(closep) int lock = volume_lock(v, err);
	int r = lock < 0 ? lock : volume == NULL || at == NULL ? err_set(err, ENOMEM, "out of memory") :
	        volume_load(v, name, volume, err);

	r = r == 0 ? load_at(v, name, label, at, err) : r;
	if (r < 0)
		return r;
	if (volume_is_over(v, volume, since_now_ms()))
		return err_set(err, ENOENT, "the time to live of the volume '%s' is over: `cloister volume prune` removes it, and "
		               "`cloister volume create %s` makes a new one", name, name);
	r = volume_hold(v, VOLUME_TREE, at->tree, false, err);
	r = r == 0 ? volume_hold(v, VOLUME_USERS, volume->id, false, err) : r;
	if (r == -EBUSY)
		r = err_set(err, EBUSY, "the volume '%s' is being removed: try again", name);
	r = r == 0 && writes ? take_writer(v, volume, &use, err) : r;
	if (r < 0)
		return r;
	use.tree = str_format("%s/trees/%s/" VOLUME_FILES, v->path, at->tree);
	if (use.tree == NULL)
		return err_set(err, ENOMEM, "out of memory");
	volume->used_ms = since_now_ms();
	r = volume_save(v, volume, err);
	if (r == 0) {
		*ret_use = use;
		use = (struct volume_use){0};
	}
	return r;
}
