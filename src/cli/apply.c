/* apply.c - `cloister apply` and `discard`: use or remove a cell's changes. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/own.h"
#include "cli/apply_ask.h"
#include "cli/changes.h"
#include "cli/cli.h"

static volatile sig_atomic_t stopped;

static void
stop(int number)
{
	(void)number;
	stopped = 1;
}

#define APPLY_INCOMPLETE 1              /* the exit status if something was held back or left alone */
#define WORDS_MAX 100                   /* in a suggested command */

struct apply {
	bool force, dry_run, markers, asks, silent;
	struct apply_ask *ask;          /* what was chosen; NULL: everything */
	const char *cell;               /* its id, for conflict markers */
	struct diff_reader reader;
	const struct changes_part *part;
	/* The held-back paths, as words for `cloister apply`; paths beneath a word are left out. */
	FILE *words;
	size_t n_words;
	const struct changes_part *last_part;
	char *last;                     /* the last word's path */
	size_t applied, held, left;     /* LEFT: in volumes that were not named */
	size_t alone, marked;           /* changed on both sides: left alone, or written with markers */
	size_t refs, objects;           /* of git: refs that move, and all objects that change */
};

const struct cli_option cli_apply_options[] = {
	{ "force", 0, NULL, "overwrite files that changed here since the cell started",
	  CLI_FLAG(struct apply, force) },
	{ "markers", 0, NULL, "write conflict markers where the same lines changed here",
	  CLI_FLAG(struct apply, markers) },
	{ "interactive", 'i', NULL, "ask about each file and hunk", CLI_FLAG(struct apply, asks) },
	{ "dry-run", 'n', NULL, "only show what would be written", CLI_FLAG(struct apply, dry_run) },
	{0}
};
const struct cli_option cli_discard_options[] = {
	{ "all", 0, NULL, "delete the kept data of every ended cell", CLI_BOOL },
	{0}
};

static void
apply_free(struct apply *apply)
{
	fclosep(&apply->words);
	diff_reader_close(&apply->reader);
	free(apply->last);
}

static void
remember_held(struct apply *apply, const char *path)
{
	size_t len = apply->last == NULL ? 0 : strlen(apply->last);

	if (len > 0 && apply->last_part == apply->part && strncmp(path, apply->last, len) == 0 && path[len] == '/')
		return;
	if (apply->words == NULL || apply->n_words++ >= WORDS_MAX)
		return;
	fputc(' ', apply->words);
	changes_print_word(apply->words, apply->part, path, strlen(path));
	free(apply->last);
	apply->last = strdup(path);
	apply->last_part = apply->part;
}

static void
told(void *arg, const struct workspace_change *change, bool applied)
{
	static const char letters[] = { 'A', 'M', 'D' };
	struct apply *apply = arg;

	if (change->left != WORKSPACE_LEFT_NOT)
		apply->alone++;
	apply->marked += change->marked;
	if (apply->silent)
		return;
	if (!applied && change->left == WORKSPACE_LEFT_NOT)
		remember_held(apply, change->path);
	printf("%c ", applied ? letters[change->kind] : '!');
	changes_print_path(stdout, apply->part, change->path);
	if (!applied)
		printf("  (%s)\n", change->left == WORKSPACE_LEFT_NOT ? "held back" : workspace_left_text(change->left));
	else
		fputs(change->marked ? "  (merged, with conflict markers)\n" : change->part ? "  (a part of it)\n" :
		      change->merged ? "  (merged)\n" : "\n", stdout);
}

/* A file that cannot be merged must not keep the others from being applied. */
static int
merge(void *arg, const struct workspace_merge *files, struct err *err)
{
	struct apply *apply = arg;
	uint64_t conflicts = 0;
	int r;

	if (apply->ask != NULL) {
		r = apply_ask_merge(apply->ask, &apply->reader, apply->part, files, err);
		return r == -E2BIG ? WORKSPACE_MERGE_KIND : r;
	}
	r = diff_merge_text(&apply->reader, files, apply->markers ? apply->cell : NULL, files->out, &conflicts,
	                        err);

	if (r == -E2BIG)
		return WORKSPACE_MERGE_KIND;
	if (r < 0)
		return r;
	return conflicts == 0 ? WORKSPACE_MERGED : apply->markers ? WORKSPACE_MERGED_MARKED : WORKSPACE_MERGE_CONFLICT;
}

static enum workspace_choice
choose(void *arg, const struct workspace_change *change)
{
	struct apply *apply = arg;

	return apply_ask_choice(apply->ask, &apply->reader, apply->part, change);
}

static void
told_git(void *arg, const struct workspace_git *sum)
{
	struct apply *apply = arg;

	apply->refs += sum->n_refs;
	for (size_t i = 0; i < ARRAY_LEN(sum->objects); i++)
		apply->objects += sum->objects[i] + sum->packs[i];
}

/* A diff shows only the part of commits that is in the tree. */
static void
tell_git(const struct apply *apply)
{
	if (apply->refs > 0)
		fprintf(stderr, "cloister: %zu ref%s of git %s, and", apply->refs, apply->refs == 1 ? "" : "s",
		        apply->dry_run ? "would move" : "moved");
	else if (apply->objects > 0)
		fprintf(stderr, "cloister: git's objects %s, and", apply->dry_run ? "would change" : "changed");
	else
		return;
	fputs(" `cloister diff` does not show commits: see `git log -p`, and `git diff --cached` for "
	      "staged changes\n",
	      stderr);
}

/* Each has its own line on standard output. */
static void
tell_alone(const struct apply *apply, const char *cell)
{
	if (apply->marked > 0)
		fprintf(stderr, "cloister: %zu file%s conflict markers: look for lines that begin with <<<<<<<\n",
		        apply->marked, apply->marked == 1 ? " has" : "s have");
	if (apply->alone == 0)
		return;
	fprintf(stderr, "cloister: %zu change%s left alone, because %s changed here since the cell started; look with "
	        "`cloister diff %s`, then name the paths and use --force to overwrite%s\n", apply->alone,
	        apply->alone == 1 ? " is" : "s are", apply->alone == 1 ? "it" : "they", cell,
	        apply->markers ? "" : ", or --markers to write conflict markers");
}

/* Prints one command that completes the apply, to be pasted. */
static void
tell_held(const struct apply *apply, const char *cell, const char *words)
{
	const char *them = apply->held == 1 ? "it" : "them";

	tell_alone(apply, cell);
	if (apply->held == 0)
		return;
	fprintf(stderr, "cloister: not everything %s applied: %zu change%s held back, because this machine would run %s "
	        "by itself; read %s with `cloister diff %s`, then apply %s%s with:\n  cloister apply %s --%s\n",
	        apply->dry_run ? "would be" : "was", apply->held, apply->held == 1 ? " is" : "s are", them, them, cell,
	        them, apply->n_words > WORDS_MAX ? ", in several steps," : "", cell, words);
}

static int
count_left(struct apply *apply, const struct changes_part *part, struct err *err)
{
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	size_t n = 0;
	int r = workspace_list(&part->ws, &list, &n, err);

	apply->left += n;
	return r;
}

static int
apply_part(struct apply *apply, const struct changes *changes,
           const struct changes_part *part, char *const *paths, struct err *err)
{
	OWN(strv_freep) char **chosen = NULL;
	struct workspace_apply how = {
		.cell = changes->entry.id, .force = apply->force, .dry_run = apply->dry_run,
		.merge = merge, .told = told,
		.told_git = told_git, .arg = apply,
		.stop = &stopped, .linked_max = changes->record.spec.limits.disk,
	};
	size_t applied = 0, held = 0, alone = apply->alone;
	int r;

	r = changes_paths_in(changes, part, paths, &chosen, err);
	if (r < 0 || (chosen != NULL && chosen[0] == NULL))
		return r;
	/* Files that the agent was to leave in a volume are a result, not a change to existing files. */
	if (part->volume && chosen == NULL)
		return count_left(apply, part, err);
	how.paths = chosen;
	how.choose = apply->ask != NULL ? choose : NULL;
	apply->part = part;
	r = workspace_apply_changes(&part->ws, &how, &applied, &held, err);
	apply->applied += applied;
	apply->held += r < 0 ? 0 : held - (apply->alone - alone);
	return r;
}

/* Ask about everything before anything is written. */
static int
ask_all(struct apply *apply, const struct changes *changes, char *const *paths, struct err *err)
{
	bool quit = false;
	int r = changes_check_paths(changes, paths, err);

	for (size_t i = 0; r == 0 && !quit && i < changes->n_parts; i++) {
		const struct changes_part *part = &changes->parts[i];
		OWN(strv_freep) char **chosen = NULL;

		r = changes_paths_in(changes, part, paths, &chosen, err);
		if (r == 0 && !(part->volume && chosen == NULL))
			r = apply_ask_part(apply->ask, &apply->reader, part, chosen, &quit, err);
	}
	return r;
}

/* If nothing is left to apply, only a detached cell's log is kept. */
static int
forget_applied(struct changes *changes, struct err *err)
{
	OWN(closep) int state = -1;

	for (size_t i = 0; i < changes->n_parts; i++) {
		OWN(workspace_changes_freep) struct workspace_change *list = NULL;
		size_t n;
		int r = workspace_list(&changes->parts[i].ws, &list, &n, err);

		if (r < 0 || n > 0)
			return r;
	}
	if (changes->record.spec.detached || changes->record.spec.keep) {
		changes->record.n_changes = 0;
		return cell_record_write(changes->state_dir, &changes->record, err);
	}
	state = cell_state_open(false, err);
	return state < 0 ? state : cell_state_remove(state, changes->entry.dir, err);
}

static int
apply_all(struct apply *apply, struct changes *changes, char *const *paths, struct err *err)
{
	const struct sigaction action = { .sa_handler = stop };
	OWN(apply_free) struct apply look = { .force = apply->force, .dry_run = true, .silent = true,
	                                      .markers = apply->markers, .cell = apply->cell,
	                                      .ask = apply->ask };
	int r;

	/* A missing file could be taken for a deletion. */
	if (changes->record.incomplete[0] != '\0' && !apply->force)
		return err_set(err, EIO, "nothing was applied, because some changes of this cell are "
		               "missing (--force applies the rest): %s", changes->record.incomplete);
	r = apply->ask != NULL ? ask_all(apply, changes, paths, err) : changes_check_paths(changes, paths, err);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* Find every error before anything is written. */
	for (size_t i = 0; r == 0 && i < changes->n_parts && changes->n_parts > 1; i++)
		r = apply_part(&look, changes, &changes->parts[i], paths, err);
	for (size_t i = 0; r == 0 && i < changes->n_parts; i++)
		r = apply_part(apply, changes, &changes->parts[i], paths, err);
	return r;
}

/* The operator caused the changes to the real folder. */
static int
note_applied(const struct apply *apply, const char *cell, struct err *err)
{
	struct audit_member members[] = {
		{ .name = "cell", .text = cell },
		{ .name = "applied", .kind = AUDIT_NUMBER, .number = apply->applied },
		{ .name = "held", .kind = AUDIT_NUMBER, .number = apply->held + apply->alone },
		{ .name = "force", .kind = AUDIT_TRUTH, .number = apply->force },
	};
	int r = apply->dry_run || apply->applied == 0 ? 0 :
	        operator_note("changes.applied", members, ARRAY_LEN(members), err);

	return r < 0 ? err_wrap(err, "it is done, but could not be recorded") : 0;
}

int
cmd_apply(int argc, char **argv)
{
	OWN(changes_free) struct changes changes = {0};
	OWN(freep) char *words = NULL;
	OWN(apply_free) struct apply apply = {0};
	OWN(apply_ask_free) struct apply_ask ask = {0};
	struct err err = {0}, why = {0};
	size_t len;
	int rest, r, noted;

	if (cli_parse(cli_apply_options, argc, argv, true, NULL, &apply, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc)
		return cli_failf("no cell is given: cloister apply [OPTION...] CELL [PATH...]");
	/* Both write files that changed here too, which are not asked about. */
	if (apply.asks && (apply.force || apply.markers))
		return cli_failf("--interactive and %s cannot be combined: choose first, then name the paths that were left alone",
		                 apply.force ? "--force" : "--markers");
	if (apply.asks && !isatty(STDIN_FILENO))
		return cli_failf("--interactive asks on a terminal: standard input is none");
	apply.ask = apply.asks ? &ask : NULL;
	apply.words = open_memstream(&words, &len);
	if (apply.words == NULL)
		return cli_failf("out of memory");
	apply.cell = argv[rest];
	r = changes_open(argv[rest], &changes, &err);
	if (r == 0)
		r = apply_all(&apply, &changes, argv + rest + 1, &err);
	fflush(stdout);
	changes_warn(&changes);
	/* Also if it broke off in the middle. */
	noted = note_applied(&apply, changes.entry.id, &why);
	if (r == 0 && noted == 0 && !apply.dry_run && changes.state_dir > 0)
		r = forget_applied(&changes, &err);
	if (r < 0 || noted < 0)
		return cli_fail(r < 0 ? &err : &why);
	tell_git(&apply);
	fflush(apply.words);
	tell_held(&apply, argv[rest], words);
	if (apply.left > 0)
		fprintf(stderr, "cloister: %zu change%s to overlay volumes not applied: name the paths "
		        "to apply, as `cloister diff %s` shows them\n", apply.left,
		        apply.left == 1 ? "" : "s", argv[rest]);
	else if (apply.applied + apply.held + apply.alone == 0 && changes.n_parts > 0)
		fprintf(stderr, "cloister: there is nothing to apply\n");
	changes_tell_rest(&changes, changes.n_parts == 0);
	return apply.held + apply.alone + apply.marked > 0 && !apply.dry_run ? APPLY_INCOMPLETE : 0;
}

static int
discard_one(int state, const struct cell_entry *entry, struct err *err)
{
	OWN(closep) int dir = openat(state, entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC |
	                             O_NOFOLLOW);
	OWN(changes_free) struct changes changes = {0};
	const char *called = entry->name[0] != '\0' ? entry->name : entry->id;
	int r;

	if (dir < 0)
		return err_errno(err, "cannot open the kept data of cell %s", entry->id);
	if (cell_state_is_live(dir) && !cli_await_tidy(entry->id))
		return err_set(err, EBUSY, "cell '%s' is still running: `cloister stop %s` first",
		               called, called);
	/* An apply that was interrupted may have left its temporary file. */
	if (changes_open(entry->id, &changes, NULL) == 0)
		for (size_t i = 0; i < changes.n_parts; i++)
			(void)workspace_apply_undo_temporary(&changes.parts[i].ws, entry->id, NULL);
	/* Recorded first: afterwards the changes are gone. */
	r = operator_note("changes.discarded",
	                  (struct audit_member[]){ { .name = "cell", .text = entry->id } }, 1, err);
	return r < 0 ? r : cell_state_remove(state, entry->dir, err);
}

static int
discard_all(int state, struct err *err)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n, running = 0;
	int r;

	r = cell_list(state, false, &entries, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = discard_one(state, &entries[i], err);
		running += r == -EBUSY;
		if (r == -EBUSY)
			r = 0;
	}
	if (r == 0 && isatty(STDOUT_FILENO))
		printf("discarded the kept data of %zu cell%s\n", n - running, n - running == 1 ? "" : "s");
	return r;
}

int
cmd_discard(int argc, char **argv)
{
	OWN(closep) int state = -1;
	struct cell_entry entry;
	struct err err = {0};
	bool all = false;
	int rest, failed = 0;

	if (cli_parse(cli_discard_options, argc, argv, true, NULL, &all, &rest, &err) < 0)
		return cli_fail(&err);
	if (all && rest < argc)
		return cli_failf("--all means every cell: remove '%s'", argv[rest]);
	if (!all && rest == argc)
		return cli_failf("no cell is given: cloister discard CELL..., or cloister discard --all");
	state = cell_state_open(false, &err);
	if (state < 0 && state != -ENOENT)
		return cli_fail(&err);
	if (state < 0)
		return all ? 0 : cli_failf("there is no cell '%s': see `cloister ps -a`", argv[rest]);
	if (all)
		return discard_all(state, &err) < 0 ? cli_fail(&err) : 0;
	for (int i = rest; i < argc; i++)
		if (cli_find_kept(state, argv[i], &entry, &err) < 0 ||
		    discard_one(state, &entry, &err) < 0)
			failed = cli_fail(&err);
		else if (isatty(STDOUT_FILENO))
			printf("discarded the changes of cell %s\n", entry.name[0] != '\0' ? entry.name : entry.id);
	return failed;
}
