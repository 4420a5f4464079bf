/* dispatch_files.c - `cloister dispatches files`: lists, prints and copies the files that the agent
 * put in /out. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "base/tree.h"
#include "proc/dispatch/dispatch_proc.h"
#include "registry/registry.h"

static const char *
path_of(const json_t *file)
{
	return json_string_value(json_object_get(file, "path"));
}

static void
print_list(const json_t *files)
{
	long long skipped = json_integer_value(json_object_get(files, "skipped"));
	json_t *file;
	size_t i;

	json_array_foreach(json_object_get(files, "files"), i, file) {
		printf("%10lld  %s  ", (long long)json_integer_value(json_object_get(file, "size")),
		       json_string_value(json_object_get(file, "hash")));
		text_print_safe(stdout, path_of(file), strlen(path_of(file)), false);
		putchar('\n');
	}
	if (skipped > 0)
		fprintf(stderr, "cloister: %lld %s left out: links, FIFOs, sockets, devices, files too "
		        "large for the disk, or names that are not text\n", skipped,
		        skipped == 1 ? "other was" : "others were");
	if (json_is_true(json_object_get(files, "truncated")))
		fprintf(stderr, "cloister: there were more files, which were not kept\n");
}

/* ---- --to ---- */

/* Opens the folder of PATH beneath DIR, and creates missing parts; *ret_name: the last part. */
static int
open_parent(int dir, const char *path, const char **ret_name, struct err *err)
{
	OWN(closep) int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	OWN(freep) char *part = NULL;
	const char *slash;
	int next;

	while (at >= 0 && (slash = strchr(path, '/')) != NULL) {
		free(part);
		part = strndup(path, (size_t)(slash - path));
		/* Cloister wrote the list, which has no such names. */
		if (part == NULL || part[0] == '\0' || tree_is_dots(part))
			return err_set(err, EINVAL, "a file of the result has no plain path");
		if (mkdirat(at, part, 0777) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make '%s'", part);
		next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return err_errno(err, "cannot open '%s'", part);
		close(at);
		at = next;
		path = slash + 1;
	}
	if (at < 0)
		return err_errno(err, "cannot write the files");
	*ret_name = path;
	return TAKE_FD(at);
}

static int
write_one(struct registry *reg, int dir, const json_t *file, struct err *err)
{
	bool executable = json_is_true(json_object_get(file, "executable"));
	OWN(closep) int from = -1, to = -1, parent = -1;
	const char *name = NULL;
	char data[65536];
	ssize_t n;

	from = registry_open_blob(reg, json_string_value(json_object_get(file, "hash")), err);
	parent = from < 0 ? -1 : open_parent(dir, path_of(file), &name, err);
	if (from < 0 || parent < 0)
		return from < 0 ? from : parent;
	to = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	            executable ? 0777 : 0666);
	if (to < 0)
		return err_errno(err, "cannot write '%s'", path_of(file));
	while ((n = read(from, data, sizeof(data))) > 0)
		if (write_all(to, data, (size_t)n, err) < 0)
			return err_wrap(err, "cannot write '%s'", path_of(file));
	return n < 0 ? err_errno(err, "cannot read '%s'", path_of(file)) : 0;
}

static int
write_all_to(struct registry *reg, const json_t *files, const char *to, struct err *err)
{
	OWN(closep) int dir = -1;
	json_t *file;
	size_t i;
	int r = 0;

	/* A new folder: nothing in it can be overwritten, or lead elsewhere. */
	if (mkdir(to, 0777) < 0)
		return errno == EEXIST ? err_set(err, EEXIST, "'%s' exists already: --to takes the name of "
		                                 "a new folder", to) :
		       err_errno(err, "cannot make the folder '%s'", to);
	dir = open(to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_errno(err, "cannot open '%s'", to);
	json_array_foreach(json_object_get(files, "files"), i, file) {
		r = write_one(reg, dir, file, err);
		if (r < 0)
			break;
	}
	return r;
}

static int
print_one(struct registry *reg, const char *id, const char *path, struct err *err)
{
	OWN(closep) int fd = dispatch_open_file(reg, id, path, err);

	return fd < 0 ? fd : proc_copy_out(fd, stdout, err);
}

int
proc_files(const struct said *said)
{
	OWN(registry_closep) struct registry *reg = NULL;
	OWN(json_decrefp) json_t *files = NULL;
	struct err err = {0};
	int r;

	if (said->n_words < 1 || said->n_words > 2 || (said->n_words == 2 && said->to != NULL))
		return proc_failf("which files? cloister dispatches files ID [PATH | --to FOLDER]");
	r = registry_open(false, &reg, &err);
	if (r == 0 && said->n_words == 2)
		r = print_one(reg, said->words[0], said->words[1], &err);
	else if (r == 0)
		r = dispatch_get_files(reg, said->words[0], &files, &err);
	if (r == 0 && said->n_words == 1) {
		if (said->to != NULL)
			r = write_all_to(reg, files, said->to, &err);
		else if (said->json)
			r = proc_print_json(json_incref(files), &err);
		else
			print_list(files);
	}
	return r < 0 ? tell_error(&err) : 0;
}
