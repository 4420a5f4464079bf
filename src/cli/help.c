/* help.c - `cloister help`: from the tables that commands and options are read from. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cli/cli.h"

#define USE_WIDTH 34    /* the column of verbs and options; what is longer has a line of its own */

#define REGISTRY_VERBS(what) \
	{ "register " what, "make it known; prints the name of the version" }, \
	{ "list", "what there is" }, \
	{ "show NAME[@HASH]", "one version, by default the newest" }, \
	{ "diff [NAME@HASH] NAME[@HASH]", "what differs from the version before, or from that one" }, \
	{ "history NAME", "all of its versions" }, \
	{ "retire NAME[@HASH]", "take it out of use" }

struct verb {
	const char *use, *help;
};

static const struct verb capability[] = { REGISTRY_VERBS("FOLDER..."), {0} };
static const struct verb agent[] = { REGISTRY_VERBS("FILE..."), {0} };
static const struct verb policy[] = {
	{ "check [FILE...]", "tell all that is wrong with it" },
	{ "test [FILE]", "try requests whose verdict is known" },
	{ "explain FILE [METHOD] URL", "show the way of one request through the rules" },
	{ "presets [NAME]", "rules that come with cloister, to be included" },
	{ "schema", "print the JSON Schema of policies" },
	{ "show CELL", "the policy of a running cell, and how often each rule was met" },
	{ "set CELL FILE", "give a running cell another policy" },
	{ "edit CELL", "edit the policy of a running cell" },
	REGISTRY_VERBS("FILE..."), {0}
};
static const struct verb secret[] = {
	{ "add NAME", "keep a new secret; type its value, or pipe it in" },
	{ "list", "list all secrets" },
	{ "show NAME", "show a secret, without its value" },
	{ "rotate NAME", "give a secret a new value" },
	{ "remove NAME", "delete a secret" },
	{ "services [SERVICE]", "list the services that cloister knows" },
	{ "init", "make the vault, with a key of another kind" },
	{0}
};
static const struct verb dispatches[] = {
	{ "[--state STATE] [--limit N]", "without a verb: list them, the newest first" },
	{ "show ID", "how it stands, and what it was given" },
	{ "events ID", "what happened" },
	{ "output ID", "what the agent printed" },
	{ "files ID [PATH]", "what it left in /out: which files, or the content of one" },
	{ "cancel ID...", "end it, without waiting for that" },
	{ "prune", "remove what is old, and what nothing refers to any more" },
	{0}
};
static const struct verb audit[] = {
	{ "verify [CELL|FILE...]", "check timelines, by default all, or proofs and exports" },
	{ "show CELL [N]", "the records of a timeline, or one" },
	{ "export CELL...", "timelines, or statements about ended cells" },
	{ "prove CELL N", "that this record is in what the operator signed" },
	{ "key", "the operator's public key" },
	{0}
};

static const struct {
	const char *command;
	const struct verb *verbs;
} all[] = {
	{ "capability", capability }, { "agent", agent }, { "env", agent }, { "policy", policy },
	{ "secret", secret }, { "dispatches", dispatches }, { "audit", audit },
};

static const struct verb *
verbs_of(const struct cli_command *c)
{
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(all[i].command, c->name) == 0)
			return all[i].verbs;
	return NULL;
}

bool
cli_has_verbs(const struct cli_command *c)
{
	return verbs_of(c) != NULL;
}

void
cli_help_all(void)
{
	puts("cloister runs AI agents in throwaway cells.\n\nusage: cloister COMMAND ...\n");
	for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
		printf("  %-10s %-28s %s\n", c->name, c->args, c->help);
	puts("\n`cloister help COMMAND` lists the options of a command. `man cloister` explains everything.");
}

void
cli_help_one(const struct cli_command *c)
{
	const struct verb *verb = verbs_of(c);
	char option[64];

	printf("usage: cloister %s%s%s\n%s\n", c->name, *c->args != '\0' ? " " : "", c->args,
	       c->help);
	if (verb != NULL)
		puts("");
	for (; verb != NULL && verb->use != NULL; verb++)
		printf("  %-*s %s\n", USE_WIDTH, verb->use, verb->help);
	if (c->options->name != NULL)
		puts("");
	for (const struct cli_option *o = c->options; o->name != NULL; o++) {
		snprintf(option, sizeof(option), "%c%c%c --%s%s%s", o->letter != 0 ? '-' : ' ',
		         o->letter != 0 ? o->letter : ' ', o->letter != 0 ? ',' : ' ', o->name,
		         o->arg != NULL ? " " : "", o->arg != NULL ? o->arg : "");
		if (strlen(option) > USE_WIDTH)
			printf("  %s\n", option);
		printf("  %-*s %s\n", USE_WIDTH, strlen(option) > USE_WIDTH ? "" : option, o->help);
	}
	if (c->options == cli_learn_options)
		puts("\nIt takes the options of `cloister run` too, but for -p and -d.");
}
