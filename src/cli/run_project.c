/* run_project.c - the policy of an agent's project: which agent `cloister run` starts there, and whether a person
 * has accepted the policy.
 *
 * A cloister.yaml may come with a clone.  It decides where an agent can send what it has read, so it counts for
 * an agent only once a person has accepted exactly its content. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cli/policy.h"
#include "cli/run.h"
#include "cli/run_agent.h"
#include "policy/policy_flat.h"
#include "policy/policy_yaml.h"
#include "trust/trust.h"

/* The folder of the policy for a project in FOLDER; RET_WHERE, its path, is the caller's.  -1: there is none. */
static int
find(const char *folder, char **ret_where)
{
	OWN(freep) char *where = realpath(folder, NULL);
	unsigned up = 0;
	int found = where == NULL ? -1 : policy_cli_find(where, POLICY_CLI_FILE, &up);

	for (; found >= 0 && up > 0; up--)
		*strrchr(where, '/') = '\0';
	if (found >= 0)
		*ret_where = TAKE(where);
	return found;
}

/* ---- the agent ---- */

/* The name that the policy PATH in FOLDER gives; "" if it gives none. */
static int
read_name(int folder, const char *path, char ret_name[PROFILE_NAME_MAX + 1], struct err *err)
{
	OWN(freep) char *text = NULL;
	OWN(node_freep) struct node *root = NULL;
	const struct node *name;
	size_t len;
	int r = read_file_at(folder, path, POLICY_FILE_MAX, &text, &len, err);

	r = r == 0 ? node_parse(path, text, len, &root, err) : r;
	ret_name[0] = '\0';
	if (r < 0)
		return r;
	name = root->kind != NODE_MAP ? NULL : node_get(root, "run");
	if (name == NULL)
		return 0;
	if (name->kind != NODE_SCALAR || !profile_name_ok(name->text))
		return node_err(err, name, "`run` is the name of an agent's profile, such as claude");
	snprintf(ret_name, PROFILE_NAME_MAX + 1, "%s", name->text);
	return 0;
}

/* The project is where a workspace is, or else here. */
static int
find_name(const struct run *run, char ret_name[PROFILE_NAME_MAX + 1], struct err *err)
{
	OWN(freep) char *where = NULL;
	OWN(closep) int folder = -1;
	int r;

	if (run->policy_file != NULL) {
		r = trust_path(TRUST_POLICY, run->policy_file, err);
		return r < 0 ? r : read_name(AT_FDCWD, run->policy_file, ret_name, err);
	}
	ret_name[0] = '\0';
	folder = run->no_policy ? -1 : find(run_find_project(run), &where);
	if (folder < 0)
		return 0;
	r = run_check_found(folder, where, err);
	return r < 0 ? r : read_name(folder, POLICY_CLI_FILE, ret_name, err);
}

int
run_take_project(struct run *run, struct err *err)
{
	char name[PROFILE_NAME_MAX + 1];
	int r = find_name(run, name, err);

	if (r < 0 || name[0] == '\0')
		return r;
	r = run_take_agent(run, 1, (char *[]){ name, NULL }, err);
	return r != 0 ? r : err_set(err, ENOENT, "the policy names the agent '%s', which has no profile: see "
	                            "`cloister profile list`", name);
}

/* ---- the yes of a person ---- */

static int
ask(const struct buf *text, const char *where, struct err *err)
{
	char answer[RUN_ANSWER_MAX];

	policy_cli_print_text(stderr, text);
	fprintf(stderr, "This is the policy of the project ('%s/" POLICY_CLI_FILE "'). Use it? [y/N] ", where);
	if (!run_agent_read_answer(answer) || (answer[0] != 'y' && answer[0] != 'Y'))
		return err_set(err, ECANCELED, "the project's policy was not accepted: change it, or start without it by "
		               "--no-policy, or with another by -p FILE");
	return policy_cli_accept(text, err);
}

int
run_accept_policy(struct run *run, const struct run_agent *a, struct err *err)
{
	OWN(buf_free) struct buf text = BUF(POLICY_FLAT_MAX);
	OWN(freep) char *where = NULL;
	OWN(closep) int folder = -1;
	int r;

	if (run->policy_file != NULL || run->no_policy)
		return 0;
	folder = find(a->folder, &where);
	if (folder < 0)
		return 0;
	r = run_check_found(folder, where, err);
	r = r == 0 ? policy_cli_read(folder, &text, &run->policy_accepted, err) : r;
	if (r < 0 || run->policy_accepted)
		return r;
	if (!run_agent_can_ask(run))
		return err_set(err, EPERM, "'%.250s/" POLICY_CLI_FILE "' comes with the project, and nobody has accepted it as it "
		               "is: read it, then `cloister policy trust`; or use -p or --no-policy", where);
	r = ask(&text, where, err);
	run->policy_accepted = r == 0;
	return r;
}
