/* local_harvest.c - what an ended local cell left: its record, and the files of a folder.
 *
 * The agent made that tree, so it is walked as src/workspace walks changes, with limits. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "target/local_parts.h"
#include "workspace/workspace.h"

static int
harvest_files(int changes, const char *real, const struct target_harvest *how,
              struct target_end *end, struct err *err)
{
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	OWN(closep) int folder = tree_open_resolved(real);
	const struct workspace ws = { .changes = changes, .real = folder };
	size_t n = 0;
	int r = folder < 0 ? err_set(err, -folder, "cannot open '%s'", real) :
	        workspace_list(&ws, &list, &n, err);

	/* The agent caused this, and would again. */
	if (r == -E2BIG || r == -ENAMETOOLONG) {
		end->too_many = true;
		return 0;
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		if (list[i].kind == WORKSPACE_ADDED && !S_ISDIR(list[i].type))
			r = how->file(how->arg, &(struct target_file){ .path = list[i].path,
			              .mode = list[i].mode, .size = list[i].size, .folder = changes }, err);
	return r;
}

int
local_harvest(const char *cell, const struct target_harvest *how, struct target_end *ret_end,
              struct err *err)
{
	OWN(cell_record_free) struct cell_record record = {0};
	OWN(closep) int entry = local_open_entry(cell), changes = -1;
	struct target_end end = {0};
	char name[64];
	size_t i = 0;
	int r;

	if (entry < 0)
		return err_set(err, ENOENT, "what was kept of cell %s is gone", cell);
	r = cell_record_read(entry, &record, err);
	if (r < 0)
		return r;
	end = (struct target_end){ .end = record.end, .status = record.status, .lost = record.lost,
		.cut = { (record.cut & CELL_CUT_STDOUT) != 0, (record.cut & CELL_CUT_STDERR) != 0 } };
	snprintf(end.cause, sizeof(end.cause), "%s", record.cause);
	snprintf(end.incomplete, sizeof(end.incomplete), "%s", record.incomplete);
	while (i < record.spec.n_grants && strcmp(record.spec.grants[i].cell, how->folder) != 0)
		i++;
	if (i < record.spec.n_grants) {
		end.left_out = record.left_out[i];
		snprintf(name, sizeof(name), CELL_CHANGES "/%zu", i);
		changes = openat(entry, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	}
	end.has_files = changes >= 0 && tree_has_entries(changes) > 0;
	if (end.has_files && how->file != NULL)
		r = harvest_files(changes, record.spec.grants[i].host, how, &end, err);
	if (r == 0)
		*ret_end = end;
	return r;
}

int
local_open_file(const struct target_file *file, struct err *err)
{
	return workspace_open(file->folder, file->path, err);
}
