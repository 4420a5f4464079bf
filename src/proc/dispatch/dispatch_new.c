/* dispatch_new.c - `cloister dispatch`: submits a request, and drives it or leaves that to others. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/err.h"
#include "base/own.h"
#include "loop/loop.h"
#include "proc/dispatch/dispatch_proc.h"
#include "registry/registry.h"
#include "target/target.h"
#include "trust/trust.h"

/* ---- the request ---- */

/* Reads all of FILE, or of standard input for "-". */
static int
read_input(const char *file, char **ret_data, size_t *ret_len, struct err *err)
{
	bool is_stdin = strcmp(file, "-") == 0;
	OWN(closep) int fd = is_stdin ? dup(STDIN_FILENO) :
	                     trust_open(TRUST_DISPATCH_INPUT, file, err);
	OWN(freep) char *data = NULL;
	size_t len = 0, cap = 0;
	ssize_t n = 1;

	if (fd < 0)
		return is_stdin ? err_errno(err, "cannot read the input") : fd;
	while (n != 0) {
		if (len == cap) {
			char *more = realloc(data, cap = cap * 2 + 65536);

			if (more == NULL)
				return err_set(err, ENOMEM, "out of memory");
			data = more;
		}
		n = read(fd, data + len, cap - len);
		if (n < 0 && errno != EINTR)
			return err_errno(err, "cannot read the input '%s'", file);
		len += n > 0 ? (size_t)n : 0;
		if (len > DISPATCH_INPUT_MAX)
			return err_set(err, EFBIG, "the input '%s' is over %u MiB", file,
			               DISPATCH_INPUT_MAX >> 20);
	}
	*ret_data = TAKE(data);
	*ret_len = len;
	return 0;
}

static int
show_plan(struct registry *reg, const struct dispatch_request *request, const struct said *said,
          struct err *err)
{
	OWN(json_decrefp) json_t *resolved = NULL;
	int r = dispatch_resolve(reg, request, &resolved, err);

	if (r < 0)
		return r;
	if (said->json)
		return proc_print_json(TAKE(resolved), err);
	proc_print_resolved(stdout, resolved);
	return 0;
}

/* ---- waiting ---- */

struct waiting {
	struct loop *loop;
	struct registry *reg;
	struct dispatcher *dispatcher;
	const char *id;
	struct follower follower;
	struct loop_file events;
	struct loop_timer look;
	bool explained, asked_to_end;
	int signal;                     /* a second signal: leave it to others */
};

static void
check_over(struct waiting *w)
{
	if (w->follower.over && dispatcher_driven(w->dispatcher) == 0)
		loop_quit(w->loop);
}

static void
events_changed(void *arg, const char *name)
{
	struct waiting *w = arg;

	(void)name;
	(void)proc_follow(&w->follower, NULL);
	check_over(w);
}

static void
over(void *arg)
{
	struct waiting *w = arg;

	(void)proc_follow(&w->follower, NULL);
	check_over(w);
}

/* Nobody may ever come for it. */
static void
explain_wait(struct waiting *w)
{
	OWN(dispatch_free) struct dispatch d = {0};

	if (!w->follower.json && dispatch_get(w->reg, w->id, &d, NULL) == 0 && d.state == DISPATCH_QUEUED &&
	    target_pool(d.target) != NULL)
		fprintf(stderr, "cloister: it waits for a worker of the pool '%s'\n", target_pool(d.target));
}

/* If its driver was killed, this process takes over. */
static void
look_due(void *arg)
{
	struct waiting *w = arg;

	if (!w->follower.over && dispatcher_driven(w->dispatcher) == 0)
		(void)dispatcher_take(w->dispatcher, w->id, NULL);
	if (!w->explained)
		explain_wait(w);
	w->explained = true;
	loop_set_timer(w->loop, &w->look, PROC_LOOK_MS);
}

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	struct waiting *w = arg;

	if (w->asked_to_end) {
		w->signal = (int)info->ssi_signo;
		loop_quit(w->loop);
		return;
	}
	w->asked_to_end = true;
	if (!w->follower.json)
		fprintf(stderr, "cloister: cancelling dispatch %s; interrupt again to stop waiting for its "
		        "end\n", w->id);
	(void)dispatch_cancel(w->reg, w->id, 5000, NULL);
}

static int
watch(struct waiting *w, struct err *err)
{
	sigset_t set;
	int r;

	w->follower.fd = dispatch_open_events(w->reg, w->id, err);
	if (w->follower.fd < 0)
		return w->follower.fd;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	r = loop_catch(w->loop, &set, caught, w, err);
	return r < 0 ? r : loop_watch_file(w->loop, &w->events, w->follower.fd, LOOP_FILE_MODIFIED, err);
}

/* Prints the rest of output that is cut in the events. */
static int
show_rest(struct waiting *w, enum dispatch_stream stream, struct err *err)
{
	OWN(closep) int fd = -1;

	if (!w->follower.cut[stream] || w->follower.json)
		return 0;
	fd = dispatch_open_output(w->reg, w->id, stream, NULL, err);
	if (fd < 0)
		return fd;
	if (lseek(fd, (off_t)w->follower.shown[stream], SEEK_SET) < 0)
		return err_errno(err, "cannot read the output");
	return proc_copy_out(fd, stream == DISPATCH_STDOUT ? stdout : stderr, err);
}

static int
wait_for(struct waiting *w, struct err *err)
{
	int r = watch(w, err);

	if (r == 0)
		r = dispatcher_take(w->dispatcher, w->id, err);
	/* Another driver was quicker, or an earlier request made it. */
	if (r == -EBUSY || r == -EALREADY)
		r = 0;
	if (r == 0)
		r = proc_follow(&w->follower, err);
	if (r == 0 && (!w->follower.over || dispatcher_driven(w->dispatcher) > 0))
		r = loop_run(w->loop, err);
	if (r == 0 && w->signal != 0)
		return 128 + w->signal;
	for (int i = 0; r == 0 && i < 2; i++)
		r = show_rest(w, (enum dispatch_stream)i, err);
	return r < 0 ? r : w->follower.status;
}

static int
drive_here(struct registry *reg, const char *id, const struct said *said, struct err *err)
{
	OWN(loop_freep) struct loop *loop = NULL;
	OWN(dispatcher_freep) struct dispatcher *dispatcher = NULL;
	struct waiting w = { .reg = reg, .id = id, .follower = { .json = said->json },
	                     .events = { .changed = events_changed, .arg = &w },
	                     .look = { .due = look_due, .arg = &w } };
	const struct dispatcher_options options = { .concurrency = proc_concurrency(), .over = over,
	                                            .arg = &w };
	int r = loop_new(&loop, err);

	if (r == 0)
		r = dispatcher_new(loop, reg, &options, &dispatcher, err);
	if (r < 0)
		return r;
	w.loop = loop;
	w.dispatcher = dispatcher;
	loop_set_timer(loop, &w.look, PROC_LOOK_MS);
	r = wait_for(&w, err);
	loop_cancel_timer(loop, &w.look);
	loop_unwatch_file(loop, &w.events);
	proc_follower_free(&w.follower);
	return r;
}

/* ---- the command ---- */

/* Called before it is accepted: nothing runs without a record. */
static int
note_asked(void *arg, const struct dispatch_note *note, struct err *err)
{
	const struct dispatch_request *request = arg;
	struct audit_member members[] = {
		{ .name = "dispatch", .text = note->id },
		{ .name = "agent", .text = request->agent },
		{ .name = "principal", .text = request->principal },
		{ .name = "resolved", .text = note->resolved },
		{ .name = "image", .text = note->image },
		{ .name = "programs", .text = note->programs },
	};

	return operator_note("dispatch.asked", members, ARRAY_LEN(members), err);
}

static int
submit(const struct said *said, char ret_id[DISPATCH_ID_LEN + 1], struct registry **ret_reg,
       struct dispatch *ret_parent, bool *ret_orphans, struct err *err)
{
	OWN(freep) char *input = NULL;
	struct dispatch_request request = {
		.agent = said->words[0], .envs = said->envs, .n_envs = said->n_envs,
		.capabilities = said->capabilities, .n_capabilities = said->n_capabilities,
		.secrets = said->secrets, .n_secrets = said->n_secrets, .image = said->image,
		.record = said->record,
		.principal = said->principal, .target = said->target, .timeout_ms = said->timeout_ms,
		.retries = (unsigned)said->retries, .key = said->key, .note = note_asked,
		.note_arg = &request,
	};
	bool created;
	int r = said->input == NULL ? 0 : read_input(said->input, &input, &request.input_len, err);

	request.input = input;
	if (r == 0)
		r = registry_open(true, ret_reg, err);
	if (r == 0 && said->parent != NULL) {
		r = dispatch_get(*ret_reg, said->parent, ret_parent, err);
		request.parent = ret_parent->id;
	}
	if (r == 0 && said->dry_run)
		return show_plan(*ret_reg, &request, said, err);
	if (r == 0)
		r = dispatch_submit(*ret_reg, &request, ret_id, &created, err);
	*ret_orphans = r == 0 && dispatch_has_orphans(*ret_reg, ret_id);
	return r;
}

/* Piped input is probably meant for the agent. */
static void
mention_input(const struct said *said)
{
	struct stat st;
	int n = 0;

	if (said->input == NULL && !said->json && fstat(STDIN_FILENO, &st) == 0 &&
	    S_ISFIFO(st.st_mode) && ioctl(STDIN_FILENO, FIONREAD, &n) == 0 && n > 0)
		fputs("cloister: standard input was not read: --input - gives it to the agent\n", stderr);
}

static bool
is_for_pool(struct registry *reg, const char *id)
{
	OWN(dispatch_free) struct dispatch d = {0};

	return dispatch_get(reg, id, &d, NULL) == 0 && target_pool(d.target) != NULL;
}

int
proc_dispatch(const struct said *said)
{
	OWN(registry_closep) struct registry *reg = NULL;
	OWN(dispatch_free) struct dispatch parent = {0};
	char id[DISPATCH_ID_LEN + 1] = "";
	struct err err = {0};
	bool orphans = false, pool = false;
	int r;

	if (said->n_words != 1)
		return proc_failf(said->n_words == 0 ? "which agent? cloister dispatch [OPTION...] AGENT" :
		                  "one agent at a time: cloister dispatch [OPTION...] AGENT");
	r = submit(said, id, &reg, &parent, &orphans, &err);
	if (r < 0 || said->dry_run)
		return r < 0 ? tell_error(&err) : 0;
	if (said->detach)
		mention_input(said);
	if (said->detach || orphans) {
		pool = is_for_pool(reg, id);
		/* A database must not be open on both sides of a fork. */
		registry_close(TAKE(reg));
		if (said->detach && said->json)
			printf("{\"id\":\"%s\"}\n", id);
		else if (said->detach)
			puts(id);
		/* Workers have drivers of their own. */
		if (!pool || orphans)
			r = proc_drive_behind(said->detach && !pool ? id : NULL, &err);
		if (said->detach)
			return r < 0 ? tell_error(&err) : 0;
		r = registry_open(false, &reg, &err);
		if (r < 0)
			return tell_error(&err);
	}
	r = drive_here(reg, id, said, &err);
	/* Only now: the writer of the pipe may be slow. */
	mention_input(said);
	return r < 0 ? tell_error(&err) : r;
}
