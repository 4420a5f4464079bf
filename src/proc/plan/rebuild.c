/* rebuild.c - `cloister rebuild PLAN`: makes what a plan has and this machine lacks, and reports what differs.
 *
 * The signature, all hashes and the form of everything are checked first; only then something is changed.  Each item is
 * compared with what is here, so that a second run changes nothing.  An item that takes several steps has a file in the folder
 * `rebuild` of the data folder meanwhile: if this process is killed, the next one may go on with it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/codec.h"
#include "base/data.h"
#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "base/progress.h"
#include "base/text.h"
#include "base/tree.h"
#include "cell/cell_doc.h"
#include "proc/plan/plan_proc.h"

#define JOURNAL "rebuild"               /* in the data folder */
#define BEGUN "begun"
#define TREE "tree"
#define DIFFERS 1                       /* the exit status if not all is as in the plan */
#define ROWS_MAX (PLAN_OBJECTS_MAX + PLAN_STATES_MAX + VOLUMES_MAX + PLAN_RUNS_MAX + PLAN_SECRETS_MAX)

static const char *const results[] = { "same", "made", "replaced", "absent", "differs", "missing", "failed" };

/* ---- rows ---- */

int
rebuild_note(struct rebuild *b, const char *kind, const char *name, enum result result, const char *note, struct err *err)
{
	struct row *row = &b->rows[b->n_rows];

	if (b->n_rows == ROWS_MAX)
		return err_set(err, E2BIG, "the plan has too many items");
	*row = (struct row){ kind, name, result, note == NULL ? NULL : strdup(note) };
	b->n_rows++;
	progress_show(b->n_rows, 0);
	return 0;
}

static bool
is_good(enum result result)
{
	return result != ITEM_DIFFERS && result != ITEM_MISSING && result != ITEM_FAILED;
}

static void
print_table(const struct rebuild *b)
{
	for (size_t i = 0; i < b->n_rows; i++) {
		const struct row *row = &b->rows[i];

		printf("%-8s  %-10s  %s", results[row->result], row->kind, row->name);
		if (row->note != NULL) {
			fputs("  ", stdout);
			text_print_safe(stdout, row->note, strlen(row->note), false);
		}
		putchar('\n');
	}
}

static void
print_json(const struct rebuild *b)
{
	struct json w = { .out = stdout };

	json_open(&w, NULL, '[');
	for (size_t i = 0; i < b->n_rows; i++) {
		json_open(&w, NULL, '{');
		json_str(&w, "kind", b->rows[i].kind);
		json_str(&w, "name", b->rows[i].name);
		json_str(&w, "result", results[b->rows[i].result]);
		json_str(&w, "note", b->rows[i].note);
		json_close(&w, '}');
	}
	json_close(&w, ']');
	putchar('\n');
}

/* ---- what was begun ---- */

static void
name_begun(const char *kind, const char *name, char ret_file[256])
{
	snprintf(ret_file, 256, BEGUN ".%s.%s", kind, name);
}

bool
rebuild_may_change(const struct rebuild *b, const char *kind, const char *name)
{
	char file[256];

	name_begun(kind, name, file);
	return b->replace || (b->journal >= 0 && faccessat(b->journal, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
}

int
rebuild_begin(const struct rebuild *b, const char *kind, const char *name, struct err *err)
{
	char file[256];

	name_begun(kind, name, file);
	if (create_file_at(b->journal, file, 0600, "", err) < 0)
		return -EIO;
	return fsync(b->journal) < 0 ? err_errno(err, "cannot note what is begun") : 0;
}

int
rebuild_end(const struct rebuild *b, const char *kind, const char *name, struct err *err)
{
	char file[256];

	name_begun(kind, name, file);
	return unlinkat(b->journal, file, 0) < 0 && errno != ENOENT ? err_errno(err, "cannot note what is made") : 0;
}

void
rebuild_drop_folder(const struct rebuild *b)
{
	OWN(closep) int fd = openat(b->journal, TREE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && tree_empty(fd, NULL) == 0)
		(void)unlinkat(b->journal, TREE, AT_REMOVEDIR);
}

int
rebuild_make_folder(const struct rebuild *b, struct err *err)
{
	int fd;

	rebuild_drop_folder(b);
	if (mkdirat(b->journal, TREE, 0755) < 0)
		return err_errno(err, "cannot make a folder for files of the plan");
	fd = openat(b->journal, TREE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "cannot open a folder for files of the plan") : fd;
}

/* ---- the plan ---- */

/* PATH is the plan's file, or its folder; *ret_data is -1 without a folder of files. */
static int
open_plan(const char *path, char **ret_text, size_t *ret_len, int *ret_data, struct err *err)
{
	OWN(closep) int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
	struct stat st;

	fd = folder < 0 ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) :
	                  openat(folder, PLAN_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot open %s", folder < 0 ? "it" : "its file " PLAN_FILE);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "it is not a file");
	*ret_data = folder < 0 ? -1 : tree_open_dir(folder, PLAN_DATA);
	if (folder >= 0 && *ret_data < 0)
		return err_set(err, -*ret_data, "cannot open its folder " PLAN_DATA);
	return read_whole(fd, PLAN_ENVELOPE_MAX, ret_text, ret_len, err);
}

/* This machine's, if it has one: nothing is made here. */
static int
find_own_key(struct rebuild *b, struct err *err)
{
	OWN(closep) int dir = data_folder("audit", false, err);
	OWN(audit_key_wipe) struct audit_key key = {0};

	if (dir < 0 || faccessat(dir, OPERATOR_KEY, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return dir < 0 && dir != -ENOENT ? dir : 0;
	if (audit_key_load(dir, OPERATOR_KEY, false, &key, err) < 0)
		return -EIO;
	memcpy(b->key, key.public, sizeof(b->key));
	b->has_key = true;
	return 0;
}

/* --key, or this machine's own. */
static int
choose_key(const struct rebuild *b, const char *given, const char *text, size_t len, unsigned char ret_key[AUDIT_KEY],
           struct err *err)
{
	unsigned char named[AUDIT_KEY];
	char hex[2 * AUDIT_KEY + 1] = "an unknown key";

	if (given != NULL && (strlen(given) != 2 * AUDIT_KEY || !codec_unhex_lower(given, ret_key, AUDIT_KEY)))
		return err_set(err, EINVAL, "--key takes a public key of 64 hex digits, as `cloister audit key` prints it");
	if (given != NULL)
		return 0;
	memcpy(ret_key, b->key, AUDIT_KEY);
	if (plan_find_key(text, len, named)) {
		if (b->has_key && memcmp(named, b->key, AUDIT_KEY) == 0)
			return 0;
		codec_hex(named, AUDIT_KEY, hex);
	}
	return err_set(err, EPERM, "it is not signed with this machine's key, but with %s: if that is what `cloister audit key` "
	               "printed where the plan was made, give it with --key", hex);
}

static int
read_plan(struct rebuild *b, const struct args *args, struct err *err)
{
	const char *path = args->words[0];
	OWN(freep) char *text = NULL;
	unsigned char key[AUDIT_KEY];
	size_t len;
	int r = open_plan(path, &text, &len, &b->data, err);

	r = r == 0 ? find_own_key(b, err) : r;
	r = r == 0 ? choose_key(b, args_get(args, "key"), text, len, key, err) : r;
	r = r == 0 ? plan_open(text, len, key, &b->plan, err) : r;
	return r == 0 ? 0 : err_wrap(err, "the plan '%.200s'", path);
}

/* Something that is not there may be here already: that is found out where it is needed. */
static int
check_data(const struct rebuild *b, struct err *err)
{
	const struct plan *plan = &b->plan;
	int r = 0;

	if (b->data < 0)
		return 0;
	for (size_t i = 0; i < plan->n_states; i++)
		for (size_t k = 0; (r == 0 || r == -ENOENT) && k < plan->states[i].n_refs; k++)
			r = plan_check_tree(b->data, plan->states[i].refs[k].files, err);
	for (size_t i = 0; i < plan->n_volumes; i++) {
		for (size_t k = 0; (r == 0 || r == -ENOENT) && k < plan->volumes[i].n_snapshots; k++)
			r = plan_check_tree(b->data, plan->volumes[i].snapshots[k].files, err);
		if (r == 0 || r == -ENOENT)
			r = plan_check_tree(b->data, plan->volumes[i].files, err);
	}
	return r == -ENOENT ? 0 : r;
}

static int
check_plan(struct rebuild *b, struct err *err)
{
	int r = rebuild_check_objects(b, err);

	for (size_t i = 0; r == 0 && i < b->plan.n_runs; i++) {
		OWN(json_decrefp) json_t *document = NULL;

		r = cell_doc_read(b->plan.runs[i].document, strlen(b->plan.runs[i].document), &document, err);
		if (r < 0)
			return err_wrap(err, "the run '%s' of the plan", b->plan.runs[i].name);
	}
	return r == 0 ? check_data(b, err) : r;
}

/* ---- all of it ---- */

/* One rebuild at a time. */
static int
open_journal(struct rebuild *b, struct err *err)
{
	b->journal = data_folder(JOURNAL, !b->dry, err);
	if (b->dry)
		return b->journal >= 0 || b->journal == -ENOENT ? 0 : b->journal;
	if (b->journal < 0)
		return b->journal;
	return flock(b->journal, LOCK_EX | LOCK_NB) < 0 ? err_set(err, EBUSY, "another `cloister rebuild` runs: wait for its end") : 0;
}

static int
report(struct rebuild *b, bool json, struct err *err)
{
	size_t changed = 0;
	bool good = true;
	int r = 0;

	progress_end();
	for (size_t i = 0; i < b->n_rows; i++) {
		good &= is_good(b->rows[i].result);
		changed += b->rows[i].result == ITEM_MADE || b->rows[i].result == ITEM_REPLACED;
	}
	if (json)
		print_json(b);
	else
		print_table(b);
	if (changed > 0)
		r = operator_note("plan.rebuilt", (struct audit_member[]){ { .name = "changed", .kind = AUDIT_NUMBER, .number = changed } },
		                  1, err);
	return r < 0 ? r : good ? 0 : DIFFERS;
}

static void
rebuild_close(struct rebuild *b)
{
	for (size_t i = 0; i < b->n_rows; i++)
		free(b->rows[i].note);
	free(b->rows);
	plan_free(&b->plan);
	registry_close(b->registry);
	close_fd(&b->data);
	close_fd(&b->journal);
}

int
cmd_rebuild(const struct args *args, struct err *err)
{
	OWN(rebuild_close) struct rebuild b = { .data = -1, .journal = -1, .dry = args_get(args, "dry-run") != NULL,
	                                        .replace = args_get(args, "replace") != NULL };
	int r;

	if (args->n_words != 1)
		return err_set(err, EINVAL, "it is `cloister rebuild PLAN`: see `cloister help rebuild`");
	b.rows = calloc(ROWS_MAX, sizeof(*b.rows));
	if (b.rows == NULL)
		return err_set(err, ENOMEM, "out of memory");
	progress_begin("checking the plan");
	r = read_plan(&b, args, err);
	r = r == 0 ? open_journal(&b, err) : r;
	r = r == 0 ? check_plan(&b, err) : r;
	r = r == 0 ? rebuild_objects(&b, err) : r;
	r = r == 0 ? rebuild_states(&b, err) : r;
	r = r == 0 ? rebuild_volumes(&b, err) : r;
	r = r == 0 ? rebuild_secrets(&b, err) : r;
	r = r == 0 ? rebuild_runs(&b, err) : r;
	if (b.journal >= 0 && !b.dry)
		rebuild_drop_folder(&b);
	return r < 0 ? r : report(&b, args_get(args, "json") != NULL, err);
}
