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

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "cell/cell_spec.h"
#include "profile/program.h"

#define HOPS_MAX 16                     /* nested links and interpreter lines */
#define WORD_MAX (2 * PATH_MAX + 8)     /* an argument of -v: two paths */
#define SUGGESTION_MAX (4 * WORD_MAX)   /* an error has less room */

/* Whether the cell has the host's PATH too, as far as is visible from here. */
static bool
is_granted(const struct cell_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_grants; i++)
		if (tree_is_beneath(path, spec->grants[i].host))
			return true;
	return program_is_usual(path);
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
	if (best == NULL && !program_is_usual(path))
		return false;
	return snprintf(ret_host, PATH_MAX, "%s%s", best != NULL ? best->host : spec->rootfs,
	                path + (best != NULL ? strlen(best->cell) : 0)) < PATH_MAX;
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
	for (int i = 0; i < HOPS_MAX && program_follow(at, ret_needed); i++) {
		if (!is_granted(spec, ret_needed))
			return true;
		memcpy(at, ret_needed, sizeof(at));
	}
	return false;
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

	program_choose(needed, grant);
	if (access(needed, F_OK) < 0)
		(void)err_set(err, ENOENT, "cannot run '%s': it needs '%s', which is neither in the cell nor on "
		              "this machine", command, needed);
	else
		(void)err_set(err, ENOENT, "cannot run '%s': it needs '%s', which is not in the cell: grant that "
		              "with -v %s", command, needed, name_grant(grant, word));
}

/* ---- granting a program in another place ---- */

/* Whether its name suffices, in a cell with its PATH. */
static bool
is_on_path(const struct program *p)
{
	for (size_t i = 0; i < p->n_bins; i++)
		if (tree_is_beneath(p->run, p->bins[i]))
			return true;
	return false;
}

/* Suggest arguments with which COMMAND, which is PATH outside, would run: options, and its real
 * path if COMMAND does not suffice.  NULL if out of memory. */
static char *
suggest(const struct cell_spec *spec, const char *command, const char *path)
{
	OWN(program_free) struct program p = {0};
	OWN(buf_free) struct buf b = BUF(SUGGESTION_MAX);
	char word[WORD_MAX];

	if (program_find(path, &p, NULL) < 0)
		return str_format("-v %s:ro", path);
	for (size_t i = 0; i < p.n_grants; i++) {
		if (is_granted(spec, p.grants[i].cell))
			continue;
		buf_put_text(&b, b.len > 0 ? " -v " : "-v ");
		buf_put_text(&b, name_grant(p.grants[i].cell, word));
	}
	for (size_t i = 0; i < p.n_bins; i++) {
		buf_put_text(&b, i == 0 ? " -e PATH=" : ":");
		buf_put_text(&b, p.bins[i]);
	}
	buf_put_text(&b, p.n_bins > 0 ? ":" PROGRAM_USUAL_PATH : "");
	if (strcmp(p.run, command) != 0 && !is_on_path(&p)) {
		buf_put_text(&b, " -- ");
		buf_put_text(&b, p.run);
	}
	return buf_failed(&b) ? NULL : strndup((const char *)b.data, b.len);
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

static void
tell_image(const char *name, struct err *err)
{
	(void)err_set(err, ENOENT, "cannot run '%s': there is no such command in the cell: if it is an image, `cloister run "
	              "--image %s -- CMD...`", name, name);
}

/* There is no such command anywhere. */
static void
tell_nowhere(const struct cell_spec *spec, const char *name, struct err *err)
{
	if (looks_like_image(name))
		tell_image(name, err);
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

	if (!program_search(name, outside)) {
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
	else if (strchr("/.", command[0]) == NULL && looks_like_image(command))
		tell_image(command, err);
	else
		(void)err_set(err, ENOENT, "cannot run '%s': it is not in the cell", command);
}

static void
tell_path(const struct cell_spec *spec, const char *command, struct err *err)
{
	char path[PATH_MAX] = "", host[PATH_MAX], needed[PATH_MAX];
	struct stat st;

	if (!program_join(path, spec->cwd, command) || !find_host(spec, path, host))
		tell_ungranted(spec, command, path, err);
	else if (find_needed(spec, host, needed))
		tell_needed(command, needed, err);
	else if (lstat(host, &st) < 0 && strchr("/.", command[0]) == NULL && looks_like_image(command))
		tell_image(command, err);
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
	else if (error == EUCLEAN)
		(void)err_set(err, EUCLEAN, "cannot run '%s': its program " CELL_NOT_RESOLVED, command);
	else if (error == ETIMEDOUT)
		(void)err_set(err, ETIMEDOUT, "cannot run '%s': it was stopped again and again before it began, by "
		              "something in the cell", command);
	else if (error == ENOTSUP)
		(void)err_set(err, ENOTSUP, "cannot run '%s': its policy bounds which programs are started (`programs`, or `exec` in "
		              "`syscalls`), for which this kernel's Landlock must be of version 2 or later", command);
	else
		(void)err_set(err, error, "cannot run '%s': %s", command, strerrordesc_np(error));
	return error == ENOENT ? 127 : 126;
}
