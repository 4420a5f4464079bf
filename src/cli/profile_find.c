/* profile_find.c - finds profiles: the operator's own, the project's, and those that come with cloister. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/policy.h"
#include "cli/profile.h"
#include "trust/trust.h"

#define SUFFIX ".yaml"
#define NAMES_MAX 1024

void
profile_found_free(struct profile_found *f)
{
	if (f == NULL)
		return;
	free(f->name);
	free(f->file);
	free(f->text);
	profile_free(f->profile);
	free(f);
}

const char *
profile_cli_origin(enum profile_origin origin)
{
	static const char *const names[] = { [PROFILE_OWN] = "your own", [PROFILE_PROJECT] = "the project's",
	                                     [PROFILE_BUILTIN] = "built in" };

	return names[origin];
}

char *
profile_cli_own_file(const char *name, struct err *err)
{
	OWN(freep) char *part = str_format("profiles/%s" SUFFIX, name);

	return part == NULL ? NULL : data_config_path(part, err);
}

/* The folder of the project's profiles, or, with a NAME, that profile; the caller owns it.  NULL: there is none. */
static char *
find_in_project(const char *folder, const char *name)
{
	OWN(freep) char *where = realpath(folder, NULL);
	OWN(freep) char *file = name == NULL ? strdup(PROFILE_CLI_FOLDER) :
	                        str_format(PROFILE_CLI_FOLDER "/%s" SUFFIX, name);
	OWN(closep) int found = -1;
	unsigned up = 0;

	found = where == NULL || file == NULL ? -1 : policy_cli_find(where, file, &up);
	if (found < 0)
		return NULL;
	for (; up > 0; up--)
		*strrchr(where, '/') = '\0';
	return str_format("%s/%s", where, file);
}

static int
read_found(struct profile_found *f, enum trust_use use, struct err *err)
{
	return trust_read(use, f->file, PROFILE_FILE_MAX, &f->text, &f->len, err);
}

static int
read_builtin(struct profile_found *f, const struct profile_file *file, struct err *err)
{
	f->len = (size_t)(file->end - file->text);
	f->text = strndup(file->text, f->len);
	f->file = strdup(file->file);
	return f->text == NULL || f->file == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
profile_cli_find_text(const char *name, const char *folder, struct profile_found **ret_found, struct err *err)
{
	OWN(profile_found_freep) struct profile_found *f = calloc(1, sizeof(*f));
	const struct profile_file *builtin = profile_find_file(name);
	unsigned char hash[HASH_LEN];
	int r;

	if (!profile_name_ok(name))
		return -ENOENT;
	if (f == NULL || (f->name = strdup(name)) == NULL)
		return err_set(err, ENOMEM, "out of memory");
	/* Without a home folder there is no profile of one's own. */
	f->file = profile_cli_own_file(name, NULL);
	if (f->file != NULL && access(f->file, F_OK) == 0) {
		f->origin = PROFILE_OWN;
		r = read_found(f, TRUST_PROFILE, err);
	} else {
		free(f->file);
		f->file = find_in_project(folder, name);
		f->origin = f->file != NULL ? PROFILE_PROJECT : PROFILE_BUILTIN;
		r = f->file != NULL ? read_found(f, TRUST_PROFILE_FOUND, err) :
		    builtin != NULL ? read_builtin(f, builtin, err) : -ENOENT;
	}
	if (r < 0)
		return r;
	hash_of(f->text, f->len, hash);
	hash_name(hash, f->hash);
	*ret_found = TAKE(f);
	return 0;
}

int
profile_cli_find(const char *name, const char *folder, struct profile_found **ret_found, struct err *err)
{
	OWN(profile_found_freep) struct profile_found *f = NULL;
	int r = profile_cli_find_text(name, folder, &f, err);

	r = r == 0 ? profile_read(f->file, f->text, f->len, &f->profile, err) : r;
	if (r == 0)
		*ret_found = TAKE(f);
	return r;
}

/* ---- all of them ---- */

struct names {
	char *at[NAMES_MAX];
	size_t n;
};

static void
names_free(struct names *n)
{
	while (n->n > 0)
		free(n->at[--n->n]);
}

/* FILE is "NAME.yaml", or else no profile. */
static int
add_name(struct names *n, const char *file, struct err *err)
{
	size_t len = strlen(file), end = strlen(SUFFIX);
	OWN(freep) char *name = len <= end || strcmp(file + len - end, SUFFIX) != 0 ? NULL :
	                        strndup(file, len - end);

	if (name == NULL || !profile_name_ok(name))
		return 0;
	for (size_t i = 0; i < n->n; i++)
		if (strcmp(n->at[i], name) == 0)
			return 0;
	if (n->n == NAMES_MAX)
		return err_set(err, E2BIG, "there are more than %d profiles", NAMES_MAX);
	n->at[n->n++] = TAKE(name);
	return 0;
}

static int
add_folder(struct names *n, const char *folder, struct err *err)
{
	OWN(closedirp) DIR *dir = folder == NULL ? NULL : opendir(folder);
	struct dirent *d;
	int r = 0;

	while (r == 0 && dir != NULL && (d = readdir(dir)) != NULL)
		r = add_name(n, d->d_name, err);
	return r;
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int
profile_cli_each(const char *folder, int (*each)(void *arg, const char *name), void *arg, struct err *err)
{
	OWN(freep) char *own = data_config_path("profiles", NULL), *projects = find_in_project(folder, NULL);
	OWN(names_free) struct names n = {0};
	int r = 0;

	for (const struct profile_file *f = profile_files; r == 0 && f->file != NULL; f++)
		r = add_name(&n, f->file, err);
	r = r == 0 ? add_folder(&n, own, err) : r;
	r = r == 0 ? add_folder(&n, projects, err) : r;
	qsort(n.at, n.n, sizeof(n.at[0]), compare);
	for (size_t i = 0; r == 0 && i < n.n; i++)
		r = each(arg, n.at[i]);
	return r;
}
