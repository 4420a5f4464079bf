/* timing.c - see timing.h. */
#include "base/timing.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/own.h"

#define PAGE (TIMING_STEPS * sizeof(uint64_t))

static const struct row {
	const char *key, *process, *text;
	enum timing_step after;         /* its cost is the time since then */
} rows[TIMING_STEPS] = {
	[TIMING_DESCRIBED] = { "described", "cloister", "read the options, describe the cell", TIMING_BEGUN },

	[TIMING_SUPERVISOR] = { "supervisor", "supervisor", "load the supervisor", TIMING_DESCRIBED },
	[TIMING_PLACED] = { "placed", "supervisor", "read the description, take a slot", TIMING_SUPERVISOR },
	[TIMING_LIMITED] = { "limited", "supervisor", "make the cgroup", TIMING_PLACED },
	[TIMING_PREPARED] = { "prepared", "supervisor", "prepare input, output and grants", TIMING_LIMITED },
	[TIMING_CLONED] = { "cloned", "supervisor", "make the namespaces", TIMING_PREPARED },
	[TIMING_MAPPED] = { "mapped", "supervisor", "map the ids", TIMING_CLONED },
	[TIMING_CAPTURED] = { "captured", "supervisor", "make the network", TIMING_MAPPED },
	[TIMING_RECORDED] = { "recorded", "supervisor", "make the record and the timeline", TIMING_CAPTURED },
	[TIMING_READY] = { "ready", "supervisor", "wait for init", TIMING_RECORDED },
	[TIMING_LISTENS] = { "listens", "supervisor", "open the control socket", TIMING_READY },
	[TIMING_CLEARED] = { "cleared", "supervisor", "remove what crashed cells left", TIMING_LISTENS },
	[TIMING_LOCKED] = { "locked", "supervisor", "lock the supervisor down", TIMING_CLEARED },

	[TIMING_ENTERED] = { "entered", "child", "enter the cgroup, wait for the ids", TIMING_CLONED },
	[TIMING_SKELETON] = { "skeleton", "child", "make the root, /etc and /usr", TIMING_ENTERED },
	[TIMING_DEVICES] = { "devices", "child", "make /dev", TIMING_SKELETON },
	[TIMING_PROC] = { "proc", "child", "make and mask /proc", TIMING_DEVICES },
	[TIMING_SCRATCH] = { "scratch", "child", "make the scratch space", TIMING_PROC },
	[TIMING_GRANTED] = { "granted", "child", "attach the grants", TIMING_SCRATCH },
	[TIMING_ROOT] = { "root", "child", "enter the root", TIMING_GRANTED },
	[TIMING_NETWORK] = { "network", "child", "wait for the network, enter it", TIMING_ROOT },
	[TIMING_DROPPED] = { "dropped", "child", "set limits, drop all rights", TIMING_NETWORK },

	[TIMING_INIT] = { "init", "init", "load init", TIMING_DROPPED },
	[TIMING_CONFINED] = { "confined", "init", "set Landlock and the filter", TIMING_INIT },
	[TIMING_AGENT] = { "agent", "init", "start the agent", TIMING_CONFINED },
	[TIMING_AGENT_ENDED] = { "agent-ended", "init", "the agent runs", TIMING_AGENT },

	[TIMING_DEAD] = { "dead", "supervisor", "init ends", TIMING_AGENT_ENDED },
	[TIMING_KEPT] = { "kept", "supervisor", "keep record and changes", TIMING_DEAD },
	[TIMING_REMOVED] = { "removed", "supervisor", "remove cgroup and runtime entry", TIMING_KEPT },
};

uint64_t *timing_page;
int timing_file = -1;

uint64_t
timing_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void
timing_note(enum timing_step step)
{
	timing_page[step] = timing_now_ns();
}

int
timing_make(uint64_t begun_ns, struct err *err)
{
	OWN(closep) int fd = memfd_create("timing", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	/* A page that became shorter would kill the supervisor. */
	if (fd < 0 || ftruncate(fd, PAGE) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return err_errno(err, "cannot make the page of times");
	r = timing_attach(fd, err);
	if (r < 0)
		return r;
	timing_page[TIMING_BEGUN] = begun_ns;
	(void)TAKE_FD(fd);
	return 0;
}

int
timing_attach(int fd, struct err *err)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_errno(err, "cannot map the page of times");
	timing_page = page;
	timing_file = fd;
	return 0;
}

/* ---- printing ---- */

struct done {
	const struct row *row;
	uint64_t at_ns, took_ns;        /* since TIMING_BEGUN; since the step before */
};

static int
by_time(const void *a, const void *b)
{
	const struct done *x = a, *y = b;

	/* Equal times keep the order of the table. */
	return x->at_ns != y->at_ns ? (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns) :
	                              (x->row > y->row) - (x->row < y->row);
}

static uint64_t
since(uint64_t then, uint64_t now)
{
	return now > then ? now - then : 0;
}

/* The steps that were done, sorted; returns their number. */
static size_t
list_done(const uint64_t at[TIMING_STEPS], struct done ret_done[TIMING_STEPS])
{
	size_t n = 0;

	for (size_t step = TIMING_BEGUN + 1; step < TIMING_STEPS; step++) {
		size_t before = rows[step].after;

		if (at[step] == 0)
			continue;
		while (at[before] == 0 && before != TIMING_BEGUN)
			before = rows[before].after;
		ret_done[n++] = (struct done){ &rows[step], since(at[TIMING_BEGUN], at[step]),
		                               since(at[before], at[step]) };
	}
	if (n > 0)
		qsort(ret_done, n, sizeof(*ret_done), by_time);
	return n;
}

void
timing_print(FILE *out, const uint64_t at[TIMING_STEPS])
{
	struct done done[TIMING_STEPS];
	size_t n = list_done(at, done);

	fprintf(out, "%9s %9s  %-10s  %s\n", "at ms", "took ms", "process", "step");
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%9.3f %9.3f  %-10s  %s\n", (double)done[i].at_ns / 1e6,
		        (double)done[i].took_ns / 1e6, done[i].row->process, done[i].row->text);
}

void
timing_put_json(struct json *w, const char *key, const uint64_t at[TIMING_STEPS])
{
	struct done done[TIMING_STEPS];
	size_t n = list_done(at, done);

	json_open(w, key, '[');
	for (size_t i = 0; i < n; i++) {
		json_open(w, NULL, '{');
		json_str(w, "step", done[i].row->key);
		json_str(w, "process", done[i].row->process);
		json_u64(w, "at_ns", done[i].at_ns);
		json_u64(w, "took_ns", done[i].took_ns);
		json_close(w, '}');
	}
	json_close(w, ']');
}
