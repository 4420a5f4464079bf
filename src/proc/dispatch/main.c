/* main.c - cloister-dispatch: the program of `cloister dispatch` and `cloister dispatches`. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/args.h"
#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "dispatch/dispatch_parts.h"
#include "loop/loop.h"
#include "proc/dispatch/dispatch_proc.h"
#include "registry/registry.h"

#define LIST_LIMIT 20
#define GRACE_MS 10000

int
proc_failf(const char *fmt, ...)
{
	struct err err = {0};
	char text[ERR_TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)err_set(&err, EINVAL, "%s", text);
	return tell_error(&err);
}

int
proc_status(enum dispatch_state state, int exit_code)
{
	switch (state) {
	case DISPATCH_FINISHED:  return exit_code;
	case DISPATCH_TIMED_OUT: return PROC_TIMED_OUT;
	case DISPATCH_CANCELLED: return PROC_CANCELLED;
	default:                 return TELL_FAILED;
	}
}

/* How many may run at a time, among all of this user's dispatches. */
unsigned
proc_concurrency(void)
{
	const char *said = getenv("CLOISTER_CONCURRENCY");
	uint64_t n;

	return said != NULL && num_parse_count(said, 1, 100000, &n, NULL) == 0 ? (unsigned)n :
	       DISPATCH_CONCURRENCY;
}

/* ---- in the background ---- */

struct behind {
	struct loop *loop;
	struct dispatcher *dispatcher;
};

static void
behind_changed(void *arg, const char *id, enum dispatch_state state)
{
	(void)arg, (void)id, (void)state;
}

static void
behind_look(void *arg)
{
	struct behind *b = arg;

	if (dispatcher_driven(b->dispatcher) == 0)
		loop_quit(b->loop);
}

static int
drive(const char *id)
{
	OWN(registry_closep) struct registry *reg = NULL;
	OWN(loop_freep) struct loop *loop = NULL;
	OWN(dispatcher_freep) struct dispatcher *dispatcher = NULL;
	struct behind b;
	const struct dispatcher_options options = { .changed = behind_changed, .over = behind_look,
		.arg = &b, .concurrency = proc_concurrency() };

	if (registry_open(false, &reg, NULL) < 0 || loop_new(&loop, NULL) < 0 ||
	    dispatcher_new(loop, reg, &options, &dispatcher, NULL) < 0)
		return 1;
	b = (struct behind){ loop, dispatcher };
	if (id != NULL)
		(void)dispatcher_take(dispatcher, id, NULL);
	(void)dispatcher_recover(dispatcher, NULL, NULL);
	return dispatcher_driven(dispatcher) == 0 ? 0 : loop_run(loop, NULL) < 0;
}

int
proc_drive_behind(const char *id, struct err *err)
{
	pid_t pid;
	int null;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return err_errno(err, "cannot start a process");
	if (pid > 0)
		return pid;
	setsid();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		(void)dup2(null, fd);
	/* Otherwise a process that waits for the end of this one's output would wait for the child too. */
	closefrom(STDERR_FILENO + 1);
	(void)!chdir("/");
	_exit(drive(id));
}

/* ---- the command line ---- */

static int
get_number(const struct args *args, const char *name, uint64_t max, uint64_t *ret_n, struct err *err)
{
	const char *value = args_get(args, name);

	if (value == NULL || num_parse_count(value, 0, max, ret_n, err) == 0)
		return 0;
	return err_wrap(err, "--%s '%.64s'", name, value);
}

static int
get_time(const struct args *args, const char *name, uint64_t min, uint64_t *ret_ms, struct err *err)
{
	const char *value = args_get(args, name);

	if (value == NULL)
		return 0;
	if (num_parse_duration(value, ret_ms, err) < 0)
		return err_wrap(err, "--%s '%.64s'", name, value);
	return *ret_ms >= min ? 0 : err_set(err, EINVAL, "--%s '%.64s': it must be over 0", name, value);
}

/* The values of an option that may be repeated. */
static int
get_words(const struct args *args, const char *name, const char **words, size_t max, size_t *ret_n, struct err *err)
{
	const char *word;
	size_t at = 0;

	for (*ret_n = 0; (word = args_next(args, name, &at)) != NULL; words[(*ret_n)++] = word)
		if (*ret_n == max)
			return err_set(err, E2BIG, "--%s is given over %zu times", name, max);
	return 0;
}

static int
get_said(const struct args *args, struct said *ret_said, struct err *err)
{
	struct said said = {
		.input = args_get(args, "input"), .principal = args_get(args, "on-behalf-of"),
		.target = args_get(args, "target"), .key = args_get(args, "key"),
		.state = args_get(args, "state"), .to = args_get(args, "to"),
		.parent = args_get(args, "parent"), .image = args_get(args, "image"),
		.record = args_get(args, "record"),
		.detach = args_get(args, "detach") != NULL, .dry_run = args_get(args, "dry-run") != NULL,
		.json = args_get(args, "json") != NULL, .follow = args_get(args, "follow") != NULL,
		.errors = args_get(args, "stderr") != NULL, .limit = LIST_LIMIT, .grace_ms = GRACE_MS,
		.older_ms = DISPATCH_KEPT_MS, .keep = DISPATCH_KEPT,
		.words = args->words, .n_words = args->n_words,
	};

	if (get_number(args, "retries", DISPATCH_RETRIES_MAX, &said.retries, err) < 0 ||
	    get_number(args, "limit", DISPATCH_LIST_MAX, &said.limit, err) < 0 ||
	    get_number(args, "keep", UINT32_MAX, &said.keep, err) < 0 ||
	    get_time(args, "timeout", 1, &said.timeout_ms, err) < 0 ||
	    get_time(args, "older", 0, &said.older_ms, err) < 0 ||
	    get_time(args, "time", 0, &said.grace_ms, err) < 0)
		return -EINVAL;
	if (get_words(args, "env", said.envs, DISPATCH_ENVS_MAX, &said.n_envs, err) < 0 ||
	    get_words(args, "capability", said.capabilities, DISPATCH_CAPABILITIES_MAX, &said.n_capabilities, err) < 0 ||
	    get_words(args, "secret", said.secrets, DISPATCH_SECRETS_MAX, &said.n_secrets, err) < 0)
		return -EINVAL;
	if (said.detach && args_get(args, "wait") != NULL)
		return err_set(err, EINVAL, "--wait and --detach cannot be combined: remove one");
	*ret_said = said;
	return 0;
}

static const struct verb {
	const char *name;
	int (*run)(const struct said *said);
} verbs[] = {
	{ "show", proc_show }, { "events", proc_events }, { "output", proc_output },
	{ "files", proc_files }, { "cancel", proc_cancel }, { "prune", proc_prune },
};

static int
run_verb(struct said *said)
{
	const char *names[ARRAY_LEN(verbs) + 1] = { NULL }, *word, *nearest;

	if (said->n_words == 0)
		return proc_list(said);
	word = said->words[0];
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		names[i] = verbs[i].name;
		if (strcmp(word, verbs[i].name) != 0)
			continue;
		said->words++;
		said->n_words--;
		return verbs[i].run(said);
	}
	nearest = text_nearest(word, names);
	if (nearest != NULL)
		return proc_failf("there is no `dispatches %.64s`: did you mean '%s'?", word, nearest);
	return proc_failf("there is no `dispatches %.64s`: use show, events, output, files or cancel, each "
	                  "with an id, or prune", word);
}

/* Runs for a driver, PARENT, which holds the lock and has passed it on.  If the driver is gone,
 * nobody would use the result: another driver begins anew. */
static int
run_for(const char *parent, const char *id, int (*run)(struct registry *reg, const struct dispatch *d, struct err *err))
{
	OWN(registry_closep) struct registry *reg = NULL;
	OWN(dispatch_free) struct dispatch d = {0};
	struct err err = {0};
	int r;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != (pid_t)strtol(parent, NULL, 10))
		return 1;
	if (registry_open(false, &reg, &err) < 0 || dispatch_get(reg, id, &d, &err) < 0) {
		(void)tell_error(&err);
		return DISPATCH_NO_REGISTRY;
	}
	r = run(reg, &d, &err);
	if (r >= 0)
		return 0;
	(void)tell_error(&err);
	/* The connection was lost. */
	return r == -EPIPE ? DISPATCH_NO_REGISTRY : TELL_FAILED;
}

int
main(int argc, char **argv)
{
	struct said said;
	struct args args;
	struct err err = {0};
	int status;

	if (!args_parse(argc, argv, &args))
		return proc_failf("cloister-dispatch is started by cloister only");
	if (strcmp(args.command, "harvest") == 0 && args.n_words == 2)
		return run_for(args.words[1], args.words[0], dispatch_harvest);
	if (strcmp(args.command, "bring") == 0 && args.n_words == 2)
		return run_for(args.words[1], args.words[0], dispatch_bring);
	if (strcmp(args.command, "cancel-all") == 0)
		return proc_cancel_all();
	if (strcmp(args.command, "worker") == 0)
		return proc_worker(&args);
	if (get_said(&args, &said, &err) < 0)
		return tell_error(&err);
	status = strcmp(args.command, "dispatch") == 0 ? proc_dispatch(&said) : run_verb(&said);
	/* A write that failed earlier has left no errno. */
	errno = 0;
	if (fflush(stdout) != 0 || ferror(stdout))
		return proc_failf("cannot write all of the output: %s", strerrordesc_np(errno != 0 ? errno : EIO));
	return status;
}
