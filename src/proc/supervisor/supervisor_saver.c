/* supervisor_saver.c - has the cell's states committed by cloister-saver, and records the commits. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "boundary/overlay/overlay_collect.h"
#include "canon/hash.h"
#include "cell/cell_unsaved.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"
#include "ipc/saver_channel.h"
#include "proc/supervisor/supervisor.h"

static bool
is_written(const struct cell_state *state)
{
	return state->branch[0] != '\0';
}

/* ---- the beginning ---- */

static int
send_upper(const struct supervisor *sv, const struct cell_state *state, struct err *err)
{
	const int upper = sv->boundary->upper(sv->walls, state->grant);
	OWN(buf_free) struct buf message = {0};

	ipc_begin(&message, SAVER_UPPER);
	buf_put_u32(&message, state->number);
	return upper < 0 ? err_set(err, EIO, "the cell has no overlay of the state '%s'", state->name) :
	       ipc_send(CELL_SAVER_FD, &message, &upper, 1, err);
}

static int
send_cell(struct supervisor *sv, struct err *err)
{
	const struct cell_spec *spec = &sv->spec;
	const char *who = spec->chain != NULL && spec->chain[0] != '\0' ? spec->chain : "";
	struct overlay_collector collector;
	OWN(buf_free) struct buf message = {0};
	int fds[3] = { sv->state }, died = sv->boundary->died(sv->walls);
	size_t n = 1;

	sv->boundary->collector(sv->walls, &collector);
	if (collector.userns >= 0)
		fds[n++] = collector.userns;
	if (died >= 0)
		fds[n++] = died;
	ipc_begin(&message, SAVER_CELL);
	buf_put_u32(&message, sv->boundary->inner_root(sv->place.entry.slot));
	buf_put_u32(&message, collector.has_range);
	buf_put_u32(&message, collector.userns >= 0);
	buf_put_u32(&message, died >= 0);
	buf_put_str(&message, spec->name);
	buf_put_str(&message, who);
	buf_put_str(&message, spec->principal != NULL ? spec->principal : "");
	buf_put_str(&message, spec->claim ? spec->id : "");
	buf_put_str(&message, sv->saving.grant);
	return ipc_send(CELL_SAVER_FD, &message, fds, n, err);
}

int
supervisor_saver_begin(struct supervisor *sv, struct err *err)
{
	int r;

	supervisor_grant_hash(sv, sv->saving.grant);
	r = sv->state < 0 ? err_set(err, EIO, "the cell has no state folder") : send_cell(sv, err);

	for (size_t i = 0; r == 0 && i < sv->spec.n_states; i++) {
		const struct cell_state *state = &sv->spec.states[i];

		snprintf(sv->saving.heads[i], sizeof(sv->saving.heads[i]), "%s", state->commit);
		r = is_written(state) ? send_upper(sv, state, err) : 0;
	}
	sv->saving.has_cell = r == 0;
	return r < 0 ? err_wrap(err, "the cell's states") : 0;
}

/* ---- a commit ---- */

static int
ask(struct supervisor *sv, bool live, bool last, const char *reason)
{
	const struct audit_chain *chain = &sv->timeline.log.chain;
	char hash[2 * AUDIT_HASH + 1] = "";
	OWN(buf_free) struct buf message = {0};

	codec_hex(chain->head, AUDIT_HASH, hash);
	ipc_begin(&message, SAVER_COMMIT);
	buf_put_u32(&message, live);
	buf_put_u32(&message, last);
	buf_put_str(&message, reason);
	buf_put_u64(&message, sv->timeline.log.fd >= 0 ? chain->tree.size : 0);
	buf_put_str(&message, sv->timeline.log.fd >= 0 ? hash : "");
	return ipc_send(CELL_SAVER_FD, &message, NULL, 0, NULL);
}

/* One state of SAVER_COMMITTED. */
struct result {
	uint32_t number, code, same, went_back;
	const char *why, *commit, *tree, *aside, *review, *flags;
	uint64_t files, bytes, added, changed, removed, refused, withheld, pending;
};

static int
get_result(struct buf *b, struct result *r)
{
	uint64_t *const numbers[] = { &r->files, &r->bytes, &r->added, &r->changed, &r->removed, &r->refused, &r->withheld,
	                              &r->pending };

	if (buf_get_u32(b, &r->number) < 0 || buf_get_u32(b, &r->code) < 0 || buf_get_str(b, &r->why) < 0 ||
	    buf_get_u32(b, &r->same) < 0 || buf_get_str(b, &r->commit) < 0 || strlen(r->commit) > CELL_COMMIT_MAX ||
	    buf_get_str(b, &r->tree) < 0)
		return -EBADMSG;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if (buf_get_u64(b, numbers[i]) < 0)
			return -EBADMSG;
	return buf_get_str(b, &r->aside) < 0 || buf_get_str(b, &r->review) < 0 || buf_get_str(b, &r->flags) < 0 ||
	       buf_get_u32(b, &r->went_back) < 0 ? -EBADMSG : 0;
}

/* Whoever counts refused changes wants all that only a person could commit. */
static uint64_t
refused(const struct result *r)
{
	return r->refused + r->withheld - r->pending;
}

static void
record(struct supervisor *sv, const struct cell_state *state, const struct result *result, const char *reason)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "cell.state");
	members_str(&m, "state", state->name);
	members_str(&m, "branch", state->branch);
	members_str(&m, "reason", reason);
	members_str(&m, "commit", result->commit);
	members_str(&m, "tree", result->tree);
	members_str(&m, "why", result->why);
	members_u64(&m, "added", result->added);
	members_u64(&m, "modified", result->changed);
	members_u64(&m, "removed", result->removed);
	members_u64(&m, "refused", refused(result));
	members_u64(&m, "pending", result->pending);
	members_str(&m, "aside", result->aside);
	members_str(&m, "review", result->review);
	members_str(&m, "flags", result->flags);
	if (result->went_back != 0)
		members_str(&m, "went_back", sv->saving.goes_back);
	supervisor_record_members(sv, &m);
}

static void
tell(struct supervisor *sv, const struct cell_state *state, const struct result *result)
{
	char line[640];

	if (result->why[0] != '\0') {
		snprintf(line, sizeof(line), "state '%s' is not committed: %.400s", state->name, result->why);
		supervisor_complain(line);
	} else if (result->same == 0) {
		supervisor_say(sv, "state '%s' is at %.12s: %llu added, %llu changed, %llu removed", state->name, result->commit,
		               (unsigned long long)result->added, (unsigned long long)result->changed,
		               (unsigned long long)result->removed);
	}
	if (result->went_back != 0)
		supervisor_say(sv, "state '%s' has gone back: %s", state->name, sv->saving.goes_back);
	if (refused(result) > 0)
		supervisor_say(sv, "state '%s': %llu %s refused and kept aside: `cloister state review %s`", state->name,
		               (unsigned long long)refused(result), refused(result) == 1 ? "change was" : "changes were",
		               state->name);
	if (result->pending > 0)
		supervisor_say(sv, "state '%s': %llu %s for a person: `cloister state review %s`", state->name,
		               (unsigned long long)result->pending, result->pending == 1 ? "change waits" : "changes wait", state->name);
	if (result->flags[0] != '\0')
		supervisor_say(sv, "state '%s': look at %.200s", state->name, result->flags);
}

static int
take_results(struct supervisor *sv, struct buf *b, const char *reason)
{
	uint32_t n, changed;

	if (buf_get_u32(b, &n) < 0 || n > CELL_STATES_MAX)
		return -EBADMSG;
	while (n-- > 0) {
		struct result result;
		size_t i = 0;

		if (get_result(b, &result) < 0)
			return -EBADMSG;
		while (i < sv->spec.n_states && sv->spec.states[i].number != result.number)
			i++;
		if (i == sv->spec.n_states)
			return -EBADMSG;
		snprintf(sv->saving.heads[i], sizeof(sv->saving.heads[i]), "%s", result.commit);
		if (result.same != 0 && result.why[0] == '\0' && refused(&result) + result.pending + result.went_back == 0)
			continue;
		record(sv, &sv->spec.states[i], &result, reason);
		tell(sv, &sv->spec.states[i], &result);
	}
	return buf_get_u32(b, &changed);
}

/* ---- a tripwire ---- */

void
supervisor_saver_go_back(struct supervisor *sv, const char *cause)
{
	OWN(buf_free) struct buf message = {0};

	if (!sv->saving.has_cell || sv->saving.goes_back[0] != '\0')
		return;
	snprintf(sv->saving.goes_back, sizeof(sv->saving.goes_back), "%s", cause);
	/* At once: the supervisor may not live until the end. */
	ipc_begin(&message, SAVER_GO_BACK);
	buf_put_str(&message, sv->saving.goes_back);
	if (!sv->saving.gone && ipc_send(CELL_SAVER_FD, &message, NULL, 0, NULL) < 0)
		sv->saving.gone = true;
}

/* ---- while it runs ---- */

static void
thaw(struct supervisor *sv)
{
	struct err err = {0};

	loop_cancel_timer(sv->loop, &sv->saving.patience);
	if (sv->saving.freezes && !sv->frozen && !sv->dead && supervisor_let_go(sv, &err) < 0)
		supervisor_say(sv, "cell %s cannot go on: %s", sv->spec.id, err.text);
	sv->saving.freezes = false;
}

static void
patience_over(void *arg)
{
	thaw(arg);
}

/* The answer of CONTROL_CHECKPOINT, from a copy of the saver's. */
static void
answer_client(struct client *client, struct buf *b)
{
	const struct cell_spec *spec = &client->sv->spec;
	OWN(buf_free) struct buf message = {0};
	struct result result;
	uint32_t n = 0;

	ipc_begin(&message, CONTROL_DONE);
	(void)buf_get_u32(b, &n);
	buf_put_u32(&message, n);
	for (; n > 0 && get_result(b, &result) == 0; n--)
		for (size_t i = 0; i < spec->n_states; i++) {
			if (spec->states[i].number != result.number)
				continue;
			buf_put_str(&message, spec->states[i].name);
			buf_put_str(&message, spec->states[i].branch);
			buf_put_str(&message, result.commit);
			buf_put_u32(&message, result.same);
			buf_put_u64(&message, refused(&result));
			buf_put_u64(&message, result.pending);
			buf_put_str(&message, result.why);
		}
	supervisor_client_send(client, &message, NULL, 0);
}

static void
finish(struct supervisor *sv)
{
	loop_unwatch(sv->loop, &sv->saving.channel);
	sv->saving.waits = false;
	thaw(sv);
}

static void
result_ready(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message answer = {0};
	struct supervisor *sv = arg;
	struct client *client = sv->saving.client;
	int r = ipc_receive(CELL_SAVER_FD, &answer, NULL);
	struct buf copy;
	struct err err;

	(void)events;
	r = r == 0 && answer.type != SAVER_COMMITTED ? -EBADMSG : r;
	copy = answer.body;
	finish(sv);
	r = r == 0 ? take_results(sv, &answer.body, sv->saving.reason) : r;
	sv->saving.gone = r < 0;
	sv->saving.client = NULL;
	if (r < 0)
		supervisor_complain("cloister-saver has died: the cell's states are committed when they are used next");
	if (client == NULL)
		return;
	(void)err_set(&err, EIO, "the cell's states were not committed");
	if (r < 0)
		supervisor_client_refuse(client, &err);
	else
		answer_client(client, &copy);
	supervisor_client_drop(client);
}

static int
begin(struct supervisor *sv, const char *reason, struct err *err)
{
	struct saving *s = &sv->saving;

	if (!s->has_cell)
		return err_set(err, EINVAL, "cell %s has no state that it may write: start it with --state NAME", sv->spec.id);
	if (s->waits || s->gone)
		return err_set(err, s->gone ? EPIPE : EBUSY, s->gone ? "the cell's cloister-saver has died" :
		               "the cell's states are being committed already: try again");
	s->freezes = !sv->frozen && sv->boundary->facts(sv->walls).can_freeze && sv->boundary->freeze(sv->walls, NULL) == 0;
	s->channel = (struct loop_source){ .fd = CELL_SAVER_FD, .ready = result_ready, .arg = sv };
	s->waits = ask(sv, true, false, reason) == 0 && loop_watch(sv->loop, &s->channel, EPOLLIN, err) == 0;
	s->gone = !s->waits;
	s->reason = reason;
	s->busy = false;
	s->looks = 0;
	loop_set_timer(sv->loop, &s->patience, SUPERVISOR_COPY_MS);
	if (s->waits)
		return 0;
	thaw(sv);
	return err_set(err, EPIPE, "the cell's cloister-saver has died");
}

int
supervisor_answer_checkpoint(struct client *client, struct steer_call *call)
{
	struct err err = {0};

	(void)call;
	if (begin(client->sv, SAVER_CHECKPOINT, &err) < 0)
		return steer_refuse(client, &err);
	client->sv->saving.client = client;
	return 0;
}

void
supervisor_saver_left(struct supervisor *sv, const struct client *client)
{
	if (sv->saving.client == client)
		sv->saving.client = NULL;
}

void
supervisor_saver_stop(struct supervisor *sv)
{
	loop_cancel_timer(sv->loop, &sv->saving.every);
	loop_cancel_timer(sv->loop, &sv->saving.quiet);
	loop_cancel_timer(sv->loop, &sv->saving.patience);
}

static void
set_every(struct supervisor *sv)
{
	uint64_t least = 0;

	for (size_t i = 0; i < sv->spec.n_states; i++)
		if (sv->spec.states[i].every_ms > 0 && (least == 0 || sv->spec.states[i].every_ms < least))
			least = sv->spec.states[i].every_ms;
	if (least > 0)
		loop_set_timer(sv->loop, &sv->saving.every, least);
}

static void
every_due(void *arg)
{
	(void)begin(arg, SAVER_EVERY, NULL);
	set_every(arg);
}

/* Once it is quiet after it was not. */
static void
quiet_due(void *arg)
{
	struct supervisor *sv = arg;
	struct saving *s = &sv->saving;
	struct boundary_usage usage;
	bool quiet;

	supervisor_usage(sv, &usage);
	quiet = usage.cpu_us - s->cpu_us <= SAVER_QUIET_US;
	s->busy = s->busy || !quiet;
	s->cpu_us = usage.cpu_us;
	s->looks++;
	if (usage.cpu_us == 0 ? s->looks >= SAVER_UNKNOWN_LOOKS : quiet && s->busy)
		(void)begin(sv, SAVER_QUIET, NULL);
	loop_set_timer(sv->loop, &s->quiet, SAVER_LOOK_MS);
}

void
supervisor_saver_watch(struct supervisor *sv)
{
	struct saving *s = &sv->saving;

	if (!s->has_cell)
		return;
	loop_prepare_timer(&s->patience, patience_over, sv);
	loop_prepare_timer(&s->every, every_due, sv);
	loop_prepare_timer(&s->quiet, quiet_due, sv);
	set_every(sv);
	for (size_t i = 0; i < sv->spec.n_states; i++)
		if (sv->spec.states[i].quiet)
			loop_set_timer(sv->loop, &s->quiet, SAVER_LOOK_MS);
}

/* ---- the end ---- */

/* It is gone.  The next one that opens the state commits them. */
static void
keep_unsaved(struct supervisor *sv, size_t i)
{
	const struct cell_state *state = &sv->spec.states[i];
	OWN(closep) int target = -1;
	struct cell_unsaved u = {0};
	struct err err = {0};
	uint32_t left_out;
	char name[48];
	int r;

	snprintf(u.state, sizeof(u.state), "%s", state->name);
	snprintf(u.branch, sizeof(u.branch), "%s", state->branch);
	snprintf(u.base, sizeof(u.base), "%s", state->commit);
	snprintf(u.head, sizeof(u.head), "%s", sv->saving.heads[i]);
	snprintf(u.guards, sizeof(u.guards), "%s", state->guards);
	u.goes_back = sv->saving.goes_back[0] != '\0';
	snprintf(name, sizeof(name), CELL_CHANGES "/%u", state->grant);
	/* Going back takes earlier commits of this cell back, too. */
	if (!u.goes_back && !sv->boundary->is_changed(sv->walls, state->grant))
		return;
	r = sv->changes < 0 ? supervisor_make_changes(sv, &err) : 0;
	target = r < 0 ? -1 : openat(sv->state, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && target < 0)
		r = err_errno(&err, "cannot keep the changes of state '%s'", state->name);
	r = r == 0 ? sv->boundary->collect(sv->walls, state->grant, target, &left_out, NULL, &err) : r;
	r = r == 0 ? cell_unsaved_put(sv->state, name, state->number, &u, &err) : r;
	if (r < 0)
		supervisor_complain(err.text);
	else
		supervisor_say(sv, "state '%s' is not committed, because cloister-saver died: the next cell that gets it commits "
		               "it first", state->name);
}

void
supervisor_saver_end(struct supervisor *sv)
{
	const char *reason = sv->saving.goes_back[0] != '\0' ? SAVER_TRIPWIRE : SAVER_END;
	OWN(ipc_message_free) struct ipc_message answer = {0};
	int r;

	if (!sv->saving.has_cell)
		return;
	/* One may be under way. */
	if (sv->saving.waits)
		result_ready(sv, 0);
	r = sv->saving.gone ? -EPIPE : ask(sv, false, true, reason);
	r = r == 0 ? ipc_receive(CELL_SAVER_FD, &answer, NULL) : r;
	r = r == 0 && answer.type != SAVER_COMMITTED ? -EBADMSG : r;
	r = r == 0 ? take_results(sv, &answer.body, reason) : r;
	for (size_t i = 0; r < 0 && i < sv->spec.n_states; i++)
		if (is_written(&sv->spec.states[i]))
			keep_unsaved(sv, i);
}
