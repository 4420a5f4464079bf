/* policy_load_files.c - reads the files of a policy, if only the operator could have written them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "policy/policy_load.h"
#include "policy/policy_loading.h"

static const char *
kind_of(off_t max)
{
	return max == POLICY_FILE_MAX ? "policy" : "lock";
}

/* Anyone who can write the policy can do everything that it allows. */
static int
check_file(const char *name, const struct stat *st, off_t max, struct err *err)
{
	const char *what = kind_of(max);

	if (!S_ISREG(st->st_mode))
		return err_set(err, EINVAL, "%s: this is not a file", name);
	if ((st->st_mode & 022) != 0)
		return err_set(err, EPERM, "%s: others may write this %s: `chmod go-w` it", name, what);
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return err_set(err, EPERM, "%s: this %s belongs to uid %u, neither you nor root",
		               name, what, (unsigned)st->st_uid);
	if (st->st_size > max)
		return err_set(err, EFBIG, "%s: a %s is at most %dM", name, what, (int)(max >> 20));
	return 0;
}

static int
check_circle(struct policy_loading *l, const struct policy_load_source *source)
{
	for (const struct policy_load_source *s = source->from; s != NULL; s = s->from)
		if (s->ino == source->ino && s->dev == source->dev && s->ino != 0)
			return err_set(l->err, ELOOP, "%s: this file names itself%s%s", source->name,
			               source->from != s ? " by way of " : "",
			               source->from != s ? source->from->name : "");
	return 0;
}

int
policy_load_read(struct policy_loading *l, struct policy_load_source *source, off_t max, char **ret_text)
{
	OWN(closep) int fd = -1;
	OWN(freep) char *text = NULL;
	struct stat st;
	int r;

	if (++l->n_files > POLICY_FILES_MAX)
		return err_set(l->err, E2BIG, "%s: more than %d files", source->name, POLICY_FILES_MAX);
	/* O_NONBLOCK: opening a pipe must not block. */
	fd = openat(l->dirfd, source->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(l->err, "%s: cannot open this %s", source->name, kind_of(max));
	r = check_file(source->name, &st, max, l->err);
	if (r < 0)
		return r;
	source->dev = st.st_dev;
	source->ino = st.st_ino;
	r = check_circle(l, source);
	if (r < 0)
		return r;
	text = malloc((size_t)st.st_size + 1);
	if (text == NULL)
		return err_errno(l->err, "%s: cannot read this %s", source->name, kind_of(max));
	r = read_exactly(fd, text, (size_t)st.st_size, l->err);
	if (r < 0)
		return err_wrap(l->err, "%s: cannot read this %s", source->name, kind_of(max));
	source->text = *ret_text = TAKE(text);
	source->len = (size_t)st.st_size;
	return 0;
}

int
policy_load_may_read(struct policy_loading *l, const struct node *node, const char *path)
{
	if (l->reader == NULL || l->reader->file == NULL)
		return 0;
	return l->reader->file(l->reader->arg, node, path, l->err);
}

const char *
policy_load_beside(struct policy_loading *l, const char *file, const char *path)
{
	const char *slash = strrchr(file, '/');
	size_t n = slash != NULL ? (size_t)(slash - file) + 1 : 0, len = strlen(path);
	char *joined;

	if (path[0] == '/')
		n = 0;
	joined = policy_alloc(l->p, n + len + 1, 1);
	if (joined != NULL) {
		memcpy(joined, file, n);
		memcpy(joined + n, path, len + 1);
	}
	return joined;
}

const char *
policy_load_last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}
