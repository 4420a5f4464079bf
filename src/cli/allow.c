/* allow.c - `cloister allow` and `deny`: a rule in front of a running cell's policy. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "cell/cell_policy.h"
#include "cli/cli.h"
#include "policy/policy.h"

struct allow {
	bool now, dry_run;
	const char *why;
};

const struct cli_option cli_allow_options[] = {
	{ "now", 0, NULL, "cut off requests under way that are now refused", CLI_FLAG(struct allow, now) },
	{ "why", 0, "TEXT", "a reason for the audit log", CLI_TEXT(struct allow, why) },
	{ "dry-run", 0, NULL, "only show what would change", CLI_FLAG(struct allow, dry_run) },
	{0}
};

int
cmd_allow(int argc, char **argv)
{
	OWN(cell_policy_plan_free) struct cell_policy_plan plan = {0};
	enum steer_verb verb = strcmp(argv[0], "allow") == 0 ? VERB_ALLOW : VERB_DENY;
	OWN(closep) int runtime = -1;
	char hash[HASH_NAME + 1];
	struct cell_entry entry;
	struct err err = {0};
	struct allow a = {0};
	int rest, r;

	if (cli_parse(cli_allow_options, argc, argv, true, cli_check_why, &a, &rest, &err) < 0)
		return cli_fail(&err);
	if (argc - rest != 2)
		return cli_failf("a cell and a rule are needed: cloister %s CELL RULE", argv[0]);
	runtime = cli_find_running(argv[rest], &entry, &err);
	if (runtime < 0)
		return cli_fail(&err);
	r = a.dry_run ? cell_policy_plan_rule(runtime, &entry, verb, argv[rest + 1], &plan, &err) :
	                cell_policy_add_rule(runtime, &entry, verb, argv[rest + 1], a.now,
	                                     &(struct cell_steer_who){ .why = a.why }, &plan, hash, &err);
	if (r < 0)
		return cli_fail(&err);
	text_print_safe(stdout, plan.diff, strlen(plan.diff), true);
	fflush(stdout);
	if (plan.diff[0] == '\0') {
		fprintf(stderr, "cloister: cell %s: that rule is in front already%s\n", entry.id,
		        a.now && !a.dry_run ? ", and requests under way were checked again" : "");
		return 0;
	}
	if (a.dry_run)
		return 0;
	fprintf(stderr, "cloister: cell %s: the policy is %s\n", entry.id, hash);
	if (policy_outer(plan.policy) != NULL && verb == VERB_ALLOW)
		fprintf(stderr, "cloister: it is within other policies, and each of them must allow "
		        "the request too\n");
	return 0;
}
