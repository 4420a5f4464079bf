/* unpack_layer.c - reads the archive of a layer entry by entry. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/unpack/unpack.h"

#define PROGRESS_BYTES (4 << 20)
#define BLOCK 512

const struct unpack_limits unpack_limits_default = {
	LAYER_ENTRIES_MAX, LAYER_SIZE_MAX, LAYER_FILE_MAX, LAYER_RATIO_FROM,
};

struct layer {
	struct unpack_stream *stream;
	void (*progress)(uint64_t bytes);
	uint64_t reported, produced;
	struct err *err;                /* why the stream failed */
};

static void
layer_free(struct layer *l)
{
	unpack_stream_close(l->stream);
}

OWN_BY(archive_freep, struct archive *, archive_read_free)

static ssize_t
next_bytes(struct layer *l, const void **ret_data)
{
	ssize_t n = unpack_stream_next(l->stream, ret_data, l->err);
	uint64_t consumed = unpack_stream_consumed(l->stream);

	if (l->progress != NULL && consumed - l->reported >= PROGRESS_BYTES) {
		l->progress(consumed);
		l->reported = consumed;
	}
	return n;
}

static la_ssize_t
give_bytes(struct archive *a, void *arg, const void **ret_data)
{
	static const char zeroes[BLOCK];
	struct layer *l = arg;
	ssize_t n = next_bytes(l, ret_data);

	if (n < 0)
		archive_set_error(a, EIO, "the layer cannot be read");
	/* umoci leaves out what fills the last block. */
	if (n == 0 && l->produced % BLOCK != 0) {
		n = (ssize_t)(BLOCK - l->produced % BLOCK);
		*ret_data = zeroes;
	}
	l->produced += n > 0 ? (uint64_t)n : 0;
	return n < 0 ? ARCHIVE_FATAL : n;
}

static int
open_archive(struct layer *l, struct archive **ret_archive, struct err *err)
{
	OWN(archive_freep) struct archive *a = archive_read_new();

	if (a == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (archive_read_support_format_tar(a) != ARCHIVE_OK || archive_read_support_format_empty(a) != ARCHIVE_OK)
		return err_set(err, ENOTSUP, "this libarchive reads no tar archives");
	if (archive_read_open(a, l, NULL, give_bytes, NULL) != ARCHIVE_OK)
		return err->code != 0 ? -err->code : err_set(err, EBADMSG, "it is no tar archive");
	*ret_archive = TAKE(a);
	return 0;
}

static int
read_entries(struct layer *l, struct unpack_tree *t, struct err *err)
{
	OWN(archive_freep) struct archive *a = NULL;
	struct archive_entry *entry;
	int code, r = open_archive(l, &a, err);

	while (r == 0 && (code = archive_read_next_header(a, &entry)) != ARCHIVE_EOF) {
		if (code == ARCHIVE_OK || code == ARCHIVE_WARN)
			r = unpack_entry(t, a, entry, err);
		else
			r = err->code != 0 ? -err->code :
			    err_set(err, EBADMSG, "it is no whole tar archive: %.200s", archive_error_string(a));
	}
	return r;
}

/* What is behind the archive's end belongs to the hash too. */
static int
check_rest(struct layer *l, const char *diff_id, struct err *err)
{
	unsigned char hash[HASH_LEN];
	char name[HASH_NAME + 1];
	const void *data;
	ssize_t n;

	while ((n = next_bytes(l, &data)) > 0)
		continue;
	if (n < 0)
		return (int)n;
	unpack_stream_hash(l->stream, hash);
	hash_name(hash, name);
	if (diff_id != NULL && strcmp(diff_id, name) != 0)
		return err_set(err, EBADMSG, "its contents are %s, and the image says %s", name, diff_id);
	return 0;
}

int
unpack_layer(int fd, int top, const char *diff_id, bool keeps_owners, const struct unpack_limits *limits,
             void (*progress)(uint64_t bytes), struct unpack_result *ret_result, struct err *err)
{
	struct err local = {0}, *why = err != NULL ? err : &local;
	OWN(layer_free) struct layer l = { .progress = progress, .err = why };
	OWN(unpack_tree_free) struct unpack_tree t = { .top = top, .keeps_owners = keeps_owners, .limits = *limits,
	                                               .parent = -1 };
	mode_t mask = umask(0);
	int r;

	why->code = 0;
	r = unpack_stream_open(fd, limits, &l.stream, why);
	if (r == 0)
		r = unpack_tree_note(&t, "", 0, &(struct unpack_look){ .mode = 0755 }, why);
	if (r == 0)
		r = read_entries(&l, &t, why);
	if (r == 0)
		r = check_rest(&l, diff_id, why);
	if (r == 0)
		r = unpack_tree_finish(&t, why);
	umask(mask);
	*ret_result = (struct unpack_result){ t.entries, t.size, t.left_out };
	return r;
}
