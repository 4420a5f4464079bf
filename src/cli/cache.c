/* cache.c - `cloister cache`: fills caches of packages in cells.  For the other verbs it becomes cloister-volume. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "cli/timeline.h"

#define OPTIONS_MAX 80

/* Beside those of `run`.  They are no members, because cloister-volume gets them, too. */
enum { OPT_KIND = 1000, OPT_SIZE, OPT_TTL, OPT_JSON };

struct filling {
	const char *kind_name, *size_text, *ttl;
	bool json;
	struct words words;             /* of the `run` that is made of it */
	const char *name;
	const struct cache_kind *kind;
	uint64_t size;
	char command[CACHE_COMMAND_MAX + 1], hosts[CACHE_HOSTS_MAX + 1];
};

const struct cli_option cli_cache_options[] = {
	{ "kind", 'k', "KIND", "fill: " CACHE_KINDS, OPT_KIND },
	{ "size", 0, "SIZE", "fill: limit the cache (1G)", OPT_SIZE },
	{ "ttl", 0, "TIME", "fill: the cache expires after this time without use", OPT_TTL },
	{ "json", 0, NULL, "all but fill and remove: print JSON for programs", OPT_JSON },
	{0}
};

/* ---- the command line ---- */

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	static const char *const senseless[] = { "detach", "restart", "print-doc", "doc", "hold", "warm", "id", "layer",
		"attempt" };
	struct filling *f = arg;

	switch (option->id) {
	case OPT_KIND: f->kind_name = value; return 0;
	case OPT_SIZE: f->size_text = value; return 0;
	case OPT_TTL:  f->ttl = value;       return 0;
	case OPT_JSON: f->json = true;       return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(senseless); i++)
		if (strcmp(option->name, senseless[i]) == 0)
			return err_set(err, EINVAL, "`cache fill` runs one command to its end: remove --%s", option->name);
	words_add(&f->words, value == NULL ? str_format("--%s", option->name) : str_format("--%s=%s", option->name, value));
	return f->words.failed ? err_set(err, E2BIG, "there are too many words") : 0;
}

/* The options of `cache` and of `run` together. */
static int
take_words(struct filling *f, int argc, char **argv, struct err *err)
{
	struct cli_option all[OPTIONS_MAX + 1] = {{0}};
	size_t n = 0;
	int rest = argc, r;

	for (const struct cli_option *o = cli_cache_options; o->name != NULL; o++)
		all[n++] = *o;
	for (const struct cli_option *o = cli_run_options; o->name != NULL && n < OPTIONS_MAX; o++)
		all[n++] = *o;
	words_add(&f->words, strdup("run"));
	r = cli_parse(all, argc, argv, false, take_option, f, &rest, err);
	words_add(&f->words, strdup("--"));
	if (r == 0 && rest == argc)
		r = err_set(err, EINVAL, "no command is given: cloister cache fill NAME --kind KIND [OPTION...] -- CMD...");
	for (int i = rest; r == 0 && i < argc; i++)
		words_add(&f->words, strdup(argv[i]));
	return r == 0 && f->words.failed ? err_set(err, E2BIG, "there are too many words") : r;
}

/* The command in one printable line. */
static void
note_command(struct filling *f)
{
	bool command = false;

	for (size_t i = 0; i < f->words.n; i++) {
		size_t len = strlen(f->command);

		if (command)
			snprintf(f->command + len, sizeof(f->command) - len, "%s%s", len > 0 ? " " : "", f->words.list[i]);
		command |= strcmp(f->words.list[i], "--") == 0;
	}
	for (char *c = f->command; *c != '\0'; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

static int
check(struct filling *f, struct err *err)
{
	uint64_t ttl = 1;
	int r = 0;

	if (!cache_name_ok(f->name))
		return err_set(err, EINVAL, "'%.100s' cannot be the name of a cache: use up to %d letters, digits, '-', '_' and '.'",
		               f->name, CACHE_NAME_MAX);
	f->kind = f->kind_name == NULL ? NULL : cache_kind_find(f->kind_name);
	if (f->kind == NULL)
		return f->kind_name == NULL ? err_set(err, EINVAL, "say of which kind the packages are: --kind " CACHE_KINDS) :
		       err_set(err, EINVAL, "there is no kind '%.100s' of packages: it is " CACHE_KINDS, f->kind_name);
	if (f->json)
		return err_set(err, EINVAL, "`cache fill` has no option --json: use `cloister cache show %s --json` afterwards", f->name);
	if (f->size_text != NULL)
		r = num_parse_size(f->size_text, &f->size, err);
	if (r == 0 && f->size_text != NULL && (f->size < VOLUME_SIZE_LEAST || f->size > VOLUME_SIZE_MAX))
		r = err_set(err, ERANGE, "--size '%s' must be 64K to 16T", f->size_text);
	if (r == 0 && f->ttl != NULL)
		r = num_parse_duration(f->ttl, &ttl, err);
	return r == 0 && ttl == 0 ? err_set(err, EINVAL, "--ttl '%s' must be greater than 0", f->ttl) : r;
}

/* ---- the cell ---- */

static pid_t cell_pid;

static void
pass_on(int signal)
{
	(void)kill(cell_pid, signal);
}

/* Signals of the terminal reach the supervisor directly. */
static void
take_signals(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, pass = { .sa_handler = pass_on, .sa_flags = SA_RESTART };

	(void)sigaction(SIGINT, &ignore, NULL);
	(void)sigaction(SIGQUIT, &ignore, NULL);
	(void)sigaction(SIGTERM, &pass, NULL);
	(void)sigaction(SIGHUP, &pass, NULL);
}

static int
run_cell(const struct run *run, struct err *err)
{
	pid_t parent = getpid();
	int status;

	fflush(NULL);
	cell_pid = fork();
	if (cell_pid < 0)
		return err_errno(err, "cannot start a supervisor");
	if (cell_pid == 0) {
		int r;

		/* As with `run`: if this process is killed, so is the cell. */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(CLI_FAILED);
		r = run_start(run, err);
		_exit(r < 0 ? cli_fail(err) : r);
	}
	take_signals();
	while (waitpid(cell_pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_errno(err, "cannot wait for the cell");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Agents choose names, so only those that hosts can have are noted. */
static void
note_host(struct filling *f, const char *host)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyz0123456789-._:[]";
	const size_t len = strlen(host), used = strlen(f->hosts);

	if (len == 0 || strspn(host, ok) != len || used + len + 2 > sizeof(f->hosts))
		return;
	for (const char *at = f->hosts; (at = strstr(at, host)) != NULL; at += len)
		if ((at == f->hosts || at[-1] == ' ') && (at[len] == '\0' || at[len] == ' '))
			return;
	snprintf(f->hosts + used, sizeof(f->hosts) - used, "%s%s", used > 0 ? " " : "", host);
}

/* From where the packages came: the hosts that the cell was let through to. */
static int
note_hosts(struct filling *f, const char *cell, struct err *err)
{
	OWN(timeline_close) struct timeline t = {0};
	struct timeline_event e;
	int r = timeline_open(cell, &t, err);

	/* A cell without a timeline reached nothing. */
	if (r == -ENOENT)
		return 0;
	while (r == 0 && (r = timeline_next(&t, &e, err)) > 0) {
		if (timeline_is_decision(&e) && !timeline_is_refusal(&e) && strcmp(e.type, "dns") != 0)
			note_host(f, e.host);
		timeline_event_free(&e);
		r = 0;
	}
	return r;
}

/* ---- filling ---- */

static int
keep(struct filling *f, const char *volume, const char *cell, struct err *err)
{
	char *argv[] = { (char[]){ "cloister-volume" }, (char[]){ "--keep" }, (char *)(uintptr_t)volume,
		(char *)(uintptr_t)f->name, (char *)(uintptr_t)f->kind->name, (char *)(uintptr_t)(f->ttl != NULL ? f->ttl : ""),
		(char *)(uintptr_t)cell, f->command, f->hosts, NULL };

	return spawn_run(&(struct spawn){ .argv = argv, .flags = SPAWN_DIES }, err);
}

/* The volume is the first of the cell's. */
static void
describe(const struct filling *f, const char *volume, struct run *run)
{
	struct policy_volume *at = &run->volumes.at[0];

	snprintf(at->name, sizeof(at->name), "%s", volume);
	snprintf(at->path, sizeof(at->path), CACHE_PATH "%s", f->name);
	at->writes = true;
	run->volumes.n = 1;
	run->fills = f->kind;
}

static int
fill(struct filling *f, struct volumes *v, const char *volume, struct err *err)
{
	OWN(run_free) struct run run = {0};
	int status;

	describe(f, volume, &run);
	status = run_describe((int)f->words.n, f->words.list, &run, err);
	if (status == 0)
		status = run_cell(&run, err);
	/* The cell's own lock, which this process shares. */
	if (run.volumes_fd > 0)
		close_fd(&run.volumes_fd);
	if (status > 0)
		fprintf(stderr, "cloister: the cache '%s' stays as it was: the command did not succeed\n", f->name);
	if (status == 0)
		status = note_hosts(f, run.spec.id, err);
	if (status != 0) {
		(void)cache_abandon(v, volume, NULL);
		return status;
	}
	return keep(f, volume, run.spec.id, err);
}

static void
filling_free(struct filling *f)
{
	words_free(&f->words);
}

static int
cmd_fill(int argc, char **argv)
{
	OWN(filling_free) struct filling f = { .name = argc > 1 ? argv[1] : "" };
	OWN(volumes_close) struct volumes v = { .top = -1, .names = -1, .trees = -1, .locks = -1 };
	char volume[VOLUME_NAME_MAX + 1];
	struct err err = {0};
	int r;

	if (argc < 2 || argv[1][0] == '-')
		return cli_failf("which cache? Use cloister cache fill NAME --kind KIND [OPTION...] -- CMD...");
	r = take_words(&f, argc - 1, argv + 1, &err);
	r = r == 0 ? check(&f, &err) : r;
	if (r == 0)
		note_command(&f);
	r = r == 0 ? volumes_open(true, &v, &err) : r;
	r = r == 0 ? cache_begin(&v, f.name, f.kind, f.size, volume, &err) : r;
	r = r == 0 ? fill(&f, &v, volume, &err) : r;
	return r < 0 ? cli_fail(&err) : r;
}

int
cmd_cache(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "fill") == 0)
		return cmd_fill(argc - 1, argv + 1);
	return cli_hand_over("cloister-volume", cli_cache_options, argc, argv);
}
