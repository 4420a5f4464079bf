/* run_agent.c - `cloister run NAME`: describes a cell by the agent's profile.
 *
 * Options of the command line add to the profile, or win over it. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "base/tree.h"
#include "cli/run.h"
#include "cli/run_agent.h"
#include "trust/trust.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

void
run_agent_free(struct run_agent *a)
{
	if (a == NULL)
		return;
	profile_found_free(a->found);
	program_free(&a->program);
	for (size_t i = 0; i < PROFILE_LIST_MAX; i++)
		free(a->read[i]);
	for (size_t i = 0; i < a->n_words; i++)
		free(a->words[i]);
	profile_answers_free(&a->answers);
	free(a->login);
	free(a->here);
	free(a);
}

/* ---- the project ---- */

static int
choose_folder(const struct run *run, struct run_agent *a, struct err *err)
{
	a->folder = run_find_project(run);
	if (strcmp(a->folder, ".") != 0)
		return 0;
	a->here = realpath(".", NULL);
	a->folder = a->here;
	return a->here != NULL ? 0 : err_errno(err, "cannot find the current folder");
}

/* Who names no workspace hardly means all of these. */
static int
check_folder(const struct run_agent *a, struct err *err)
{
	OWN(freep) char *home = run_find_home();
	const bool is_home = home != NULL && a->here != NULL && strcmp(home, a->here) == 0;

	if (!is_home && (a->here == NULL || strcmp(a->here, "/") != 0))
		return 0;
	return err_set(err, EINVAL, "this is %s, not a project: go to the project's folder, or name it with -w",
	               is_home ? "your home folder" : "the whole machine");
}

/* ---- the program ---- */

static int
find_program(struct run_agent *a, struct err *err)
{
	const struct profile *p = a->found->profile;
	OWN(freep) char *install = profile_install_words(p);
	int r = program_find(p->program, &a->program, err);

	if (r == -ENOENT)
		return err_set(err, ENOENT, "'%s', the program of the profile '%s', is not installed here%s%s%s", p->program,
		               a->found->name, install != NULL ? ": `" : "", install != NULL ? install : "",
		               install != NULL ? "`" : "");
	/* What it leads to decides what is granted. */
	r = r == 0 ? trust_path(TRUST_PROGRAM, a->program.path, err) : r;
	for (size_t i = 0; r == 0 && i < a->program.n_grants; i++)
		r = trust_path(TRUST_PROGRAM, a->program.grants[i].cell, err);
	return r;
}

static int
grant_program(struct run *run, const struct run_agent *a, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < a->program.n_grants; i++)
		r = run_agent_grant(run, a->program.grants[i].host, a->program.grants[i].cell, false, err);
	return r;
}

/* ---- its settings ---- */

/* "NAME=VALUE", with a VALUE of "~/..." in the cell's home. */
static int
add_variable(struct run *run, const char *entry, struct err *err)
{
	const char *value = strchr(entry, '=') + 1;
	const bool is_home = value[0] == '~' && (value[1] == '/' || value[1] == '\0');
	OWN(freep) char *whole = str_format("%.*s%s%s", (int)(value - entry), entry, is_home ? CELL_HOME : "",
	                                    is_home ? value + 1 : value);

	return whole == NULL ? err_set(err, ENOMEM, "out of memory") : run_add_env(run, whole, NULL, err);
}

static int
add_path(struct run *run, const struct program *p, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(CELL_SPEC_MAX);
	OWN(freep) char *entry = NULL;

	if (p->n_bins == 0)
		return 0;
	buf_put_text(&b, "PATH=");
	for (size_t i = 0; i < p->n_bins; i++) {
		buf_put_text(&b, p->bins[i]);
		buf_put_text(&b, ":");
	}
	buf_put_text(&b, DEFAULT_PATH);
	entry = buf_failed(&b) ? NULL : strndup((const char *)b.data, b.len);
	return entry == NULL ? err_set(err, ENOMEM, "out of memory") : run_add_env(run, entry, NULL, err);
}

/* Later variables replace earlier ones, so those of the command line go behind. */
static int
add_env(struct run *run, const struct run_agent *a, struct err *err)
{
	const size_t n_before = run->n_given;
	OWN(freep) struct run_variable *before = calloc(n_before + 1, sizeof(*before));
	int r;

	if (before == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (n_before > 0)
		memcpy(before, run->given, n_before * sizeof(*before));
	r = add_path(run, &a->program, err);
	for (char **entry = a->found->profile->env; r == 0 && entry != NULL && *entry != NULL; entry++)
		r = add_variable(run, *entry, err);
	if (run->n_given > n_before) {
		memmove(run->given, run->given + n_before, (run->n_given - n_before) * sizeof(*before));
		memcpy(run->given + run->n_given - n_before, before, n_before * sizeof(*before));
	}
	return r;
}

static int
add_limits(struct run *run, const struct profile *p, struct err *err)
{
	static const enum cell_limit bits[PROFILE_LIMITS] = {
		[PROFILE_MEMORY] = CELL_LIMIT_MEMORY, [PROFILE_CPUS] = CELL_LIMIT_CPUS, [PROFILE_PIDS] = CELL_LIMIT_PIDS,
		[PROFILE_TIME] = CELL_LIMIT_TIME, [PROFILE_DISK] = CELL_LIMIT_DISK, [PROFILE_IO] = CELL_LIMIT_IO,
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < PROFILE_LIMITS; i++)
		if (p->limits[i] != NULL && (run->spec.limits.asked & bits[i]) == 0)
			r = run_take_option(run, profile_limit_names[i], p->limits[i], err);
	return r;
}

static int
add_words(struct run *run, const struct run_agent *a, int argc, char **argv, struct err *err)
{
	const struct profile *p = a->found->profile;
	size_t n_args = p->args == NULL ? 0 : strv_len(p->args), n = 0;

	if (n_args + (size_t)argc > CELL_ARGS_MAX)
		return err_set(err, E2BIG, "the command has more than %d words", CELL_ARGS_MAX);
	run->spec.argv = calloc(n_args + (size_t)argc + 1, sizeof(char *));
	if (run->spec.argv == NULL)
		return err_set(err, ENOMEM, "out of memory");
	run->spec.argv[n++] = strdup(a->program.run != NULL ? a->program.run : p->program);
	for (size_t i = 0; i < n_args; i++)
		run->spec.argv[n++] = strdup(p->args[i]);
	for (int i = 1; i < argc; i++)
		run->spec.argv[n++] = strdup(argv[i]);
	for (size_t i = 0; i < n; i++)
		if (run->spec.argv[i] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	return 0;
}

static int
use(struct run *run, struct run_agent *a, struct err *err)
{
	const struct profile *p = a->found->profile;
	int r = a->here == NULL ? 0 : run_grant_workspace(run, a->here, CELL_OVERLAY, err);

	r = r == 0 ? grant_program(run, a, err) : r;
	r = r == 0 ? run_agent_grant_home(run, a, err) : r;
	r = r == 0 ? add_env(run, a, err) : r;
	r = r == 0 ? add_limits(run, p, err) : r;
	for (size_t i = 0; r == 0 && p->allow != NULL && p->allow[i] != NULL; i++)
		r = run_add_allow_of(run, p->allow[i], a->found->file, p->allow_lines[i], err);
	for (size_t i = 0; r == 0 && i < a->n_secrets; i++)
		r = run_add_secret(run, a->secrets[i], err);
	r = r == 0 ? run_agent_use_login(run, a, err) : r;
	r = r == 0 ? run_agent_add_mcp(run, a, err) : r;
	if (p->nested && !run->profile_is_set)
		run->spec.profile = CELL_PROFILE_NESTED;
	return r;
}

/* Whether the agent is in an image, and not on the host. */
static bool
is_in_image(const struct run *run)
{
	return run->image != NULL || run->spec.bare || run->spec.rootfs[0] != '\0';
}

#define NAMES_MAX 128

struct names {
	const char *at[NAMES_MAX + 1];
	size_t n;
};

static int
add_name(void *arg, const char *name)
{
	struct names *names = arg;

	if (names->n < NAMES_MAX && (names->at[names->n] = strdup(name)) != NULL)
		names->n++;
	return 0;
}

/* A word that is no command here, and nearly the name of a profile, is a slip. */
static int
check_slip(const struct run *run, const struct run_agent *a, const char *word, struct err *err)
{
	OWN(program_free) struct program program = {0};
	struct names names = {0};
	const char *nearest;
	int r = 0;

	if (strchr(word, '/') != NULL || is_in_image(run) || program_find(word, &program, NULL) != -ENOENT)
		return 0;
	(void)profile_cli_each(a->folder, add_name, &names, NULL);
	nearest = text_nearest(word, names.at);
	if (nearest != NULL)
		r = err_set(err, ENOENT, "there is no profile '%.64s', and no such command here: did you mean the profile '%s'? (a "
		            "command of the cell's own stands behind `--`)", word, nearest);
	for (size_t i = 0; i < names.n; i++)
		free((void *)(uintptr_t)names.at[i]);
	return r;
}

int
run_take_agent(struct run *run, int argc, char **argv, struct err *err)
{
	OWN(run_agent_freep) struct run_agent *a = calloc(1, sizeof(*a));
	int r;

	if (a == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = choose_folder(run, a, err);
	r = r == 0 ? profile_cli_find(argv[0], a->folder, &a->found, err) : r;
	if (r == -ENOENT && err->text[0] == '\0')
		return check_slip(run, a, argv[0], err);
	if (r < 0)
		return r;
	r = check_folder(a, err);
	if (r == 0 && !is_in_image(run))
		run->image = a->found->profile->image;
	if (r == 0 && !is_in_image(run))
		r = find_program(a, err);
	r = r == 0 ? run_agent_find_reads(a, err) : r;
	r = r == 0 ? profile_answers_load(a->found->name, &a->answers, err) : r;
	r = r == 0 ? run_accept_policy(run, a, err) : r;
	r = r == 0 ? run_agent_ask(run, a, err) : r;
	r = r == 0 ? use(run, a, err) : r;
	r = r == 0 ? add_words(run, a, argc, argv, err) : r;
	run->agent = TAKE(a);
	return r < 0 ? r : 1;
}
