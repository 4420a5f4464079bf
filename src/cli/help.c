/* help.c - `cloister help`: printed from the tables of commands and options. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cli/cli.h"

#define USE_WIDTH 34    /* the column of verbs and options; a longer one gets its own line */

#define REGISTRY_VERBS(what) \
	{ "register " what, "register a version, and print its name" }, \
	{ "list", "list the newest versions" }, \
	{ "show NAME[@HASH]", "print a version, by default the newest" }, \
	{ "diff [NAME@HASH] NAME[@HASH]", "compare with the version before, or with that one" }, \
	{ "history NAME", "list all versions of a name" }, \
	{ "retire NAME[@HASH]", "retire a version, or all of a name" }

static const struct cli_verb capability[] = { REGISTRY_VERBS("FOLDER..."), {0} };
static const struct cli_verb agent[] = { REGISTRY_VERBS("FILE..."), {0} };
static const struct cli_verb policy[] = {
	{ "check [FILE...]", "report all errors of a policy" },
	{ "test [FILE]", "run test cases: requests with an expected verdict" },
	{ "explain FILE [METHOD] URL", "show how the rules decide on a request" },
	{ "presets [NAME]", "list the rules that come with cloister, or print some" },
	{ "schema", "print the JSON Schema of policies" },
	{ "trust", "accept this project's cloister.yaml as it is, for agents" },
	{ "show CELL", "print a running cell's policy, and how often each rule decided" },
	{ "set CELL FILE", "replace the policy of a running cell" },
	{ "edit CELL", "edit the policy of a running cell" },
	REGISTRY_VERBS("FILE..."), {0}
};
static const struct cli_verb secret[] = {
	{ "add NAME", "store a new secret; type its value, or pipe it in" },
	{ "list", "list all secrets" },
	{ "show NAME", "show a secret, without its value" },
	{ "rotate NAME", "give a secret a new value" },
	{ "remove NAME", "delete a secret" },
	{ "services [SERVICE]", "list the services that cloister knows" },
	{ "init", "create the vault with another kind of key" },
	{0}
};
static const struct cli_verb profile[] = {
	{ "list", "list all profiles: yours, the project's and built-in ones" },
	{ "show NAME", "print a profile" },
	{ "check [FILE|NAME...]", "report errors of profiles, by default of all" },
	{ "new NAME", "write a profile of your own" },
	{ "edit NAME", "edit your own profile, or a copy of another one" },
	{ "trust NAME", "print the project's profile, and accept it as it is" },
	{ "forget NAME", "delete what the agent kept for this project" },
	{0}
};
static const struct cli_verb dispatches[] = {
	{ "[--state STATE] [--limit N]", "without a verb: list dispatches, the newest first" },
	{ "show ID", "show its state, and what it was given" },
	{ "events ID", "print its events" },
	{ "output ID", "print the agent's output" },
	{ "files ID [PATH]", "list the files that it left in /out, or print one" },
	{ "cancel ID...", "cancel dispatches, without waiting for their end" },
	{ "prune", "remove old dispatches and unreferenced data" },
	{0}
};
static const struct cli_verb audit[] = {
	{ "verify [CELL|FILE...]", "verify timelines, by default all, or proofs and exports" },
	{ "show CELL [N]", "print the records of a timeline, or one of them" },
	{ "export CELL...", "print timelines, or statements about ended cells" },
	{ "prove CELL N", "print a proof that a record is in a timeline" },
	{ "key", "print the operator's public key" },
	{0}
};
static const struct cli_verb image[] = {
	{ "pull NAME...", "bring images from their registries" },
	{ "load REFERENCE", "bring an image from a file, a folder or an engine" },
	{ "list", "list all images" },
	{ "show IMAGE", "show the configuration and the layers of an image" },
	{ "diff IMAGE [IMAGE]", "list changed files: of the last layer, or between images" },
	{ "remove IMAGE...", "remove names, and images that have no other" },
	{ "prune", "remove images without a name that no cell runs" },
	{ "save IMAGE REFERENCE", "write an image to a new file or folder" },
	{ "build FOLDER", "make an image from a Dockerfile or image.yaml, in cells" },
	{0}
};
static const struct cli_verb volume[] = {
	{ "create NAME", "make an empty volume" },
	{ "list", "list all volumes" },
	{ "show NAME", "show a volume and its snapshots" },
	{ "clone NAME[@LABEL] NEW", "make a volume with the files of another, or of a snapshot" },
	{ "snapshot NAME[@LABEL]", "keep the volume as it is now" },
	{ "restore NAME@LABEL", "give the volume the files of a snapshot" },
	{ "remove NAME[@LABEL]...", "remove volumes, or snapshots" },
	{ "prune", "remove volumes whose time to live is over, and leftovers" },
	{0}
};
static const struct cli_verb cache[] = {
	{ "fill NAME", "run a command in a cell, and keep the packages that it brings" },
	{ "list", "list all caches" },
	{ "show NAME", "show a cache, its versions, and who filled them from where" },
	{ "use NAME VERSION", "let cells have another version, for example the one before" },
	{ "remove NAME[@VERSION]...", "remove caches, or versions" },
	{ "prune", "remove expired caches, and versions that no cell gets" },
	{ "verify [NAME[@VERSION]...]", "hash the files of caches again" },
	{0}
};
static const struct cli_verb tools[] = {
	{ "import [FILE]", "take servers over from another client's file" },
	{ "list [SERVER...]", "list the servers of a policy" },
	{ "lock [SERVER...]", "pin what servers state about their tools" },
	{ "check [SERVER...]", "compare servers with the lock, and their acts with it" },
	{ "learn SERVER -- SCRIPT...", "propose scopes from the calls of a script" },
	{ "login SERVER", "log in to a remote server, with a browser" },
	{ "token NAME", "print the token of a login, for cloister-vault" },
	{0}
};
static const struct cli_verb state[] = {
	{ "create NAME", "make a state" },
	{ "list", "list all states" },
	{ "log NAME [COMMIT]", "list commits" },
	{ "limit NAME", "change the limits of a state" },
	{ "show NAME [COMMIT]", "show the branches, tags and limits of a state, or one commit" },
	{ "diff NAME [FROM [TO]]", "show what changed: in the last commit, or between two" },
	{ "drift NAME [TAG]", "show how far it is from known-good, or another tag" },
	{ "files NAME [COMMIT]", "list files" },
	{ "cat NAME PATH [COMMIT]", "print a file" },
	{ "tag NAME TAG [COMMIT]", "name a commit" },
	{ "rollback NAME COMMIT", "go back: a new commit with the files of an earlier one" },
	{ "branch NAME BRANCH [COMMIT]", "make a branch" },
	{ "merge NAME COMMIT", "merge a branch or commit" },
	{ "review NAME [ID]", "list changes of cells that were not committed" },
	{ "accept NAME ID [PATH...]", "commit such changes" },
	{ "refuse NAME ID [PATH...]", "refuse such changes, or remove them" },
	{ "checkpoint CELL", "commit the states of a running cell" },
	{ "export NAME PATH", "write a git repository, or a bundle, that any git clones" },
	{ "import NAME PATH", "make a state of a folder or a git repository" },
	{ "verify [NAME]", "check the signatures and files of all commits" },
	{ "remove NAME", "remove a state with its history" },
	{ "signers", "print your key, for git's gpg.ssh.allowedSignersFile" },
	{0}
};
static const struct cli_verb plan[] = {
	{ "export", "write a plan of all that is registered, kept and started again" },
	{0}
};
static const struct cli_verb vm[] = {
	{ "template", "make a template that virtual machines start from" },
	{ "list", "list templates and disks" },
	{ "remove NAME...", "remove templates and disks; with --all, all of them" },
	{ "wait", "start a virtual machine that waits for a dispatch" },
	{0}
};

static const struct cli_verb worker[] = {
	{ "token", "on the service's machine: print a token for one worker" },
	{ "list", "on the service's machine: list the workers that have joined" },
	{ "remove ID...", "on the service's machine: shut workers out" },
	{0}
};

static const struct cli_verb store[] = {
	{ "copy", "copy everything, and read it back" },
	{0}
};

static const struct {
	const char *command;
	const struct cli_verb *verbs;
} all[] = {
	{ "capability", capability }, { "agent", agent }, { "env", agent }, { "target", agent }, { "policy", policy },
	{ "profile", profile },
	{ "secret", secret }, { "dispatches", dispatches }, { "audit", audit }, { "image", image }, { "volume", volume },
	{ "cache", cache },
	{ "tools", tools },
	{ "state", state }, { "plan", plan }, { "vm", vm }, { "worker", worker }, { "store", store },
};

const struct cli_verb *
cli_verbs_of(const struct cli_command *c)
{
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (strcmp(all[i].command, c->name) == 0)
			return all[i].verbs;
	return NULL;
}

void
cli_help_all(void)
{
	puts("cloister runs AI agents in throwaway cells.\n\nusage: cloister COMMAND ...\n");
	for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
		printf("  %-10s %-28s %s\n", c->name, c->args, c->help);
	puts("\nTo begin, in a project: `cloister run -w . -- sh` starts a shell in a cell, `cloister run claude` an agent.\n"
	     "`cloister help COMMAND` lists the options of a command. `man cloister` explains everything.");
}

void
cli_help_one(const struct cli_command *c)
{
	const struct cli_verb *verb = cli_verbs_of(c);
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
		puts("\nIt also takes the options of `cloister run`, except -p and -d.");
}
