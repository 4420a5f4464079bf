/* worker.c - `cloister worker`: runs the dispatches of a pool, which other machines asked for.
 *
 * In a container it gets what is secret in variables, or in files that they name: see take_files(). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cell/cell_try.h"
#include "dispatch/dispatch_parts.h"
#include "fleet/fleet_worker.h"
#include "loop/loop.h"
#include "policy/policy_boundary.h"
#include "proc/dispatch/dispatch_proc.h"
#include "proc/dispatch/uplink.h"
#include "registry/registry.h"
#include "store/db.h"
#include "target/target.h"

#define SLOTS 4
#define SLOTS_MAX 1024
#define IDLE_LOOKS 20                   /* in the time after which it exits */
#define FILE_MAX (16 * 1024)

struct worker {
	struct loop *loop;
	struct loop_timer idle, seen;
	uint64_t idle_ms, idle_since;   /* 0: it stays; it has work */
	struct dispatcher *dispatcher;
	struct uplink *uplink;
	struct registry *reg;
	const char *pool;
	unsigned slots;
	bool once, tries, stopping;
};

static void
stop(struct worker *w)
{
	w->stopping = true;
	dispatcher_drain(w->dispatcher);
	loop_cancel_timer(w->loop, &w->seen);
	dispatch_worker_leaves(registry_db(w->reg));
	if (dispatcher_driven(w->dispatcher) == 0)
		loop_quit(w->loop);
}

/* Whether it has work can change in this loop alone, so nothing is claimed between the look and the end. */
static void
look_idle(void *arg)
{
	struct worker *w = arg;
	uint64_t now = loop_now_ms();

	if (dispatcher_driven(w->dispatcher) > 0)
		w->idle_since = 0;
	else if (w->idle_since == 0)
		w->idle_since = now;
	else if (now - w->idle_since >= w->idle_ms && dispatch_worker_may_leave(w->reg, w->pool)) {
		fputs("cloister: there was no work: the worker ends\n", stderr);
		stop(w);
		return;
	}
	loop_set_timer(w->loop, &w->idle, w->idle_ms / IDLE_LOOKS + 1);
}

/* What its slots are good for is known while it is seen. */
static void
show_itself(void *arg)
{
	struct worker *w = arg;

	(void)dispatch_worker_stays(registry_db(w->reg), w->pool, w->slots, NULL);
	loop_set_timer(w->loop, &w->seen, DISPATCH_SEEN_EVERY_MS);
}

static void
over(void *arg)
{
	struct worker *w = arg;

	if (w->once || w->stopping)
		stop(w);
}

/* Its service steers the cell, for as long as it runs. */
static void
changed(void *arg, const char *id, enum dispatch_state state)
{
	struct worker *w = arg;
	OWN(dispatch_free) struct dispatch d = {0};
	bool runs = state == DISPATCH_STARTING || state == DISPATCH_RUNNING;

	if (w->uplink != NULL && !runs)
		uplink_tell_over(w->uplink, id);
	else if (w->uplink != NULL && uplink_wants(w->uplink, id) && dispatch_get(w->reg, id, &d, NULL) == 0) {
		d.state = state;
		uplink_tell(w->uplink, &d);
	}
}

/* Whoever removes a worker does not trust it with more. */
static void
removed(void *arg)
{
	struct worker *w = arg;

	if (w->stopping)
		return;
	fputs("cloister: the worker takes no further dispatch, and ends with those that it has: join with a new token\n", stderr);
	stop(w);
}

/* Those who have removed it would have said so by now. */
static void
heard(void *arg)
{
	struct worker *w = arg;

	if (!w->stopping)
		dispatcher_release(w->dispatcher);
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
		fprintf(stderr, "cloister: waiting for %zu dispatch%s to end; a second signal leaves the cells running\n",
		        dispatcher_driven(w->dispatcher), dispatcher_driven(w->dispatcher) == 1 ? "" : "es");
}

/* What an engine keeps as a secret is in a file of the container: NAME_FILE names that of the variable NAME. */
static int
take_files(struct err *err)
{
	static const char *const names[] = { FLEET_JOIN, "CLOISTER_STORE", "CLOISTER_BLOBS", "PGPASSWORD", "AWS_ACCESS_KEY_ID",
		"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		OWN(freep) char *name = str_format("%s" FLEET_FILE_SUFFIX, names[i]), *text = NULL;
		const char *path = name != NULL ? getenv(name) : NULL;
		size_t len = 0;
		int r;

		if (path == NULL || *path == '\0')
			continue;
		r = read_file_at(AT_FDCWD, path, FILE_MAX, &text, &len, err);
		if (r < 0)
			return err_wrap(err, "%s", name);
		while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
			text[--len] = '\0';
		r = setenv(names[i], text, 1) < 0 ? err_errno(err, "cannot set a variable") : 0;
		explicit_bzero(text, len);
		if (r < 0)
			return r;
	}
	return 0;
}

static int
read_options(const struct args *args, struct dispatcher_options *o, struct worker *w, struct err *err)
{
	const char *idle = args_get(args, "idle");
	bool *once = &w->once;
	const char *pool = args_get(args, "pool"), *slots = args_get(args, "slots"), *boundary = args_get(args, "boundary");
	struct policy_boundary b;
	char target[sizeof(TARGET_POOL) + TARGET_POOL_NAME_MAX + 1];
	const struct target *found;
	uint64_t n = SLOTS;

	if (pool == NULL)
		return err_set(err, EINVAL, "which pool? `cloister worker --pool NAME`; the other forms are token, list and remove ID");
	snprintf(target, sizeof(target), TARGET_POOL "%s", pool);
	*once = args_get(args, "once") != NULL;
	if (slots != NULL && num_parse_count(slots, 1, SLOTS_MAX, &n, err) < 0)
		return err_wrap(err, "--slots '%s'", slots);
	if (idle != NULL && num_parse_duration(idle, &w->idle_ms, err) < 0)
		return err_wrap(err, "--idle '%s'", idle);
	if (idle != NULL && w->idle_ms == 0)
		return err_set(err, EINVAL, "--idle '%s': leave it out, and the worker stays", idle);
	w->tries = args_get(args, "try") != NULL;
	if (boundary != NULL && policy_boundary_parse(boundary, &b, err) < 0)
		return err_wrap(err, "--boundary");
	/* Its cells inherit it. */
	if (boundary != NULL && setenv("CLOISTER_BOUNDARY", boundary, 1) < 0)
		return err_errno(err, "cannot set a variable");
	boundary = getenv("CLOISTER_BOUNDARY");
	o->bare = boundary != NULL && strcmp(boundary, BOUNDARY_PROCESS) == 0;
	if (*once && slots != NULL)
		return err_set(err, EINVAL, "--once runs one dispatch: remove --slots");
	o->pool = pool;
	o->concurrency = *once ? 1 : (unsigned)n;
	return target_find(target, &found, err);
}

/* cloister-link joins: it alone reads what comes from the network.  Returns its exit status. */
static int
join(struct registry *reg, const char *token, const char *pool, struct err *err)
{
	union { const char *in; char *out; } words[] = { { .in = token }, { .in = db_home(registry_db(reg)) }, { .in = pool } };
	char *argv[] = { (char[]){ "cloister-link" }, (char[]){ "join" }, (char[]){ "--" }, words[0].out, words[1].out,
		words[2].out, NULL };
	int r = spawn_run(&(struct spawn){ .argv = argv, .flags = SPAWN_DIES }, err);

	/* Above 0, it has said why. */
	return r;
}

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
	int r;

	r = loop_new(&w->loop, err);
	w->reg = reg;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	r = r == 0 ? loop_catch(w->loop, &signals, caught, w, err) : r;
	r = r == 0 ? uplink_new(w->loop, db_home(registry_db(reg)), removed, heard, w, &w->uplink, err) : r;
	/* A worker that has joined a service has no secrets of its own to give. */
	o->lent = o->held = w->uplink != NULL;
	r = r == 0 ? dispatcher_new(w->loop, reg, o, &w->dispatcher, err) : r;
	if (r < 0)
		return r;
	w->pool = o->pool;
	w->slots = o->concurrency;
	loop_prepare_timer(&w->idle, look_idle, w);
	loop_prepare_timer(&w->seen, show_itself, w);
	loop_set_timer(w->loop, &w->seen, 0);
	if (w->idle_ms > 0)
		loop_set_timer(w->loop, &w->idle, 0);
	/* What this worker had when it was killed. */
	(void)dispatcher_recover(w->dispatcher, NULL, NULL);
	fprintf(stderr, "cloister: working for the pool %s, with %u at a time%s\n", o->pool, o->concurrency,
	        o->bare ? "; cells have the boundary 'process', which is weaker than all others" : "");
	r = loop_run(w->loop, err);
	dispatch_worker_leaves(registry_db(reg));
	(void)dispatch_release_claims(registry_db(reg), NULL);
	return r;
}

/* The exit status says what an engine's worker lacks, where nobody reads what it prints. */
static int
fail(const struct worker *w, int status, const struct err *err)
{
	(void)tell_error(err);
	return w->tries ? status : TELL_FAILED;
}

static int
run(const struct args *args, struct worker *w, struct dispatcher_options *o, struct err *err)
{
	OWN(registry_closep) struct registry *reg = NULL;
	const char *token = args_get(args, "join") != NULL ? args_get(args, "join") : getenv(FLEET_JOIN);
	int r = registry_use_store(args_get(args, "store"), err);

	if (r == 0 && registry_store() == NULL)
		r = err_set(err, EINVAL, "a worker needs the registry of the service: --store postgres://USER@HOST/DATABASE");
	/* One that cannot run cells would only make dispatches fail. */
	if (r == 0 && check_cells(err) < 0)
		return fail(w, FLEET_WORKER_NO_CELLS, err);
	r = r == 0 ? registry_open(true, &reg, err) : r;
	if (r < 0)
		return fail(w, FLEET_WORKER_NO_STORE, err);
	if (token != NULL && *token != '\0' && (r = join(reg, token, o->pool, err)) != 0)
		return r > 0 ? (w->tries ? FLEET_WORKER_NO_SERVICE : TELL_FAILED) : fail(w, FLEET_WORKER_NO_SERVICE, err);
	/* It is used up, and nothing that this worker starts needs it. */
	(void)unsetenv(FLEET_JOIN);
	if (w->tries) {
		puts("a worker can run cells here, and reaches the registry");
		return 0;
	}
	r = work(w, reg, o, err);
	dispatcher_free(w->dispatcher);
	uplink_free(w->uplink);
	loop_free(w->loop);
	return r < 0 ? tell_error(err) : 0;
}

int
proc_worker(const struct args *args)
{
	struct worker w = {0};
	struct dispatcher_options o = { .over = over, .changed = changed, .arg = &w };
	struct err err = {0};
	int r = read_options(args, &o, &w, &err);

	signal(SIGPIPE, SIG_IGN);
	io_raise_files();
	r = r == 0 ? take_files(&err) : r;
	return r < 0 ? tell_error(&err) : run(args, &w, &o, &err);
}
