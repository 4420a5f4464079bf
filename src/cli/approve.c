/* approve.c - `cloister approve` and `refuse`: answer a request that `cloister approvals` shows. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/own.h"
#include "cell/cell_approvals.h"
#include "cli/cli.h"

enum { OPTION_ONCE, OPTION_FOR, OPTION_RULE };

struct answer {
	enum control_approve how;
	bool said;                      /* an option chose how */
	uint64_t ms;
	struct cell_steer_who who;
};

const struct cli_option cli_approve_options[] = {
	{ "once", 0, NULL, "approve only this request (default)", OPTION_ONCE },
	{ "for", 0, "TIME", "approve all that the same rule asks for, for this time", OPTION_FOR },
	{ "rule", 0, NULL, "approve all that the same rule asks for, while the cell lives", OPTION_RULE },
	{ "why", 0, "TEXT", "a reason for the audit log", CLI_TEXT(struct answer, who.why) },
	{0}
};
const struct cli_option cli_refuse_options[] = {
	{ "reason", 0, "TEXT", "the reason for the agent and the audit log", CLI_TEXT(struct answer, who.why) },
	{0}
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct answer *a = arg;

	if (option->id < 0)
		return cell_steer_check_why(value, err);
	if (a->said)
		return err_set(err, EINVAL, "--once, --for and --rule exclude each other: give one of "
		               "them");
	a->said = true;
	a->how = option->id == OPTION_FOR ? CONTROL_APPROVE_FOR :
	         option->id == OPTION_RULE ? CONTROL_APPROVE_RULE : CONTROL_APPROVE_ONCE;
	if (option->id != OPTION_FOR)
		return 0;
	if (num_parse_duration(value, &a->ms, NULL) < 0 || a->ms == 0 || a->ms > CONTROL_APPROVE_MS)
		return err_set(err, EINVAL, "--for takes a time of at most 7d, such as 10m, not '%s'", value);
	return 0;
}

static int
connect_to(const char *id, uint64_t *ret_n, struct err *err)
{
	char cell[CELL_NAME_MAX + 1];
	struct cell_entry entry;

	if (!cell_approval_split(id, cell, ret_n))
		return err_set(err, EINVAL, "'%s' is not the id of an approval, such as ab12cd34-1: "
		               "see `cloister approvals`", id);
	return cli_connect(cell, &entry, err);
}

static void
tell_approved(const char *id, const struct answer *a)
{
	char time[NUM_TEXT_MAX];

	printf("%s: approved", id);
	if (a->how == CONTROL_APPROVE_FOR)
		printf(", and all that the same rule asks for in the next %s", num_format_duration(time, a->ms));
	else if (a->how == CONTROL_APPROVE_RULE)
		printf(", and all that the same rule asks for while the cell lives");
	printf("\n");
}

static int
approve(const char *id, const struct answer *a, struct err *err)
{
	uint64_t n;
	OWN(closep) int fd = connect_to(id, &n, err);
	bool enough = false;
	int r = fd < 0 ? fd : cell_approve(fd, n, a->how, a->ms, &a->who, &enough, err);

	if (r == 0 && !enough)
		printf("%s: recorded; others must approve it too\n", id);
	else if (r == 0)
		tell_approved(id, a);
	return r;
}

static int
refuse(const char *id, const struct answer *a, struct err *err)
{
	uint64_t n;
	OWN(closep) int fd = connect_to(id, &n, err);

	int r = fd < 0 ? fd : cell_refuse(fd, n, &a->who, err);

	if (r == 0)
		printf("%s: refused\n", id);
	return r;
}

static int
each(int argc, char **argv, const struct cli_option *options,
     int (*answer)(const char *id, const struct answer *a, struct err *err))
{
	struct answer a = {0};
	struct err err = {0};
	int rest, status = 0;

	if (cli_parse(options, argc, argv, true, take_option, &a, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc)
		return cli_failf("no approval is given: cloister %s ID... (`cloister approvals` lists "
		                 "them)", argv[0]);
	if (options == cli_refuse_options && a.who.why == NULL)
		return cli_failf("a reason for the agent is needed: cloister refuse %s --reason TEXT", argv[rest]);
	for (int i = rest; i < argc; i++)
		if (answer(argv[i], &a, &err) < 0)
			status = cli_fail(&err);
	return status;
}

int
cmd_approve(int argc, char **argv)
{
	return each(argc, argv, cli_approve_options, approve);
}

int
cmd_refuse(int argc, char **argv)
{
	return each(argc, argv, cli_refuse_options, refuse);
}
