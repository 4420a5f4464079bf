/* layer_copy.c - COPY, ADD and WORKDIR as a layer: files of the build context, or of another image.
 *
 * The targets are resolved in the image, link by link, as its own programs would resolve them: a file that is copied
 * to /bin goes where the link /bin leads.  Folders above a target are in the layer too, as they were, because a layer
 * decides on the mode of each folder in it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/tree.h"
#include "image/ignore.h"
#include "proc/layer/layer.h"

/* One entry of the layer to be. */
struct item {
	char *to;                       /* relative */
	char *from;                     /* in the source; NULL: a folder without one */
	mode_t mode;
	uint32_t uid, gid;
	int64_t mtime;
	bool weak;                      /* a folder on the way: another entry for it wins */
	size_t number;
};

struct copy {
	struct layer *layer;
	struct layered lower, source;
	struct ignore ignore;
	const char *to;
	bool literal, owners, has_owner, has_mode, raw;
	uint32_t uid, gid;
	mode_t mode;
	struct item *items;
	size_t n_items;
	size_t n_found;                 /* files that a pattern matched */
	unsigned n_paths;
};

static void
copy_free(struct copy *c)
{
	for (size_t i = 0; i < c->n_items; i++) {
		free(c->items[i].to);
		free(c->items[i].from);
	}
	free(c->items);
	ignore_free(&c->ignore);
	for (size_t i = 0; i < c->lower.n; i++)
		close(c->lower.folders[i]);
	for (size_t i = 0; i < c->source.n; i++)
		close(c->source.folders[i]);
}

/* ---- entries ---- */

static int
add(struct copy *c, const char *to, const char *from, const struct item *like, struct err *err)
{
	struct item *more;

	if (c->n_items >= LAYER_ENTRIES_MAX)
		return err_set(err, E2BIG, "a layer cannot have over %d files", LAYER_ENTRIES_MAX);
	/* Powers of two. */
	more = (c->n_items & (c->n_items - 1)) != 0 ? c->items :
	       reallocarray(c->items, c->n_items == 0 ? 1 : 2 * c->n_items, sizeof(*more));
	if (more == NULL)
		return err_set(err, ENOMEM, "out of memory");
	c->items = more;
	more[c->n_items] = *like;
	more[c->n_items].to = strdup(to);
	more[c->n_items].from = from == NULL ? NULL : strdup(from);
	more[c->n_items].number = c->n_items;
	if (more[c->n_items].to == NULL || (from != NULL && more[c->n_items].from == NULL)) {
		free(more[c->n_items].to);
		return err_set(err, ENOMEM, "out of memory");
	}
	c->n_items++;
	return 0;
}

/* As it is in the image; the numbers of owners are lost in an ordinary user's store. */
static struct item
like_existing(const struct copy *c, const struct stat *st)
{
	return (struct item){ .mode = st->st_mode, .uid = c->owners ? st->st_uid : 0, .gid = c->owners ? st->st_gid : 0,
		.mtime = layer_time(c->layer, st) };
}

static struct item
like_source(const struct copy *c, const struct stat *st)
{
	const bool owners = !c->source.plain && c->owners;
	struct item i = { .mode = st->st_mode, .uid = owners ? st->st_uid : 0, .gid = owners ? st->st_gid : 0,
		.mtime = c->source.plain ? c->layer->epoch : layer_time(c->layer, st) };

	if (c->has_owner) {
		i.uid = c->uid;
		i.gid = c->gid;
	}
	if (c->has_mode && !S_ISLNK(st->st_mode))
		i.mode = (st->st_mode & S_IFMT) | c->mode;
	return i;
}

static struct item
like_new(const struct copy *c)
{
	return (struct item){ .mode = S_IFDIR | 0755, .uid = c->has_owner ? c->uid : 0, .gid = c->has_owner ? c->gid : 0,
		.mtime = c->layer->epoch };
}

/* The folders above PATH, which has no links. */
static int
add_parents(struct copy *c, const char *path, struct err *err)
{
	char part[PATH_MAX], resolved[PATH_MAX];
	int r = 0;

	for (const char *slash = path; r == 0 && (slash = strchr(slash, '/')) != NULL; slash++) {
		OWN(layered_close) struct layered_file f = LAYERED_FILE;
		struct item like = like_new(c);

		memcpy(part, path, (size_t)(slash - path));
		part[slash - path] = '\0';
		if (layered_find(&c->lower, part, false, resolved, &f) == 0)
			like = like_existing(c, &f.st);
		like.weak = true;
		r = add(c, part, NULL, &like, err);
	}
	return r;
}

static int
cannot(int r, const char *what, const char *path, struct err *err)
{
	return err_set(err, -r, "cannot %s '%s': %s", what, path, strerrordesc_np(-r));
}

/* Makes the folder PATH of the image, in RESOLVED afterwards.  If it is new, it is like NEW. */
static int
add_folder(struct copy *c, const char *path, const struct item *new, char resolved[PATH_MAX], struct err *err)
{
	OWN(layered_close) struct layered_file f = LAYERED_FILE;
	struct item like = *new;
	int r = layered_find(&c->lower, path, true, resolved, &f);

	if (r < 0 && r != -ENOENT)
		return cannot(r, "copy to", path, err);
	if (r == 0 && !S_ISDIR(f.st.st_mode))
		return cannot(-ENOTDIR, "copy to", path, err);
	if (resolved[0] == '\0')
		return 0;
	if (r == 0)
		like = like_existing(c, &f.st);
	r = add_parents(c, resolved, err);
	return r < 0 ? r : add(c, resolved, NULL, &like, err);
}

/* ---- sources ---- */

static int
join(char ret[PATH_MAX], const char *dir, const char *name, struct err *err)
{
	return (size_t)snprintf(ret, PATH_MAX, "%s%s%s", dir, dir[0] != '\0' && name[0] != '\0' ? "/" : "", name) <
	       PATH_MAX ? 0 : err_set(err, ENAMETOOLONG, "the path of '%s' is too long", name);
}

static int add_tree(struct copy *c, const struct layered_file *dir, const char *from, const char *to, int depth,
                    struct err *err);

/* FROM is left out, unless something in it is in again. */
static bool
is_left_out(const struct copy *c, const char *from, const struct stat *st)
{
	return ignore_is_out(&c->ignore, from) &&
	       (!S_ISDIR(st->st_mode) || !ignore_may_return(&c->ignore, from));
}

static int
add_entry(struct copy *c, const struct layered_file *f, const char *from, const char *to, int depth, struct err *err)
{
	const struct item like = like_source(c, &f->st);
	char resolved[PATH_MAX];
	int r;

	switch (f->st.st_mode & S_IFMT) {
	case S_IFDIR:
		r = add_folder(c, to, &like, resolved, err);
		return r < 0 ? r : add_tree(c, f, from, resolved, depth, err);
	case S_IFREG:
	case S_IFLNK:
		return add(c, to, from, &like, err);
	default:
		return 0;               /* FIFOs, sockets and devices have no place in an image */
	}
}

/* What is in the folder DIR of the source, into the folder TO. */
static int
add_tree(struct copy *c, const struct layered_file *dir, const char *from, const char *to, int depth, struct err *err)
{
	char **names, inner_from[PATH_MAX], inner_to[PATH_MAX];
	size_t n;
	int r = depth >= LAYER_DEPTH_MAX ? err_set(err, ELOOP, "the folder '%s' is too deep", from) :
	        layered_list(dir, &names, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < n; i++) {
		OWN(layered_close) struct layered_file f = LAYERED_FILE;

		r = layered_child(&c->source, dir, names[i], &f);
		if (r == -ENOENT) {
			r = 0;
			continue;
		}
		if (r < 0)
			r = cannot(r, "open", names[i], err);
		if (r == 0)
			r = join(inner_from, from, names[i], err);
		if (r == 0)
			r = join(inner_to, to, names[i], err);
		if (r == 0 && !is_left_out(c, inner_from, &f.st))
			r = add_entry(c, &f, inner_from, inner_to, depth + 1, err);
	}
	layered_free_names(names, n);
	return r;
}

static bool
is_folder_in_image(const struct copy *c, const char *path)
{
	OWN(layered_close) struct layered_file f = LAYERED_FILE;
	char resolved[PATH_MAX];

	return layered_find(&c->lower, path, true, resolved, &f) == 0 && S_ISDIR(f.st.st_mode);
}

static bool
names_folder(const char *path)
{
	const size_t len = strlen(path);

	return len == 0 || path[len - 1] == '/' || (len >= 2 && strcmp(path + len - 2, "/.") == 0);
}

/* A file: where it goes depends on the target. */
static int
add_file(struct copy *c, const struct layered_file *f, const char *word, const char *from, struct err *err)
{
	const char *slash = strrchr(word, '/'), *name = slash != NULL ? slash + 1 : word;
	const bool into = names_folder(c->to) || c->n_paths > 1 || is_folder_in_image(c, c->to);
	const struct item new = like_new(c);
	char folder[PATH_MAX], resolved[PATH_MAX] = "", to[PATH_MAX];
	int r = join(folder, c->to, "", err);

	if (r == 0 && !into) {
		char *end = strrchr(folder, '/');

		name = c->to + strlen(c->to);
		while (name > c->to && name[-1] != '/')
			name--;
		*(end != NULL ? end : folder) = '\0';
	}
	if (r == 0)
		r = add_folder(c, folder, &new, resolved, err);
	if (r == 0)
		r = join(to, resolved, name, err);
	return r < 0 ? r : add_entry(c, f, from, to, 0, err);
}

/* One source without patterns. */
static int
add_source(struct copy *c, const char *word, struct err *err)
{
	OWN(layered_close) struct layered_file f = LAYERED_FILE;
	char from[PATH_MAX], resolved[PATH_MAX];
	int r = layered_find(&c->source, word, true, from, &f);

	if (r < 0)
		return cannot(r, "copy", word, err);
	if (from[0] != '\0' && is_left_out(c, from, &f.st))
		return err_set(err, ENOENT, "cannot copy '%s': .dockerignore leaves it out", word);
	c->n_found++;
	if (!S_ISDIR(f.st.st_mode))
		return add_file(c, &f, word, from, err);
	{
		struct item like = like_source(c, &f.st);

		/* The top of a context has the mode that somebody's folder happens to have. */
		if (from[0] == '\0')
			like = like_new(c);
		r = add_folder(c, c->to, &like, resolved, err);
	}
	return r < 0 ? r : add_tree(c, &f, from, resolved, 0, err);
}

/* Those files of the folder AT that the parts of PATTERN match. */
static int
add_matches(struct copy *c, const char *at, const char *pattern, struct err *err)
{
	OWN(layered_close) struct layered_file dir = LAYERED_FILE;
	OWN(freep) char *part = strndup(pattern, strcspn(pattern, "/"));
	const char *rest = pattern + strcspn(pattern, "/");
	char resolved[PATH_MAX], inner[PATH_MAX], **names;
	size_t n;
	int r = part == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	rest += strspn(rest, "/");
	if (r < 0 || layered_find(&c->source, at, true, resolved, &dir) < 0 || !S_ISDIR(dir.st.st_mode))
		return r;
	r = layered_list(&dir, &names, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < n; i++) {
		OWN(layered_close) struct layered_file f = LAYERED_FILE;

		if (!ignore_match(part, names[i]) || layered_child(&c->source, &dir, names[i], &f) < 0)
			continue;
		r = join(inner, at, names[i], err);
		if (r == 0 && rest[0] != '\0')
			r = add_matches(c, inner, rest, err);
		else if (r == 0 && !is_left_out(c, inner, &f.st))
			r = add_source(c, inner, err);
	}
	layered_free_names(names, n);
	return r;
}

static int
add_word(struct copy *c, const char *word, struct err *err)
{
	const size_t before = c->n_found;
	int r;

	word += strspn(word, "/");
	if (c->literal || !ignore_is_pattern(word))
		return add_source(c, word, err);
	while (strncmp(word, "./", 2) == 0)
		word += 2;
	r = add_matches(c, "", word, err);
	if (r == 0 && c->n_found == before)
		r = err_set(err, ENOENT, "cannot copy '%s': no file matches it", word);
	return r;
}

/* ---- the archive ---- */

/* By their paths, part by part: a folder comes before what is in it. */
static int
by_path(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	const unsigned char *p = (const unsigned char *)x->to, *q = (const unsigned char *)y->to;

	while (*p != '\0' && *p == *q) {
		p++;
		q++;
	}
	if (*p != *q)
		return *p == '\0' ? -1 : *q == '\0' ? 1 : *p == '/' ? -1 : *q == '/' ? 1 : *p < *q ? -1 : 1;
	if (x->weak != y->weak)
		return x->weak ? -1 : 1;
	return x->number < y->number ? -1 : 1;
}

static int
put_item(const struct copy *c, const struct item *i, struct err *err)
{
	OWN(layered_close) struct layered_file f = LAYERED_FILE;
	OWN(buf_free) struct buf xattrs = BUF(TAR_XATTRS_MAX);
	struct tar_entry e = { .path = i->to, .mode = i->mode, .uid = i->uid, .gid = i->gid, .mtime = i->mtime };
	OWN(closep) int fd = -1;
	OWN(freep) char *link = NULL;
	char path[PATH_MAX];
	int r;

	if (i->from == NULL || S_ISDIR(i->mode))
		return layer_put(c->layer, &e, err);
	r = layered_find(&c->source, i->from, false, path, &f);
	if (r == 0 && (f.st.st_mode & S_IFMT) != (i->mode & S_IFMT))
		r = -EBUSY;
	if (r < 0)
		return cannot(r, "open", i->from, err);
	if (S_ISLNK(i->mode)) {
		e.link = link = layered_link(&f);
		return link == NULL ? err_errno(err, "cannot read the link '%s'", i->from) : layer_put(c->layer, &e, err);
	}
	fd = layered_read(&f);
	if (fd < 0)
		return cannot(fd, "open", i->from, err);
	r = layer_xattrs(fd, &xattrs, err);
	e.xattrs = &xattrs;
	return r < 0 ? r : layer_put_file(c->layer, &e, fd, err);
}

static int
put_items(struct copy *c, struct err *err)
{
	int r = 0;

	if (c->n_items > 0)
		qsort(c->items, c->n_items, sizeof(*c->items), by_path);
	/* Of several for one path, the last. */
	for (size_t i = 0; r == 0 && i < c->n_items; i++)
		if (i + 1 == c->n_items || strcmp(c->items[i].to, c->items[i + 1].to) != 0)
			r = put_item(c, &c->items[i], err);
	return r < 0 ? r : tar_end(&c->layer->tar, err);
}

static int
put_raw(struct copy *c, const char *word, struct err *err)
{
	OWN(layered_close) struct layered_file f = LAYERED_FILE;
	OWN(closep) int fd = -1;
	char path[PATH_MAX], chunk[65536];
	ssize_t n = 1;
	int r = layered_find(&c->source, word, true, path, &f);

	if (r == 0 && is_left_out(c, path, &f.st))
		r = -ENOENT;
	if (r == 0 && !S_ISREG(f.st.st_mode))
		return 0;               /* no entries: it is no file */
	if (r == 0 && (uint64_t)f.st.st_size > LAYER_FILE_MAX)
		return err_set(err, EFBIG, "'%s' has over %llu GiB", word, (unsigned long long)(LAYER_FILE_MAX >> 30));
	if (r == 0)
		r = fd = layered_read(&f);
	if (r < 0)
		return cannot(r, "copy", word, err);
	for (c->layer->entries = 1, r = 0; r == 0 && n > 0;) {
		n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return err_errno(err, "cannot read '%s'", word);
		else
			r = write_all(c->layer->out, chunk, (size_t)n, err);
	}
	return r;
}

/* ---- the request ---- */

static int
open_folders(const json_t *list, struct layered *t, const char **folders, size_t *n, struct err *err)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item) {
		const char *path = json_string_value(item);
		int fd = path == NULL ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0 || t->n >= LAYERED_MAX) {
			closep(&fd);
			return err_errno(err, "cannot open '%s'", path == NULL ? "" : path);
		}
		t->folders[t->n++] = fd;
		folders[(*n)++] = path;
	}
	return 0;
}

static int
read_mode(const char *text, mode_t *ret_mode, struct err *err)
{
	char *end;
	unsigned long mode = strtoul(text, &end, 8);

	if (text[0] < '0' || text[0] > '7' || *end != '\0' || mode > 07777)
		return err_set(err, EINVAL, "'%s' is not a mode such as 0755", text);
	*ret_mode = (mode_t)mode;
	return 0;
}

static const char *
text_of(const json_t *request, const char *name)
{
	return json_string_value(json_object_get(request, name));
}

/* Everything here is of a stranger: the process is locked down. */
static int
read_options(struct copy *c, const json_t *request, struct err *err)
{
	const char *ignore = text_of(request, "ignore"), *chown = text_of(request, "chown");
	const char *chmod = text_of(request, "chmod");
	int r = ignore == NULL ? 0 : ignore_parse(ignore, strlen(ignore), &c->ignore, err);

	if (r < 0)
		return err_wrap(err, ".dockerignore");
	if (chown != NULL)
		r = layer_find_owner(&c->lower, chown, &c->uid, &c->gid, err);
	if (r == 0 && chmod != NULL)
		r = read_mode(chmod, &c->mode, err);
	c->has_owner = chown != NULL;
	c->has_mode = chmod != NULL;
	return r;
}

static int
run(struct copy *c, const json_t *paths, struct err *err)
{
	const struct item new = like_new(c);
	char resolved[PATH_MAX];
	const json_t *path;
	size_t i;
	int r = 0;

	if (c->raw)
		return put_raw(c, json_string_value(json_array_get(paths, 0)), err);
	if (json_array_size(paths) == 0 && is_folder_in_image(c, c->to))
		return 0;
	if (json_array_size(paths) == 0)
		r = add_folder(c, c->to, &new, resolved, err);
	json_array_foreach(paths, i, path)
		if (r == 0)
			r = add_word(c, json_string_value(path), err);
	return r < 0 ? r : put_items(c, err);
}

int
layer_copy(struct layer *l, const json_t *request, struct err *err)
{
	OWN(copy_free) struct copy c = { .layer = l, .to = text_of(request, "to") };
	const json_t *paths = json_object_get(request, "paths"), *path;
	const char *folders[2 * LAYERED_MAX + 1] = {0};
	size_t n = 0, i;
	int r;

	c.source.plain = json_is_true(json_object_get(request, "plain"));
	c.literal = json_is_true(json_object_get(request, "literal"));
	c.owners = json_is_true(json_object_get(request, "owners"));
	c.raw = json_is_true(json_object_get(request, "raw"));
	c.n_paths = (unsigned)json_array_size(paths);
	l->epoch = json_integer_value(json_object_get(request, "epoch"));
	json_array_foreach(paths, i, path)
		if (!json_is_string(path))
			return err_set(err, EINVAL, "the request is malformed");
	if (c.to == NULL || c.to[0] != '/' || (c.raw && c.n_paths != 1))
		return err_set(err, EINVAL, "the request is malformed");
	r = open_folders(json_object_get(request, "lower"), &c.lower, folders, &n, err);
	if (r == 0)
		r = open_folders(json_object_get(request, "source"), &c.source, folders, &n, err);
	if (r == 0)
		r = layer_lock_down(folders, err);
	if (r == 0)
		r = read_options(&c, request, err);
	return r < 0 ? r : run(&c, paths, err);
}
