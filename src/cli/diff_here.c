/* diff_here.c - finds out what `apply` would write where the workspace changed too. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/changes.h"
#include "cli/cli.h"

const char *
diff_here_text(enum diff_here here)
{
	static const char *const texts[] = {
		[DIFF_HERE_NOT] = "",
		[DIFF_HERE_CHANGED] = "  (changed here too)",
		[DIFF_HERE_MERGES] = "  (changed here too: apply merges both)",
		[DIFF_HERE_CONFLICT] = "  (changed here too: conflict)",
		[DIFF_HERE_ALONE] = "  (changed here too: apply leaves it alone)",
	};

	return texts[here];
}

/* The base is shown instead of the workspace's file if there is a conflict: so all that is shown are
 * the cell's changes. */
static int
open_merged(struct diff_reader *reader, const struct changes_part *part, const struct workspace_change *change,
            int *old, int *new, enum diff_here *ret_here, struct err *err)
{
	OWN(closep) int base = part->ws.base > 0 ? workspace_open(part->ws.base, change->path, NULL) : -1;
	OWN(closep) int merged = memfd_create("merged", MFD_CLOEXEC);
	const struct workspace_merge files = { .base = base, .ours = *old, .theirs = *new };
	uint64_t conflicts;
	int r;

	*ret_here = DIFF_HERE_ALONE;
	if (base < 0 || merged < 0)
		return 0;
	r = diff_merge_text(reader, &files, NULL, merged, &conflicts, err);
	if (r == -E2BIG)
		return 0;
	if (r < 0)
		return r;
	*ret_here = conflicts > 0 ? DIFF_HERE_CONFLICT : DIFF_HERE_MERGES;
	if (conflicts > 0) {
		closep(old);
		*old = TAKE_FD(base);
	} else {
		closep(new);
		*new = TAKE_FD(merged);
	}
	return 0;
}

int
diff_open(struct diff_reader *reader, const struct changes_part *part, const struct workspace_change *change,
          struct diff_files *ret_files, struct err *err)
{
	OWN(closep) int old = -1, new = -1;
	int r = changes_open_files(part, change, &old, &new);

	*ret_files = (struct diff_files){ -1, -1, DIFF_HERE_NOT, r < 0 ? -r : 0 };
	if (change->newer && !change->mode_only)
		ret_files->here = DIFF_HERE_ALONE;
	if (r < 0)
		return 0;
	if (change->newer && old >= 0 && new >= 0 && !change->in_git)
		r = open_merged(reader, part, change, &old, &new, &ret_files->here, err);
	ret_files->old = TAKE_FD(old);
	ret_files->new = TAKE_FD(new);
	return r;
}

void
diff_files_close(struct diff_files *files)
{
	closep(&files->old);
	closep(&files->new);
}
