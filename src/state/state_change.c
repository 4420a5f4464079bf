/* state_change.c - moves a ref of a state, and records that, so that a crash leaves nothing half done.
 *
 * `pending` has the very event that is to be recorded.  If there is one, the objects of the new commit are on the disk: the ref
 * is moved, if it was not, and the event is recorded, perhaps a second time. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/io.h"
#include "state/state_parts.h"


#define STEP_MS 5

int
state_lock(const struct state *state, struct err *err)
{
	const struct timespec step = { .tv_nsec = STEP_MS * 1000000L };
	OWN(closep) int fd = openat(state->dir, STATE_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_errno(err, "cannot open the lock of state '%s'", state->name);
	for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; waited += STEP_MS) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_errno(err, "cannot lock state '%s'", state->name);
		if (waited >= STATE_LOCK_MS)
			return err_set(err, ETIMEDOUT, "state '%s' has been locked for %d s by another command: wait until that has "
			               "ended", state->name, STATE_LOCK_MS / 1000);
		nanosleep(&step, NULL);
	}
	return TAKE_FD(fd);
}

/* ---- the record ---- */

static int
make_event(const struct state *state, const struct state_change *c, struct buf *ret_event, struct err *err)
{
	static const struct state_author nobody;
	const struct state_author *a = c->author != NULL ? c->author : &nobody;
	struct audit_member all[] = {
		{ .name = "state", .text = state->name }, { .name = "ref", .text = c->ref },
		{ .name = "commit", .text = c->to[0] != '\0' ? c->to : NULL },
		{ .name = "previous", .text = c->from[0] != '\0' ? c->from : NULL },
		{ .name = "tree", .text = c->sum }, { .name = "source", .text = c->source },
		{ .name = "uid", .kind = AUDIT_NUMBER, .number = getuid() },
		{ .name = "reason", .text = a->reason }, { .name = "who", .text = a->who }, { .name = "cell", .text = a->cell },
		{ .name = "cell_name", .text = a->cell_name }, { .name = "behalf", .text = a->behalf },
		{ .name = "dispatch", .text = a->dispatch }, { .name = "grant", .text = a->grant },
		{ .name = "review", .text = a->review },
		{ .name = "flags", .text = a->flags != NULL && a->flags[0] != '\0' ? a->flags : NULL },
		{ .name = "timeline", .text = a->timeline },
		{ .name = "timeline_head", .text = a->timeline != NULL ? a->timeline_head : NULL },
		{ .name = "timeline_n", .kind = AUDIT_NUMBER, .number = a->timeline_n },
	};

	return operator_event(c->type, all, ARRAY_LEN(all) - (a->timeline == NULL), ret_event, err);
}

static int
record(const char *event, size_t len, struct err *err)
{
	OWN(operator_close) struct operator op = {0};
	int r = operator_open(&op, err);

	return r < 0 ? r : operator_append(&op, OPERATOR_NOW, event, len, err);
}

static int
settle(const struct state *state, const char *event, size_t len, struct err *err)
{
	int r = record(event, len, err);

	/* If it is there again after a power failure, the event is recorded twice. */
	if (r == 0 && unlinkat(state->dir, STATE_PENDING, 0) < 0)
		r = err_errno(err, "cannot remove '" STATE_PENDING "' of state '%s'", state->name);
	return r;
}

int
state_change(struct state *state, const struct state_change *c, struct err *err)
{
	OWN(buf_free) struct buf event = {0};
	int r = make_event(state, c, &event, err);

	if (r < 0)
		return r;
	r = state_replace(state->dir, STATE_PENDING, (const char *)event.data, event.len, err);
	if (r == 0)
		r = state_ref_write(state->dir, c->ref, c->to, err);
	return r == 0 ? settle(state, (const char *)event.data, event.len, err) : r;
}

/* ---- repair ---- */

static const char *
text_of(const json_t *event, const char *key)
{
	const char *text = json_string_value(json_object_get(event, key));

	return text == NULL ? "" : text;
}

static bool
is_ref(const char *ref)
{
	return (strncmp(ref, "refs/heads/", 11) == 0 && state_is_name(ref + 11)) ||
	       (strncmp(ref, STATE_REVIEW_REFS, strlen(STATE_REVIEW_REFS)) == 0 && state_is_name(ref + strlen(STATE_REVIEW_REFS))) ||
	       (strncmp(ref, "refs/tags/", 10) == 0 && state_is_name(ref + 10));
}

static bool
is_id_or_none(const char *id)
{
	return *id == '\0' || state_is_id(id);
}

static int
complete(const struct state *state, const json_t *event, const char *text, size_t len, struct err *err)
{
	const char *ref = text_of(event, "ref"), *to = text_of(event, "commit"), *from = text_of(event, "previous");
	char now[STATE_ID + 1] = "";
	int r;

	if (!is_ref(ref) || !is_id_or_none(to) || !is_id_or_none(from) || strcmp(text_of(event, "state"), state->name) != 0)
		return err_set(err, EBADMSG, "'" STATE_PENDING "' of state '%s' is damaged", state->name);
	r = state_ref_read(state->dir, ref, now, err);
	if (r == -ENOENT)
		r = 0;
	if (r == 0 && strcmp(now, from) != 0 && strcmp(now, to) != 0)
		return err_set(err, EBUSY, "'%s' of state '%s' was changed by something else while a change to %.12s was not recorded "
		               "yet: put the right commit there, then try again", ref, state->name, to);
	if (r == 0 && strcmp(now, to) != 0)
		r = state_ref_write(state->dir, ref, to, err);
	return r == 0 ? settle(state, text, len, err) : r;
}

int
state_repair(struct state *state, struct err *err)
{
	OWN(json_decrefp) json_t *event = NULL;
	OWN(freep) char *text = NULL;
	size_t len;
	int r = read_file_at(state->dir, STATE_PENDING, STATE_PENDING_MAX, &text, &len, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	event = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	return event == NULL ? err_set(err, EBADMSG, "'" STATE_PENDING "' of state '%s' is damaged", state->name) :
	       complete(state, event, text, len, err);
}

/* ---- commits ---- */

static int
load_key(struct audit_key *ret_key, struct err *err)
{
	OWN(operator_close) struct operator op = {0};
	int r = operator_open(&op, err);

	if (r == 0)
		r = operator_load_key(&op, err);
	if (r == 0)
		*ret_key = op.key;
	return r;
}

int
state_signers(char **ret_line, struct err *err)
{
	OWN(audit_key_wipe) struct audit_key key = {0};
	OWN(buf_free) struct buf b = BUF(STATE_SIGNATURE_MAX);
	int r = load_key(&key, err);

	if (r < 0)
		return r;
	state_signer_line(key.public, &b);
	*ret_line = strndup((const char *)b.data, b.len);
	return *ret_line == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
state_put_commit(struct state *state, const char *tree, const char *sum, const char *const *parents, size_t n_parents,
                 const struct state_author *author, char ret_commit[STATE_ID + 1], struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(audit_key_wipe) struct audit_key key = {0};
	OWN(buf_free) struct buf text = BUF(STATE_OBJECT_MAX), b = {0};
	struct state_text t = { .n_parents = n_parents, .time = time(NULL) };
	char id[STATE_ID + 1];
	const char *said;
	int r = load_key(&key, err);

	snprintf(t.tree, sizeof(t.tree), "%s", tree);
	snprintf(t.sum, sizeof(t.sum), "%s", sum);
	for (size_t i = 0; i < n_parents; i++)
		snprintf(t.parents[i], sizeof(t.parents[i]), "%s", parents[i]);
	if (r == 0)
		r = state_text_put(&text, &t, author, &key, err);
	if (r < 0)
		return r;
	state_text_id((const char *)text.data, text.len, id);
	ipc_begin(&b, STATE_ASK_PUT_COMMIT);
	buf_put(&b, text.data, text.len);
	r = state_ask(state, &b, NULL, NULL, &done, err);
	if (r < 0)
		return r;
	if (buf_get_str(&done.body, &said) < 0 || strcmp(said, id) != 0)
		return err_set(err, EPROTO, "the process that writes the state wrote another commit");
	memcpy(ret_commit, id, sizeof(id));
	return 0;
}

static int
take_bytes(void *arg, struct ipc_message *m, struct err *err)
{
	struct buf *b = arg;

	buf_put(b, m->body.data + m->body.pos, buf_left(&m->body));
	return m->type != STATE_CHUNK || buf_failed(b) ? err_set(err, EBADMSG, "a commit is too long") : 0;
}

int
state_get_commit(struct state *state, const char *commit, struct buf *ret_text, struct state_text *ret, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	char id[STATE_ID + 1];
	int r;

	ipc_begin(&b, STATE_ASK_GET_COMMIT);
	buf_put_str(&b, commit);
	*ret_text = BUF(STATE_OBJECT_MAX);
	r = state_ask(state, &b, take_bytes, ret_text, &done, err);
	if (r < 0)
		return r;
	state_text_id((const char *)ret_text->data, ret_text->len, id);
	if (strcmp(id, commit) != 0)
		return err_set(err, EBADMSG, "commit %.12s of state '%s' is not what its id says", commit, state->name);
	r = state_text_read((const char *)ret_text->data, ret_text->len, ret, err);
	return r < 0 ? err_wrap(err, "commit %.12s of state '%s'", commit, state->name) : 0;
}
