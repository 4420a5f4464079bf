/* registry_diff.c - finds the differences between two versions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "registry/registry.h"

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* PATH plus one part, escaped as in RFC 6901; NULL when out of memory. */
static char *
beneath(const char *path, const char *part)
{
	char *joined = str_format("%s/", path), *more;

	for (; joined != NULL && *part != '\0'; part++) {
		if (*part == '~' || *part == '/')
			more = str_format("%s~%c", joined, *part == '~' ? '0' : '1');
		else
			more = str_format("%s%c", joined, *part);
		free(joined);
		joined = more;
	}
	return joined;
}

static int
note(json_t *diff, const char *path, json_t *from, json_t *to, struct err *err)
{
	json_t *entry = json_pack("{s:s}", "path", path);
	int r = entry == NULL ? -1 : 0;

	if (r == 0 && from != NULL)
		r = json_object_set(entry, "from", from);
	if (r == 0 && to != NULL)
		r = json_object_set(entry, "to", to);
	if (r < 0)
		json_decref(entry);
	return r < 0 || json_array_append_new(diff, entry) < 0 ? no_memory(err) : 0;
}

static int compare(json_t *diff, const char *path, json_t *from, json_t *to, struct err *err);

static int
compare_member(json_t *diff, const char *path, const char *name, json_t *from, json_t *to,
               struct err *err)
{
	OWN(freep) char *place = beneath(path, name);

	if (place == NULL)
		return no_memory(err);
	if (from == NULL || to == NULL)
		return note(diff, place, from, to, err);
	return compare(diff, place, from, to, err);
}

static int
compare_objects(json_t *diff, const char *path, json_t *from, json_t *to, struct err *err)
{
	const char *name;
	json_t *member;
	int r = 0;

	json_object_foreach(from, name, member)
		r = r == 0 ? compare_member(diff, path, name, member, json_object_get(to, name), err) : r;
	json_object_foreach(to, name, member)
		if (r == 0 && json_object_get(from, name) == NULL)
			r = compare_member(diff, path, name, NULL, member, err);
	return r;
}

/* For lists, equal elements at both ends are left out; those in between count as removed and added. */
static int
compare_lists(json_t *diff, const char *path, json_t *from, json_t *to, struct err *err)
{
	size_t n = json_array_size(from), m = json_array_size(to), start = 0, end = 0;
	char index[24];
	int r = 0;

	while (start < n && start < m &&
	       json_equal(json_array_get(from, start), json_array_get(to, start)))
		start++;
	while (end < n - start && end < m - start &&
	       json_equal(json_array_get(from, n - 1 - end), json_array_get(to, m - 1 - end)))
		end++;
	for (size_t i = start; r == 0 && i < n - end; i++) {
		snprintf(index, sizeof(index), "%zu", i);
		r = compare_member(diff, path, index, json_array_get(from, i), NULL, err);
	}
	for (size_t i = start; r == 0 && i < m - end; i++) {
		snprintf(index, sizeof(index), "%zu", i);
		r = compare_member(diff, path, index, NULL, json_array_get(to, i), err);
	}
	return r;
}

static const char *
path_of(json_t *files, size_t i)
{
	return json_string_value(json_object_get(json_array_get(files, i), "path"));
}

/* Files have names, and are sorted by them. */
static int
compare_files(json_t *diff, json_t *from, json_t *to, struct err *err)
{
	size_t i = 0, k = 0;
	int r = 0, order;

	while (r == 0 && (i < json_array_size(from) || k < json_array_size(to))) {
		order = i == json_array_size(from) ? 1 : k == json_array_size(to) ? -1 :
		        strcmp(path_of(from, i), path_of(to, k));
		if (order < 0) {
			r = compare_member(diff, "/files", path_of(from, i), json_array_get(from, i), NULL, err);
		} else if (order > 0) {
			r = compare_member(diff, "/files", path_of(to, k), NULL, json_array_get(to, k), err);
		} else if (!json_equal(json_array_get(from, i), json_array_get(to, k))) {
			OWN(freep) char *place = beneath("/files", path_of(from, i));

			r = place == NULL ? no_memory(err) :
			    note(diff, place, json_array_get(from, i), json_array_get(to, k), err);
		}
		i += order <= 0;
		k += order >= 0;
	}
	return r;
}

static int
compare(json_t *diff, const char *path, json_t *from, json_t *to, struct err *err)
{
	if (json_equal(from, to))
		return 0;
	if (json_is_object(from) && json_is_object(to))
		return compare_objects(diff, path, from, to, err);
	if (!json_is_array(from) || !json_is_array(to))
		return note(diff, path, from, to, err);
	if (strcmp(path, "/files") == 0)
		return compare_files(diff, from, to, err);
	return compare_lists(diff, path, from, to, err);
}

int
registry_diff(json_t *from, json_t *to, json_t **ret_diff, struct err *err)
{
	OWN(json_decrefp) json_t *diff = json_array();
	int r = diff == NULL ? no_memory(err) : compare(diff, "", from, to, err);

	if (r < 0)
		return r;
	*ret_diff = TAKE(diff);
	return 0;
}
