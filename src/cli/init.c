/* init.c - `cloister init`: looks at a project, and writes a policy for it with test cases. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/policy.h"
#include "cli/profile.h"
#include "cli/run.h"
#include "cli/run_agent.h"
#include "profile/program.h"
#include "project/project.h"
#include "trust/trust.h"

#define TEXT_MAX (1024 * 1024)
#define CASES_FILE "cloister.test.yaml"
#define FALLBACK "claude"

struct init {
	bool dry_run, force, yes;
	const char *agent;
};

const struct cli_option cli_init_options[] = {
	{ "agent", 'a', "NAME", "the agent of `cloister run`: the name of its profile", CLI_TEXT(struct init, agent) },
	{ "dry-run", 'n', NULL, "print the files, and write nothing", CLI_FLAG(struct init, dry_run) },
	{ "force", 'f', NULL, "replace a " POLICY_CLI_FILE " and its cases", CLI_FLAG(struct init, force) },
	{ "yes", 'y', NULL, "accept the policy for `cloister run` without asking", CLI_FLAG(struct init, yes) },
	{0}
};

/* ---- the agent ---- */

static bool
is_installed(const char *name)
{
	OWN(profile_found_freep) struct profile_found *f = NULL;
	OWN(program_free) struct program program = {0};

	return profile_cli_find(name, ".", &f, NULL) == 0 && f->origin != PROFILE_PROJECT &&
	       program_find(f->profile->program, &program, NULL) == 0;
}

/* The one that the operator names, that the project's files suggest, or that is installed here. */
static int
choose_agent(const struct init *init, const struct project *p, char ret_name[PROFILE_NAME_MAX + 1], struct err *err)
{
	const char *chosen = init->agent != NULL ? init->agent : p->agent;
	char first[PROFILE_NAME_MAX + 1] = "";

	if (init->agent != NULL && !profile_name_ok(init->agent))
		return err_set(err, EINVAL, "'%.64s' cannot be the name of a profile: see `cloister profile list`", init->agent);
	for (const struct profile_file *f = profile_files; chosen == NULL && first[0] == '\0' && f->file != NULL; f++) {
		snprintf(first, sizeof(first), "%.*s", (int)strcspn(f->file, "."), f->file);
		if (!is_installed(first))
			first[0] = '\0';
	}
	if (chosen == NULL)
		chosen = is_installed(FALLBACK) || first[0] == '\0' ? FALLBACK : first;
	snprintf(ret_name, PROFILE_NAME_MAX + 1, "%s", chosen);
	return 0;
}

/* ---- what was seen ---- */

#define COLUMN_LEAST 20

static void
show(const struct project *p, const char *agent)
{
	int column = COLUMN_LEAST;

	for (size_t i = 0; i < p->n; i++)
		if ((int)strlen(p->needs[i].from) > column)
			column = (int)strlen(p->needs[i].from);
	for (size_t i = 0; i < p->n; i++) {
		OWN(buf_free) struct buf what = BUF(TEXT_MAX);

		project_put_need(&what, &p->needs[i]);
		fprintf(stderr, "  %-*s  %.*s\n", column, p->needs[i].from, (int)what.len, (const char *)what.data);
	}
	fprintf(stderr, "  %-*s  %s, and the hosts of its model\n", column,
	        p->agent_file != NULL && strcmp(p->agent, agent) == 0 ? p->agent_file : "agent", agent);
	for (size_t i = 0; i < p->n_notes; i++)
		fprintf(stderr, "Note: %s.\n", p->notes[i]);
}

/* ---- files ---- */

static int
refuse_existing(int folder, const char *name, struct err *err)
{
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return err_set(err, EEXIST, "there is a '%s' already: --force replaces it, --dry-run prints a new one", name);
}

/* A link in the place of the file is replaced, never followed. */
static int
write_one(int folder, const char *name, const struct buf *text, struct err *err)
{
	OWN(freep) char *new = str_format(".%s.%d", name, (int)getpid());
	OWN(closep) int fd = -1;
	int r;

	if (new == NULL)
		return err_set(err, ENOMEM, "out of memory");
	fd = openat(folder, new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_errno(err, "cannot write '%s'", name);
	r = write_all(fd, text->data, text->len, err);
	if (r == 0 && renameat(folder, new, folder, name) < 0)
		r = err_errno(err, "cannot write '%s'", name);
	if (r < 0)
		(void)unlinkat(folder, new, 0);
	return r;
}

static int
write_both(const struct init *init, int folder, const struct buf *policy, const struct buf *cases, struct err *err)
{
	int r = 0;

	if (!init->force) {
		r = refuse_existing(folder, POLICY_CLI_FILE, err);
		r = r == 0 ? refuse_existing(folder, CASES_FILE, err) : r;
	}
	r = r == 0 ? write_one(folder, POLICY_CLI_FILE, policy, err) : r;
	return r == 0 ? write_one(folder, CASES_FILE, cases, err) : r;
}

/* ---- the yes of a person ---- */

static int
accept(const struct init *init, const struct buf *policy, struct err *err)
{
	char answer[RUN_ANSWER_MAX];

	if (!init->yes) {
		if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
			fprintf(stderr, "Read it, then accept it with `cloister policy trust`. `cloister run` uses it then.\n");
			return 0;
		}
		policy_cli_print_text(stderr, policy);
		fprintf(stderr, "Accept this policy, so that `cloister run` uses it? [y/N] ");
		if (!run_agent_read_answer(answer) || (answer[0] != 'y' && answer[0] != 'Y'))
			return 0;
	}
	return policy_cli_accept(policy, err);
}

static int
refuse_place(struct err *err)
{
	OWN(freep) char *home = run_find_home(), *here = realpath(".", NULL);

	if (here == NULL)
		return err_errno(err, "cannot find the current folder");
	if (strcmp(here, "/") != 0 && (home == NULL || strcmp(home, here) != 0))
		return 0;
	return err_set(err, EINVAL, "this is %s, not a project: go to the project's folder",
	               strcmp(here, "/") == 0 ? "the whole machine" : "your home folder");
}

/* `run` would refuse a policy in a folder that an agent could write. */
static void
warn_of_marks(void)
{
	OWN(freep) char *path = realpath(POLICY_CLI_FILE, NULL);
	struct err err = {0};

	if (path != NULL && trust_path(TRUST_POLICY_FOUND, path, &err) < 0)
		(void)tell_error(&err);
}

static int
init_project(const struct init *init, struct err *err)
{
	OWN(closep) int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(buf_free) struct buf policy = BUF(TEXT_MAX), cases = BUF(TEXT_MAX);
	OWN(freep) struct project *p = calloc(1, sizeof(*p));
	char agent[PROFILE_NAME_MAX + 1];
	int r = folder < 0 ? err_errno(err, "cannot open the current folder") : refuse_place(err);

	if (r == 0 && p == NULL)
		r = err_set(err, ENOMEM, "out of memory");
	if (r < 0)
		return r;
	project_look(folder, p);
	r = choose_agent(init, p, agent, err);
	if (r < 0)
		return r;
	project_put_policy(&policy, p, agent);
	project_put_cases(&cases, p);
	if (buf_failed(&policy) || buf_failed(&cases))
		return err_set(err, E2BIG, "the policy is too large");
	if (init->dry_run) {
		policy_cli_print_text(stdout, &policy);
		printf("\n# ---- " CASES_FILE "\n");
		policy_cli_print_text(stdout, &cases);
		return 0;
	}
	r = write_both(init, folder, &policy, &cases, err);
	if (r < 0)
		return r;
	show(p, agent);
	fprintf(stderr, "Wrote " POLICY_CLI_FILE " and " CASES_FILE ".\n");
	warn_of_marks();
	return accept(init, &policy, err);
}

int
cmd_init(int argc, char **argv)
{
	struct init init = {0};
	struct err err = {0};
	int rest;

	if (cli_parse(cli_init_options, argc, argv, true, NULL, &init, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest < argc)
		return cli_failf("`init` takes no arguments: it is about the current folder");
	return init_project(&init, &err) < 0 ? cli_fail(&err) : 0;
}
