/* export.c - `cloister plan export`: everything that runs, or is registered or kept, as one signed file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/io.h"
#include "base/own.h"
#include "base/progress.h"
#include "base/since.h"
#include "base/text.h"
#include "base/tree.h"
#include "proc/plan/plan_proc.h"
#include "state/state_read.h"

/* ---- states ---- */

static int
keep_commit(struct state *state, const char *commit, int data, const char *sum, struct err *err)
{
	OWN(freep) char *path = NULL;
	OWN(closep) int fd = -1;
	char hash[HASH_HEX + 1];
	int r = state_checkout(state, commit, &path, err);

	fd = r < 0 ? r : tree_open_resolved(path);
	if (fd < 0)
		return r < 0 ? r : err_set(err, -fd, "cannot open the files of state '%s'", state->name);
	r = plan_keep_tree(fd, false, data, hash, err);
	return r < 0 || strcmp(hash, sum) == 0 ? r :
	       err_set(err, EUCLEAN, "the files of commit %.12s of state '%s' are not those of its message: see `cloister state verify`",
	               commit, state->name);
}

static int
add_ref(json_t *list, struct state *state, const struct state_ref *ref, int data, const unsigned char key[AUDIT_KEY],
        struct err *err)
{
	OWN(state_text_free) struct state_text text = {0};
	int r = state_check_commit(state, ref->id, key, NULL, &text, err);

	r = r == 0 && data >= 0 ? keep_commit(state, ref->id, data, text.sum, err) : r;
	return r < 0 ? r : json_array_append_new(list, json_pack("{s:s,s:s,s:s}", "commit", ref->id, "files", text.sum, "ref",
	                                                         ref->ref)) < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}

static int
add_state(json_t *list, const char *name, int data, const unsigned char key[AUDIT_KEY], struct err *err)
{
	OWN(freep) struct state_ref *refs = NULL;
	OWN(state_close) struct state state = {0};
	json_t *own = json_array(), *entry;
	size_t n = 0;
	int r = state_open(name, &state, err);
	const struct state_limits *l = &state.limits;

	entry = json_pack("{s:s,s:o,s:{s:I,s:I,s:I,s:I,s:I,s:I}}", "name", name, "refs", own, "limits",
	                  "bytes", (json_int_t)l->bytes, "depth", (json_int_t)l->depth, "disk", (json_int_t)l->disk, "file_bytes", (json_int_t)l->file_bytes,
	                  "files", (json_int_t)l->files, "path", (json_int_t)l->path);
	if (json_array_append_new(list, entry) < 0)
		return err_set(err, ENOMEM, "out of memory");
	r = r == 0 ? state_ref_list(state.dir, &refs, &n, err) : r;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_ref(own, &state, &refs[i], data, key, err);
	return r;
}

static int
collect_states(json_t *list, int data, struct err *err)
{
	OWN(strv_freep) char **names = NULL;
	unsigned char key[AUDIT_KEY];
	int r = state_list(&names, err);

	r = r == 0 && names[0] != NULL ? state_public_key(key, err) : r;
	for (size_t i = 0; r == 0 && names[i] != NULL; i++)
		r = add_state(list, names[i], data, key, err);
	return r;
}

/* ---- volumes ---- */

static int
keep_files(struct volumes *v, const char *name, const char *label, int data, char ret_hash[HASH_HEX + 1], struct err *err)
{
	OWN(closep) int fd = volume_open_files(v, name, label, err);

	return fd < 0 ? fd : plan_keep_tree(fd, true, data, ret_hash, err);
}

static int
add_volume(json_t *list, struct volumes *v, const char *name, int data, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	json_t *snapshots = json_array();
	char hash[HASH_HEX + 1];
	int r = volume == NULL ? err_set(err, ENOMEM, "out of memory") : volume_load(v, name, volume, err);

	for (size_t i = 0; r == 0 && i < volume->n_snapshots; i++) {
		r = keep_files(v, name, volume->snapshots[i].label, data, hash, err);
		if (r == 0 && json_array_append_new(snapshots, json_pack("{s:s,s:s}", "files", hash, "label",
		                                                         volume->snapshots[i].label)) < 0)
			r = err_set(err, ENOMEM, "out of memory");
	}
	r = r == 0 ? keep_files(v, name, "", data, hash, err) : r;
	if (r < 0) {
		json_decref(snapshots);
		return r;
	}
	return json_array_append_new(list, json_pack("{s:s,s:s,s:I,s:o,s:I}", "files", hash, "name", name, "size",
	                                             (json_int_t)volume->size, "snapshots", snapshots, "ttl_ms",
	                                             (json_int_t)volume->ttl_ms)) < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}

/* The agent's files are in the way.  It must not keep its operator from a plan of everything else. */
static bool
is_agents(int r)
{
	return r == -EACCES || r == -E2BIG || r == -EFBIG || r == -ENAMETOOLONG;
}

/* The number of volumes that are left out. */
static int
collect_volumes(json_t *list, int data, struct err *err)
{
	char *words[] = { (char[]){ "volume" }, (char[]){ "list" }, (char[]){ "--json" }, NULL };
	OWN(volumes_close) struct volumes v = { .top = -1 };
	OWN(strv_freep) char **names = NULL;
	int r = volumes_open(false, &v, err), left_out = 0;

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	/* Changes of cells that have ended become part of their volumes. */
	r = child_run(NULL, words, 0, NULL, NULL, err);
	r = r == 0 ? volume_list(&v, &names, err) : r;
	for (size_t i = 0; r == 0 && names[i] != NULL; i++) {
		r = add_volume(list, &v, names[i], data, err);
		if (is_agents(r)) {
			progress_end();
			fprintf(stderr, "cloister: the volume '%s' is not in the plan: %s\n", names[i], err->text);
			left_out++;
			r = 0;
		}
	}
	return r < 0 ? r : left_out;
}

/* ---- the plan ---- */

/* 1: something is left out. */
static int
collect(json_t *root, int data, struct err *err)
{
	int r = collect_objects(json_object_get(root, "objects"), data, err), left_out;

	r = r == 0 ? collect_states(json_object_get(root, "states"), data, err) : r;
	left_out = r == 0 ? collect_volumes(json_object_get(root, "volumes"), data, err) : r;
	r = left_out >= 0 ? collect_runs(json_object_get(root, "runs"), true, err) : left_out;
	r = r == 0 ? collect_secrets(json_object_get(root, "secrets"), err) : r;
	return r == 0 ? left_out > 0 : r;
}

static int
write_plan(json_t *root, int fd, struct err *err)
{
	OWN(buf_free) struct buf envelope = BUF(PLAN_ENVELOPE_MAX);
	OWN(operator_close) struct operator op = {0};
	unsigned char digest[HASH_LEN];
	char hash[HASH_NAME + 1];
	int r = operator_open(&op, err);

	r = r == 0 ? operator_load_key(&op, err) : r;
	r = r == 0 ? plan_seal(root, &op.key, &envelope, err) : r;
	r = r == 0 ? write_all(fd, envelope.data, envelope.len, err) : r;
	if (r < 0)
		return r;
	hash_of(envelope.data, envelope.len, digest);
	hash_name(digest, hash);
	operator_close(&op);
	return operator_note("plan.exported", (struct audit_member[]){ { .name = "hash", .text = hash } }, 1, err);
}

/* A file of its own, that takes the place of an older one at once. */
static int
export_file(json_t *root, const char *path, struct err *err)
{
	OWN(freep) char *part = str_format("%s.part", path);
	OWN(closep) int fd = -1;
	int r, left_out;

	if (part == NULL)
		return err_set(err, ENOMEM, "out of memory");
	(void)unlink(part);
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "cannot make '%.300s'", part);
	left_out = collect(root, -1, err);
	r = left_out < 0 ? left_out : write_plan(root, fd, err);
	if (r == 0 && (fsync(fd) < 0 || rename(part, path) < 0))
		r = err_errno(err, "cannot write '%.300s'", path);
	if (r < 0)
		(void)unlink(part);
	return r < 0 ? r : left_out;
}

static int
fill_folder(json_t *root, int folder, struct err *err)
{
	OWN(closep) int data = -1, fd = -1;
	int r, left_out;

	if (mkdirat(folder, PLAN_DATA, 0700) < 0 || (data = tree_open_dir(folder, PLAN_DATA)) < 0)
		return err_errno(err, "cannot make the folder of the plan's files");
	left_out = collect(root, data, err);
	if (left_out < 0)
		return left_out;
	/* Last: without it, the folder is no plan. */
	fd = openat(folder, PLAN_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? err_errno(err, "cannot make '" PLAN_FILE "'") : write_plan(root, fd, err);
	r = r == 0 && syncfs(fd) < 0 ? err_errno(err, "cannot put the plan on the disk") : r;
	return r < 0 ? r : left_out;
}

static int
export_folder(json_t *root, const char *path, struct err *err)
{
	OWN(closep) int folder = -1;
	int r;

	if (mkdir(path, 0700) < 0)
		return errno == EEXIST ? err_set(err, EEXIST, "'%.300s' exists already: name a new folder", path) :
		       err_errno(err, "cannot make the folder '%.300s'", path);
	folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = folder < 0 ? err_errno(err, "cannot open '%.300s'", path) : fill_folder(root, folder, err);
	if (r < 0 && folder >= 0) {
		(void)tree_empty(folder, NULL);
		(void)rmdir(path);
	}
	return r;
}

static void
print_counts(const json_t *root, const char *path)
{
	static const char *const names[][2] = {
		{ "objects", "object" }, { "states", "state" }, { "volumes", "volume" }, { "runs", "run" }, { "secrets", "secret" },
	};

	printf("%s:", path);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const bool last = i + 1 == ARRAY_LEN(names);
		size_t n = json_array_size(json_object_get(root, names[i][0]));

		printf("%s%s%zu %s%s", i == 0 ? " " : last ? " and " : ", ", last ? "the names of " : "", n, names[i][1], text_plural(n));
	}
	putchar('\n');
}

int
cmd_plan(const struct args *args, struct err *err)
{
	const bool data = args_get(args, "with-data") != NULL;
	const char *path = args_get(args, "output");
	OWN(json_decrefp) json_t *root = json_pack("{s:[],s:[],s:[],s:[],s:i,s:[]}", "objects", "runs", "secrets", "states",
	                                           "version", PLAN_VERSION, "volumes");
	int r, left_out;

	if (args->n_words != 1 || strcmp(args->words[0], "export") != 0)
		return err_set(err, EINVAL, "it is `cloister plan export`: see `cloister help plan`");
	if (root == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (data && path == NULL)
		return err_set(err, EINVAL, "--with-data writes a folder: name it with -o");
	if (path == NULL && isatty(STDOUT_FILENO))
		return err_set(err, EINVAL, "a plan is for a file: name it with -o");
	progress_begin("collecting the plan");
	if (path == NULL) {
		left_out = collect(root, -1, err);
		r = left_out < 0 ? left_out : write_plan(root, STDOUT_FILENO, err);
		return r < 0 ? r : left_out;
	}
	r = data ? export_folder(root, path, err) : export_file(root, path, err);
	if (r >= 0)
		print_counts(root, path);
	return r;
}
