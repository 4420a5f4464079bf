/* trust_mounts.c - finds the other paths under which a folder is mounted.
 *
 * For each mount, /proc/self/mountinfo gives the file system, the folder that is its root, and the
 * mount point.  So a path maps to a place in a file system, and the place maps back to paths. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "trust/trust.h"

#define MOUNTINFO_MAX (16 << 20)

struct trust_mounts {
	char *text;
	struct mount {
		const char *device, *root, *at;         /* "/" is "" in the last two */
	} *list;
	size_t n;
};

void
trust_mounts_freep(struct trust_mounts **m)
{
	if (*m == NULL)
		return;
	free((*m)->text);
	free((*m)->list);
	free(*m);
}

/* Decode "\040" and the like, in place. */
static void
undo_escapes(char *text)
{
	char *to = text;

	for (; *text != '\0'; to++) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' && text[2] <= '7' &&
		    text[3] >= '0' && text[3] <= '7') {
			*to = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
			text += 4;
		} else {
			*to = *text++;
		}
	}
	*to = '\0';
}

/* "36 35 98:0 /root /at rw,noatime ..."; false for anything else. */
static bool
parse_line(char *line, struct mount *ret_mount)
{
	char *field[5], *rest = line;

	for (size_t i = 0; i < ARRAY_LEN(field); i++) {
		field[i] = strsep(&rest, " ");
		if (rest == NULL)
			return false;
	}
	undo_escapes(field[3]);
	undo_escapes(field[4]);
	*ret_mount = (struct mount){ .device = field[2],
		.root = strcmp(field[3], "/") == 0 ? "" : field[3],
		.at = strcmp(field[4], "/") == 0 ? "" : field[4] };
	return true;
}

int
trust_mounts_parse(char *text, struct trust_mounts **ret_mounts, struct err *err)
{
	OWN(trust_mounts_freep) struct trust_mounts *m = calloc(1, sizeof(*m));
	size_t lines = 1;
	char *rest;

	if (m == NULL) {
		free(text);
		return err_set(err, ENOMEM, "out of memory");
	}
	m->text = text;
	for (const char *c = m->text; *c != '\0'; c++)
		lines += *c == '\n';
	m->list = calloc(lines, sizeof(*m->list));
	if (m->list == NULL)
		return err_set(err, ENOMEM, "out of memory");
	rest = m->text;
	for (char *line; (line = strsep(&rest, "\n")) != NULL;)
		if (parse_line(line, &m->list[m->n]))
			m->n++;
	*ret_mounts = TAKE(m);
	return 0;
}

int
trust_mounts_load(struct trust_mounts **ret_mounts, struct err *err)
{
	char *text;
	int r = read_file_at(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &text, NULL, err);

	return r < 0 ? r : trust_mounts_parse(text, ret_mounts, err);
}

/* The mount that PATH is on: of the longest matches the last, which is on top. */
static const struct mount *
find_mount(const struct trust_mounts *m, const char *path)
{
	const struct mount *best = NULL;

	for (size_t i = 0; i < m->n; i++)
		if (tree_is_beneath(path, m->list[i].at) &&
		    (best == NULL || strlen(m->list[i].at) >= strlen(best->at)))
			best = &m->list[i];
	return best;
}

/* Call EACH with every path of PLACE on DEVICE. */
static int
each_place(const struct trust_mounts *m, const char *device, const char *place,
           int (*each)(void *arg, const char *alias), void *arg)
{
	char alias[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n; i++) {
		const struct mount *other = &m->list[i];

		if (strcmp(other->device, device) != 0 || !tree_is_beneath(place, other->root))
			continue;
		if (snprintf(alias, sizeof(alias), "%s%s", other->at, place + strlen(other->root)) <
		    (int)sizeof(alias))
			r = each(arg, alias);
	}
	return r;
}

int
trust_mounts_each(const struct trust_mounts *m, const char *path, bool below,
                  int (*each)(void *arg, const char *alias), void *arg)
{
	const struct mount *on = find_mount(m, path);
	char place[PATH_MAX];
	int r = each(arg, path);

	if (r == 0 && on != NULL &&
	    snprintf(place, sizeof(place), "%s%s", on->root, path + strlen(on->at)) < (int)sizeof(place))
		r = each_place(m, on->device, place, each, arg);
	for (size_t i = 0; r == 0 && below && i < m->n; i++)
		if (tree_is_beneath(m->list[i].at, path) && strcmp(m->list[i].at, path) != 0)
			r = each_place(m, m->list[i].device, m->list[i].root, each, arg);
	return r;
}
