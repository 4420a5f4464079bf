/* main.c - cloister-oci: an OCI runtime whose containers are cells.
 *
 * Docker, Podman and containerd start it with the options of runc, and read its errors from standard
 * error or a log. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "base/tell.h"
#include "base/version.h"
#include "boundary/namespace/ns_plan.h"
#include "loop/stdio.h"
#include "proc/oci/oci.h"

enum { VALUE, LIST, FLAG, NOTHING, NO_VALUE };  /* the last two are accepted and ignored */

static struct oci given;

struct option {
	const char *name;
	int kind;
	void *to;
};

/* Before the command. */
static const struct option global_options[] = {
	{ "root", VALUE, &given.root }, { "log", VALUE, &given.log }, { "policies", VALUE, &given.policies },
	{ "policy", VALUE, &given.policy }, { "secret", LIST, NULL },
	{ "debug", NO_VALUE, NULL }, { "systemd-cgroup", NO_VALUE, NULL },
	{ "cgroup-manager", NOTHING, NULL }, { "rootless", NOTHING, NULL }, { "log-level", NOTHING, NULL },
	{ "log-format", VALUE, &given.format },
	{0}
};

/* Behind it. */
static const struct option command_options[] = {
	{ "bundle", VALUE, &given.bundle }, { "b", VALUE, &given.bundle },
	{ "pid-file", VALUE, &given.pid_file }, { "console-socket", VALUE, &given.console },
	{ "process", VALUE, &given.process }, { "p", VALUE, &given.process },
	{ "format", VALUE, &given.format }, { "f", VALUE, &given.format },
	{ "cwd", VALUE, &given.cwd }, { "user", VALUE, &given.user }, { "u", VALUE, &given.user },
	{ "env", LIST, NULL }, { "e", LIST, NULL },
	{ "detach", FLAG, &given.detach }, { "d", FLAG, &given.detach },
	{ "force", FLAG, &given.force }, { "all", FLAG, &given.all }, { "a", FLAG, &given.all },
	{ "tty", FLAG, &given.tty }, { "t", FLAG, &given.tty },
	{ "no-pivot", NO_VALUE, NULL }, { "no-new-keyring", NO_VALUE, NULL }, { "no-subreaper", NO_VALUE, NULL },
	{ "quiet", NO_VALUE, NULL }, { "q", NO_VALUE, NULL }, { "preserve-fds", NOTHING, NULL },
	{ "keep", NO_VALUE, NULL }, { "no-new-privs", NO_VALUE, NULL }, { "cap", NOTHING, NULL },
	{ "apparmor", NOTHING, NULL }, { "process-label", NOTHING, NULL }, { "cgroup", NOTHING, NULL },
	{0}
};

static const struct {
	const char *name, *args, *help;
	int (*run)(const struct oci *oci, struct err *err);
} commands[] = {
	{ "create", "[--bundle DIR] ID", "make a container, whose process waits", oci_create },
	{ "start", "ID", "start its process", oci_start },
	{ "run", "[--bundle DIR] ID", "create, start, wait and delete", oci_run },
	{ "state", "ID", "print its state as JSON", oci_show_state },
	{ "kill", "ID [SIGNAL]", "send its process a signal", oci_kill },
	{ "delete", "[--force] ID", "remove it", oci_delete },
	{ "exec", "[--process FILE] ID CMD...", "run another process in it", oci_exec },
	{ "pause", "ID", "stop all of its processes", oci_pause },
	{ "resume", "ID", "let them go on", oci_resume },
	{ "ps", "ID", "list its processes", oci_ps },
	{ "list", "", "list containers", oci_list },
	{ "features", "", "print what this runtime can do, as JSON", oci_features },
};

static int
print_help(void)
{
	printf("cloister-oci: run containers of Docker, Podman or containerd as cells\n\n"
	       "usage: cloister-oci [--root DIR] [--log FILE] [--log-format json] [--policies DIR]\n"
	       "                    [--policy NAME] [--secret NAME]... COMMAND\n\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		printf("  %-8s %-27s %s\n", commands[i].name, commands[i].args, commands[i].help);
	printf("\nThe engine calls it.  See cloister-oci(8).\n");
	return 0;
}

static int
print_version(void)
{
	printf("cloister-oci version " CLOISTER_VERSION "\nspec: " OCI_VERSION "\n");
	return 0;
}

static int
append(const char *name, const char *value, struct err *err)
{
	if (strcmp(name, "secret") == 0 && given.n_secrets < OCI_SECRETS_MAX)
		given.secrets[given.n_secrets++] = value;
	else if (strcmp(name, "secret") != 0 && given.n_environment < ARRAY_LEN(given.environment))
		given.environment[given.n_environment++] = value;
	else
		return err_set(err, E2BIG, "--%s is given too often", name);
	return 0;
}

static int
take(const struct option *option, const char *value, struct err *err)
{
	if (option->kind == FLAG)
		*(bool *)option->to = true;
	else if (option->kind == VALUE)
		*(const char **)option->to = value;
	else if (option->kind == LIST)
		return append(option->name, value, err);
	return 0;
}

/* One option at ARGV[*AT], and its value; 1: there is none. */
static int
parse_one(const struct option *options, char **argv, int *at, struct err *err)
{
	const char *word = argv[*at], *name = word + (word[0] == '-' && word[1] == '-' ? 2 : 1);
	size_t len = strcspn(name, "=");
	const char *value = name[len] == '=' ? name + len + 1 : NULL;

	if (word[0] != '-' || word[1] == '\0')
		return 1;
	for (; options->name != NULL; options++) {
		if (strlen(options->name) != len || strncmp(options->name, name, len) != 0)
			continue;
		(*at)++;
		if (options->kind == FLAG || options->kind == NO_VALUE)
			return take(options, NULL, err);
		if (value == NULL && argv[*at] == NULL)
			return err_set(err, EINVAL, "%s needs a value", word);
		return take(options, value != NULL ? value : argv[(*at)++], err);
	}
	return err_set(err, EINVAL, "cloister-oci has no option '%s'", word);
}

/* Options may follow the id, except where a command of the container begins. */
static int
parse(int argc, char **argv, struct err *err)
{
	static const char *words[4096];
	int at = 1, r = 0;

	given.words = words;
	while (at < argc && (r = parse_one(global_options, argv, &at, err)) == 0)
		;
	if (r < 0 || at == argc)
		return r < 0 ? r : err_set(err, EINVAL, "no command is given: see `cloister-oci --help`");
	given.log_json = given.format != NULL && strcmp(given.format, "json") == 0;
	given.format = NULL;
	given.command = argv[at++];
	while (at < argc) {
		bool ends = strcmp(argv[at], "--") == 0 || (strcmp(given.command, "exec") == 0 && given.n_words > 0);

		at += strcmp(argv[at], "--") == 0;
		for (; ends && at < argc && given.n_words + 1 < ARRAY_LEN(words); at++)
			words[given.n_words++] = argv[at];
		if (at == argc)
			break;
		r = ends ? err_set(err, E2BIG, "the command has too many words") :
		    parse_one(command_options, argv, &at, err);
		if (r < 0)
			return r;
		if (r > 0 && given.n_words + 1 < ARRAY_LEN(words))
			words[given.n_words++] = argv[at++];
	}
	return 0;
}

static int
run_command(struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(commands[i].name, given.command) != 0)
			continue;
		if (given.n_words == 0 && strstr(commands[i].args, "ID") != NULL)
			return err_set(err, EINVAL, "no container is given: cloister-oci %s %s", commands[i].name,
			               commands[i].args);
		return commands[i].run(&given, err);
	}
	return err_set(err, ENOSYS, "cloister-oci has no command '%s': see `cloister-oci --help`", given.command);
}

/* The engine's log, as runc writes it. */
static void
log_error(const struct err *err)
{
	OWN(fclosep) FILE *out = given.log == NULL ? NULL : fopen(given.log, "ae");
	struct json w = { .out = out };
	time_t now = time(NULL);
	char when[32];

	if (out == NULL)
		return;
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
	if (!given.log_json) {
		fprintf(out, "%s error: %s\n", when, err->text);
		return;
	}
	json_open(&w, NULL, '{');
	json_str(&w, "level", "error");
	json_str(&w, "msg", err->text);
	json_str(&w, "time", when);
	json_close(&w, '}');
	fputc('\n', out);
}

/* The root of a rootless engine's user namespace is an ordinary user, and has that user's folders. */
static int
choose_folders(struct err *err)
{
	const struct { const char *name, *base, *in; } folders[] = {
		{ "CLOISTER_RUNTIME_DIR", getenv("XDG_RUNTIME_DIR"), "" },
		{ "CLOISTER_STATE_DIR", getenv("HOME"), "/.local/state" },
		{ "CLOISTER_DATA_DIR", getenv("HOME"), "/.local/share" },
	};

	for (size_t i = 0; geteuid() == 0 && !ns_has_range() && i < ARRAY_LEN(folders); i++) {
		OWN(freep) char *path = folders[i].base == NULL ? NULL :
		                        str_format("%s%s/cloister", folders[i].base, folders[i].in);

		if (path != NULL && setenv(folders[i].name, path, 0) < 0)
			return err_errno(err, "cannot choose a folder");
	}
	return 0;
}

int
main(int argc, char **argv)
{
	struct err err = {0};
	int r;

	stdio_fill_closed();
	if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-v") == 0))
		return print_version();
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0))
		return print_help();
	r = parse(argc, argv, &err);
	if (r == 0)
		r = choose_folders(&err);
	if (r == 0)
		r = run_command(&err);
	if (r >= 0)
		return r;
	log_error(&err);
	(void)tell_error(&err);
	return 1;
}
