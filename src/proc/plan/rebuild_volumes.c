/* rebuild_volumes.c - makes the volumes of a plan, with their snapshots. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/own.h"
#include "proc/plan/plan_proc.h"

#define KIND "volume"

static int
note_change(const char *type, const char *name, const char *label, struct err *err)
{
	struct audit_member members[] = { { .name = "volume", .text = name }, { .name = "label", .text = label } };

	return operator_note(type, members, label != NULL ? 2 : 1, err);
}

/* The files of a volume, or of its snapshot; "": there is none. */
static int
hash_at(struct volumes *v, const char *name, const char *label, char ret_hash[HASH_HEX + 1], struct err *err)
{
	OWN(closep) int fd = volume_open_files(v, name, label, err);

	ret_hash[0] = '\0';
	return fd == -ENOENT ? 0 : fd < 0 ? fd : plan_keep_tree(fd, true, -1, ret_hash, err);
}

static int
is_at(struct volumes *v, const char *name, const char *label, const char *files, bool *ret_same, struct err *err)
{
	char hash[HASH_HEX + 1];
	int r = hash_at(v, name, label, hash, err);

	*ret_same = r == 0 && strcmp(hash, files) == 0;
	return r;
}

static int
compare(struct volumes *v, const struct plan_volume *p, bool *ret_same, struct err *err)
{
	int r = is_at(v, p->name, "", p->files, ret_same, err);

	for (size_t i = 0; r == 0 && *ret_same && i < p->n_snapshots; i++)
		r = is_at(v, p->name, p->snapshots[i].label, p->snapshots[i].files, ret_same, err);
	return r;
}

static int
fill(struct rebuild *b, struct volumes *v, const char *name, const char *files, struct err *err)
{
	OWN(closep) int folder = -1;
	bool same;
	int r = is_at(v, name, "", files, &same, err);

	if (r < 0 || same)
		return r;
	folder = rebuild_make_folder(b, err);
	r = folder < 0 ? folder : plan_make_tree(b->data, files, folder, err);
	r = r == 0 ? volume_fill(v, name, folder, err) : r;
	r = r == 0 ? is_at(v, name, "", files, &same, err) : r;
	if (r == 0 && !same)
		r = err_set(err, EBADMSG, "its files are not what the plan says");
	return r == 0 ? note_change("volume.changed", name, NULL, err) : r;
}

static int
make_snapshot(struct rebuild *b, struct volumes *v, const char *name, const struct plan_snapshot *s, struct err *err)
{
	char hash[HASH_HEX + 1], label[VOLUME_NAME_MAX + 1];
	int r = hash_at(v, name, s->label, hash, err);

	if (r < 0 || strcmp(hash, s->files) == 0)
		return r;
	r = hash[0] != '\0' ? volume_remove_snapshot(v, name, s->label, err) : 0;
	r = r == 0 ? fill(b, v, name, s->files, err) : r;
	r = r == 0 ? volume_snapshot(v, name, s->label, label, err) : r;
	return r == 0 ? note_change("volume.snapshot", name, s->label, err) : r;
}

static int
make(struct rebuild *b, struct volumes *v, const struct plan_volume *p, bool exists, struct err *err)
{
	struct volume_swept swept;
	int r = rebuild_begin(b, KIND, p->name, err);

	if (r == 0 && !exists) {
		r = volume_create(v, p->name, p->size, p->ttl_ms, NULL, err);
		r = r == 0 ? note_change("volume.created", p->name, NULL, err) : r;
	}
	for (size_t i = 0; r == 0 && i < p->n_snapshots; i++)
		r = make_snapshot(b, v, p->name, &p->snapshots[i], err);
	r = r == 0 ? fill(b, v, p->name, p->files, err) : r;
	rebuild_drop_folder(b);
	(void)volume_sweep(v, &swept, NULL);
	return r == 0 ? rebuild_end(b, KIND, p->name, err) : r;
}

static bool
has_files(const struct rebuild *b, const char *files)
{
	return b->data >= 0 && faccessat(b->data, files, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool
has_data(const struct rebuild *b, const struct plan_volume *p)
{
	for (size_t i = 0; i < p->n_snapshots; i++)
		if (!has_files(b, p->snapshots[i].files))
			return false;
	return has_files(b, p->files);
}

/* V: NULL if there are no volumes, in a dry run. */
static int
rebuild_volume(struct rebuild *b, struct volumes *v, const struct plan_volume *p, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	const bool may = rebuild_may_change(b, KIND, p->name);
	bool same = false, exists;
	struct err why = {0};
	int r = volume == NULL ? err_set(err, ENOMEM, "out of memory") : v == NULL ? -ENOENT : volume_load(v, p->name, volume, &why);

	exists = r == 0;
	r = r == 0 ? compare(v, p, &same, &why) : r;
	if (r < 0 && r != -ENOENT)
		return rebuild_note(b, KIND, p->name, ITEM_FAILED, why.text, err);
	if (same) {
		r = b->dry ? 0 : rebuild_end(b, KIND, p->name, err);
		return r < 0 ? r : rebuild_note(b, KIND, p->name, ITEM_SAME, NULL, err);
	}
	if (exists && !may)
		return rebuild_note(b, KIND, p->name, ITEM_DIFFERS, "--replace gives it the plan's files and snapshots", err);
	if (!has_data(b, p))
		return rebuild_note(b, KIND, p->name, ITEM_MISSING, "its files are not in the plan: export it with --with-data", err);
	if (b->dry)
		return rebuild_note(b, KIND, p->name, exists ? ITEM_DIFFERS : ITEM_ABSENT, NULL, err);
	r = make(b, v, p, exists, &why);
	return rebuild_note(b, KIND, p->name, r < 0 ? ITEM_FAILED : exists && b->replace ? ITEM_REPLACED : ITEM_MADE,
	                    r < 0 ? why.text : NULL, err);
}

int
rebuild_volumes(struct rebuild *b, struct err *err)
{
	char *words[] = { (char[]){ "volume" }, (char[]){ "list" }, NULL };
	OWN(volumes_close) struct volumes v = { .top = -1 };
	int r = b->plan.n_volumes == 0 ? -ENOENT : volumes_open(!b->dry, &v, err);

	if (b->plan.n_volumes == 0 || (r < 0 && r != -ENOENT))
		return r == -ENOENT ? 0 : r;
	if (r == 0)
		r = child_run(NULL, words, 0, NULL, NULL, err);     /* changes of cells that have ended become part of their volumes */
	for (size_t i = 0; (r == 0 || r == -ENOENT) && i < b->plan.n_volumes; i++)
		r = rebuild_volume(b, v.top >= 0 ? &v : NULL, &b->plan.volumes[i], err);
	return r;
}
