/* policy_cell.c - `cloister policy show|set|edit CELL`: the policy of a running cell. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "boundary/boundary.h"
#include "cell/cell_policy.h"
#include "cli/cli.h"
#include "cli/policy.h"
#include "policy/policy_source.h"
#include "trust/trust.h"

/* ---- cell, or registered name? ---- */

static bool
runs_as(const char *word)
{
	struct cell_entry entry;
	OWN(closep) int runtime = cli_find_running(word, &entry, NULL);

	return runtime >= 0 && (strcmp(entry.id, word) == 0 || strcmp(entry.name, word) == 0);
}

/* Whether a policy of that name is registered.  Only another program knows. */
static bool
is_registered(const char *name)
{
	char *argv[] = { (char[]){ "cloister-registry" }, (char[]){ "policy" }, (char[]){ "--json" },
	                 (char[]){ "--" }, (char[]){ "show" }, (char *)(uintptr_t)name, NULL };
	const struct spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO },
		{ SPAWN_NULL, STDERR_FILENO } };

	return spawn_run(&(struct spawn){ .argv = argv, .fds = fds, .n_fds = ARRAY_LEN(fds) }, NULL) == 0;
}

bool
policy_cli_is_cells(int argc, char **argv)
{
	const char *word = NULL;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--cell") == 0 || strcmp(argv[i], "-c") == 0)
			return true;
		if (argv[i][0] != '-' && word == NULL)
			word = argv[i];
	}
	if (word == NULL) {
		(void)cli_failf("no cell or policy is given: cloister policy show CELL, or the NAME of "
		                "a registered policy");
		exit(CLI_FAILED);
	}
	if (!runs_as(word)) {
		if (strchr(word, '@') != NULL || is_registered(word))
			return false;
		if (!cli_is_kept(word)) {
			(void)cli_failf("there is no running cell and no registered policy '%s': see "
			                "`cloister ps` and `cloister policy list`", word);
			exit(CLI_FAILED);
		}
		(void)cli_failf("cell '%s' has ended: only a running cell's policy can be shown", word);
		exit(CLI_FAILED);
	}
	if (is_registered(word)) {
		(void)cli_failf("'%s' is a running cell and a registered policy: use `cloister policy "
		                "show --cell %s`, or add the policy's hash to its name, %s@sha256:...", word,
		                word, word);
		exit(CLI_FAILED);
	}
	return true;
}

/* ---- show ---- */

static void
print_text(const struct cell_policy_now *now)
{
	OWN(buf_free) struct buf text = BUF(POLICY_FLAT_MAX);
	const struct policy *layer = policy_outer(now->policy);
	size_t i = policy_n_own(now->policy), end = i;

	cell_policy_annotate(&text, now);
	text_print_safe(stdout, (char *)text.data, text.len, true);
	if (text.len > 0 && text.data[text.len - 1] != '\n')
		putchar('\n');
	for (unsigned n = 1; layer != NULL; n++, layer = policy_outer(layer)) {
		printf("# within policy %u, which stays as it is:\n", n);
		for (end += policy_n_own(layer); i < end; i++) {
			printf("#   ");
			text_print_safe(stdout, policy_rule_text(now->policy, (int)i),
			                strlen(policy_rule_text(now->policy, (int)i)), false);
			printf("  # hits: %llu\n", (unsigned long long)now->counts[i]);
		}
	}
}

int
policy_cli_show(const struct policy_cli *cli, int argc, char **argv)
{
	OWN(cell_policy_now_free) struct cell_policy_now now = {0};
	struct json out = { .out = stdout };
	OWN(closep) int runtime = -1;
	struct cell_entry entry;
	struct err err = {0};

	if (argc != 1)
		return cli_failf("no cell is given: cloister policy show CELL");
	runtime = cli_find_running(argv[0], &entry, &err);
	if (runtime < 0 || cell_policy_get(runtime, &entry, &now, &err) < 0)
		return cli_fail(&err);
	if (cli->json) {
		cell_policy_json(&out, &now);
		putchar('\n');
	} else {
		print_text(&now);
	}
	return 0;
}

/* ---- set ---- */

/* Shows the plan and carries it out. */
static int
carry_out(const struct policy_cli *cli, int runtime, const struct cell_entry *entry,
          const struct cell_policy_plan *plan)
{
	const struct cell_policy_order order = { .cut = cli->now, .verb = VERB_POLICY, .rule = "",
	                                         .who = { .why = cli->why } };
	OWN(closep) int dir = openat(runtime, entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	const struct boundary *boundary = entry->far ? NULL : boundary_of(dir);
	char hash[HASH_NAME + 1];
	struct err err = {0};

	text_print_safe(stdout, plan->diff, strlen(plan->diff), true);
	if (plan->diff[0] == '\0') {
		fprintf(stderr, "cloister: cell %s already has that policy\n", entry->id);
		return 0;
	}
	if (cli->dry_run)
		return 0;
	fflush(stdout);
	if (cell_policy_carry_out(runtime, entry, plan, &order, hash, &err) < 0)
		return cli_fail(&err);
	fprintf(stderr, "cloister: cell %s: the policy is %s\n", entry->id, hash);
	if (boundary != NULL)
		policy_cli_tell_freezing(plan->policy, boundary, false);
	return 0;
}

static void
print_faults(const struct policy_faults *faults, const struct err *err)
{
	for (size_t i = 0; i < faults->n; i++) {
		text_print_safe(stderr, faults->list[i].text, strlen(faults->list[i].text), false);
		fputc('\n', stderr);
	}
	if (faults->more)
		fprintf(stderr, "there are more errors after these %zu: fix these first\n", faults->n);
	if (faults->n == 0)
		(void)cli_fail(err);
}

static int
read_input(struct buf *text, struct err *err)
{
	char piece[16384];
	ssize_t n;

	while ((n = read(STDIN_FILENO, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			buf_put(text, piece, (size_t)n);
	if (n < 0)
		return err_errno(err, "cannot read the policy from standard input");
	return buf_failed(text) ? err_set(err, EFBIG, "a policy is at most %dM", POLICY_FILE_MAX >> 20) : 0;
}

int
policy_cli_set(const struct policy_cli *cli, int argc, char **argv)
{
	OWN(cell_policy_plan_free) struct cell_policy_plan plan = {0};
	struct err list[POLICY_FAULTS_MAX], err = {0};
	struct policy_faults faults = { .list = list };
	OWN(closep) int runtime = -1;
	OWN(buf_free) struct buf text = {0};
	struct cell_entry entry;
	const char *name;
	int r;

	if (argc != 2)
		return cli_failf("a cell and a policy are needed: cloister policy set CELL FILE");
	buf_init(&text, POLICY_FILE_MAX);
	runtime = cli_find_running(argv[0], &entry, &err);
	if (runtime < 0)
		return cli_fail(&err);
	name = strcmp(argv[1], "-") == 0 ? "(stdin)" : argv[1];
	r = strcmp(argv[1], "-") == 0 ? read_input(&text, &err) :
	    trust_path(TRUST_POLICY_SET, argv[1], &err) < 0 ? -EPERM :
	    policy_source_load(AT_FDCWD, argv[1], &faults, &text, &err);
	if (strrchr(name, '/') != NULL)
		name = strrchr(name, '/') + 1;
	r = r == 0 ? cell_policy_plan_text(runtime, &entry, name, (char *)text.data, text.len, &faults,
	                                   &plan, &err) : r;
	if (r < 0) {
		print_faults(&faults, &err);
		return POLICY_CLI_WRONG;
	}
	return carry_out(cli, runtime, &entry, &plan);
}

/* ---- edit ---- */

static int
make_draft(const struct cell_entry *entry, const struct cell_policy_now *now, char **ret_path,
           struct err *err)
{
	const char *folder = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
	OWN(freep) char *path = str_format("%s/cloister-%s-XXXXXX.yaml", folder, entry->id);
	OWN(closep) int fd = -1;
	int r;

	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	fd = mkostemps(path, 5, O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot create a file in '%s'", folder);
	r = write_all(fd, now->text, now->len, err);
	if (r < 0)
		unlink(path);
	else
		*ret_path = TAKE(path);
	return r;
}

static bool
wants_again(void)
{
	char answer[16];

	if (!isatty(STDIN_FILENO))
		return false;
	fprintf(stderr, "edit it again? [Y/n] ");
	return fgets(answer, sizeof(answer), stdin) != NULL && answer[0] != 'n' && answer[0] != 'N';
}

/* Edits until the text is a valid policy.  0, or negative if it stays as it is. */
static int
edit(int runtime, const struct cell_entry *entry, const char *path, const struct cell_policy_now *now,
     struct cell_policy_plan *ret_plan)
{
	struct err list[POLICY_FAULTS_MAX];
	int r;

	do {
		struct policy_faults faults = { .list = list };
		OWN(freep) char *text = NULL;
		struct err err = {0};
		size_t len;

		r = cli_run_editor(path, &err);
		r = r == 0 ? read_file_at(AT_FDCWD, path, POLICY_FILE_MAX, &text, &len, &err) : r;
		if (r < 0) {
			(void)cli_fail(&err);
			return r;
		}
		r = cell_policy_plan_text(runtime, entry, NULL, text, len, &faults, ret_plan, &err);
		if (r == 0 && strcmp(ret_plan->now.hash, now->hash) != 0) {
			cell_policy_plan_free(ret_plan);
			r = err_set(&err, ESTALE, "somebody else has changed the cell's policy meanwhile: "
			            "look at it again");
		}
		if (r < 0)
			print_faults(&faults, &err);
	} while (r < 0 && r != -ESTALE && wants_again());
	return r;
}

int
policy_cli_edit(const struct policy_cli *cli, int argc, char **argv)
{
	OWN(cell_policy_plan_free) struct cell_policy_plan plan = {0};
	OWN(cell_policy_now_free) struct cell_policy_now now = {0};
	OWN(freep) char *path = NULL, *before = NULL, *after = NULL;
	OWN(closep) int runtime = -1;
	struct cell_entry entry;
	struct err err = {0};
	bool untouched;
	size_t len;
	int status;

	if (argc != 1)
		return cli_failf("no cell is given: cloister policy edit CELL");
	runtime = cli_find_running(argv[0], &entry, &err);
	if (runtime < 0 || cell_policy_get(runtime, &entry, &now, &err) < 0 ||
	    make_draft(&entry, &now, &path, &err) < 0)
		return cli_fail(&err);
	untouched = read_file_at(AT_FDCWD, path, POLICY_FILE_MAX, &before, &len, &err) == 0;
	status = edit(runtime, &entry, path, &now, &plan) < 0 ? POLICY_CLI_WRONG :
	         carry_out(cli, runtime, &entry, &plan);
	untouched = untouched && read_file_at(AT_FDCWD, path, POLICY_FILE_MAX, &after, &len, &err) == 0 &&
	            strcmp(before, after) == 0;
	if (status == 0 || untouched)
		unlink(path);
	else
		fprintf(stderr, "cloister: nothing was changed; your draft is in %s\n", path);
	return status;
}
