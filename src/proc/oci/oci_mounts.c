/* oci_mounts.c - the mounts of a config.json: binds become grants, memory file systems become empty folders
 * of the scratch space, and everything that a cell has anyway is left out. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "proc/oci/oci.h"

/* The cell's own are there. */
static const char *const own_types[] = { "proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2", NULL };
static const char *const own_files[] = { "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/shm", "/dev/mqueue",
                                         "/proc", "/sys", "/sys/fs/cgroup", "/dev", "/dev/pts", NULL };
/* All mounts of a cell are private, nosuid and nodev, whatever is asked for. */
static const char *const harmless[] = { "bind", "rbind", "rw", "private", "rprivate", "slave", "rslave", "shared",
	"rshared", "unbindable", "runbindable", "nosuid", "nodev", "suid", "dev", "exec", "noexec", "relatime",
	"norelatime", "noatime", "atime", "strictatime", "nostrictatime", "nodiratime", "diratime", "async", "sync",
	"defaults", "tmpcopyup", "notmpcopyup", "copy", "nocopy", "z", "Z", "U", "nosymfollow", "newinstance", NULL };
static const char *const sized[] = { "mode=", "size=", "uid=", "gid=", "nr_inodes=", "nr_blocks=", "ptmxmode=", NULL };

static bool
is_one_of(const char *text, const char *const *list)
{
	for (; *list != NULL; list++)
		if (strcmp(text, *list) == 0)
			return true;
	return false;
}

struct options {
	bool bind, readonly;
};

static int
take_options(const json_t *options, const char *at, struct options *ret_options, struct err *err)
{
	const json_t *option;
	size_t i;

	*ret_options = (struct options){0};
	json_array_foreach(options, i, option) {
		const char *text = json_string_value(option);
		bool known = text != NULL && is_one_of(text, harmless);

		for (size_t k = 0; text != NULL && !known && sized[k] != NULL; k++)
			known = strncmp(text, sized[k], strlen(sized[k])) == 0;
		if (text != NULL && (strcmp(text, "bind") == 0 || strcmp(text, "rbind") == 0))
			ret_options->bind = true;
		else if (text != NULL && (strcmp(text, "ro") == 0 || strcmp(text, "rro") == 0))
			ret_options->readonly = true;
		else if (!known)
			return err_set(err, ENOTSUP, "the mount at '%s' has an option that cloister-oci does not know: %.80s", at,
			               text != NULL ? text : "?");
	}
	return 0;
}

static int
grant(json_t *doc, const char *source, const char *bundle, const char *at, bool readonly, struct err *err)
{
	OWN(freep) char *path = source[0] == '/' ? strdup(source) : str_format("%s/%s", bundle, source);
	OWN(freep) char *real = path == NULL ? NULL : realpath(path, NULL);
	json_t *grants = json_object_get(doc, "grants");

	if (real == NULL)
		return err_errno(err, "cannot mount '%s' at '%s'", source, at);
	if (grants == NULL && json_object_set_new(doc, "grants", grants = json_array()) < 0)
		return err_set(err, ENOMEM, "out of memory");
	if (json_array_append_new(grants, json_pack("{s:s,s:s,s:s}", "access", readonly ? "ro" : "rw", "cell", at, "host",
	                                            real)) < 0)
		return err_set(err, EILSEQ, "the path of the mount at '%s' is not UTF-8", at);
	return 0;
}

static bool
has_dots(const char *path)
{
	for (const char *at = strstr(path, "/."); at != NULL; at = strstr(at + 1, "/."))
		if (at[2] == '/' || at[2] == '\0' || (at[2] == '.' && (at[3] == '/' || at[3] == '\0')))
			return true;
	return false;
}

static int
take_one(const json_t *mount, const char *bundle, json_t *doc, json_t *scratches, struct err *err)
{
	const char *at = oci_text(mount, "destination"), *type = oci_text(mount, "type");
	const char *source = oci_text(mount, "source");
	struct options options;
	int r;

	if (at == NULL || at[0] != '/' || strcmp(at, "/") == 0 || has_dots(at))
		return err_set(err, EINVAL, "a mount has no destination that is an absolute path");
	r = take_options(json_object_get(mount, "options"), at, &options, err);
	if (r < 0 || is_one_of(at, own_files) || (type != NULL && is_one_of(type, own_types)))
		return r;
	if (tree_is_beneath(at, "/proc") || tree_is_beneath(at, "/sys") || tree_is_beneath(at, "/dev"))
		return err_set(err, ENOTSUP, "nothing can be mounted at '%s': a cell's own /proc, /sys and /dev stay as they are",
		               at);
	if (options.bind || (type != NULL && strcmp(type, "bind") == 0))
		return source == NULL ? err_set(err, EINVAL, "the mount at '%s' has no source", at) :
		       grant(doc, source, bundle, at, options.readonly, err);
	if (type == NULL || strcmp(type, "tmpfs") != 0)
		return err_set(err, ENOTSUP, "the mount at '%s' is of type %.40s, which a cell does not have: use bind or tmpfs",
		               at, type != NULL ? type : "?");
	if (options.readonly)
		return err_set(err, ENOTSUP, "the mount at '%s' is an empty folder that cannot be written: leave it out", at);
	return json_array_append_new(scratches, json_string(at)) < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
oci_take_mounts(const json_t *config, const char *bundle, json_t *doc, json_t *ret_scratches, struct err *err)
{
	const json_t *mount;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(config, "mounts"), i, mount)
		if ((r = take_one(mount, bundle, doc, ret_scratches, err)) < 0)
			break;
	return r;
}
