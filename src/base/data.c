/* data.c - see data.h. */
#include "base/data.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"

const struct data_part data_parts[] = {
	{ "vault", "secrets, and the key that seals them" },
	{ "audit", "your timeline, and the key that signs it" },
	{ "registry", "registered capabilities, agents, envs and policies" },
	{ "dispatches", "dispatches and their results" },
	{ "serve", "the service's token and certificate" },
	{ "budgets", "the budgets that principals have used" },
	{ "worker", "the keys by which services know this worker" },
	{ "owed", "which timelines services have not fetched yet" },
	{ "vm", "what virtual machines boot" },
	{ "images", "images, and their layers unpacked" },
	{ "states", "versioned states of agents, with their history" },
	{ "volumes", "volumes, their snapshots, and caches" },
	{ "rebuild", "what an unfinished `cloister rebuild` has begun" },
	{ DATA_HOMES, "what agents keep between runs" },
	{0}
};

/* `cloister purge` removes the parts in the table; a part missing there would stay. */
static bool
is_part(const char *name)
{
	size_t len = strcspn(name, "/");

	for (const struct data_part *part = data_parts; part->name != NULL; part++)
		if (strlen(part->name) == len && memcmp(part->name, name, len) == 0)
			return true;
	return false;
}

char *
data_top(struct err *err)
{
	const char *given = getenv("CLOISTER_DATA_DIR"), *xdg = getenv("XDG_DATA_HOME");
	const char *home = getenv("HOME");
	char *path;

	if (given != NULL && given[0] == '/')
		path = strdup(given);
	else if (geteuid() == 0)
		path = strdup("/var/lib/cloister");
	else if (xdg != NULL && xdg[0] == '/')
		path = str_format("%s/cloister", xdg);
	else if (home != NULL && home[0] == '/')
		path = str_format("%s/.local/share/cloister", home);
	else {
		err_set(err, ENOENT, "there is no HOME to keep data in: set HOME or CLOISTER_DATA_DIR");
		return NULL;
	}
	if (path == NULL)
		err_set(err, ENOMEM, "out of memory");
	return path;
}

char *
data_path(const char *name, struct err *err)
{
	OWN(freep) char *top = data_top(err);
	char *path;

	assert(is_part(name));
	if (top == NULL)
		return NULL;
	path = str_format("%s/%s", top, name);
	if (path == NULL)
		err_set(err, ENOMEM, "out of memory");
	return path;
}

int
data_folder(const char *name, bool make, struct err *err)
{
	OWN(freep) char *path = data_path(name, err);
	struct stat st;
	int fd;

	if (path == NULL)
		return -ENOENT;
	fd = tree_open_made(path, make, "set CLOISTER_DATA_DIR", err);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || (st.st_mode & 077) != 0) {
		close(fd);
		return err_set(err, EPERM, "others may look into '%s': `chmod 700` it", path);
	}
	return fd;
}

static bool
is_absolute(const char *path)
{
	return path != NULL && path[0] == '/';
}

char *
data_state_path(struct err *err)
{
	const char *given = getenv("CLOISTER_STATE_DIR");
	const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char *path;

	if (is_absolute(given))
		path = strdup(given);
	else if (geteuid() == 0)
		path = strdup("/var/lib/cloister");
	else if (is_absolute(xdg))
		path = str_format("%s/cloister", xdg);
	else if (is_absolute(home))
		path = str_format("%s/.local/state/cloister", home);
	else {
		err_set(err, ENOENT, "there is no HOME to keep workspace changes and logs in: set HOME or "
		        "CLOISTER_STATE_DIR");
		return NULL;
	}
	if (path == NULL)
		err_errno(err, "cannot find the state folder");
	return path;
}

char *
data_runtime_path(struct err *err)
{
	const char *given = getenv("CLOISTER_RUNTIME_DIR");
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	char *path;

	if (is_absolute(given))
		path = strdup(given);
	else if (geteuid() == 0)
		path = strdup("/run/cloister");
	else if (is_absolute(xdg) && access(xdg, W_OK) == 0)
		path = str_format("%s/cloister", xdg);
	else
		path = str_format("/tmp/cloister-%u", geteuid());
	if (path == NULL)
		err_errno(err, "cannot find the runtime folder");
	return path;
}

char *
data_config_path(const char *name, struct err *err)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *path;

	if (is_absolute(config))
		path = str_format("%s/cloister/%s", config, name);
	else if (geteuid() == 0)
		path = str_format("/etc/cloister/%s", name);
	else if (is_absolute(home))
		path = str_format("%s/.config/cloister/%s", home, name);
	else {
		err_set(err, ENOENT, "there is no HOME to find '%s' in: set HOME or XDG_CONFIG_HOME", name);
		return NULL;
	}
	if (path == NULL)
		err_set(err, ENOMEM, "out of memory");
	return path;
}
