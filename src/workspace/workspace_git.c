/* workspace_git.c - summarises changes to git directories.
 *
 * Names show which files are git's own, and refs are read as plain text.  Nothing else is read, and
 * git is not run: an agent wrote these files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "workspace/git_refs.h"
#include "workspace/workspace_tree.h"

#define PACKED_MAX (16 << 20)
#define LOG_MAX (1 << 20)

/* One git directory. */
struct work {
	struct workspace_git sum;
	struct git_packed old, new;     /* NEW only if REPACKED */
	bool bad_old, bad_new;          /* cannot be read: its refs are not known */
	bool repacked;
	size_t cap;                     /* of the sum's refs */
};

struct works {
	const struct workspace *ws;
	struct work *list;
	size_t n;
};

static int
out_of_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* ---- names ---------------------------------------------------------------------- */

enum part { PART_UNKNOWN, PART_OBJECT, PART_PACK, PART_REF, PART_PACKED, PART_OTHER };

static bool
starts_with(const char *s, const char *start)
{
	return strncmp(s, start, strlen(start)) == 0;
}

static size_t
count_hex(const char *s)
{
	return strspn(s, "0123456789abcdef");
}

/* NAME is beneath "objects/". */
static enum part
part_of_objects(const char *name)
{
	static const char *const kinds[] = { "idx", "rev", "bitmap", "promisor", "mtimes" };
	size_t n;

	if (count_hex(name) == 2 && name[2] == '/') {
		n = count_hex(name + 3);
		return (n == 38 || n == 62) && name[3 + n] == '\0' ? PART_OBJECT : PART_UNKNOWN;
	}
	if (strcmp(name, "info/packs") == 0 || strcmp(name, "info/commit-graph") == 0)
		return PART_OTHER;
	if (!starts_with(name, "pack/pack-"))
		return PART_UNKNOWN;
	name += strlen("pack/pack-");
	n = count_hex(name);
	if ((n != 40 && n != 64) || name[n] != '.')
		return PART_UNKNOWN;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(name + n + 1, kinds[i]) == 0)
			return PART_OTHER;
	return strcmp(name + n + 1, "pack") == 0 ? PART_PACK : PART_UNKNOWN;
}

/* NAME is beneath a git directory.  An unknown file is shown like any other. */
static enum part
part_of(const char *name)
{
	static const char *const others[] = {
		"index", "COMMIT_EDITMSG", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG",
		"MERGE_MODE", "MERGE_RR", "AUTO_MERGE", "CHERRY_PICK_HEAD", "REVERT_HEAD",
		"REBASE_HEAD", "SQUASH_MSG", "TAG_EDITMSG", "info/refs",
	};

	if (strcmp(name, "packed-refs") == 0)
		return PART_PACKED;
	if (git_ref_is_name(name))
		return PART_REF;
	if (starts_with(name, "objects/"))
		return part_of_objects(name + strlen("objects/"));
	if (starts_with(name, "logs/"))
		return git_ref_is_name(name + strlen("logs/")) ? PART_OTHER : PART_UNKNOWN;
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strcmp(name, others[i]) == 0)
			return PART_OTHER;
	return PART_UNKNOWN;
}

static bool
is_store(const char *name)
{
	static const char *const stores[] = { "objects", "refs", "logs" };

	for (size_t i = 0; i < ARRAY_LEN(stores); i++)
		if (starts_with(name, stores[i]) && strchr("/", name[strlen(stores[i])]) != NULL)
			return true;
	return false;
}

/* Any folder may imitate a git directory to hide files.  Only one with an expected name counts. */
static bool
is_expected(const struct workspace *ws, const struct workspace_change *change)
{
	const char *path = change->path, *end = path + change->git_base, *next;
	bool in_git = ws->git_dir;

	if (!change->in_git || change->git_base == 0)
		return change->in_git && ws->git_dir;
	for (; path < end; path = next) {
		next = path + strcspn(path, "/") + 1;
		if (in_git && (starts_with(path, "modules/") || starts_with(path, "worktrees/")))
			return true;
		in_git = starts_with(path, ".git/");
	}
	return in_git;
}

/* ---- refs ----------------------------------------------------------------------- */

/* Returns 1: *ret_value is the file's content; 0: there is no file; -EINVAL: it is not a ref. */
static int
read_ref(int root, const char *path, char ret_value[GIT_REF_MAX])
{
	OWN(closep) int fd = wtree_open_file(root, path);
	char text[GIT_REF_MAX + 8];
	ssize_t n;
	struct stat st;

	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > (off_t)sizeof(text))
		return -EINVAL;
	n = read(fd, text, sizeof(text));
	return n >= 0 && git_ref_parse(text, (size_t)n, ret_value) ? 1 : -EINVAL;
}

static int
read_packed(int root, const char *path, struct git_packed *ret_packed, bool *ret_bad, struct err *err)
{
	OWN(closep) int fd = wtree_open_file(root, path);
	char *text = NULL;
	size_t len = 0;
	int r;

	if (fd == -ENOENT || fd == -ENOTDIR)
		return 0;
	r = fd < 0 ? fd : read_whole(fd, PACKED_MAX, &text, &len, NULL);
	if (r == 0)
		r = git_packed_parse(text, len, ret_packed, NULL);
	*ret_bad = r < 0;
	return r == -ENOMEM ? out_of_memory(err) : 0;
}

static int
add_ref(struct work *w, const char *name, const char *old, const char *new, struct err *err)
{
	struct workspace_git_ref ref = {0}, *more;
	size_t cap = w->cap == 0 ? 16 : w->cap * 2;

	if (w->sum.n_refs == w->cap) {
		more = reallocarray(w->sum.refs, cap, sizeof(*more));
		if (more == NULL)
			return out_of_memory(err);
		w->sum.refs = more;
		w->cap = cap;
	}
	ref.name = strdup(name);
	ref.old = old == NULL ? NULL : strdup(old);
	ref.new = new == NULL ? NULL : strdup(new);
	w->sum.refs[w->sum.n_refs++] = ref;
	return ref.name == NULL || (old != NULL && ref.old == NULL) || (new != NULL && ref.new == NULL) ?
	       out_of_memory(err) : 0;
}

/* -EINVAL: the ref's new or old value cannot be read. */
static int
take_ref(struct works *all, struct work *w, const struct workspace_change *change, struct err *err)
{
	const char *name = change->path + change->git_base, *was, *is;
	const struct git_packed *packed = w->repacked ? &w->new : &w->old;
	char old[GIT_REF_MAX], new[GIT_REF_MAX];
	int a = S_ISREG(change->old_mode) ? read_ref(all->ws->real, change->path, old) : 0;
	int b = S_ISREG(change->mode) ? read_ref(all->ws->changes, change->path, new) : 0;

	if (a < 0 || b < 0 || (a == 0 && w->bad_old) || (b == 0 && (w->repacked ? w->bad_new : w->bad_old)))
		return -EINVAL;
	was = a == 1 ? old : git_packed_find(&w->old, name);
	is = b == 1 ? new : git_packed_find(packed, name);
	return add_ref(w, name, was, is, err);
}

static int
order_refs(const void *a, const void *b)
{
	return strcmp(((const struct workspace_git_ref *)a)->name,
	              ((const struct workspace_git_ref *)b)->name);
}

static void
sort_refs(struct workspace_git *sum)
{
	if (sum->n_refs > 0)
		qsort(sum->refs, sum->n_refs, sizeof(*sum->refs), order_refs);
}

/* A ref that is only in packed-refs.  N_OWN: how many of the sorted refs have files that changed. */
static int
take_packed(struct works *all, struct work *w, size_t n_own, const char *name, const char *old,
            const char *new, struct err *err)
{
	const struct workspace_git_ref key = { .name = (char *)(uintptr_t)name };
	OWN(freep) char *path = str_format("%s%s", w->sum.path, name);
	char value[GIT_REF_MAX];

	if (path == NULL)
		return out_of_memory(err);
	if (n_own > 0 && bsearch(&key, w->sum.refs, n_own, sizeof(key), order_refs) != NULL)
		return 0;
	/* A ref's own file takes precedence. */
	return read_ref(all->ws->real, path, value) == 1 ? 0 : add_ref(w, name, old, new, err);
}

static int
compare_packed(struct works *all, struct work *w, struct err *err)
{
	size_t i = 0, j = 0, n_own = w->sum.n_refs;
	int r = 0;

	while (r == 0 && (i < w->old.n || j < w->new.n)) {
		const struct git_packed_ref *a = i < w->old.n ? &w->old.refs[i] : NULL;
		const struct git_packed_ref *b = j < w->new.n ? &w->new.refs[j] : NULL;
		int order = a == NULL ? 1 : b == NULL ? -1 : strcmp(a->name, b->name);

		i += order <= 0;
		j += order >= 0;
		if (order != 0 || strcmp(a->id, b->id) != 0)
			r = take_packed(all, w, n_own, order <= 0 ? a->name : b->name,
			                order <= 0 ? a->id : NULL, order >= 0 ? b->id : NULL, err);
	}
	return r;
}

static bool
is_same(const struct workspace_git_ref *ref)
{
	return ref->old == NULL || ref->new == NULL ? ref->old == ref->new :
	       strcmp(ref->old, ref->new) == 0;
}

static void
free_ref(struct workspace_git_ref *ref)
{
	free(ref->name);
	free(ref->old);
	free(ref->new);
}

static void
drop_unmoved(struct workspace_git *sum)
{
	size_t kept = 0;

	for (size_t i = 0; i < sum->n_refs; i++) {
		if (is_same(&sum->refs[i]))
			free_ref(&sum->refs[i]);
		else
			sum->refs[kept++] = sum->refs[i];
	}
	sum->n_refs = kept;
}

static bool
is_id(const char *value)
{
	return value == NULL || count_hex(value) == strlen(value);
}

static void
count_steps(const struct workspace *ws, const struct workspace_git *sum, struct workspace_git_ref *ref)
{
	OWN(freep) char *path = str_format("%slogs/%s", sum->path, ref->name);
	OWN(closep) int fd = path == NULL ? -1 : wtree_open_file(ws->changes, path);
	OWN(freep) char *text = NULL;
	size_t len = 0;

	if (fd >= 0 && ref->new != NULL && is_id(ref->old) && is_id(ref->new) &&
	    read_whole(fd, LOG_MAX, &text, &len, NULL) == 0)
		ref->steps = git_log_steps(text, len, ref->old, ref->new);
}

/* ---- changes -------------------------------------------------------------------- */

static int
take_file(struct works *all, struct work *w, const struct workspace_change *change, struct err *err)
{
	const char *name = change->path + change->git_base;

	switch (part_of(name)) {
	case PART_OBJECT:
		w->sum.objects[change->kind]++;
		return 0;
	case PART_PACK:
		w->sum.packs[change->kind]++;
		return 0;
	case PART_REF:
		return take_ref(all, w, change, err);
	case PART_PACKED:
		return w->bad_old || w->bad_new ? -EINVAL : 0;
	case PART_OTHER:
		w->sum.others++;
		w->sum.index = w->sum.index || strcmp(name, "index") == 0;
		return 0;
	default:
		return -EINVAL;
	}
}

/* Take each file of a folder that was removed or replaced. */
static int
take_beneath(struct works *all, struct work *w, const struct workspace_change *folder, struct err *err)
{
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	size_t n = 0;
	int r = workspace_list_folder(all->ws->real, folder->path, &list, &n, NULL) < 0 ? -EINVAL : 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		OWN(freep) char *path = str_format("%s/%s", folder->path, list[i].path);
		const struct workspace_change gone = {
			.path = path, .kind = WORKSPACE_DELETED, .type = list[i].type,
			.old_mode = list[i].mode, .in_git = true, .git_base = folder->git_base,
		};

		if (path == NULL)
			return out_of_memory(err);
		if (!S_ISDIR(list[i].type))
			r = S_ISREG(list[i].type) ? take_file(all, w, &gone, err) : -EINVAL;
	}
	return r;
}

/* Git's own files are not executable. */
static bool
is_plain(const struct workspace_change *change)
{
	return !change->held && !change->mode_only && !S_ISLNK(change->mode) && !S_ISLNK(change->old_mode) &&
	       !(S_ISREG(change->mode) && (change->mode & 0111) != 0);
}

/* -EINVAL: the change must be shown by itself. */
static int
take_change(struct works *all, struct work *w, const struct workspace_change *change, struct err *err)
{
	int r = 0;

	if (!is_plain(change))
		return -EINVAL;
	if ((S_ISDIR(change->mode) || S_ISDIR(change->old_mode)) &&
	    !is_store(change->path + change->git_base))
		return -EINVAL;
	if (S_ISDIR(change->old_mode) && !S_ISDIR(change->mode))
		r = take_beneath(all, w, change, err);
	if (r == 0 && (S_ISREG(change->mode) || S_ISREG(change->old_mode)))
		r = take_file(all, w, change, err);
	return r;
}

/* ---- all directories -------------------------------------------------------------- */

static void
free_sum(struct workspace_git *sum)
{
	for (size_t i = 0; i < sum->n_refs; i++)
		free_ref(&sum->refs[i]);
	free(sum->refs);
	free(sum->path);
}

static void
works_free(struct works *all)
{
	for (size_t i = 0; i < all->n; i++) {
		git_packed_free(&all->list[i].old);
		git_packed_free(&all->list[i].new);
		free_sum(&all->list[i].sum);
	}
	free(all->list);
}

void
workspace_git_free(struct workspace_git *sums, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free_sum(&sums[i]);
	free(sums);
}

/* The git directory around CHANGE; NULL if it is not summed. */
static struct work *
find_work(const struct works *all, const struct workspace_change *change)
{
	if (!is_expected(all->ws, change))
		return NULL;
	for (size_t i = 0; i < all->n; i++)
		if (strlen(all->list[i].sum.path) == change->git_base &&
		    memcmp(all->list[i].sum.path, change->path, change->git_base) == 0)
			return &all->list[i];
	return NULL;
}

static int
add_work(struct works *all, const struct workspace_change *change, struct err *err)
{
	struct work *w = &all->list[all->n];
	OWN(freep) char *packed = NULL;

	w->sum.path = strndup(change->path, change->git_base);
	all->n++;
	packed = w->sum.path == NULL ? NULL : str_format("%spacked-refs", w->sum.path);
	return packed == NULL ? out_of_memory(err) :
	       read_packed(all->ws->real, packed, &w->old, &w->bad_old, err);
}

static int
find_works(struct works *all, const struct workspace_change *list, size_t n, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		const struct workspace_change *c = &list[i];
		struct work *w = find_work(all, c);

		if (w == NULL && is_expected(all->ws, c) && all->n < WORKSPACE_GIT_DIRS_MAX) {
			r = add_work(all, c, err);
			w = &all->list[all->n - 1];
		}
		if (r < 0 || w == NULL || strcmp(c->path + c->git_base, "packed-refs") != 0 || !is_plain(c))
			continue;
		w->repacked = true;
		if (c->kind != WORKSPACE_DELETED)
			r = read_packed(all->ws->changes, c->path, &w->new, &w->bad_new, err);
	}
	return r;
}

static int
finish(struct works *all, struct work *w, struct err *err)
{
	int r = 0;

	sort_refs(&w->sum);
	if (w->repacked && !w->bad_old && !w->bad_new)
		r = compare_packed(all, w, err);
	drop_unmoved(&w->sum);
	sort_refs(&w->sum);
	for (size_t i = 0; i < w->sum.n_refs && i < WORKSPACE_GIT_STEPS_MAX; i++)
		count_steps(all->ws, &w->sum, &w->sum.refs[i]);
	return r;
}

int
workspace_git_sum(const struct workspace *ws, struct workspace_change *list, size_t n,
                  struct workspace_git **ret_sums, size_t *ret_n, struct err *err)
{
	OWN(works_free) struct works all = { .ws = ws };
	OWN(freep) struct workspace_git *sums = calloc(WORKSPACE_GIT_DIRS_MAX, sizeof(*sums));
	int r;

	all.list = calloc(WORKSPACE_GIT_DIRS_MAX, sizeof(*all.list));
	if (sums == NULL || all.list == NULL)
		return out_of_memory(err);
	r = find_works(&all, list, n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct work *w = find_work(&all, &list[i]);

		r = w == NULL ? -EINVAL : take_change(&all, w, &list[i], err);
		list[i].summed = r == 0 ? (size_t)(w - all.list) + 1 : 0;
		if (r == -EINVAL)
			r = 0;
	}
	for (size_t i = 0; r == 0 && i < all.n; i++)
		r = finish(&all, &all.list[i], err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++) {
		sums[i] = all.list[i].sum;
		all.list[i].sum = (struct workspace_git){0};
	}
	*ret_n = all.n;
	*ret_sums = TAKE(sums);
	return 0;
}
