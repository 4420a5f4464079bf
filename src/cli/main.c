/* main.c - cloister: the table of commands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/cli.h"
#include "loop/stdio.h"

const struct cli_command cli_commands[] = {
	{ "run", "[OPTION...] [NAME|-- CMD...]", "start a cell running an agent, or CMD", cli_run_options, cmd_run },
	{ "init", "[OPTION...]", "write a policy for the project in the current folder", cli_init_options, cmd_init },
	{ "learn", "[OPTION...] [--] CMD...", "run CMD, and write the policy that it needs",
	  cli_learn_options, cmd_learn },
	{ "ps", "[OPTION...]", "list cells", cli_ps_options, cmd_ps },
	{ "top", "", "show cells and approvals live on the terminal", cli_no_options, cmd_top },
	{ "exec", "[OPTION...] CELL [--] CMD...", "run another command in a cell",
	  cli_exec_options, cmd_exec },
	{ "attach", "[OPTION...] CELL", "join the terminal of a cell that was started with -d -t",
	  cli_attach_options, cmd_attach },
	{ "events", "[OPTION...] [CELL...]", "show the events and network requests of cells",
	  cli_events_options, cmd_events },
	{ "tree", "[OPTION...] [CELL]", "show the processes of a cell, with what each did", cli_tree_options, cmd_tree },
	{ "replay", "[OPTION...] [CELL]", "show a cell's events and output again, as they happened", cli_replay_options,
	  cmd_replay },
	{ "why", "[--json] [CELL] [N]", "explain a refusal, and print the rule that would allow it",
	  cli_why_options, cmd_why },
	{ "review", "[OPTION...] AGENT|FILE|CELL", "show which permissions runs used, and a narrower policy",
	  cli_review_options, cmd_review },
	{ "logs", "[-f] CELL", "print the output of a detached cell", cli_logs_options, cmd_logs },
	{ "wait", "CELL...", "wait for cells to end", cli_no_options, cmd_wait },
	{ "stop", "[-t TIME] [--all] [CELL...]", "ask cells to end, and kill them after a timeout", cli_stop_options,
	  cmd_stop },
	{ "kill", "[--all] [CELL...]", "kill cells at once", cli_kill_options, cmd_kill },
	{ "freeze", "[--all] [CELL...]", "pause cells until they are thawed",
	  cli_freeze_options, cmd_freeze },
	{ "thaw", "[--all] [CELL...]", "resume frozen cells", cli_freeze_options, cmd_thaw },
	{ "pause", "[--all] [CELL...]", "write the memory of virtual machines to the disk, and free it", cli_freeze_options, cmd_pause },
	{ "resume", "[--all] [CELL...]", "let paused cells go on", cli_freeze_options, cmd_resume },
	{ "fork", "[OPTION...] CELL", "start copies of a running virtual machine, as cells of their own", cli_fork_options, cmd_fork },
	{ "ttl", "CELL TIME|none", "change the time that a cell has left", cli_ttl_options,
	  cmd_ttl },
	{ "allow", "CELL RULE", "add an allow rule in front of a running cell's policy", cli_allow_options,
	  cmd_allow },
	{ "deny", "CELL RULE", "add a deny rule in front of a running cell's policy",
	  cli_allow_options, cmd_allow },
	{ "budget", "[OPTION...] CELL [KIND=N...]", "show the usage of a cell, and raise its budgets",
	  cli_budget_options, cmd_budget },
	{ "approvals", "[-f] [CELL]", "list requests that wait for approval", cli_approvals_options,
	  cmd_approvals },
	{ "approve", "[OPTION...] ID...", "approve waiting requests", cli_approve_options, cmd_approve },
	{ "refuse", "ID... --reason TEXT", "refuse waiting requests, with a reason", cli_refuse_options,
	  cmd_refuse },
	{ "revoke", "CELL|--all SECRET", "revoke a secret in running cells", cli_revoke_options,
	  cmd_revoke },
	{ "rotate", "CELL|--all SECRET", "give running cells the new value of a secret",
	  cli_rotate_options, cmd_rotate },
	{ "diff", "[OPTION...] CELL [PATH...]", "show the changes that a cell made to its workspace",
	  cli_diff_options, cmd_diff },
	{ "apply", "[OPTION...] CELL [PATH...]", "write a cell's changes to the real folder",
	  cli_apply_options, cmd_apply },
	{ "discard", "[--all] [CELL...]", "delete the kept changes and logs of ended cells",
	  cli_discard_options, cmd_discard },
	{ "purge", "[--yes]", "delete all data of this user: secrets, audit logs, changes",
	  cli_purge_options, cmd_purge },
	{ "trust", "[--yes] [DIR...]", "review a folder that agents could write, and use it again",
	  cli_trust_options, cmd_trust },
	{ "policy", "VERB ...", "check, test, explain and register policies; change a cell's policy",
	  cli_policy_options, cmd_policy },
	{ "profile", "list|show|check|new|edit ...", "manage profiles of agents, for `run NAME`",
	  cli_profile_options, cmd_profile },
	{ "capability", "register|list|show|diff ...", "register folders of files and programs for agents",
	  cli_registry_options, cmd_registry },
	{ "agent", "register|list|show|diff ...", "register agents for dispatching",
	  cli_registry_options, cmd_registry },
	{ "env", "register|list|show|diff ...", "register plain values for agents",
	  cli_registry_options, cmd_registry },
	{ "target", "register|list|show|diff ...", "register engines that start workers on other machines",
	  cli_registry_options, cmd_registry },
	{ "assign", "AGENT CAPABILITY|SECRET|ENV", "give an agent one more grant: its next version",
	  cli_assign_options, cmd_registry },
	{ "secret", "add|list|show|rotate|remove", "store credentials that cells never see",
	  cli_secret_options, cmd_secret },
	{ "dispatch", "[OPTION...] AGENT", "run a registered agent", cli_dispatch_options,
	  cmd_dispatch },
	{ "dispatches", "[VERB ID] ...", "list dispatches and their results",
	  cli_dispatches_options, cmd_dispatches },
	{ "serve", "[OPTION...]", "serve this user's cells, agents and dispatches over HTTP", cli_serve_options,
	  cmd_serve },
	{ "worker", "--pool NAME|VERB ...", "run the dispatches of a pool; say which workers may connect",
	  cli_worker_options, cmd_worker },
	{ "operator", "[OPTION...]", "serve the Sandbox objects of a Kubernetes", cli_operator_options,
	  cmd_operator },
	{ "store", "copy [OPTION...]", "copy the registry to Postgres, its blobs to S3, or back",
	  cli_store_options, cmd_registry },
	{ "dashboard", "[--open]", "log a browser in to the service's dashboard", cli_dashboard_options,
	  cmd_dashboard },
	{ "mcp", "[OPTION...]", "let an orchestrating agent dispatch agents", cli_mcp_options,
	  cmd_mcp },
	{ "audit", "verify|show|export|prove|key", "verify and export the audit log",
	  cli_audit_options, cmd_audit },
	{ "image", "pull|load|list|show|diff ...", "manage the images that cells run in", cli_image_options,
	  cmd_image },
	{ "volume", "create|list|show|clone ...", "manage volumes: folders that cells share one after another",
	  cli_volume_options, cmd_volume },
	{ "cache", "fill|list|show|use ...", "fill caches of packages, which cells read", cli_cache_options, cmd_cache },
	{ "tools", "import|lock|check ...", "lock and check the tools of MCP servers", cli_tools_options,
	  cmd_tools },
	{ "state", "create|list|log|rollback ...", "keep folders of agents between cells, with their history", cli_state_options,
	  cmd_state },
	{ "plan", "export [OPTION...]", "write a plan, from which another machine can be rebuilt", cli_plan_options, cmd_plan },
	{ "rebuild", "[OPTION...] PLAN", "make what a plan has and this machine lacks", cli_rebuild_options, cmd_rebuild },
	{ "vm", "template|list|remove ...", "manage the templates and disks that virtual machines start from",
	  cli_vm_options, cmd_vm },
	{ "doctor", "[OPTION...]", "show what this machine or a target can enforce", cli_doctor_options,
	  cmd_doctor },
	{ "completion", "bash|zsh|fish", "print the script that completes words of cloister in a shell",
	  cli_no_options, cmd_completion },
	{ "help", "[COMMAND]", "explain a command and its options", cli_no_options, cmd_help },
	{ "version", "", "print the version", cli_no_options, cmd_version },
	{0}
};

const struct cli_command *cli_current;

const struct cli_command *
cli_find_command(const char *name)
{
	for (const struct cli_command *c = cli_commands; c->name != NULL; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

/* Names that other tools use. */
static const struct { const char *word, *here; } elsewhere[] = {
	{ "rm", "discard" }, { "remove", "discard" }, { "prune", "discard" }, { "list", "ps" }, { "ls", "ps" },
	{ "status", "ps" }, { "start", "run" }, { "unpause", "thaw" },
	{ "inspect", "ps --json" }, { "stats", "top" }, { "build", "image build" }, { "pull", "image pull" },
	{ "images", "image list" }, { "load", "image load" }, { "save", "image save" }, { "rmi", "image remove" },
};

static int
unknown_command(const char *word)
{
	const char *names[64] = { NULL };
	const char *nearest;

	for (size_t i = 0; i < ARRAY_LEN(elsewhere); i++)
		if (strcmp(word, elsewhere[i].word) == 0)
			return cli_failf("there is no command '%s': here it is `cloister %s`", word,
			                 elsewhere[i].here);

	for (size_t i = 0; cli_commands[i].name != NULL && i < ARRAY_LEN(names) - 1; i++)
		names[i] = cli_commands[i].name;
	nearest = text_nearest(word, names);
	if (nearest != NULL)
		return cli_failf("there is no command '%s': did you mean '%s'?", word, nearest);
	return cli_failf("there is no command '%s': see `cloister help`", word);
}

int
cmd_version(int argc, char **argv)
{
	if (argc > 1)
		return cli_failf("'%s' takes no arguments", argv[0]);
	puts("cloister " CLOISTER_VERSION);
	return 0;
}

int
cmd_help(int argc, char **argv)
{
	const struct cli_command *c;

	if (argc < 2) {
		cli_help_all();
		return 0;
	}
	c = cli_find_command(argv[1]);
	if (c == NULL)
		return unknown_command(argv[1]);
	cli_help_one(c);
	return 0;
}

int
main(int argc, char **argv)
{
	const struct cli_command *c;
	int status;

	stdio_fill_closed();
	if (argc < 2) {
		cli_help_all();
		return CLI_FAILED;
	}
	if (cli_asks_for_help(argv[1]))
		return cmd_help(argc - 1, argv + 1);
	if (strcmp(argv[1], "--version") == 0)
		return cmd_version(1, argv);
	c = cli_find_command(argv[1]);
	if (c == NULL)
		return unknown_command(argv[1]);
	if ((argc == 3 && cli_asks_for_help(argv[2])) ||
	    (argc == 4 && cli_verbs_of(c) != NULL && cli_asks_for_help(argv[3]))) {
		cli_help_one(c);
		return 0;
	}
	cli_current = c;
	status = c->run(argc - 1, argv + 1);
	/* On a full disk, half a diff must not pass for the whole. */
	/* A write that failed earlier has left no errno. */
	errno = 0;
	if (fflush(stdout) != 0 || ferror(stdout))
		return cli_failf("cannot write all of the output: %s", strerrordesc_np(errno != 0 ? errno : EIO));
	return status;
}
