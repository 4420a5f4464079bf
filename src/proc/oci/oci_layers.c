/* oci_layers.c - finds the layers of which an engine made a root file system.
 *
 * If it is an overlay file system, the kernel lists them.  The engine's upper folder is one of them: a
 * cell's changes go elsewhere.  Any other folder is its own only layer. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "proc/oci/oci.h"

#define MOUNTINFO_MAX (16u << 20)
#define ANCESTORS_MAX 4

static int
append(json_t *layers, const char *path, struct err *err)
{
	return json_array_append_new(layers, json_string(path)) < 0 ?
	       err_set(err, EILSEQ, "the path of a layer is not UTF-8") : 0;
}

/* The value of an option of the mount, cut out of OPTIONS; NULL: it has none. */
static char *
option_of(const char *options, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = options; at != NULL; at = strchr(at, ',') == NULL ? NULL : strchr(at, ',') + 1)
		if (strncmp(at, name, len) == 0 && at[len] == '=')
			return strndup(at + len + 1, strcspn(at + len + 1, ","));
	return NULL;
}

/* PATH, which may begin in BASE, without links; the caller owns it. */
static char *
resolve(const char *base, const char *path)
{
	OWN(freep) char *whole = path[0] == '/' ? strdup(path) : str_format("%s/%s", base, path);

	return whole == NULL ? NULL : realpath(whole, NULL);
}

/* Engines with many layers mount from a folder of theirs, with paths that begin there: above the upper folder, or
 * above the place of the mount. */
static bool
find_base(const char *near, const char *first, char ret_base[PATH_MAX])
{
	snprintf(ret_base, PATH_MAX, "%s", near);
	for (int i = 0; i < ANCESTORS_MAX; i++) {
		OWN(freep) char *found = resolve(ret_base, first);
		char *slash = strrchr(ret_base, '/');

		if (found != NULL)
			return true;
		if (slash == NULL || slash == ret_base)
			return false;
		*slash = '\0';
	}
	return false;
}

static int
add_lowers(char *lowers, const char *base, json_t *layers, struct err *err)
{
	char *colon;

	/* The highest comes first. */
	while ((colon = strrchr(lowers, ':')) != NULL || lowers[0] != '\0') {
		OWN(freep) char *path = resolve(base, colon != NULL ? colon + 1 : lowers);
		int r = path == NULL ? err_errno(err, "cannot find a layer of the root file system") :
		        append(layers, path, err);

		if (r < 0)
			return r;
		*(colon != NULL ? colon : lowers) = '\0';
	}
	return 0;
}

static int
take_overlay(const char *options, const char *point, json_t *layers, bool *ret_metacopy, struct err *err)
{
	OWN(freep) char *lowers = option_of(options, "lowerdir"), *upper = option_of(options, "upperdir");
	OWN(freep) char *metacopy = option_of(options, "metacopy"), *top = NULL;
	char base[PATH_MAX] = "/", first[PATH_MAX];
	int r;

	if (lowers == NULL || lowers[0] == '\0' || strchr(options, '\\') != NULL)
		return err_set(err, ENOTSUP, "cannot find the layers of the root file system: the mount names none, or with "
		               "strange characters");
	*ret_metacopy = metacopy != NULL && strcmp(metacopy, "on") == 0;
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(lowers, ":"), lowers);
	if (!(upper != NULL && upper[0] == '/' && find_base(upper, first, base)) && !find_base(point, first, base))
		return err_set(err, ENOENT, "cannot find the layer '%s' of the root file system", first);
	r = add_lowers(lowers, base, layers, err);
	if (r < 0 || upper == NULL)
		return r;
	top = resolve(base, upper);
	return top == NULL ? err_errno(err, "cannot find a layer of the root file system") : append(layers, top, err);
}

int
oci_parse_layers(char *mountinfo, const char *path, json_t *ret_layers, bool *ret_metacopy, struct err *err)
{
	char *rest = NULL, *options = NULL;

	/* The last mount at a place hides the others. */
	for (char *line = strtok_r(mountinfo, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
		char root[PATH_MAX], point[PATH_MAX], *dash = strstr(line, " - ");

		if (dash == NULL || sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2 || strcmp(point, path) != 0)
			continue;
		options = strcmp(root, "/") != 0 || strncmp(dash, " - overlay ", 11) != 0 ? NULL : strrchr(line, ' ');
	}
	return options == NULL ? append(ret_layers, path, err) :
	       take_overlay(options + 1, path, ret_layers, ret_metacopy, err);
}

int
oci_find_layers(const char *path, json_t *ret_layers, bool *ret_metacopy, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct statfs fs;
	int r;

	if (statfs(path, &fs) < 0)
		return err_errno(err, "cannot look at '%s'", path);
	/* An ordinary user's cell has no id-mapped mounts, and uses the merged folder itself. */
	if (fs.f_type != OVERLAYFS_SUPER_MAGIC || !ns_has_range())
		return append(ret_layers, path, err);
	r = read_file_at(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &text, NULL, err);
	return r < 0 ? r : oci_parse_layers(text, path, ret_layers, ret_metacopy, err);
}
