/* main.c - cloister-lock: imports, lists, locks and checks the tools of MCP servers.
 *
 * `cloister tools` becomes it: see base/args.h, and the options in cli/tools.c.  lock_proc.h explains its processes. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/tell.h"
#include "ipc/lock_channel.h"
#include "proc/lock/lock_proc.h"

static const struct {
	const char *name;
	int (*run)(const struct args *args, struct err *err);
	size_t words_min, words_max;
	const char *words;
} commands[] = {
	{ "import", command_import, 0, 1, "[FILE]" },
	{ "list", command_list, 0, POLICY_TOOLS_SERVERS_MAX, "[SERVER...]" },
	{ "lock", command_lock, 0, POLICY_TOOLS_SERVERS_MAX, "[SERVER...]" },
	{ "check", command_check, 0, POLICY_TOOLS_SERVERS_MAX, "[SERVER...]" },
	{ "learn", command_learn, 2, SIZE_MAX, "SERVER -- SCRIPT..." },
	{ "login", command_login, 1, 1, "SERVER" },
	{ "token", command_token, 1, 1, "NAME" },
};

static const struct {
	const char *name;
	int (*run)(void);
} parts[] = { { WORKER_NAME, lock_worker_main }, { UPSTREAM_NAME, lock_upstream_main }, { LOGIN_NAME, lock_login_main } };

static int
run(struct args *args, struct err *err)
{
	const char *verb = args->n_words > 0 ? args->words[0] : "";

	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (strcmp(verb, commands[i].name) != 0)
			continue;
		args->words++;
		args->n_words--;
		if (args->n_words < commands[i].words_min || args->n_words > commands[i].words_max)
			return err_set(err, EINVAL, "it is `cloister tools %s %s`: see `cloister help tools`", verb,
			               commands[i].words);
		return commands[i].run(args, err);
	}
	return *verb == '\0' ? err_set(err, EINVAL, "`cloister tools` needs a verb: import, list, lock, check, learn or login") :
	       err_set(err, EINVAL, "`cloister tools` has no verb '%s': import, list, lock, check, learn or login", verb);
}

int
main(int argc, char **argv)
{
	struct err err = {0};
	struct args args;
	int r;

	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; argc == 1 && fcntl(LOCK_CHANNEL_FD, F_GETFD) >= 0 && i < ARRAY_LEN(parts); i++)
		if (strcmp(argv[0], parts[i].name) == 0)
			return parts[i].run();
	if (!args_parse(argc, argv, &args))
		r = err_set(&err, EINVAL, "cloister-lock is started by `cloister tools` only");
	else
		r = run(&args, &err);
	if (r < 0)
		return tell_error(&err);
	return r;
}
