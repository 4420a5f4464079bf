/* supervisor_log.c - a detached cell's output goes to its log. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

/* A log that is full is turned over, so that a flood of lines costs no more than
 * two logs. */
static size_t
log_sink(void *arg, const unsigned char *data, size_t len)
{
	struct supervisor *sv = arg;

	if (sv->log_size + len > SUPERVISOR_LOG_MAX) {
		closep(&sv->log);
		(void)renameat(sv->state, CELL_LOG, sv->state, CELL_LOG ".1");
		sv->log = openat(sv->state, CELL_LOG, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND |
		                 O_CLOEXEC, 0600);
		sv->log_size = 0;
	}
	/* A full disk must not stop the agent: what cannot be kept is lost. */
	if (sv->log >= 0 && write_all(sv->log, data, len, NULL) == 0)
		sv->log_size += len;
	return len;
}

int
supervisor_open_log(struct supervisor *sv, int ret_inside[3], struct err *err)
{
	ret_inside[0] = ret_inside[1] = ret_inside[2] = -1;
	sv->log = openat(sv->state, CELL_LOG, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC,
	                 0600);
	if (sv->log < 0)
		return err_errno(err, "cannot make the cell's log");
	return stdio_open_sink(&sv->stdio, log_sink, sv, ret_inside, err);
}
