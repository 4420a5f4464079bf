/* audit_progress.c - shows progress on a terminal. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/io.h"
#include "proc/audit/audit_proc.h"

#define PATIENCE_MS 2000
#define STEP_MS 250

void
audit_progress_begin(struct audit_progress *p, const char *what)
{
	*p = (struct audit_progress){ .what = what, .started_ms = isatty(2) ? io_now_ms() : 0 };
}

void
audit_progress_show(struct audit_progress *p, uint64_t done, uint64_t total)
{
	int64_t now = p->started_ms == 0 ? 0 : io_now_ms();

	if (now < p->started_ms + PATIENCE_MS || now < p->shown_ms + STEP_MS || total == 0)
		return;
	p->shown_ms = now;
	fprintf(stderr, "\r%s: %u%% of %" PRIu64 " MiB\033[K", p->what,
	        (unsigned)((done < total ? done : total) * 100 / total), total >> 20);
}

void
audit_progress_end(struct audit_progress *p)
{
	if (p->shown_ms != 0)
		fputs("\r\033[K", stderr);
	p->shown_ms = p->started_ms = 0;
}
