/* main.c - cloister-collect: copies a cell's changes to the host's disk; with --live, while the cell runs.
 *
 * The supervisor starts it inside the cell's user namespace, where it may read whatever the agent
 * made and owns nothing else:
 *   fd 3  the overlay's upper folder
 *   fd 4  an empty folder on the host, to be filled
 *   fd 5  a pipe for its one line of output: "ok SKIPPED CHANGED" or "err ERRNO TEXT".  CHANGED: 1 if the
 *         cell changed something meanwhile
 *
 * With "--base SINCE" it copies the workspace's own files that these changes replace.  It runs with
 * the supervisor's ids then, because the files are the operator's:
 *   fd 3  the folder with the changes, on the host
 *   fd 4  an empty folder on the host, to be filled
 *   fd 5  as above, "ok KEPT 0"
 *   fd 6  the workspace
 * SINCE is when the cell started, in ns. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "confine/filter.h"
#include "workspace/workspace.h"

enum { FROM = 3, TO = 4, RESULT = 5, REAL = 6 };

#define TEXT_MAX 512

/* Nothing of the tree has been read yet. */
static int
lock_down(int last, struct err *err)
{
	umask(077);
	if (close_range((unsigned)last + 1, ~0u, 0) < 0)
		return err_errno(err, "cannot close descriptors");
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "cannot give up privileges");
	return filter_load(FILTER_COLLECT, err);
}

static int
tell(int r, uint64_t number, bool changed, struct err *err)
{
	char line[TEXT_MAX + 64];

	for (char *p = err->text; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
	if (r == 0)
		snprintf(line, sizeof(line), "ok %" PRIu64 " %d\n", number, changed);
	else
		snprintf(line, sizeof(line), "err %d %.*s\n", err->code, TEXT_MAX, err->text);
	return write_all(RESULT, line, strlen(line), NULL) < 0 || r < 0 ? 1 : 0;
}

static int
keep_base(const char *since, uint64_t *ret_kept, struct err *err)
{
	struct workspace ws = { .changes = FROM, .real = REAL };
	uint64_t ns;

	int r = num_parse_count(since, 0, INT64_MAX, &ns, err);

	if (r < 0)
		return r;
	ws.since_ns = (int64_t)ns;
	return workspace_keep_base(&ws, TO, ret_kept, err);
}

int
main(int argc, char **argv)
{
	const bool base = argc == 3 && strcmp(argv[1], "--base") == 0;
	const bool live = argc == 2 && strcmp(argv[1], "--live") == 0;
	struct err err = {0};
	uint64_t number = 0;
	bool changed = false;
	int r = lock_down(base ? REAL : RESULT, &err);

	if (r == 0)
		r = base ? keep_base(argv[2], &number, &err) :
		    live ? workspace_collect_live(FROM, TO, &number, &changed, &err) :
		    workspace_collect(FROM, TO, &number, &err);
	return tell(r, number, changed, &err);
}
