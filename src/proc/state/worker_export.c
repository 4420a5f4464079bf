/* worker_export.c - writes the history of refs as a git bundle, or as a pack for a repository. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "proc/state/state_proc.h"

OWN_BY(git_packbuilder_freep, git_packbuilder *, git_packbuilder_free)
OWN_BY(git_revwalk_freep, git_revwalk *, git_revwalk_free)

#define BUNDLE "# v2 git bundle\n"

struct exporting {
	struct worker *w;
	struct err *err;
};

static int
step(int stage, uint32_t done, uint32_t total, void *arg)
{
	struct exporting *e = arg;

	(void)stage;
	return worker_step(e->w, done, total, e->err);
}

static int
write_piece(void *data, size_t len, void *arg)
{
	struct exporting *e = arg;

	return write_all(STATE_TARGET_FD, data, len, e->err);
}

static void
put_ref(struct buf *head, const git_oid *id, const char *ref)
{
	buf_put_text(head, git_oid_tostr_s(id));
	buf_put_text(head, " ");
	buf_put_text(head, ref);
	buf_put_text(head, "\n");
}

static int
take_refs(struct ipc_message *m, git_revwalk *walk, struct buf *head, struct err *err)
{
	uint32_t n;
	int r = buf_get_u32(&m->body, &n) < 0 || n > STATE_REFS_MAX ? -EBADMSG : 0;

	buf_put_text(head, BUNDLE);
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		const char *ref;
		git_oid id;

		r = buf_get_str(&m->body, &ref) < 0 ? -EBADMSG : worker_get_id(&m->body, &id, err);
		if (r == 0 && git_revwalk_push(walk, &id) < 0)
			return worker_git_error(err, "cannot read the history of '%.100s'", ref);
		if (r == 0) {
			put_ref(head, &id, ref);
			/* So that git has something to check out. */
			if (strcmp(ref, "refs/heads/" STATE_MAIN) == 0)
				put_ref(head, &id, "HEAD");
		}
	}
	buf_put_text(head, "\n");
	return r < 0 ? err_set(err, EBADMSG, "the question has no refs") : 0;
}

int
worker_answer_export(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(git_packbuilder_freep) git_packbuilder *pack = NULL;
	OWN(git_revwalk_freep) git_revwalk *walk = NULL;
	OWN(buf_free) struct buf head = BUF(STATE_REFS_MAX * (STATE_REF_MAX + STATE_ID + 4)), done = {0};
	struct exporting e = { w, err };
	uint32_t kind;
	int r;

	if (git_packbuilder_new(&pack, w->repo) < 0 || git_revwalk_new(&walk, w->repo) < 0 ||
	    git_packbuilder_set_callbacks(pack, step, &e) < 0)
		return worker_git_error(err, "cannot export");
	(void)git_packbuilder_set_threads(pack, 1);
	r = take_refs(m, walk, &head, err);
	if (r < 0)
		return r;
	if (buf_get_u32(&m->body, &kind) < 0)
		return err_set(err, EBADMSG, "the question has no kind");
	if (git_packbuilder_insert_walk(pack, walk) < 0)
		return worker_git_error(err, "cannot collect the history");
	if (kind == 0) {
		r = write_all(STATE_TARGET_FD, head.data, head.len, err);
		if (r == 0 && git_packbuilder_foreach(pack, write_piece, &e) < 0)
			r = err->code != 0 ? -err->code : worker_git_error(err, "cannot write the bundle");
	} else {
		/* Landlock lets it make files here; the other side takes them from here. */
		if (mkdir(STATE_EXPORT, 0700) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make '" STATE_EXPORT "'");
		if (git_packbuilder_write(pack, STATE_EXPORT, 0644, NULL, NULL) < 0)
			r = worker_git_error(err, "cannot write the pack");
	}
	ipc_begin(&done, STATE_DONE);
	return r == 0 ? worker_send(&done, err) : r;
}
