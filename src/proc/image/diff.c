/* diff.c - `cloister image diff`: the files that two images do not have in common. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/text.h"
#include "proc/image/image_proc.h"
#include "proc/image/image_view.h"

#define COMPARE_BYTES (128 * 1024)

enum change { ADDED, REMOVED, CHANGED, CHANGES };
static const char *const words[CHANGES] = { "added", "removed", "changed" };

struct change_list {
	struct { const char *path; enum change kind; } *list;
	size_t n;
};

static void
change_list_free(struct change_list *c)
{
	free(c->list);
}

/* ---- comparing ---- */

static ssize_t
read_full(int fd, unsigned char *data)
{
	size_t len = 0;

	while (len < COMPARE_BYTES) {
		ssize_t n = read(fd, data + len, COMPARE_BYTES - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : (ssize_t)len;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

/* 1 if they are the same, 0 if not, or -errno. */
static int
same_contents(const struct view *a, const struct view_entry *one, const struct view *b, const struct view_entry *two)
{
	OWN(closep) int old = view_open_file(a, one), new = view_open_file(b, two);
	OWN(freep) unsigned char *data = malloc(2 * COMPARE_BYTES);

	if (old < 0 || new < 0 || data == NULL)
		return old < 0 ? old : new < 0 ? new : -ENOMEM;
	for (;;) {
		ssize_t n = read_full(old, data), m = read_full(new, data + COMPARE_BYTES);

		if (n < 0 || m < 0)
			return (int)(n < 0 ? n : m);
		if (n != m || memcmp(data, data + COMPARE_BYTES, (size_t)n) != 0)
			return 0;
		if (n < COMPARE_BYTES)
			return 1;
	}
}

static int
same_target(const struct view *a, const struct view_entry *one, const struct view *b, const struct view_entry *two)
{
	char old[PATH_MAX], new[PATH_MAX];
	int n = view_read_link(a, one, old, sizeof(old)), m = view_read_link(b, two, new, sizeof(new));

	return n < 0 || m < 0 ? (n < 0 ? n : m) : n == m && memcmp(old, new, (size_t)n) == 0;
}

static int
is_same(const struct view *a, const struct view_entry *one, const struct view *b, const struct view_entry *two)
{
	const struct stat *old = &one->st, *new = &two->st;

	if (strcmp(a->image->config.diff_ids[one->layer], b->image->config.diff_ids[two->layer]) == 0)
		return 1;
	if (old->st_mode != new->st_mode || old->st_uid != new->st_uid || old->st_gid != new->st_gid)
		return 0;
	if (S_ISREG(old->st_mode))
		return old->st_size != new->st_size ? 0 : same_contents(a, one, b, two);
	return S_ISLNK(old->st_mode) ? same_target(a, one, b, two) : 1;
}

static uint64_t
size_of(const struct view_entry *e)
{
	return S_ISREG(e->st.st_mode) ? (uint64_t)e->st.st_size : 0;
}

static uint64_t
total_of(const struct view *v)
{
	uint64_t total = 0;

	for (size_t i = 0; i < v->n; i++)
		total += size_of(&v->list[i]);
	return total;
}

static int
compare(const struct view *a, const struct view *b, struct change_list *ret, struct err *err)
{
	const uint64_t total = total_of(a) + total_of(b);
	uint64_t done = 0;
	size_t i = 0, j = 0;

	ret->list = calloc(a->n + b->n + 1, sizeof(*ret->list));
	if (ret->list == NULL)
		return err_set(err, ENOMEM, "out of memory");
	while (i < a->n || j < b->n) {
		int order = i == a->n ? 1 : j == b->n ? -1 : strcmp(a->list[i].path, b->list[j].path);
		int same = order != 0 ? 0 : is_same(a, &a->list[i], b, &b->list[j]);

		if (same < 0)
			return err_set(err, -same, "cannot read '%s': %s", a->list[i].path, strerror(-same));
		if (same == 0) {
			ret->list[ret->n].path = order > 0 ? b->list[j].path : a->list[i].path;
			ret->list[ret->n++].kind = order > 0 ? ADDED : order < 0 ? REMOVED : CHANGED;
		}
		done += (order <= 0 ? size_of(&a->list[i]) : 0) + (order >= 0 ? size_of(&b->list[j]) : 0);
		progress_show(done, total);
		i += order <= 0;
		j += order >= 0;
	}
	return 0;
}

/* ---- printing ---- */

/* The path as the cell has it. */
static void
json_rooted(struct json *w, const char *path)
{
	OWN(freep) char *rooted = str_format("/%s", path);

	json_str(w, NULL, rooted);
}

static void
print(const struct change_list *changes, bool json)
{
	struct json w = { .out = stdout };

	for (size_t i = 0; !json && i < changes->n; i++) {
		printf("%-7s  /", words[changes->list[i].kind]);
		text_print_safe(stdout, changes->list[i].path, strlen(changes->list[i].path), false);
		putchar('\n');
	}
	if (!json)
		return;
	json_open(&w, NULL, '{');
	for (int kind = 0; kind < CHANGES; kind++) {
		json_open(&w, words[kind], '[');
		for (size_t i = 0; i < changes->n; i++)
			if ((int)changes->list[i].kind == kind)
				json_rooted(&w, changes->list[i].path);
		json_close(&w, ']');
	}
	json_close(&w, '}');
	putchar('\n');
}

/* An image that is found and unpacked, and stays while it is read. */
struct side {
	struct store_image image;
	struct view view;
	int use;
};

static void
side_free(struct side *side)
{
	view_free(&side->view);
	store_image_free(&side->image);
	closep(&side->use);
}

static int
find(struct store *s, const char *word, struct side *side, struct err *err)
{
	OWN(freep) char *name = NULL;
	OWN(closep) int adding = -1;
	int r = image_find(s, word, &side->image, &name, err);

	if (r == 0)
		r = store_use(s, side->image.digest, &side->use, err);
	if (r < 0)
		return r;
	adding = store_adding(s, err);
	return adding < 0 ? adding : unpack_image(s, &side->image, err);
}

int
cmd_diff(struct store *s, const struct args *args, struct err *err)
{
	OWN(side_free) struct side a = { .use = -1 }, b = { .use = -1 };
	OWN(change_list_free) struct change_list changes = {0};
	const bool two = args->n_words > 2;
	size_t n;
	int r = find(s, args->words[1], &a, err);

	if (r == 0)
		r = find(s, args->words[two ? 2 : 1], &b, err);
	if (r < 0)
		return r;
	/* Without a second image: what its last layer changes. */
	n = a.image.config.n_diff_ids;
	progress_begin("comparing");
	r = view_open(s, &a.image, two || n == 0 ? n : n - 1, &a.view, err);
	if (r == 0)
		r = view_open(s, &b.image, b.image.config.n_diff_ids, &b.view, err);
	if (r == 0)
		r = compare(&a.view, &b.view, &changes, err);
	progress_end();
	if (r == 0)
		print(&changes, args_get(args, "json") != NULL);
	return r;
}
