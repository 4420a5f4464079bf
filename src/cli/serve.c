/* serve.c - `cloister serve`: becomes cloister-serve, which answers for all of this user's cells. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "cli/cli.h"

#define WORDS_MAX 16

const struct cli_option cli_serve_options[] = {
	{ "socket", 's', "PATH", "the operator's socket (serve.sock in the runtime folder)", 0 },
	{ "agents-socket", 0, "PATH", "the agents' socket (agents.sock in the runtime folder)", 0 },
	{ "listen", 'l', "127.0.0.1:PORT", "TCP too, on this machine only", 0 },
	{ "token-file", 0, "FILE", "TCP: the operator's token; made if it is missing", 0 },
	{ "agent-token-file", 0, "FILE", "TCP: one more token, which has an agent's rights", 0 },
	{ "tls-cert", 0, "FILE", "TCP: the server's certificate, PEM; one is made if none is given", 0 },
	{ "tls-key", 0, "FILE", "TCP: its key", 0 },
	{ "no-tls", 0, NULL, "TCP: not encrypted", 0 },
	{ "concurrency", 'c', "N", "how many dispatches run at a time", 0 },
	{ "idle-exit", 0, "TIME", "end when nobody asks and nothing runs for so long", 0 },
	{ "routes", 0, NULL, "only print what can be asked, and by whom", 0 },
	{0}
};

struct words {
	char *at[WORDS_MAX + 2];
	size_t n;
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct words *words = arg;
	size_t len = strlen(option->name);

	for (size_t i = 1; i < words->n; i++)
		if (strncmp(words->at[i], option->name, len) == 0 &&
		    (words->at[i][len] == '=' || words->at[i][len] == '\0'))
			return err_set(err, EINVAL, "the option '--%s' is given twice", option->name);
	words->at[words->n] = value == NULL ? strdup(option->name) :
		str_format("%s=%s", option->name, value);
	return words->at[words->n++] == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
cmd_serve(int argc, char **argv)
{
	static char name[] = "cloister-serve";
	struct words words = { .at = { name }, .n = 1 };
	struct err err = {0};
	int rest;

	if (cli_parse(cli_serve_options, argc, argv, true, take_option, &words, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest < argc)
		return cli_failf("'serve' takes no words: '%s' is too much", argv[rest]);
	cli_become_with("cloister-serve", words.at, environ, &err);
	return cli_fail(&err);
}
