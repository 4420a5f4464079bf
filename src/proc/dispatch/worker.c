/* worker.c - `cloister worker`: runs the dispatches of a pool, which other machines asked for. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/args.h"
#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cell/cell_try.h"
#include "dispatch/dispatch_parts.h"
#include "loop/loop.h"
#include "proc/dispatch/dispatch_proc.h"
#include "proc/dispatch/uplink.h"
#include "registry/registry.h"
#include "store/db.h"
#include "target/target.h"

#define SLOTS 4
#define SLOTS_MAX 1024

struct worker {
	struct loop *loop;
	struct dispatcher *dispatcher;
	struct uplink *uplink;
	struct registry *reg;
	bool once, stopping;
};

static void
stop(struct worker *w)
{
	w->stopping = true;
	dispatcher_drain(w->dispatcher);
	if (dispatcher_driven(w->dispatcher) == 0)
		loop_quit(w->loop);
}

static void
over(void *arg)
{
	struct worker *w = arg;

	if (w->once || w->stopping)
		stop(w);
}

/* A worker that has joined a service has no secrets of its own to give. */
static int
lend(void *arg, const struct dispatch *d, struct err *err)
{
	struct worker *w = arg;

	return w->uplink == NULL ? -ENOENT : uplink_lend(w->uplink, d, err);
}

/* Its service steers the cell, for as long as it runs. */
static void
changed(void *arg, const char *id, enum dispatch_state state)
{
	struct worker *w = arg;
	OWN(dispatch_free) struct dispatch d = {0};
	bool runs = state == DISPATCH_STARTING || state == DISPATCH_RUNNING;

	if (w->uplink != NULL && uplink_wants(w->uplink, id, runs) && dispatch_get(w->reg, id, &d, NULL) == 0) {
		d.state = state;
		uplink_tell(w->uplink, &d);
	}
}

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	struct worker *w = arg;

	(void)info;
	if (w->stopping) {
		loop_quit(w->loop);
		return;
	}
	stop(w);
	if (dispatcher_driven(w->dispatcher) > 0)
		fprintf(stderr, "cloister: waiting for %zu dispatches to end; a second signal leaves them\n",
		        dispatcher_driven(w->dispatcher));
}

static int
read_options(const struct args *args, struct dispatcher_options *o, bool *once, struct err *err)
{
	const char *pool = args_get(args, "pool"), *slots = args_get(args, "slots");
	char target[sizeof(TARGET_POOL) + TARGET_POOL_NAME_MAX + 1];
	const struct target *found;
	uint64_t n = SLOTS;

	if (pool == NULL)
		return err_set(err, EINVAL, "which pool? cloister worker --pool NAME");
	snprintf(target, sizeof(target), TARGET_POOL "%s", pool);
	*once = args_get(args, "once") != NULL;
	if (slots != NULL && num_parse_count(slots, 1, SLOTS_MAX, &n, err) < 0)
		return err_wrap(err, "--slots '%s'", slots);
	if (*once && slots != NULL)
		return err_set(err, EINVAL, "--once runs one dispatch: remove --slots");
	o->pool = pool;
	o->concurrency = *once ? 1 : (unsigned)n;
	return target_find(target, &found, err);
}

/* cloister-link joins: it alone reads what comes from the network. */
static int
join(struct registry *reg, const char *token, const char *pool, struct err *err)
{
	union { const char *in; char *out; } words[] = { { .in = token }, { .in = db_home(registry_db(reg)) }, { .in = pool } };
	char *argv[] = { (char[]){ "cloister-link" }, (char[]){ "join" }, (char[]){ "--" }, words[0].out, words[1].out,
		words[2].out, NULL };
	int r = spawn_run(&(struct spawn){ .argv = argv, .flags = SPAWN_DIES }, err);

	/* It has said why. */
	if (r > 0)
		exit(TELL_FAILED);
	return r;
}

/* One that cannot run cells would only make dispatches fail. */
static int
check_cells(struct err *err)
{
	char why[CELL_TRY_WHY_MAX];
	int r = cell_try(NULL, why);

	if (r <= 0)
		return r < 0 ? err_set(err, -r, "cannot try whether cells run here") : 0;
	return err_set(err, ENOTSUP, "cells cannot run here: %s. `cloister doctor` says what to change", why);
}

static int
work(struct worker *w, struct registry *reg, struct dispatcher_options *o, struct err *err)
{
	sigset_t signals;
	int r = check_cells(err);

	r = r == 0 ? loop_new(&w->loop, err) : r;
	w->reg = reg;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	r = r == 0 ? loop_catch(w->loop, &signals, caught, w, err) : r;
	r = r == 0 ? uplink_new(w->loop, db_home(registry_db(reg)), &w->uplink, err) : r;
	r = r == 0 ? dispatcher_new(w->loop, reg, o, &w->dispatcher, err) : r;
	if (r < 0)
		return r;
	/* What this worker had when it was killed. */
	(void)dispatcher_recover(w->dispatcher, NULL, NULL);
	fprintf(stderr, "cloister: working for the pool %s, with %u at a time\n", o->pool, o->concurrency);
	r = loop_run(w->loop, err);
	(void)dispatch_release_claims(registry_db(reg), NULL);
	return r;
}

int
proc_worker(const struct args *args)
{
	OWN(registry_closep) struct registry *reg = NULL;
	struct worker w = {0};
	struct dispatcher_options o = { .over = over, .lend = lend, .changed = changed, .arg = &w };
	struct err err = {0};
	int r = read_options(args, &o, &w.once, &err);

	r = r == 0 ? registry_use_store(args_get(args, "store"), &err) : r;
	if (r == 0 && registry_store() == NULL)
		r = err_set(&err, EINVAL, "a worker needs the registry of the service: --store postgres://USER@HOST/DATABASE");
	signal(SIGPIPE, SIG_IGN);
	io_raise_files();
	r = r == 0 ? registry_open(true, &reg, &err) : r;
	if (r == 0 && args_get(args, "join") != NULL)
		r = join(reg, args_get(args, "join"), o.pool, &err);
	r = r == 0 ? work(&w, reg, &o, &err) : r;
	dispatcher_free(w.dispatcher);
	uplink_free(w.uplink);
	loop_free(w.loop);
	return r < 0 ? tell_error(&err) : 0;
}
