/* cell_exec_error.c - see cell_exec_error.h. */
#include "cell/cell_exec_error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "cell/cell_spec.h"

#define HOPS_MAX 16                     /* nested links and interpreter lines */
#define FIRST_LINE_MAX 256              /* the kernel's limit */
#define WORD_MAX (2 * PATH_MAX + 8)     /* an argument of -v: two paths */

/* Join FOLDER and PATH, or take PATH alone if it is absolute, without dots; false if it is too
 * long. */
static bool
join(char ret_path[PATH_MAX], const char *folder, const char *path)
{
	OWN(freep) char *whole = path[0] == '/' ? strdup(path) : str_format("%s/%s", folder, path);
	size_t len = 0;
	char *rest = whole;

	if (whole == NULL || strlen(whole) >= PATH_MAX)
		return false;
	ret_path[0] = '\0';
	for (const char *part; (part = strsep(&rest, "/")) != NULL;) {
		if (strcmp(part, "..") == 0) {
			while (len > 0 && ret_path[--len] != '/')
				;
			ret_path[len] = '\0';
		} else if (part[0] != '\0' && strcmp(part, ".") != 0) {
			len += (size_t)snprintf(ret_path + len, PATH_MAX - len, "/%s", part);
		}
	}
	return len > 0;
}

/* Host folders that every cell has, roughly. */
static bool
is_usual(const char *path)
{
	static const char *const usual[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc",
	                                     "/dev", "/proc" };

	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		if (tree_is_beneath(path, usual[i]))
			return true;
	return false;
}

/* Whether the cell has the host's PATH too, as far as is visible from here. */
static bool
is_granted(const struct cell_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_grants; i++)
		if (tree_is_beneath(path, spec->grants[i].host))
			return true;
	return is_usual(path);
}

/* The host path of the cell's PATH; false if there is none. */
static bool
find_host(const struct cell_spec *spec, const char *path, char ret_host[PATH_MAX])
{
	const struct cell_grant *best = NULL;

	for (size_t i = 0; i < spec->n_grants; i++)
		if (tree_is_beneath(path, spec->grants[i].cell) &&
		    (best == NULL || strlen(spec->grants[i].cell) > strlen(best->cell)))
			best = &spec->grants[i];
	if (best == NULL && !is_usual(path))
		return false;
	return snprintf(ret_host, PATH_MAX, "%s%s", best != NULL ? best->host : spec->rootfs,
	                path + (best != NULL ? strlen(best->cell) : 0)) < PATH_MAX;
}

/* One step from PATH: a link's target, or the interpreter of a script. */
static bool
follow(const char *path, char ret_next[PATH_MAX])
{
	char text[PATH_MAX], folder[PATH_MAX];
	ssize_t n = readlink(path, text, sizeof(text) - 1);
	OWN(closep) int fd = -1;
	char *name;
	struct stat st;

	if (n > 0) {
		text[n] = '\0';
		(void)join(folder, path, "..");
		return join(ret_next, folder, text);
	}
	/* Do not wait for a pipe or a terminal. */
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	n = read(fd, text, FIRST_LINE_MAX);
	if (n < 3 || strncmp(text, "#!", 2) != 0)
		return false;
	text[n] = '\0';
	name = text + 2 + strspn(text + 2, " \t");
	name[strcspn(name, " \t\r\n")] = '\0';
	return name[0] == '/' && join(ret_next, "/", name);
}

/* Find the file that PATH, which the cell has, needs and the cell lacks; false if unknown. */
static bool
find_needed(const struct cell_spec *spec, const char *path, char ret_needed[PATH_MAX])
{
	char at[PATH_MAX];

	/* With other programs, this host's links mean nothing. */
	if (cell_spec_programs(spec) != CELL_PROGRAMS_HOST)
		return false;
	snprintf(at, sizeof(at), "%s", path);
	for (int i = 0; i < HOPS_MAX && follow(at, ret_needed); i++) {
		if (!is_granted(spec, ret_needed))
			return true;
		memcpy(at, ret_needed, sizeof(at));
	}
	return false;
}

/* The home folder and its .local have a bin and a lib too, and much that is private. */
static bool
is_too_wide(const char *folder)
{
	const char *home = getenv("HOME");

	return home != NULL && (tree_is_beneath(home, folder) ||
	       (tree_is_beneath(folder, home) && strcmp(folder + strlen(home), "/.local") == 0));
}

/* The folder with PATH in its bin and a lib beside it; false if there is none, or it is too wide. */
static bool
find_prefix(const char *path, char ret_prefix[PATH_MAX])
{
	OWN(freep) char *lib = NULL;
	char folder[PATH_MAX];
	struct stat st;

	if (!join(folder, path, "..") || strlen(folder) < 4 ||
	    strcmp(folder + strlen(folder) - 4, "/bin") != 0 || !join(folder, folder, "..") ||
	    is_too_wide(folder))
		return false;
	lib = str_format("%s/lib", folder);
	if (lib == NULL || stat(lib, &st) < 0 || !S_ISDIR(st.st_mode))
		return false;
	memcpy(ret_prefix, folder, sizeof(folder));
	return true;
}

/* A language's interpreter needs the files beside its bin. */
static void
choose_grant(const char *path, char ret_grant[PATH_MAX])
{
	if (!find_prefix(path, ret_grant))
		snprintf(ret_grant, PATH_MAX, "%s", path);
}

/* The -v argument for PATH.  If PATH leads through a link, the path in the cell must be given as
 * well. */
static const char *
name_grant(const char *path, char ret_word[WORD_MAX])
{
	OWN(freep) char *real = realpath(path, NULL);
	bool is_real = real == NULL || strcmp(real, path) == 0;

	snprintf(ret_word, WORD_MAX, "%s%s%s:ro", path, is_real ? "" : ":", is_real ? "" : path);
	return ret_word;
}

static void
tell_needed(const char *command, const char *needed, struct err *err)
{
	char grant[PATH_MAX], word[WORD_MAX];

	choose_grant(needed, grant);
	if (access(needed, F_OK) < 0)
		(void)err_set(err, ENOENT, "cannot run '%s': it needs '%s', which is neither in the cell nor on "
		              "this machine", command, needed);
	else
		(void)err_set(err, ENOENT, "cannot run '%s': it needs '%s', which is not in the cell: grant that "
		              "with -v %s", command, needed, name_grant(grant, word));
}

/* ---- a name without a path ---- */

/* Find the operator's copy of the command. */
static bool
find_outside(const char *name, char ret_path[PATH_MAX])
{
	const char *path = name[0] != '\0' ? getenv("PATH") : NULL, *end;
	struct stat st;

	for (; path != NULL && *path != '\0'; path = *end == ':' ? end + 1 : end) {
		end = path + strcspn(path, ":");
		snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)(end - path), path, name);
		if (stat(ret_path, &st) == 0 && S_ISREG(st.st_mode) && access(ret_path, X_OK) == 0)
			return true;
	}
	return false;
}

/* ---- granting a program in another place ---- */

/* The folder of the npm package around PATH; false if there is none. */
static bool
find_package(const char *path, char ret_package[PATH_MAX])
{
	static const char modules[] = "/node_modules/";
	/* The outermost package: packages contain others. */
	const char *at = strstr(path, modules), *end;

	if (at == NULL)
		return false;
	at += sizeof(modules) - 1;
	end = at + strcspn(at, "/");
	if (*at == '@' && *end == '/')
		end += 1 + strcspn(end + 1, "/");
	if (*end != '/')
		return false;
	snprintf(ret_package, PATH_MAX, "%.*s", (int)(end - path), path);
	return true;
}

/* The program of a script's `#!/usr/bin/env NAME`, if it is not where cells have it. */
static bool
find_by_env(const struct cell_spec *spec, const char *script, char ret_prefix[PATH_MAX])
{
	static const char env[] = "#!/usr/bin/env ";
	char line[FIRST_LINE_MAX + 1], found[PATH_MAX];
	OWN(closep) int fd = open(script, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, FIRST_LINE_MAX);

	if (n <= 0)
		return false;
	line[n] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	if (strncmp(line, env, sizeof(env) - 1) != 0 || !find_outside(line + sizeof(env) - 1, found))
		return false;
	return !is_granted(spec, found) && find_prefix(found, ret_prefix);
}

#define USUAL_PATH "/usr/local/bin:/usr/bin:/bin"

/* Suggest arguments with which COMMAND, which is PATH outside, would run: options, and its real
 * path if COMMAND does not suffice.  NULL if out of memory. */
static char *
suggest(const struct cell_spec *spec, const char *command, const char *path)
{
	OWN(freep) char *real = realpath(path, NULL);
	char prefix[PATH_MAX], grant[PATH_MAX];
	bool same;

	if (real == NULL)
		return str_format("-v %s:ro", path);
	/* The link and its target are in one place, so the name is enough there. */
	if (find_prefix(path, prefix) && tree_is_beneath(real, prefix))
		return str_format("-v %s:ro -e PATH=%s/bin:" USUAL_PATH, prefix, prefix);
	if (!find_package(real, grant))
		choose_grant(real, grant);
	same = strcmp(command, real) == 0;
	if (find_by_env(spec, real, prefix))
		return str_format("-v %s:ro -v %s:ro -e PATH=%s/bin:" USUAL_PATH "%s%s", grant, prefix, prefix,
		                  same ? "" : " -- ", same ? "" : real);
	return str_format("-v %s:ro%s%s", grant, same ? "" : " -- ", same ? "" : real);
}

/* Whether no path of the cell's programs is one outside. */
static bool
is_apart(const struct cell_spec *spec)
{
	return spec->bare || spec->image.name != NULL;
}

/* The host's programs need what an image, or a cell without programs, does not have. */
static void
tell_apart(const struct cell_spec *spec, const char *command, struct err *err)
{
	const bool is_path = strchr(command, '/') != NULL;

	if (spec->bare)
		(void)err_set(err, ENOENT, "cannot run '%s': a cell with --root none has only what -v grants: grant a static "
		              "program, and name it by its path", command);
	else
		(void)err_set(err, ENOENT, "cannot run '%s': %s '%s'%s", command, is_path ?
		              "this file, or something that it needs, is not in the image" :
		              "there is no such command in the image", spec->image.name,
		              strchr(command, ' ') != NULL ? ": its words are given apart, as `-- ls -l`" : "");
}

/* "debian:12" */
static bool
looks_like_image(const char *name)
{
	const char *colon = strrchr(name, ':');

	return colon != NULL && colon != name && colon[1] != '\0' && strpbrk(name, " =,") == NULL;
}

/* There is no such command anywhere. */
static void
tell_nowhere(const struct cell_spec *spec, const char *name, struct err *err)
{
	if (looks_like_image(name))
		(void)err_set(err, ENOENT, "cannot run '%s': there is no such command in the cell: if it is an image, `cloister run "
		              "--image %s -- CMD...`", name, name);
	else if (strchr(name, ' ') == NULL && spec->root)
		(void)err_set(err, ENOENT, "cannot run '%s': there is no such command in the cell, nor on the PATH here, nor such "
		              "a root: --root is followed by the command, or by host, none or minimal", name);
	else
		(void)err_set(err, ENOENT, "cannot run '%s': there is no such command in the cell%s", name,
		              strchr(name, ' ') != NULL ? ": its words are given apart, as `-- ls -l`" :
		              ", nor on the PATH here: install it, or grant its folder with -v");
}

static void
tell_name(const struct cell_spec *spec, const char *name, struct err *err)
{
	char outside[PATH_MAX], needed[PATH_MAX];

	if (!find_outside(name, outside)) {
		tell_nowhere(spec, name, err);
	} else if (!is_granted(spec, outside)) {
		OWN(freep) char *words = suggest(spec, name, outside);

		(void)err_set(err, ENOENT, "cannot run '%s': it is not in the cell; here it is '%s': grant it with %s",
		              name, outside, words != NULL ? words : "-v");
	} else if (find_needed(spec, outside, needed)) {
		tell_needed(outside, needed, err);
	} else {
		(void)err_set(err, ENOENT, "cannot run '%s': it is not on the cell's PATH: name it by its path, "
		              "'%s'", name, outside);
	}
}

/* ---- a path ---- */

/* Explain that COMMAND, which means PATH in the cell, is not granted. */
static void
tell_ungranted(const struct cell_spec *spec, const char *command, const char *path, struct err *err)
{
	OWN(freep) char *words = suggest(spec, command, path);

	if (command[0] != '/' && access(command, F_OK) == 0)
		(void)err_set(err, ENOENT, "cannot run '%s': it is not in the cell: -w . grants this folder",
		              command);
	else if (access(path, F_OK) == 0)
		(void)err_set(err, ENOENT, "cannot run '%s': it is not in the cell: grant it with %s",
		              command, words != NULL ? words : "-v");
	else
		(void)err_set(err, ENOENT, "cannot run '%s': it is not in the cell", command);
}

static void
tell_path(const struct cell_spec *spec, const char *command, struct err *err)
{
	char path[PATH_MAX] = "", host[PATH_MAX], needed[PATH_MAX];
	struct stat st;

	if (!join(path, spec->cwd, command) || !find_host(spec, path, host))
		tell_ungranted(spec, command, path, err);
	else if (find_needed(spec, host, needed))
		tell_needed(command, needed, err);
	else if (lstat(host, &st) < 0)
		(void)err_set(err, ENOENT, "cannot run '%s': there is no such file in the cell", command);
	else
		(void)err_set(err, ENOENT, "cannot run '%s': something that it needs is not in the cell: -v grants "
		              "what is not under /usr", command);
}

int
cell_explain_exec_error(const struct cell_spec *spec, const char *command, int error, struct err *err)
{
	if (error == ENOENT && is_apart(spec))
		tell_apart(spec, command, err);
	else if (error == ENOENT && strchr(command, '/') == NULL)
		tell_name(spec, command, err);
	else if (error == ENOENT)
		tell_path(spec, command, err);
	else if (error == EACCES)
		(void)err_set(err, EACCES, "cannot run '%s': it is a folder, or a file that is no program "
		              "(`chmod +x` makes it one)", command);
	else if (error == ETIMEDOUT)
		(void)err_set(err, ETIMEDOUT, "cannot run '%s': it was stopped again and again before it began, by "
		              "something in the cell", command);
	else
		(void)err_set(err, error, "cannot run '%s': %s", command, strerrordesc_np(error));
	return error == ENOENT ? 127 : 126;
}
