/* main.c - cloister-layer: writes a layer of an image as a tar archive.
 *
 *   fd 3  what it reads: see below
 *   fd 4  gets the archive
 *   fd 5  a pipe for its one line of output: "ok ENTRIES" or "err ERRNO TEXT"
 *
 *   cloister-layer --changes EPOCH    fd 3 is the upper folder of a build cell's overlay.  The cell's supervisor
 *                                     starts it, within the cell's user namespace.
 *   cloister-layer --copy             fd 3 is a JSON request of cloister-build:
 *
 *     lower    folders: the layers of the image so far, the lowest first
 *     source   folders: the layers of the tree to copy from; with PLAIN, the build context
 *     ignore   the text of a .dockerignore
 *     paths    what to copy, relative to the source; patterns, unless LITERAL.  None: only make the folder TO
 *     to       where to: an absolute path of the image; a folder if it ends with "/"
 *     chown, chmod, epoch
 *     owners   true: the numbers of owners in SOURCE and LOWER are those of the image
 *     raw      true: write the bytes of the one file in PATHS instead of an archive
 *
 * Strangers wrote all of these files.  It reads beneath these folders alone, opens nothing for writing, and reaches
 * nobody. */
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "confine/filter.h"
#include "confine/landlock.h"
#include "confine/privileges.h"
#include "proc/layer/layer.h"

enum { FROM = 3, OUT = 4, RESULT = 5 };

#define TEXT_MAX 512

static int
put(void *arg, const void *data, size_t len, struct err *err)
{
	const struct layer *l = arg;

	return write_all(l->out, data, len, err);
}

static int
tell(int r, uint64_t entries, struct err *err)
{
	char line[TEXT_MAX + 64];

	for (char *p = err->text; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
	if (r == 0)
		snprintf(line, sizeof(line), "ok %" PRIu64 "\n", entries);
	else
		snprintf(line, sizeof(line), "err %d %.*s\n", err->code, TEXT_MAX, err->text);
	return write_all(RESULT, line, strlen(line), NULL) < 0 || r < 0 ? 1 : 0;
}

int
layer_lock_down(const char *const *folders, struct err *err)
{
	OWN(closep) int landlock = -1;
	/* Root keeps the right to read any file: layers have files of other users. */
	int r = privileges_keep(1u << CAP_DAC_READ_SEARCH, err);

	if (r == 0 && (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0))
		r = err_errno(err, "cannot give up privileges");
	if (r == 0)
		r = landlock_make_reader(folders, NULL, false, false, &landlock, err);
	if (r == 0)
		r = landlock_enforce(landlock, err);
	return r < 0 ? r : filter_load(FILTER_LAYER, err);
}

/* The supervisor's restrictions hold for this process too, which has no path to open by: only its folder. */
static int
write_changes(struct layer *l, const char *epoch, struct err *err)
{
	uint64_t seconds;
	int r = num_parse_count(epoch, 0, INT64_MAX, &seconds, err);

	if (r == 0 && (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0))
		r = err_errno(err, "cannot give up privileges");
	if (r == 0)
		r = filter_load(FILTER_LAYER, err);
	if (r < 0)
		return r;
	l->epoch = (int64_t)seconds;
	return layer_write_changes(l, FROM, err);
}

static int
copy(struct layer *l, struct err *err)
{
	OWN(freep) char *text = NULL;
	json_t *request;
	size_t len;
	int r = read_open(FROM, "the request", LAYER_REQUEST_MAX, &text, &len, err);

	if (r < 0)
		return r;
	request = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(request))
		r = err_set(err, EINVAL, "the request is malformed");
	if (r == 0)
		r = layer_copy(l, request, err);
	json_decref(request);
	return r;
}

int
main(int argc, char **argv)
{
	struct layer l = { .out = OUT, .tar = { .put = put } };
	struct err err = {0};
	int r;

	l.tar.arg = &l;
	umask(077);
	if (close_range(RESULT + 1, ~0u, 0) < 0)
		r = err_errno(&err, "cannot close descriptors");
	else if (argc == 3 && strcmp(argv[1], "--changes") == 0)
		r = write_changes(&l, argv[2], &err);
	else if (argc == 2 && strcmp(argv[1], "--copy") == 0)
		r = copy(&l, &err);
	else
		r = err_set(&err, EINVAL, "only cloister starts cloister-layer");
	return tell(r, l.entries, &err);
}
