/* worker_list.c - walks the files of a commit, and computes the SHA-256 of their listing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "proc/state/state_proc.h"

/* What is in a state never passes these, but other repositories may. */
#define ENTRIES_MAX 4000000
#define DEPTH_MAX 256
#define PATH_MAX_HERE (STATE_PATH_MAX + 256)

struct walking {
	struct worker *w;
	git_repository *repo;
	git_odb *odb;
	int (*note)(void *arg, const struct listed *file, struct err *err);
	void *arg;
	uint64_t files, bytes, entries;
	char path[PATH_MAX_HERE];
};

static int walk_tree(struct walking *g, const git_tree *tree, size_t len, unsigned depth, struct err *err);

static int
walk_file(struct walking *g, const git_tree_entry *entry, struct err *err)
{
	struct listed file = { .path = g->path, .mode = git_tree_entry_filemode_raw(entry), .id = git_tree_entry_id(entry) };
	git_object_t type = GIT_OBJECT_ANY;
	size_t size = 0;

	if (file.mode != GIT_FILEMODE_COMMIT && git_odb_read_header(&size, &type, g->odb, file.id) < 0)
		return worker_git_error(err, "cannot read a file of the commit");
	if (file.mode != GIT_FILEMODE_COMMIT && type != GIT_OBJECT_BLOB)
		return err_set(err, EBADMSG, "the commit has something for a file that is none");
	file.size = size;
	g->files++;
	g->bytes += size;
	return g->note(g->arg, &file, err);
}

static int
walk_entry(struct walking *g, const git_tree_entry *entry, size_t len, unsigned depth, struct err *err)
{
	const char *name = git_tree_entry_name(entry);
	OWN(git_tree_freep) git_tree *sub = NULL;
	size_t n = strlen(name), at = len + (len > 0);

	if (++g->entries > ENTRIES_MAX || depth > DEPTH_MAX || at + n + 1 > sizeof(g->path))
		return err_set(err, E2BIG, "the commit has too many files, or too long paths");
	if (len > 0)
		g->path[len] = '/';
	memcpy(g->path + at, name, n + 1);
	if (git_tree_entry_type(entry) != GIT_OBJECT_TREE)
		return walk_file(g, entry, err);
	if (git_tree_lookup(&sub, g->repo, git_tree_entry_id(entry)) < 0)
		return worker_git_error(err, "cannot read a folder of the commit");
	return walk_tree(g, sub, at + n, depth + 1, err);
}

static int
walk_tree(struct walking *g, const git_tree *tree, size_t len, unsigned depth, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < git_tree_entrycount(tree); i++)
		r = walk_entry(g, git_tree_entry_byindex(tree, i), len, depth, err);
	return r;
}

int
worker_walk(struct worker *w, git_repository *repo, const git_oid *tree,
            int (*note)(void *arg, const struct listed *file, struct err *err), void *arg, uint64_t *ret_files,
            uint64_t *ret_bytes, struct err *err)
{
	OWN(git_odb_freep) git_odb *odb = NULL;
	OWN(git_tree_freep) git_tree *top = NULL;
	struct walking g = { .w = w, .repo = repo, .note = note, .arg = arg };
	int r;

	if (git_repository_odb(&odb, repo) < 0 || git_tree_lookup(&top, repo, tree) < 0)
		return worker_git_error(err, "cannot read the files of a commit");
	g.odb = odb;
	r = walk_tree(&g, top, 0, 0, err);
	if (r == 0 && ret_files != NULL)
		*ret_files = g.files;
	if (r == 0 && ret_bytes != NULL)
		*ret_bytes = g.bytes;
	return r;
}

/* ---- the sum ---- */

struct summing {
	struct worker *w;
	struct hash hash;
	uint64_t files;
};

static int
sum_file(void *arg, const struct listed *file, struct err *err)
{
	OWN(git_odb_object_freep) git_odb_object *object = NULL;
	struct summing *s = arg;
	unsigned char digest[HASH_LEN];
	char line[16 + HASH_HEX + 2];
	int n;

	if (!worker_pack_sum(s->w, file->id, digest)) {
		if (git_odb_read(&object, s->w->odb, file->id) < 0)
			return worker_git_error(err, "cannot read a file of the commit");
		hash_of(git_odb_object_data(object), git_odb_object_size(object), digest);
	}
	n = snprintf(line, sizeof(line), "%06o ", (unsigned)file->mode);
	codec_hex(digest, HASH_LEN, line + n);
	hash_add(&s->hash, line, strlen(line));
	hash_add(&s->hash, " ", 1);
	hash_add(&s->hash, file->path, strlen(file->path) + 1);
	return worker_step(s->w, ++s->files, 0, err);
}

int
worker_sum(struct worker *w, const git_oid *tree, char ret_sum[STATE_SUM + 1], uint64_t *ret_files, uint64_t *ret_bytes,
           struct err *err)
{
	unsigned char digest[HASH_LEN];
	struct summing s = { .w = w };
	int r;

	hash_begin(&s.hash);
	r = worker_walk(w, w->repo, tree, sum_file, &s, ret_files, ret_bytes, err);
	hash_end(&s.hash, digest);
	codec_hex(digest, HASH_LEN, ret_sum);
	return r;
}
