/* worker_pack_join.c - joins small packs: each commit makes one, and a reader looks into all of them.
 *
 * The new pack has its name before the old ones go, so a crash leaves objects twice, and never loses one.  The caller has
 * the state's lock. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tree.h"
#include "proc/state/worker_pack.h"

#define PACKS_MAX 32
#define SMALL ((uint64_t)256 << 20)     /* larger ones stay as they are */
#define LISTED_MAX 4096

struct found {
	char name[PACK_NAME_MAX];
	uint64_t size;
};
struct packs {
	int dir;
	size_t n;
	struct found all[LISTED_MAX];
};

static int
by_size(const void *a, const void *b)
{
	uint64_t one = ((const struct found *)a)->size, other = ((const struct found *)b)->size;

	return (one > other) - (one < other);
}

static void
list(struct packs *packs)
{
	OWN(closedirp) DIR *stream = tree_list(packs->dir);
	const struct dirent *entry;
	struct stat st;

	while (stream != NULL && packs->n < LISTED_MAX && (entry = readdir(stream)) != NULL) {
		size_t len = strlen(entry->d_name);

		if (len < 10 || len >= PACK_NAME_MAX + 5 || strncmp(entry->d_name, "pack-", 5) != 0 ||
		    strcmp(entry->d_name + len - 5, ".pack") != 0 || fstatat(packs->dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    (uint64_t)st.st_size > SMALL)
			continue;
		snprintf(packs->all[packs->n].name, PACK_NAME_MAX, "%.*s", (int)(len - 5), entry->d_name);
		packs->all[packs->n++].size = (uint64_t)st.st_size;
	}
	qsort(packs->all, packs->n, sizeof(packs->all[0]), by_size);
}

/* The smaller half, and those that are no larger than all before them: so each object is written again only now and then. */
static size_t
choose(const struct packs *packs)
{
	uint64_t sum = 0;
	size_t n = 0;

	for (; n < packs->n && (n <= packs->n / 2 || packs->all[n].size <= sum); n++)
		sum += packs->all[n].size;
	return n;
}

struct joining {
	struct worker *w;
	git_odb *odb;
	struct err *err;
};

static int
take(const git_oid *id, void *arg)
{
	OWN(git_odb_object_freep) git_odb_object *object = NULL;
	const struct joining *j = arg;

	if (git_odb_read(&object, j->odb, id) < 0)
		return worker_git_error(j->err, "cannot read an object of the state");
	return worker_pack_put(j->w->pack, id, git_odb_object_data(object), git_odb_object_size(object), git_odb_object_type(object),
	                       j->err);
}

static int
take_pack(struct worker *w, const char *name, struct err *err)
{
	OWN(git_odb_freep) git_odb *odb = NULL;
	git_odb_backend *backend = NULL;
	struct joining j = { .w = w, .err = err };
	char path[sizeof(PACK_FOLDER) + PACK_NAME_MAX + 8];
	int r;

	snprintf(path, sizeof(path), PACK_FOLDER "/%s.idx", name);
	if (git_odb_new(&odb) < 0 || git_odb_backend_one_pack(&backend, path) < 0 || git_odb_add_backend(odb, backend, 1) < 0)
		return worker_git_error(err, "cannot read objects of the state");
	j.odb = odb;
	r = git_odb_foreach(odb, take, &j);
	return r == 0 ? 0 : err_set(err, EIO, "cannot read all objects of a pack");
}

/* The index first: without it, git does not look for the pack. */
static void
remove_pack(int dir, const char *name)
{
	static const char *const ends[] = { ".idx", ".pack" };
	char file[PACK_NAME_MAX + 8];

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		snprintf(file, sizeof(file), "%s%s", name, ends[i]);
		(void)unlinkat(dir, file, 0);
	}
}

static int
join(struct worker *w, const struct packs *packs, size_t n, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = take_pack(w, packs->all[i].name, err);
	r = r == 0 ? worker_pack_keep(w, err) : r;
	/* If one had all objects of the others, it has the name of the new one. */
	for (size_t i = 0; r == 0 && i < n; i++)
		if (strcmp(packs->all[i].name, w->pack->kept) != 0)
			remove_pack(packs->dir, packs->all[i].name);
	return r;
}

void
worker_pack_join(struct worker *w)
{
	OWN(closep) int dir = open(PACK_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(freep) struct packs *packs = dir < 0 ? NULL : calloc(1, sizeof(*packs));
	struct err err = {0};

	if (packs == NULL)
		return;
	packs->dir = dir;
	list(packs);
	if (packs->n <= PACKS_MAX)
		return;
	if (join(w, packs, choose(packs), &err) < 0)
		worker_pack_drop(w);
}
