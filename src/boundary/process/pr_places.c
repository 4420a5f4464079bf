/* pr_places.c - what a cell without mounts has at other paths than its operator's words say: its home, its certificates,
 * and what a dispatch is given.
 *
 * A dispatch finds its capabilities in /capabilities and leaves its result in /out.  Here these are folders of the cell's
 * own folder.  Capabilities are copied, because the cell's user may have no way to the originals. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "boundary/namespace/ns_walls.h"
#include "boundary/process/pr.h"
#include "cell/cell_net.h"

#define DEPTH_MAX 64
#define LINK_MAX 4096

/* ---- what a dispatch is given ---- */

bool
pr_is_out(const struct cell_grant *grant)
{
	return grant->access == CELL_OVERLAY && strcmp(grant->cell, CELL_OUT) == 0;
}

bool
pr_is_capability(const struct cell_grant *grant)
{
	return grant->access == CELL_READ && strcmp(grant->cell, CELL_CAPABILITIES) != 0 &&
	       tree_is_beneath(grant->cell, CELL_CAPABILITIES);
}

static int
copy_file(int from, int to_dir, const char *name, uid_t uid, struct err *err)
{
	OWN(closep) int to = -1;
	struct stat st;
	off_t at = 0;
	ssize_t n = 1;

	if (fstat(from, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "a capability has '%.200s', which is no file, folder or link", name);
	to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	while (to >= 0 && n > 0)
		n = sendfile(to, from, &at, 1 << 20);
	return to < 0 || n < 0 || fchown(to, uid, uid) < 0 || fchmod(to, (st.st_mode & 0755) | 0444) < 0 ?
	       err_errno(err, "cannot copy '%.200s' of a capability", name) : 0;
}

static int
copy_link(int from_dir, int to_dir, const char *name, uid_t uid, struct err *err)
{
	char to[LINK_MAX];
	ssize_t n = readlinkat(from_dir, name, to, sizeof(to) - 1);

	to[n < 0 ? 0 : n] = '\0';
	return n < 0 || symlinkat(to, to_dir, name) < 0 || fchownat(to_dir, name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0 ?
	       err_errno(err, "cannot copy the link '%.200s' of a capability", name) : 0;
}

static int copy_folder(int from, int to_dir, const char *name, uid_t uid, unsigned depth, struct err *err);

static int
copy_entry(int from_dir, int to_dir, const char *name, uid_t uid, unsigned depth, struct err *err)
{
	OWN(closep) int from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (from < 0 && errno == ELOOP)
		return copy_link(from_dir, to_dir, name, uid, err);
	if (from < 0 || fstat(from, &st) < 0)
		return err_errno(err, "cannot open '%.200s' of a capability", name);
	return S_ISDIR(st.st_mode) ? copy_folder(from, to_dir, name, uid, depth, err) : copy_file(from, to_dir, name, uid, err);
}

static int
make_folder(int dir, const char *name, uid_t uid, mode_t mode, struct err *err)
{
	if ((mkdirat(dir, name, 0700) < 0 && errno != EEXIST) || fchmodat(dir, name, mode, 0) < 0 ||
	    fchownat(dir, name, uid, uid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot make the cell's folder '%.200s'", name);
	return 0;
}

static int
copy_folder(int from, int to_dir, const char *name, uid_t uid, unsigned depth, struct err *err)
{
	OWN(closedirp) DIR *list = tree_list(from);
	OWN(closep) int to = -1;
	struct dirent *d;
	int r = depth == DEPTH_MAX ? err_set(err, ELOOP, "a capability has folders that are too deep") :
	        make_folder(to_dir, name, uid, 0755, err);

	to = r < 0 ? -1 : openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && (to < 0 || list == NULL))
		return err_errno(err, "cannot open '%.200s' of a capability", name);
	while (r == 0 && (d = readdir(list)) != NULL)
		if (!tree_is_dots(d->d_name))
			r = copy_entry(dirfd(list), to, d->d_name, uid, depth + 1, err);
	return r;
}

/* Their names are single words. */
static int
copy_capability(const struct cell_grant *grant, int to, uid_t uid, struct err *err)
{
	const char *name = grant->cell + sizeof(CELL_CAPABILITIES);
	OWN(closep) int from = open(grant->host, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (strchr(name, '/') != NULL)
		return err_set(err, EINVAL, "'%.200s' is no capability: its name is one word", grant->cell);
	if (from < 0 || fstat(from, &st) < 0)
		return err_errno(err, "cannot open '%.200s'", grant->host);
	return S_ISDIR(st.st_mode) ? copy_folder(from, to, name, uid, 0, err) : copy_file(from, to, name, uid, err);
}

int
pr_make_places(const struct pr_plan *plan, int dir, uid_t uid, struct walls *w, struct err *err)
{
	OWN(closep) int capabilities = -1;
	int r = make_folder(dir, PR_CAPABILITIES, uid, 0755, err);

	capabilities = r < 0 ? -1 : openat(dir, PR_CAPABILITIES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && capabilities < 0)
		r = err_errno(err, "cannot open the cell's folder '%s'", PR_CAPABILITIES);
	for (size_t i = 0; r == 0 && i < plan->spec->n_grants; i++) {
		const struct cell_grant *grant = &plan->spec->grants[i];

		if (pr_is_capability(grant))
			r = copy_capability(grant, capabilities, uid, err);
		if (r < 0 || !pr_is_out(grant))
			continue;
		r = make_folder(dir, PR_OUT, uid, 0755, err);
		w->uppers[i] = r < 0 ? -1 : openat(dir, PR_OUT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (r == 0 && w->uppers[i] < 0)
			r = err_errno(err, "cannot open the cell's folder '%s'", PR_OUT);
	}
	return r;
}

/* ---- paths in commands and variables ---- */

/* Also in a command that is given to a shell. */
static bool
ends_name(char c)
{
	return c == '\0' || strchr("/:, \t\n;\"'=<>|&(){}`", c) != NULL;
}

/* A copy of TEXT with TO instead of each path FROM, which the caller frees; NULL: no memory. */
static char *
replace(const char *text, const char *from, const char *to)
{
	OWN(buf_free) struct buf b = BUF(CELL_SPEC_MAX);
	const size_t len = strlen(from);
	const char *at = text, *hit;

	while ((hit = strstr(at, from)) != NULL) {
		const bool whole = ends_name(hit[len]) && (hit == text || (ends_name(hit[-1]) && hit[-1] != '/'));

		buf_put(&b, at, (size_t)(hit - at));
		buf_put(&b, whole ? to : from, strlen(whole ? to : from));
		at = hit + len;
	}
	buf_put(&b, at, strlen(at) + 1);
	return buf_failed(&b) ? NULL : strdup((const char *)b.data);
}

static int
settle_one(const char *id, char **text)
{
	static const struct { const char *from, *to; } places[] = {
		{ CELL_HOME, "home" }, { CELL_NET_CA, "etc/" PR_CA }, { CELL_NET_BUNDLE, "etc/" PR_BUNDLE },
		{ CELL_OUT, PR_OUT }, { CELL_CAPABILITIES, PR_CAPABILITIES },
	};
	char folder[PR_FOLDER_MAX], to[PR_FOLDER_MAX + 32];

	(void)pr_folder(id, folder);
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		char *replaced;

		snprintf(to, sizeof(to), "%s/%s", folder, places[i].to);
		if (strstr(*text, places[i].from) == NULL)
			continue;
		replaced = replace(*text, places[i].from, to);
		if (replaced == NULL)
			return -ENOMEM;
		free(*text);
		*text = replaced;
	}
	return 0;
}

/* ENTRY, which it takes, unless there is one that begins with NAME. */
static int
add_variable(char ***env, const char *name, char *entry)
{
	OWN(freep) char *own = entry;
	size_t n = 0;
	char **grown;

	for (; (*env)[n] != NULL; n++)
		if (strncmp((*env)[n], name, strlen(name)) == 0)
			return 0;
	grown = own == NULL ? NULL : realloc(*env, (n + 2) * sizeof(char *));
	if (grown == NULL)
		return -ENOMEM;
	*env = grown;
	grown[n] = TAKE(own);
	grown[n + 1] = NULL;
	return 0;
}

/* Programs that read the machine's bundle where it is, and not where the usual variables say, have variables of their own. */
static bool
has_trust(char *const *env)
{
	for (; *env != NULL; env++)
		if (strncmp(*env, "SSL_CERT_FILE=", strlen("SSL_CERT_FILE=")) == 0)
			return true;
	return false;
}

int
pr_settle(const char *id, char **argv, char ***env, char **cwd, struct err *err)
{
	char folder[PR_FOLDER_MAX];
	int r = cwd == NULL ? 0 : settle_one(id, cwd);

	for (size_t n = 0; r == 0 && argv != NULL && argv[n] != NULL; n++)
		r = settle_one(id, &argv[n]);
	for (size_t n = 0; r == 0 && env != NULL && (*env)[n] != NULL; n++)
		r = settle_one(id, &(*env)[n]);
	if (r == 0 && env != NULL)
		r = add_variable(env, "TMPDIR=", str_format("TMPDIR=%s/tmp", pr_folder(id, folder)));
	/* Git gives up if it may not read the machine's configuration. */
	if (r == 0 && env != NULL)
		r = add_variable(env, "GIT_CONFIG_NOSYSTEM=", strdup("GIT_CONFIG_NOSYSTEM=1"));
	if (r == 0 && env != NULL && has_trust(*env))
		r = add_variable(env, "npm_config_cafile=", str_format("npm_config_cafile=%s/etc/" PR_BUNDLE, pr_folder(id, folder)));
	if (r == 0 && env != NULL && has_trust(*env))
		r = add_variable(env, "WGETRC=", str_format("WGETRC=%s/etc/" PR_WGETRC, pr_folder(id, folder)));
	return r < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}
