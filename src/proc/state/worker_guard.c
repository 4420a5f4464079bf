/* worker_guard.c - see worker_guard.h. */
#include "proc/state/worker_guard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/num.h"

#define WHY_MAX 256

struct guarding {
	struct worker *w;
	struct looks *looks;
	struct policy_guards guards;
	const char *over;               /* why nothing at all may be committed; or NULL */
	struct guarded result;
	struct hash hash;               /* of what is withheld */
	uint64_t flags;
	bool quiet;                     /* nothing is reported yet */
};

/* ---- reporting ---- */

static int
send_withheld(struct guarding *g, const struct split_file *file, enum policy_guard guard, const char *why, struct err *err)
{
	OWN(buf_free) struct buf b = {0};
	char line[2 * STATE_ID + 32];

	snprintf(line, sizeof(line), "%06o %s %d ", (unsigned)file->new_mode, file->new == NULL ? "-" : git_oid_tostr_s(file->new),
	         guard);
	hash_add(&g->hash, line, strlen(line));
	hash_add(&g->hash, file->path, strlen(file->path) + 1);
	g->result.withheld++;
	g->result.pending += guard == POLICY_GUARD_ASK;
	if (g->quiet || g->result.withheld > STATE_REFUSED_MAX)
		return 0;
	ipc_begin(&b, STATE_WITHHELD);
	buf_put_u32(&b, guard == POLICY_GUARD_ASK);
	buf_put_str(&b, file->path);
	buf_put_str(&b, why);
	return worker_send(&b, err);
}

static int
send_flag(struct guarding *g, const char *path, const char *what, struct err *err)
{
	OWN(buf_free) struct buf b = {0};

	if (++g->flags > STATE_REFUSED_MAX || g->quiet)
		return 0;
	ipc_begin(&b, STATE_FLAG);
	buf_put_str(&b, path);
	buf_put_str(&b, what);
	return worker_send(&b, err);
}

/* ---- judging ---- */

struct judgement {
	enum policy_guard guard;
	char why[WHY_MAX];              /* "" if the guard is ALLOW */
};

static void
add(struct judgement *j, enum policy_guard guard, const char *why)
{
	size_t len = strlen(j->why);

	if (guard == POLICY_GUARD_ALLOW)
		return;
	j->guard = guard > j->guard ? guard : j->guard;
	snprintf(j->why + len, sizeof(j->why) - len, "%s%s", len > 0 ? "; " : "", why);
}

static void
judge_content(const struct guarding *g, const git_oid *id, struct judgement *j)
{
	const struct look_found *found = worker_looked(g->looks, id);
	char why[WHY_MAX];

	if (found == NULL)
		return;
	if (found->secret != NULL) {
		snprintf(why, sizeof(why), "it has what looks like a secret (%s)", found->secret);
		add(j, g->guards.checks[POLICY_CHECK_SECRETS], why);
	}
	for (size_t i = 0; i < injection_n_kinds; i++)
		if ((found->injection & 1u << i) != 0) {
			snprintf(why, sizeof(why), "it has text that looks like instructions (%s)", injection_kinds[i]);
			add(j, g->guards.checks[POLICY_CHECK_INJECTION], why);
		}
	if (found->binary)
		add(j, g->guards.checks[POLICY_CHECK_BINARY], "it is not text");
}

static void
judge(const struct guarding *g, const struct split_file *file, struct judgement *ret)
{
	const bool link = file->new_mode == GIT_FILEMODE_LINK;
	const enum policy_guard path = link ? policy_guards_link(&g->guards, file->path) : policy_guards_path(&g->guards, file->path);
	struct judgement j = {0};

	add(&j, path, path == POLICY_GUARD_ASK ? "its changes wait for a person" : "the policy protects it");
	if (file->new != NULL && !link && (file->old == NULL || !git_oid_equal(file->old, file->new)))
		judge_content(g, file->new, &j);
	if (file->blocked)
		add(&j, j.guard > POLICY_GUARD_ASK ? j.guard : POLICY_GUARD_ASK, "a change that is not committed needs its place");
	if (g->over != NULL)
		add(&j, POLICY_GUARD_REFUSE, g->over);
	/* The differences of files look the same. */
	if (j.guard >= POLICY_GUARD_ASK && (link || file->new_mode == GIT_FILEMODE_BLOB_EXECUTABLE))
		add(&j, j.guard, link ? "it is a link" : "it is a program");
	*ret = j;
}

/* Most commits have nothing that is withheld, and need no other trees. */
static int
look(void *arg, const struct differs *file, struct err *err)
{
	struct guarding *g = arg;
	struct judgement j;

	judge(g, &(struct split_file){ .path = file->path, .old = file->old, .new = file->new, .old_mode = file->old_mode,
	                               .new_mode = file->new_mode }, &j);
	g->result.withheld += j.guard >= POLICY_GUARD_ASK;
	return j.guard == POLICY_GUARD_FLAG ? send_flag(g, file->path, j.why, err) : 0;
}

static int
takes(void *arg, const struct split_file *file, struct err *err)
{
	struct guarding *g = arg;
	struct judgement j;
	int r;

	judge(g, file, &j);
	if (j.guard >= POLICY_GUARD_ASK)
		return send_withheld(g, file, j.guard, j.why, err);
	r = j.guard == POLICY_GUARD_FLAG ? send_flag(g, file->path, j.why, err) : 0;
	return r < 0 ? r : 1;
}

/* ---- sizes ---- */

static int
count(void *arg, const struct listed *file, struct err *err)
{
	(void)arg;
	(void)file;
	(void)err;
	return 0;
}

struct size {
	uint64_t files, bytes;
};

static int
measure(struct guarding *g, const git_oid *tree, struct size *ret, struct err *err)
{
	return worker_walk(g->w, g->w->repo, tree, count, NULL, &ret->files, &ret->bytes, err);
}

/* Whatever makes it smaller is welcome, even if it is still too large. */
static int
check_size(struct guarding *g, const git_oid *base, const git_oid *parent, const git_oid *new, char why[WHY_MAX], struct err *err)
{
	const struct policy_guards *p = &g->guards;
	char is[NUM_TEXT_MAX], most[NUM_TEXT_MAX];
	struct size begun, before, after;
	int r = p->bytes == 0 && p->files == 0 && p->growth == 0 ? 1 : measure(g, base, &begun, err);

	r = r == 0 ? measure(g, parent, &before, err) : r;
	r = r == 0 ? measure(g, new, &after, err) : r;
	if (r != 0)
		return r < 0 ? r : 0;
	if (p->files > 0 && after.files > p->files && after.files > before.files)
		snprintf(why, WHY_MAX, "the state would have %llu files, and may have %llu", (unsigned long long)after.files,
		         (unsigned long long)p->files);
	else if (p->bytes > 0 && after.bytes > p->bytes && after.bytes > before.bytes)
		snprintf(why, WHY_MAX, "the state would have %s, and may have %s", num_format_size(is, after.bytes),
		         num_format_size(most, p->bytes));
	else if (p->growth > 0 && after.bytes > begun.bytes && after.bytes - begun.bytes > p->growth && after.bytes > before.bytes)
		snprintf(why, WHY_MAX, "the session would add %s, and may add %s", num_format_size(is, after.bytes - begun.bytes),
		         num_format_size(most, p->growth));
	return 0;
}

/* ---- all ---- */

static int
split(struct guarding *g, const git_oid *parent, const git_oid *new, git_oid *ret_taken, struct err *err)
{
	unsigned char digest[HASH_LEN];
	int r;

	g->flags = g->result.withheld = g->result.pending = 0;
	hash_begin(&g->hash);
	r = worker_split(g->w, parent, new, takes, g, ret_taken, &g->result.left, err);
	hash_end(&g->hash, digest);
	codec_hex(digest, HASH_LEN, g->result.sum);
	return r;
}

/* Nothing is reported before it is known what is committed. */
static int
guard(struct guarding *g, const git_oid *base, const git_oid *parent, struct tree_made *made, struct err *err)
{
	git_oid taken = made->tree;
	char over[WHY_MAX] = "";
	int r;

	g->quiet = true;
	r = worker_diff(g->w, parent, &made->tree, look, g, err);
	r = r == 0 && g->result.withheld > 0 ? split(g, parent, &made->tree, &taken, err) : r;
	r = r == 0 ? check_size(g, base, parent, &taken, over, err) : r;
	g->quiet = false;
	g->over = over[0] != '\0' ? over : NULL;
	if (r == 0 && (g->over != NULL || g->result.withheld > 0))
		r = split(g, parent, &made->tree, &taken, err);
	else if (r == 0 && g->flags > 0)
		r = worker_diff(g->w, parent, &made->tree, look, g, err);
	git_oid_cpy(&made->tree, &taken);
	return r;
}

int
worker_guard(struct worker *w, struct looks *looks, const char *guards, const git_oid *base, const git_oid *parent,
             struct tree_made *made, struct guarded *ret, struct err *err)
{
	struct guarding g = { .w = w, .looks = looks };
	int r = policy_guards_read(guards, &g.guards, err);

	r = r == 0 ? guard(&g, base, parent, made, err) : r;
	policy_guards_free(&g.guards);
	if (r == 0)
		*ret = g.result;
	return r;
}
