/* volume_fill.c - opens and replaces all files of a volume at once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/since.h"
#include "volume/volume_parts.h"

int
volume_open_files(struct volumes *v, const char *name, const char *label, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closep) int lock = volume_lock(v, err);
	const struct volume_snapshot *s;
	const char *tree;
	int r = lock < 0 ? lock : volume == NULL ? err_set(err, ENOMEM, "out of memory") : volume_load(v, name, volume, err);

	if (r < 0)
		return r;
	s = label[0] == '\0' ? NULL : volume_find_snapshot(volume, label);
	if (label[0] != '\0' && s == NULL)
		return err_set(err, ENOENT, "the volume '%s' has no snapshot '%s'", name, label);
	tree = s != NULL ? s->tree : volume->tree;
	r = volume_hold(v, VOLUME_TREE, tree, false, err);
	return r == -EBUSY ? err_set(err, EBUSY, "the volume '%s' is being removed: try again", name) :
	       r < 0 ? r : volume_open_tree(v, tree, err);
}

/* Under the lock, with the writer's lock of VOLUME. */
static int
fill(const struct volumes *v, struct volume *volume, int files, struct err *err)
{
	uint64_t bytes, entries;
	char id[VOLUME_ID + 1];
	int r = volume_make_tree(v, -1, files, 2 * volume_entries_max(volume->size), id, err);

	r = r == 0 ? volume_measure(v, id, &bytes, &entries, err) : r;
	if (r == 0 && bytes > volume->size)
		r = err_set(err, EFBIG, "the files are larger than the volume '%s' may be", volume->name);
	if (r < 0)
		return r;
	memcpy(volume->tree, id, sizeof(id));
	volume->used_ms = since_now_ms();
	return volume_save(v, volume, err);
}

int
volume_fill(struct volumes *v, const char *name, int files, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closep) int lock = volume_lock(v, err);
	int r = lock < 0 ? lock : volume == NULL ? err_set(err, ENOMEM, "out of memory") : volume_load(v, name, volume, err);

	r = r == 0 ? volume_hold(v, VOLUME_WRITER, volume->id, true, err) : r;
	if (r == -EBUSY)
		return err_set(err, EBUSY, "a cell writes to the volume '%s': stop it first", name);
	if (r < 0)
		return r;
	r = fill(v, volume, files, err);
	volume_release(v, VOLUME_WRITER, volume->id);
	return r;
}
