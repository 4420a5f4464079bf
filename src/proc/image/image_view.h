/* image_view.h - the files of an image, as a cell would see its layers. */
#ifndef CLOISTER_IMAGE_VIEW_H
#define CLOISTER_IMAGE_VIEW_H
#include <stddef.h>
#include <sys/stat.h>

#include "image/store.h"

struct err;

#define VIEW_ENTRIES_MAX 4000000

struct view_entry {
	char *path;                     /* without a slash in front */
	size_t layer;                   /* the one that shows it */
	struct stat st;
};

struct view {
	const struct store_image *image;
	int tops[IMAGE_LAYERS_MAX];     /* descriptors of the layers' trees */
	size_t n_layers;
	struct view_entry *list;        /* sorted by path */
	size_t n, cap;
};

/* The first N_LAYERS layers of IMAGE, which must be unpacked and outlive the view.  The caller frees it, whatever
 * the result. */
int view_open(struct store *s, const struct store_image *image, size_t n_layers, struct view *ret_view,
              struct err *err);
void view_free(struct view *v);         /* for OWN() too */
/* Open the file of an entry, with no link on the way: a descriptor, or -errno. */
int view_open_file(const struct view *v, const struct view_entry *entry);
/* The target of a link: its length, or -errno. */
int view_read_link(const struct view *v, const struct view_entry *entry, char *ret_target, size_t size);
#endif
