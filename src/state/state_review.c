/* state_review.c - keeps changes that a cell may not commit by itself, until a person accepts, refuses or removes them.
 *
 * refs/review/ID is a signed commit over the branch's: it has these changes and no others.  review/ID says of which cell they
 * are, and why they were kept.  Changes that git must not have are in aside/ID, and have no commit. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/codec.h"
#include "base/io.h"
#include "base/num.h"
#include "base/tree.h"
#include "canon/hash.h"
#include "state/state_parts.h"

#define MAGIC "cloister-review 1"
#define ENTRY_MAX (2 * STATE_REFUSED_MAX * (STATE_PATH_MAX + 512) + 4096)
#define ENTRIES_MAX (STATE_REVIEWS_MAX + STATE_ASIDE_FILES)
#define ID_DIGITS 12

void
state_review_free(struct state_review *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->items[i].path);
		free(r->items[i].why);
	}
	free(r->items);
	free(r->branch);
	free(r->cell);
	*r = (struct state_review){0};
}

/* ---- the file of an entry: texts, each with a NUL behind it ---- */

static void
put(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text) + 1);
}

static void
put_number(struct buf *b, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	put(b, text);
}

static int
open_folder(const struct state *state, bool make, struct err *err)
{
	int fd;

	if (make && mkdirat(state->dir, STATE_REVIEW, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make '" STATE_REVIEW "' of state '%s'", state->name);
	fd = openat(state->dir, STATE_REVIEW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 ? fd : errno == ENOENT ? -ENOENT : err_errno(err, "cannot open '" STATE_REVIEW "' of state '%s'", state->name);
}

static int
write_entry(const struct state *state, const struct state_review *e, struct err *err)
{
	OWN(closep) int folder = open_folder(state, true, err);
	OWN(buf_free) struct buf b = BUF(ENTRY_MAX);

	if (folder < 0)
		return folder;
	put(&b, MAGIC);
	put(&b, e->branch);
	put(&b, e->base);
	put(&b, e->commit);
	put(&b, e->aside);
	put(&b, e->cell);
	put_number(&b, (uint64_t)e->time);
	put_number(&b, e->more);
	for (size_t i = 0; i < e->n; i++) {
		put_number(&b, e->items[i].kept);
		put(&b, e->items[i].path);
		put(&b, e->items[i].why);
	}
	return buf_failed(&b) ? err_set(err, E2BIG, "the changes that are kept have too long paths") :
	       state_replace(folder, e->id, (const char *)b.data, b.len, err);
}

static const char *
next(const char **at, const char *end)
{
	const char *text = *at, *nul = text >= end ? NULL : memchr(text, '\0', (size_t)(end - text));

	if (nul != NULL)
		*at = nul + 1;
	return nul == NULL ? NULL : text;
}

static bool
take_number(const char *text, uint64_t most, uint64_t *ret)
{
	return text != NULL && num_parse_count(text, 0, most, ret, NULL) == 0;
}

static bool
take_commit(const char *text, char ret[STATE_ID + 1])
{
	if (text == NULL || (*text != '\0' && !state_is_id(text)))
		return false;
	snprintf(ret, STATE_ID + 1, "%s", text);
	return true;
}

static bool
take_item(struct state_review *e, const char *kept, const char *path, const char *why)
{
	struct state_refused *more;
	uint64_t kind;

	if (!take_number(kept, STATE_KEPT_ACCEPTED, &kind) || path == NULL || why == NULL || e->n >= 2 * STATE_REFUSED_MAX)
		return false;
	more = realloc(e->items, (e->n + 1) * sizeof(*more));
	if (more == NULL)
		return false;
	e->items = more;
	more[e->n++] = (struct state_refused){ strdup(path), strdup(why), (enum state_kept)kind };
	return more[e->n - 1].path != NULL && more[e->n - 1].why != NULL;
}

static bool
read_entry(struct state_review *e, const char *at, const char *end)
{
	const char *magic = next(&at, end), *branch = next(&at, end), *base = next(&at, end), *commit = next(&at, end);
	const char *aside = next(&at, end), *cell = next(&at, end), *when = next(&at, end), *more = next(&at, end);
	uint64_t seconds;

	if (magic == NULL || strcmp(magic, MAGIC) != 0 || branch == NULL || !state_is_name(branch) || !take_commit(base, e->base) ||
	    !take_commit(commit, e->commit) || (e->base[0] == '\0') != (e->commit[0] == '\0') || aside == NULL ||
	    (*aside != '\0' && !state_is_name(aside)) || cell == NULL || !take_number(when, INT64_MAX, &seconds) ||
	    !take_number(more, UINT32_MAX, &e->more))
		return false;
	e->time = (int64_t)seconds;
	e->branch = strdup(branch);
	e->cell = strdup(cell);
	snprintf(e->aside, sizeof(e->aside), "%s", aside);
	while (at < end) {
		const char *kept = next(&at, end), *path = next(&at, end), *why = next(&at, end);

		if (!take_item(e, kept, path, why))
			return false;
	}
	return e->branch != NULL && e->cell != NULL;
}

int
state_review_read(const struct state *state, const char *id, struct state_review *ret, struct err *err)
{
	OWN(state_review_free) struct state_review e = {0};
	OWN(closep) int folder = -1;
	OWN(freep) char *text = NULL;
	size_t len = 0;
	int r = -ENOENT;

	folder = state_is_name(id) ? open_folder(state, false, err) : -ENOENT;
	if (folder >= 0)
		r = read_file_at(folder, id, ENTRY_MAX, &text, &len, err);
	if (folder == -ENOENT || r == -ENOENT)
		return err_set(err, ENOENT, "nothing of state '%s' waits as '%.80s': `cloister state review %s` lists what does",
		               state->name, id, state->name);
	if (r < 0 || folder < 0)
		return folder < 0 ? folder : r;
	snprintf(e.id, sizeof(e.id), "%s", id);
	if (!read_entry(&e, text, text + len))
		return err_set(err, EBADMSG, "'" STATE_REVIEW "/%s' of state '%s' is damaged", id, state->name);
	*ret = e;
	e = (struct state_review){0};
	return 0;
}

/* ---- all of them ---- */

struct dated {
	char *id;
	int64_t time;
};

static int
by_time(const void *a, const void *b)
{
	const struct dated *x = a, *y = b;

	return x->time != y->time ? (x->time < y->time ? -1 : 1) : strcmp(x->id, y->id);
}

static int
list_dated(const struct state *state, int folder, struct dated **all, size_t *n, struct err *err)
{
	OWN(closedirp) DIR *list = tree_list(folder);
	const struct dirent *entry;
	int r = 0;

	while (r == 0 && list != NULL && *n < ENTRIES_MAX && (entry = readdir(list)) != NULL) {
		OWN(state_review_free) struct state_review e = {0};
		struct dated *more;

		if (!state_is_name(entry->d_name))
			continue;
		r = state_review_read(state, entry->d_name, &e, err);
		more = r < 0 ? NULL : realloc(*all, (*n + 1) * sizeof(*more));
		if (r == 0 && more == NULL)
			r = err_set(err, ENOMEM, "out of memory");
		if (r < 0)
			break;
		*all = more;
		more[*n] = (struct dated){ strdup(e.id), e.time };
		r = more[(*n)++].id == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	return list == NULL ? err_errno(err, "cannot list '" STATE_REVIEW "' of state '%s'", state->name) : r;
}

int
state_review_list(const struct state *state, char ***ret_ids, struct err *err)
{
	OWN(closep) int folder = open_folder(state, false, err);
	OWN(freep) struct dated *all = NULL;
	OWN(strv_freep) char **ids = NULL;
	size_t n = 0;
	int r = folder == -ENOENT ? 0 : folder < 0 ? folder : list_dated(state, folder, &all, &n, err);

	ids = calloc(n + 1, sizeof(*ids));
	if (n > 0)
		qsort(all, n, sizeof(*all), by_time);
	for (size_t i = 0; i < n; i++) {
		if (ids != NULL)
			ids[i] = all[i].id;
		else
			free(all[i].id);
	}
	if (r == 0 && ids == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (r == 0)
		*ret_ids = TAKE(ids);
	return r;
}

/* ---- keeping ---- */

static int
make_refs(const struct state *state, struct err *err)
{
	return mkdirat(state->dir, STATE_GIT "/refs/review", 0755) == 0 || errno == EEXIST ? 0 :
	       err_errno(err, "cannot make room for changes to review of state '%s'", state->name);
}

static int
count_withheld(const struct state *state, struct err *err)
{
	OWN(closep) int folder = openat(state->dir, STATE_GIT "/refs/review", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(closedirp) DIR *list = folder < 0 ? NULL : tree_list(folder);
	const struct dirent *entry;
	int n = 0;

	while (list != NULL && (entry = readdir(list)) != NULL)
		n += state_is_name(entry->d_name);
	return n < STATE_REVIEWS_MAX ? 0 :
	       err_set(err, E2BIG, "changes of %d commits to state '%s' wait for a person already: `cloister state review %s` lists them",
	               STATE_REVIEWS_MAX, state->name, state->name);
}

/* Those of C that are aside, or those that are withheld.  They stay C's. */
static size_t
pick(const struct state_committed *c, bool aside, struct state_refused *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_listed; i++)
		if ((c->refused[i].kept == STATE_KEPT_ASIDE) == aside)
			ret[n++] = c->refused[i];
	return n;
}

/* The same changes of the same cell, which it has at each of its commits, are kept once. */
static void
name_withheld(const char *ref, const char *sum, const struct state_author *author, char ret_id[STATE_NAME_MAX])
{
	const char *parts[] = { ref, sum, author->cell != NULL ? author->cell : "" };
	unsigned char digest[HASH_LEN];
	char hex[HASH_HEX + 1];
	struct hash h;

	hash_begin(&h);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		hash_add(&h, parts[i], strlen(parts[i]) + 1);
	hash_end(&h, digest);
	codec_hex(digest, HASH_LEN, hex);
	snprintf(ret_id, STATE_NAME_MAX, "%.*s", ID_DIGITS, hex);
}

/* The commit first, then why, and then the ref: without that, there is no entry. */
static int
keep_withheld(struct state *state, struct state_review *e, const char *parent, const struct state_withheld *w,
              const struct state_author *author, struct err *err)
{
	struct state_author own = *author;
	struct state_change change = { .type = "state.withheld", .sum = w->listing, .source = parent, .author = &own };
	int r = count_withheld(state, err);

	own.subject = "Changes that wait for a person";
	own.review = e->id;
	own.flags = NULL;
	r = r == 0 ? state_put_commit(state, w->tree, w->listing, &parent, 1, &own, e->commit, err) : r;
	snprintf(e->base, sizeof(e->base), "%s", parent);
	r = r == 0 ? write_entry(state, e, err) : r;
	snprintf(change.ref, sizeof(change.ref), STATE_REVIEW_REFS "%s", e->id);
	memcpy(change.to, e->commit, sizeof(change.to));
	return r == 0 ? state_change(state, &change, err) : r;
}

static bool
is_kept(const struct state *state, const char *id)
{
	char ref[STATE_REF_MAX], commit[STATE_ID + 1];

	snprintf(ref, sizeof(ref), STATE_REVIEW_REFS "%s", id);
	return state_ref_read(state->dir, ref, commit, NULL) == 0;
}

int
state_review_keep(struct state *state, const char *ref, const char *parent, const struct state_withheld *w,
                  const struct state_author *author, struct state_committed *c, struct err *err)
{
	OWN(freep) struct state_refused *items = calloc(c->n_listed + 1, sizeof(*items));
	struct state_review e = { .branch = (char *)(uintptr_t)strrchr(ref, '/') + 1, .time = time(NULL), .items = items,
	                          .cell = (char *)(uintptr_t)(author->cell != NULL ? author->cell : "") };
	int r = items == NULL ? err_set(err, ENOMEM, "out of memory") : make_refs(state, err);

	if (r == 0 && c->n_refused > 0) {
		e.n = pick(c, true, items);
		e.more = c->n_refused - e.n;
		snprintf(e.id, sizeof(e.id), "%s", c->aside);
		snprintf(e.aside, sizeof(e.aside), "%s", c->aside);
		r = write_entry(state, &e, err);
	}
	if (r < 0 || c->n_withheld == 0)
		return r;
	name_withheld(ref, w->sum, author, c->review);
	if (is_kept(state, c->review))
		return 0;
	e.n = pick(c, false, items);
	e.more = c->n_withheld - e.n;
	e.aside[0] = '\0';
	snprintf(e.id, sizeof(e.id), "%s", c->review);
	return keep_withheld(state, &e, parent, w, author, err);
}

/* ---- a person's answer ---- */

/* At a '/' or the end, PATH begins with FOLDER. */
static bool
is_in(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	while (len > 0 && folder[len - 1] == '/')
		len--;
	return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

static bool
is_named(const struct state_refused *item, char *const *paths, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_in(item->path, paths[i]))
			return true;
	return false;
}

/* All that are pending, or whatever the person names. */
static bool
is_meant(const struct state_refused *item, char *const *paths, size_t n)
{
	return item->kept == STATE_KEPT_PENDING ? n == 0 || is_named(item, paths, n) :
	       item->kept == STATE_KEPT_REFUSED && n > 0 && is_named(item, paths, n);
}

static int
check_paths(const struct state_review *e, char *const *paths, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		bool found = false;

		for (size_t k = 0; k < e->n && !found; k++)
			found = is_meant(&e->items[k], &paths[i], 1);
		if (!found)
			return err_set(err, ENOENT, "'%s' has no change of '%.200s' that could be accepted", e->id, paths[i]);
	}
	for (size_t k = 0; n == 0 && k < e->n; k++)
		if (e->items[k].kept == STATE_KEPT_PENDING)
			return 0;
	return n > 0 ? 0 : err_set(err, ENOENT, "no change of '%s' waits for a person: name the paths that you want in spite of that",
	                           e->id);
}

/* One that was accepted before has made room for another, or stands where that has to be. */
static bool
makes_room(const struct state_review *e, const struct state_refused *item, char *const *paths, size_t n)
{
	for (size_t i = 0; item->kept == STATE_KEPT_ACCEPTED && i < e->n; i++)
		if (is_meant(&e->items[i], paths, n) && (is_in(item->path, e->items[i].path) || is_in(e->items[i].path, item->path)))
			return true;
	return false;
}

static int
ask_accept(struct state *state, const struct state_review *e, const char *head, char *const *paths, size_t n,
           char ret_tree[STATE_ID + 1], struct state_committed *c, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	uint32_t meant = 0;
	int r;

	for (size_t i = 0; i < e->n; i++)
		meant += is_meant(&e->items[i], paths, n) || makes_room(e, &e->items[i], paths, n);
	ipc_begin(&b, STATE_ASK_ACCEPT);
	buf_put_str(&b, e->base);
	buf_put_str(&b, head);
	buf_put_str(&b, e->commit);
	buf_put_u32(&b, meant);
	for (size_t i = 0; i < e->n; i++)
		if (is_meant(&e->items[i], paths, n) || makes_room(e, &e->items[i], paths, n))
			buf_put_str(&b, e->items[i].path);
	if (buf_failed(&b) || b.len > IPC_MESSAGE_MAX || meant > STATE_REFUSED_MAX)
		return err_set(err, E2BIG, "these are too many changes for one step: name some of their folders");
	r = state_ask(state, &b, state_take_refused, c, &done, err);
	return r == 0 ? state_take_tree(&done.body, ret_tree, c, err) : r;
}

/* It is what was kept: signed with the operator's key, over the base that is recorded. */
static int
check_kept(struct state *state, const struct state_review *e, struct err *err)
{
	OWN(state_text_free) struct state_text text = {0};
	OWN(buf_free) struct buf bytes = {0};
	OWN(operator_close) struct operator op = {0};
	char ref[STATE_REF_MAX], commit[STATE_ID + 1];
	int r = operator_open(&op, err);

	snprintf(ref, sizeof(ref), STATE_REVIEW_REFS "%s", e->id);
	r = r == 0 ? operator_load_key(&op, err) : r;
	r = r == 0 ? state_ref_read(state->dir, ref, commit, err) : r;
	r = r == 0 ? state_get_commit(state, e->commit, &bytes, &text, err) : r;
	if (r < 0)
		return r;
	return strcmp(commit, e->commit) == 0 && text.n_parents == 1 && strcmp(text.parents[0], e->base) == 0 &&
	       state_text_is_signed(&text, (const char *)bytes.data, bytes.len, op.key.public) ? 0 :
	       err_set(err, EBADMSG, "'%s' of state '%s' is not what was kept: somebody has changed it", e->id, state->name);
}

/* Once nothing of it is left to decide on. */
static int
settle(struct state *state, struct state_review *e, char *const *paths, size_t n, const struct state_author *author,
       struct err *err)
{
	bool rest = e->more > 0;

	for (size_t i = 0; i < e->n; i++)
		if (is_meant(&e->items[i], paths, n))
			e->items[i].kept = STATE_KEPT_ACCEPTED;
	for (size_t i = 0; i < e->n; i++)
		rest = rest || e->items[i].kept != STATE_KEPT_ACCEPTED;
	return rest ? write_entry(state, e, err) : state_review_remove(state, e->id, author, err);
}

static int
accept_locked(struct state *state, const struct state_review *e, const char *ref, char *const *paths, size_t n,
              const struct state_author *author, struct state_committed *c, struct err *err)
{
	struct state_change change = { .type = "state.accepted", .sum = c->tree, .source = e->commit, .author = author };
	char tree[STATE_ID + 1], head[STATE_ID + 1];
	const char *parent = head;
	int r = state_ref_read(state->dir, ref, head, err);

	r = r == 0 ? state_worker_start(state, -1, -1, err) : r;
	r = r == 0 ? check_kept(state, e, err) : r;
	r = r == 0 ? ask_accept(state, e, head, paths, n, tree, c, err) : r;
	if (r < 0)
		return r;
	memcpy(c->commit, head, sizeof(head));
	c->same = c->added + c->changed + c->removed == 0;
	if (c->n_refused > 0 || c->same)
		return 0;
	r = state_put_commit(state, tree, c->tree, &parent, 1, author, c->commit, err);
	if (r < 0)
		return r;
	memcpy(change.ref, ref, sizeof(change.ref));
	memcpy(change.from, head, sizeof(head));
	memcpy(change.to, c->commit, sizeof(c->commit));
	return state_change(state, &change, err);
}

/* Opens an entry that has a commit. */
static int
open_entry(const struct state *state, const char *id, struct state_review *ret, struct err *err)
{
	int r = state_review_read(state, id, ret, err);

	return r < 0 ? r : ret->commit[0] != '\0' ? 0 :
	       err_set(err, EINVAL, "'%s' has what git must not have: it is in the state's folder '" STATE_ASIDE "/%s'", id, id);
}

int
state_review_accept(struct state *state, const char *id, const char *branch, char *const *paths, size_t n,
                    const struct state_author *author, struct state_committed *ret, struct err *err)
{
	OWN(state_committed_free) struct state_committed c = {0};
	OWN(state_review_free) struct state_review e = {0};
	OWN(closep) int writer = -1, lock = -1;
	char ref[STATE_REF_MAX] = "";
	int r = open_entry(state, id, &e, err);

	r = r == 0 ? state_ref_of(branch != NULL ? branch : e.branch, ref, err) : r;
	writer = r < 0 ? r : state_lock_writer(state, branch != NULL ? branch : e.branch, "", NULL, err);
	if (writer < 0)
		return writer;
	lock = state_lock(state, err);
	r = lock < 0 ? lock : state_repair(state, err);
	/* Somebody else may have decided on it meanwhile. */
	state_review_free(&e);
	e = (struct state_review){0};
	r = r == 0 ? open_entry(state, id, &e, err) : r;
	r = r == 0 ? check_paths(&e, paths, n, err) : r;
	r = r == 0 ? accept_locked(state, &e, ref, paths, n, author, &c, err) : r;
	close_fd(&lock);
	if (r == 0 && c.n_refused == 0)
		r = settle(state, &e, paths, n, author, err);
	if (r < 0)
		return r;
	*ret = c;
	c = (struct state_committed){0};
	return 0;
}

int
state_review_refuse(struct state *state, const char *id, char *const *paths, size_t n, const struct state_author *author,
                    uint64_t *ret_n, struct err *err)
{
	struct audit_member members[] = { { .name = "state", .text = state->name }, { .name = "review", .text = id },
	                                  { .name = "who", .text = author->who } };
	OWN(state_review_free) struct state_review e = {0};
	OWN(closep) int lock = state_lock(state, err);
	int r = lock < 0 ? lock : open_entry(state, id, &e, err);

	*ret_n = 0;
	r = r == 0 ? check_paths(&e, paths, n, err) : r;
	for (size_t i = 0; r == 0 && i < e.n; i++)
		if (e.items[i].kept == STATE_KEPT_PENDING && is_meant(&e.items[i], paths, n)) {
			e.items[i].kept = STATE_KEPT_REFUSED;
			++*ret_n;
		}
	r = r == 0 ? operator_note("state.refused", members, ARRAY_LEN(members), err) : r;
	return r == 0 ? write_entry(state, &e, err) : r;
}

static int
remove_aside(const struct state *state, const char *name, struct err *err)
{
	OWN(closep) int all = openat(state->dir, STATE_ASIDE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(closep) int fd = all < 0 || *name == '\0' ? -1 : tree_open_dir(all, name);

	if (fd >= 0 && (tree_empty(fd, err) < 0 || unlinkat(all, name, AT_REMOVEDIR) < 0))
		return err_errno(err, "cannot remove '" STATE_ASIDE "/%s' of state '%s'", name, state->name);
	return 0;
}

int
state_review_remove(struct state *state, const char *id, const struct state_author *author, struct err *err)
{
	struct state_change change = { .type = "state.unreviewed", .author = author };
	OWN(state_review_free) struct state_review e = {0};
	OWN(closep) int lock = state_lock(state, err), folder = -1;
	int r = lock < 0 ? lock : state_repair(state, err);

	r = r == 0 ? state_review_read(state, id, &e, err) : r;
	folder = r < 0 ? r : open_folder(state, false, err);
	if (folder < 0)
		return folder;
	snprintf(change.ref, sizeof(change.ref), STATE_REVIEW_REFS "%s", id);
	memcpy(change.from, e.commit, sizeof(change.from));
	if (is_kept(state, id))
		r = state_change(state, &change, err);
	r = r == 0 ? remove_aside(state, e.aside, err) : r;
	return r == 0 && unlinkat(folder, id, 0) < 0 ? err_errno(err, "cannot remove '" STATE_REVIEW "/%s'", id) : r;
}
