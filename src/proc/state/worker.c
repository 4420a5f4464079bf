/* worker.c - cloister-state's worker: locks itself down, and answers questions about one state. */
#include <errno.h>
#include <fcntl.h>
#include <git2/sys/odb_backend.h>
#include <git2/sys/repository.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "confine/lockdown.h"
#include "proc/state/worker_guard.h"

#define MEMORY_MAX ((rlim_t)6 << 30)    /* of address space */
#define FILES_MAX 1024                  /* open descriptors: one for each folder on the way down, twice */
#define STEP_MS 200

/* ---- messages ---- */

int
worker_git_error(struct err *err, const char *fmt, ...)
{
	const git_error *last = git_error_last();
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return err_set(err, EIO, "%s: %s", what, last != NULL && last->message != NULL ? last->message : "libgit2 gives no reason");
}

int
worker_send(struct buf *b, struct err *err)
{
	return ipc_send(STATE_CHANNEL_FD, b, NULL, 0, err);
}

int
worker_step(struct worker *w, uint64_t done, uint64_t total, struct err *err)
{
	OWN(buf_free) struct buf b = {0};
	uint64_t now = (uint64_t)io_now_ms();

	if (now - w->stepped_ms < STEP_MS)
		return 0;
	w->stepped_ms = now;
	ipc_begin(&b, STATE_STEP);
	buf_put_u64(&b, done);
	buf_put_u64(&b, total);
	return worker_send(&b, err);
}

int
worker_send_bytes(const void *data, size_t len, struct err *err)
{
	int r = 0;

	for (size_t at = 0; r == 0 && at < len; at += STATE_CHUNK_MAX) {
		OWN(buf_free) struct buf b = {0};

		ipc_begin(&b, STATE_CHUNK);
		buf_put(&b, (const char *)data + at, len - at < STATE_CHUNK_MAX ? len - at : STATE_CHUNK_MAX);
		r = worker_send(&b, err);
	}
	return r;
}

int
worker_send_refused(const char *path, const char *why, struct err *err)
{
	OWN(buf_free) struct buf b = {0};

	ipc_begin(&b, STATE_REFUSED);
	buf_put_str(&b, path);
	buf_put_str(&b, why);
	return worker_send(&b, err);
}

int
worker_get_id(struct buf *b, git_oid *ret_id, struct err *err)
{
	const char *text;

	return buf_get_str(b, &text) == 0 && state_is_id(text) && git_oid_fromstr(ret_id, text) == 0 ? 0 :
	       err_set(err, EBADMSG, "the question has no id");
}

int
worker_tree_of(git_repository *repo, const git_oid *commit, git_tree **ret_tree, struct err *err)
{
	OWN(git_commit_freep) git_commit *c = NULL;

	return git_commit_lookup(&c, repo, commit) == 0 && git_commit_tree(ret_tree, c) == 0 ? 0 :
	       worker_git_error(err, "cannot read commit %.12s", git_oid_tostr_s(commit));
}

/* ---- commits ---- */

static int
answer_put_commit(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(git_commit_freep) git_commit *commit = NULL;
	OWN(git_tree_freep) git_tree *tree = NULL;
	OWN(buf_free) struct buf b = {0};
	git_oid id;
	int r;

	r = worker_write(w, m->body.data + m->body.pos, buf_left(&m->body), GIT_OBJECT_COMMIT, &id, err);
	if (r < 0)
		return r;
	if (git_commit_lookup(&commit, w->repo, &id) < 0 || git_commit_tree(&tree, commit) < 0)
		return worker_git_error(err, "a commit that was just written cannot be read");
	r = worker_pack_keep(w, err);
	if (r < 0)
		return r;
	worker_pack_join(w);
	ipc_begin(&b, STATE_DONE);
	buf_put_str(&b, git_oid_tostr_s(&id));
	return worker_send(&b, err);
}

static int
done(struct err *err)
{
	OWN(buf_free) struct buf b = {0};

	ipc_begin(&b, STATE_DONE);
	return worker_send(&b, err);
}

static int
answer_get_commit(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(git_odb_object_freep) git_odb_object *object = NULL;
	git_oid id;
	int r = worker_get_id(&m->body, &id, err);

	if (r < 0)
		return r;
	if (git_odb_read(&object, w->odb, &id) < 0 || git_odb_object_type(object) != GIT_OBJECT_COMMIT)
		return err_set(err, ENOENT, "there is no commit %.12s", git_oid_tostr_s(&id));
	if (git_odb_object_size(object) > STATE_OBJECT_MAX)
		return err_set(err, EBADMSG, "commit %.12s is too long", git_oid_tostr_s(&id));
	r = worker_send_bytes(git_odb_object_data(object), git_odb_object_size(object), err);
	return r == 0 ? done(err) : r;
}

/* ---- the loop ---- */

static int
answer_begin(struct worker *w, struct ipc_message *m, struct err *err)
{
	struct state_limits *l = &w->limits;

	if (buf_get_u64(&m->body, &l->bytes) < 0 || buf_get_u64(&m->body, &l->file_bytes) < 0 ||
	    buf_get_u64(&m->body, &l->files) < 0 || buf_get_u64(&m->body, &l->depth) < 0 ||
	    buf_get_u64(&m->body, &l->path) < 0)
		return err_set(err, EBADMSG, "the question has no limits");
	return done(err);
}

static const struct {
	enum state_message type;
	int (*run)(struct worker *w, struct ipc_message *m, struct err *err);
} answers[] = {
	{ STATE_ASK_BEGIN, answer_begin },
	{ STATE_ASK_TREE, worker_answer_tree },
	{ STATE_ASK_PUT_COMMIT, answer_put_commit },
	{ STATE_ASK_GET_COMMIT, answer_get_commit },
	{ STATE_ASK_CHECKOUT, worker_answer_checkout },
	{ STATE_ASK_FILES, worker_answer_files },
	{ STATE_ASK_SUM, worker_answer_sum },
	{ STATE_ASK_CAT, worker_answer_cat },
	{ STATE_ASK_DIFF, worker_answer_diff },
	{ STATE_ASK_DIFF_FILE, worker_answer_diff_file },
	{ STATE_ASK_FIND, worker_answer_find },
	{ STATE_ASK_MERGE, worker_answer_merge },
	{ STATE_ASK_ACCEPT, worker_answer_accept },
	{ STATE_ASK_EXPORT, worker_answer_export },
	{ STATE_ASK_IMPORT, worker_answer_import },
};

static int
answer(struct worker *w, struct ipc_message *m, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(answers); i++)
		if (m->type == (uint32_t)answers[i].type)
			return answers[i].run(w, m, err);
	return err_set(err, EBADMSG, "the worker has no answer to question %u", m->type);
}

static int
serve(struct worker *w, struct err *err)
{
	for (;;) {
		OWN(ipc_message_free) struct ipc_message m = {0};
		OWN(buf_free) struct buf b = {0};
		struct err why = {0};
		int r = ipc_receive(STATE_CHANNEL_FD, &m, err);

		if (r < 0) {
			worker_pack_drop(w);
			return r == -EPIPE ? 0 : r;
		}
		if (answer(w, &m, &why) == 0)
			continue;
		worker_pack_drop(w);
		ipc_begin(&b, STATE_FAILED);
		buf_put_u32(&b, (uint32_t)(why.code > 0 ? why.code : EIO));
		buf_put_str(&b, why.text);
		r = worker_send(&b, err);
		if (r < 0)
			return r;
	}
}

/* ---- lockdown ---- */

static void
limit(void)
{
	const struct rlimit files = { FILES_MAX, FILES_MAX };
#ifndef CLOISTER_SANITIZED
	const struct rlimit memory = { MEMORY_MAX, MEMORY_MAX };

	(void)setrlimit(RLIMIT_AS, &memory);
#endif
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

/* Neither the machine's nor the operator's configuration of git counts here. */
static int
begin_git(struct err *err)
{
	static const git_config_level_t levels[] = { GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG, GIT_CONFIG_LEVEL_GLOBAL,
	                                             GIT_CONFIG_LEVEL_PROGRAMDATA };

	if (git_libgit2_init() < 0)
		return worker_git_error(err, "cannot start libgit2");
	for (size_t i = 0; i < ARRAY_LEN(levels); i++)
		if (git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "/nonexistent") < 0)
			return worker_git_error(err, "cannot set libgit2 up");
	/* What is put into a tree was just written, or is in the base. */
	(void)git_libgit2_opts(GIT_OPT_ENABLE_STRICT_OBJECT_CREATION, 0);
	return 0;
}

/* Objects, and nothing around them. */
static int
open_objects(struct worker *w, struct err *err)
{
	git_odb_backend *loose = NULL, *packs = NULL;
	git_config *config = NULL;
	int r = 0;

	if (fchdir(STATE_DIR_FD) < 0)
		return err_errno(err, "cannot enter the state's folder");
	w->pack = worker_pack_new(err);
	if (w->pack == NULL)
		return -err->code;
	if (git_odb_new(&w->odb) < 0 || git_odb_backend_loose(&loose, WORKER_OBJECTS, WORKER_LEVEL, 0, 0755, 0444) < 0 ||
	    git_odb_add_backend(w->odb, loose, 2) < 0 || git_odb_backend_pack(&packs, WORKER_OBJECTS) < 0 ||
	    git_odb_add_backend(w->odb, packs, 3) < 0 ||
	    git_odb_add_backend(w->odb, (git_odb_backend *)w->pack, 4) < 0 || git_repository_new(&w->repo) < 0 || git_config_new(&config) < 0 ||
	    git_repository_set_odb(w->repo, w->odb) < 0 || git_repository_set_config(w->repo, config) < 0)
		r = worker_git_error(err, "cannot open the state's objects");
	git_config_free(config);
	return r;
}

int
worker_main(void)
{
	static const char *const readable[] = { STATE_SOURCE_PATH, NULL };
	static const char *writable[] = { "/proc/self/fd/4/" WORKER_OBJECTS, "/proc/self/fd/4/" STATE_ASIDE, NULL, NULL };
	static struct worker w;
	struct err err = {0};
	struct stat st;
	bool has_source = fstat(STATE_SOURCE_FD, &st) == 0 && S_ISDIR(st.st_mode);
	int r;

	/* Cells read these files, and nothing checks them again. */
	if (!has_source)
		writable[2] = "/proc/self/fd/4/" STATE_TREES;
	umask(0);
	limit();
	r = lockdown_enter(&(struct lockdown){ .filter = FILTER_STATE, .writable = writable, .links = true,
		                                       .readable = has_source ? readable : NULL }, STATE_TARGET_FD + 1, &err);
	/* libgit2 reads the machine's certificates if it can, and needs none. */
	if (r == 0)
		r = begin_git(&err);
	if (r == 0)
		r = open_objects(&w, &err);
	if (r == 0)
		r = serve(&w, &err);
	if (r < 0)
		fprintf(stderr, "cloister-state: %s\n", err.text);
	return r < 0;
}
