/* state_ref.c - refs of a state: each is a file with an id, as git has them before it packs them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/tree.h"
#include "state/state_parts.h"

static const char *const folders[] = { "refs/heads/", "refs/tags/" };

int
state_ref_of(const char *branch, char ret_ref[STATE_REF_MAX], struct err *err)
{
	int r = branch == NULL ? 0 : state_check_name("branch", branch, err);

	if (r == 0)
		snprintf(ret_ref, STATE_REF_MAX, "refs/heads/%s", branch == NULL ? STATE_MAIN : branch);
	return r;
}

/* The folder that REF is in. */
static int
open_folder(int dir, const char *ref, const char **ret_name, struct err *err)
{
	const char *slash = strrchr(ref, '/');
	char path[STATE_REF_MAX + 8];
	int fd;

	snprintf(path, sizeof(path), STATE_GIT "/%.*s", (int)(slash - ref), ref);
	fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	*ret_name = slash + 1;
	return fd < 0 ? err_errno(err, "cannot open the refs of the state") : fd;
}

int
state_ref_read(int dir, const char *ref, char ret_id[STATE_ID + 1], struct err *err)
{
	OWN(freep) char *text = NULL;
	const char *name;
	OWN(closep) int folder = open_folder(dir, ref, &name, err);
	size_t len;
	int r = folder < 0 ? folder : read_file_at(folder, name, STATE_ID + 1, &text, &len, err);

	if (r == -ENOENT)
		return err_set(err, ENOENT, "there is no '%s'", ref);
	if (r < 0)
		return r;
	if (len > 0 && text[len - 1] == '\n')
		text[len - 1] = '\0';
	if (!state_is_id(text))
		return err_set(err, EBADMSG, "'%s' does not have the id of a commit", ref);
	memcpy(ret_id, text, STATE_ID + 1);
	return 0;
}

int
state_replace(int dir, const char *name, const char *text, size_t len, struct err *err)
{
	OWN(closep) int fd = -1;
	char half[STATE_NAME_MAX + 8];
	int r;

	/* No ref ends so. */
	snprintf(half, sizeof(half), "%s.lock", name);
	fd = openat(dir, half, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_errno(err, "cannot write '%s'", half);
	r = write_all(fd, text, len, err);
	if (r == 0 && (fsync(fd) < 0 || renameat(dir, half, dir, name) < 0 || fsync(dir) < 0))
		r = err_errno(err, "cannot write '%s'", name);
	return r;
}

int
state_ref_write(int dir, const char *ref, const char *id, struct err *err)
{
	const char *name;
	OWN(closep) int folder = open_folder(dir, ref, &name, err);
	char text[STATE_ID + 2];

	if (folder < 0)
		return folder;
	if (*id == '\0')
		return (unlinkat(folder, name, 0) < 0 && errno != ENOENT) || fsync(folder) < 0 ?
		       err_errno(err, "cannot remove '%s'", ref) : 0;
	snprintf(text, sizeof(text), "%.*s\n", STATE_ID, id);
	return state_replace(folder, name, text, strlen(text), err);
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct state_ref *)a)->ref, ((const struct state_ref *)b)->ref);
}

static int
list_folder(int dir, const char *prefix, struct state_ref **refs, size_t *n, struct err *err)
{
	const char *name;
	OWN(closep) int folder = open_folder(dir, prefix, &name, err);
	OWN(closedirp) DIR *list = folder < 0 ? NULL : tree_list(folder);
	const struct dirent *entry;
	int r = 0;

	if (list == NULL)
		return folder < 0 ? folder : err_errno(err, "cannot list the refs of the state");
	while (r == 0 && (entry = readdir(list)) != NULL) {
		struct state_ref *more;

		if (!state_is_name(entry->d_name))
			continue;
		if (*n >= STATE_REFS_MAX)
			return err_set(err, E2BIG, "the state has over %d branches and tags", STATE_REFS_MAX);
		more = realloc(*refs, (*n + 1) * sizeof(*more));
		if (more == NULL)
			return err_set(err, ENOMEM, "out of memory");
		*refs = more;
		snprintf(more[*n].ref, sizeof(more[*n].ref), "%s%.*s", prefix, STATE_NAME_MAX - 1, entry->d_name);
		r = state_ref_read(dir, more[*n].ref, more[*n].id, err);
		*n += r == 0;
		r = r == -ENOENT ? 0 : r;
	}
	return r;
}

int
state_ref_list(int dir, struct state_ref **ret_refs, size_t *ret_n, struct err *err)
{
	OWN(freep) struct state_ref *refs = NULL;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		int r = list_folder(dir, folders[i], &refs, &n, err);

		if (r < 0)
			return r;
	}
	if (n > 0)
		qsort(refs, n, sizeof(*refs), by_name);
	*ret_refs = TAKE(refs);
	*ret_n = n;
	return 0;
}
