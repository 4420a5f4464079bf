/* state.c - `cloister state`: the verbs about versioned states. */
#include "cli/state.h"

#include <errno.h>
#include <string.h>

#include "base/num.h"
#include "base/own.h"
#include "base/progress.h"
#include "cli/cli.h"

enum { OPT_BYTES = 1, OPT_FILE_BYTES, OPT_FILES, OPT_DISK, OPT_LIMIT };

const struct cli_option cli_state_options[] = {
	{ "branch", 'b', "NAME", "use this branch instead of 'main'", CLI_TEXT(struct state_words, branch) },
	{ "max-size", 0, "SIZE", "create, import, limit: the most bytes that it may have (1G)", OPT_BYTES },
	{ "max-file", 0, "SIZE", "create, import, limit: the most bytes of a file (64M)", OPT_FILE_BYTES },
	{ "max-files", 0, "N", "create, import, limit: the most files (100000)", OPT_FILES },
	{ "max-disk", 0, "SIZE", "create, import, limit: the most on the disk, with history (16G)", OPT_DISK },
	{ "ref", 0, "REF", "import: the commit of a repository (HEAD)", CLI_TEXT(struct state_words, ref) },
	{ "bundle", 0, NULL, "export: write a git bundle instead of a repository", CLI_FLAG(struct state_words, bundle) },
	{ "remove", 0, NULL, "tag, branch, refuse: remove it", CLI_FLAG(struct state_words, remove) },
	{ "limit", 'l', "N", "log, drift: print at most N commits (100)", OPT_LIMIT },
	{ "name-only", 0, NULL, "diff, review: leave out the contents of changes", CLI_FLAG(struct state_words, names) },
	{ "yes", 'y', NULL, "remove: do not ask", CLI_FLAG(struct state_words, yes) },
	{ "json", 0, NULL, "print JSON for programs", CLI_FLAG(struct state_words, json) },
	{0}
};

static const struct verb {
	const char *name;
	int min, max;                   /* words behind it */
	const char *words;
	state_verb *run;
	const char *options;            /* with blanks around each */
} verbs[] = {
	{ "create", 1, 1, "NAME", state_do_create, " max-size max-file max-files max-disk json " },
	{ "limit", 1, 1, "NAME", state_do_limit, " max-size max-file max-files max-disk " },
	{ "checkpoint", 1, 1, "CELL", state_do_checkpoint, " json " },
	{ "list", 0, 0, "", state_do_list, " json " },
	{ "log", 1, 2, "NAME [COMMIT]", state_do_log, " branch limit json " },
	{ "show", 1, 2, "NAME [COMMIT]", state_do_show, " branch json " },
	{ "files", 1, 2, "NAME [COMMIT]", state_do_files, " branch json " },
	{ "cat", 2, 3, "NAME PATH [COMMIT]", state_do_cat, " branch " },
	{ "diff", 1, 3, "NAME [FROM [TO]]", state_do_diff, " branch name-only json " },
	{ "drift", 1, 2, "NAME [TAG]", state_do_drift, " branch limit json " },
	{ "tag", 2, 3, "NAME TAG [COMMIT]", state_do_tag, " branch remove " },
	{ "branch", 2, 3, "NAME BRANCH [COMMIT]", state_do_branch, " branch remove " },
	{ "rollback", 2, 2, "NAME COMMIT", state_do_rollback, " branch json " },
	{ "merge", 2, 2, "NAME COMMIT", state_do_merge, " branch json " },
	{ "review", 1, 2, "NAME [ID]", state_do_review, " name-only json " },
	{ "accept", 2, STATE_PATHS_MAX, "NAME ID [PATH...]", state_do_accept, " branch json " },
	{ "refuse", 2, STATE_PATHS_MAX, "NAME ID [PATH...]", state_do_refuse, " remove " },
	{ "export", 2, 2, "NAME PATH", state_do_export, " bundle " },
	{ "import", 2, 2, "NAME PATH", state_do_import, " ref max-size max-file max-files max-disk json " },
	{ "verify", 0, 1, "[NAME]", state_do_verify, " json " },
	{ "remove", 1, 1, "NAME", state_do_remove, " yes " },
	{ "signers", 0, 0, "", state_do_signers, " " },
};

struct taking {
	struct state_words words;
	char given[512];                /* names of the options, with blanks around each */
};

static int
take_size(const char *value, uint64_t *ret_bytes, struct err *err)
{
	int r = num_parse_size(value, ret_bytes, err);

	return r == 0 && *ret_bytes == 0 ? err_set(err, EINVAL, "a limit of a state is not 0") : r;
}

static int
take(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct taking *t = arg;
	size_t len = strlen(t->given);

	snprintf(t->given + len, sizeof(t->given) - len, "%s ", option->name);
	switch (option->id) {
	case OPT_BYTES:
		return take_size(value, &t->words.limits.bytes, err);
	case OPT_FILE_BYTES:
		return take_size(value, &t->words.limits.file_bytes, err);
	case OPT_FILES:
		return num_parse_count(value, 1, STATE_FILES_MOST, &t->words.limits.files, err);
	case OPT_DISK:
		return take_size(value, &t->words.limits.disk, err);
	case OPT_LIMIT:
		return num_parse_count(value, 1, 1000000, &t->words.limit, err);
	default:
		return 0;
	}
}

static int
check_options(const struct verb *verb, const char *given, struct err *err)
{
	char option[64];

	for (const char *at = given; *at != '\0'; at += strcspn(at, " ") + 1) {
		snprintf(option, sizeof(option), " %.*s ", (int)strcspn(at, " "), at);
		if (strstr(verb->options, option) == NULL)
			return err_set(err, EINVAL, "`cloister state %s` has no option --%.*s: see `cloister help state`", verb->name,
			               (int)strcspn(at, " "), at);
	}
	return 0;
}

static int
run(struct taking *t, int argc, char **argv, struct err *err)
{
	const char *verb = argc > 0 ? argv[0] : "";
	int r;

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (strcmp(verb, verbs[i].name) != 0)
			continue;
		if (argc - 1 < verbs[i].min || argc - 1 > verbs[i].max)
			return err_set(err, EINVAL, "it is `cloister state %s %s`: see `cloister help state`", verb, verbs[i].words);
		r = check_options(&verbs[i], t->given, err);
		t->words.words = argv + 1;
		t->words.n = argc - 1;
		progress_begin("reading the state");
		r = r == 0 ? verbs[i].run(&t->words, err) : r;
		progress_end();
		return r;
	}
	return *verb == '\0' ? err_set(err, EINVAL, "say what to do, such as create, list, log or rollback: see `cloister help state`") :
	       err_set(err, EINVAL, "`cloister state` has no verb '%.40s': see `cloister help state`", verb);
}

int
cmd_state(int argc, char **argv)
{
	struct taking t = { .words = { .limit = 100 } };
	struct err err = {0};
	int rest, r;

	if (cli_parse(cli_state_options, argc, argv, true, take, &t, &rest, &err) < 0)
		return cli_fail(&err);
	r = run(&t, argc - rest, argv + rest, &err);
	if (r >= 0 && (fflush(stdout) != 0 || ferror(stdout)))
		r = err_errno(&err, "cannot write all of the output");
	return r < 0 ? cli_fail(&err) : r;
}
