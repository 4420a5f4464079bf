/* main.c - cloister-collect: copies a dead cell's changes to the host's disk.
 *
 * The supervisor starts it inside the cell's user namespace, where it may read whatever the agent
 * made and owns nothing else:
 *   fd 3  the overlay's upper folder
 *   fd 4  an empty folder on the host, to be filled
 *   fd 5  a pipe for its one line of output: "ok SKIPPED" or "err ERRNO TEXT" */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "confine/filter.h"
#include "workspace/workspace.h"

enum { FROM = 3, TO = 4, RESULT = 5 };

#define TEXT_MAX 512

/* Nothing of the tree has been read yet. */
static int
lock_down(struct err *err)
{
	umask(077);
	if (close_range(RESULT + 1, ~0u, 0) < 0)
		return err_errno(err, "cannot close descriptors");
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "cannot give up privileges");
	return filter_load(FILTER_COLLECT, err);
}

static int
tell(int r, uint64_t skipped, struct err *err)
{
	char line[TEXT_MAX + 64];

	for (char *p = err->text; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
	if (r == 0)
		snprintf(line, sizeof(line), "ok %" PRIu64 "\n", skipped);
	else
		snprintf(line, sizeof(line), "err %d %.*s\n", err->code, TEXT_MAX, err->text);
	return write_all(RESULT, line, strlen(line), NULL) < 0 || r < 0 ? 1 : 0;
}

int
main(void)
{
	struct err err = {0};
	uint64_t skipped = 0;
	int r = lock_down(&err);

	if (r == 0)
		r = workspace_collect(FROM, TO, &skipped, &err);
	return tell(r, skipped, &err);
}
