/* dispatcher_end.c - ends an attempt, decides whether there is another one, and ends the dispatch.
 *
 * The order ensures that a crash or a full disk, at any point, loses nothing and repeats nothing.
 * First the results are on the disk and dispatch.finished is recorded, then the cell's state is
 * removed, and then the row is updated. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "audit/operator.h"
#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "canon/hash.h"
#include "dispatch/dispatcher_parts.h"
#include "registry/registry.h"

#define BACKOFF_MS 1000                 /* before the second attempt; doubled for each further one */
#define CHILDREN_GRACE_MS 5000

static uint64_t
backoff(unsigned attempts)
{
	uint64_t ms = BACKOFF_MS;

	for (unsigned i = 1; i < attempts && ms < DISPATCH_BACKOFF_MAX_MS; i++)
		ms *= 2;
	return ms < DISPATCH_BACKOFF_MAX_MS ? ms : DISPATCH_BACKOFF_MAX_MS;
}

/* From the operator's timeline, a reader can see what a dispatch ran and how it ended, and compare
 * its resolution, its cell's timeline and its results.  Written before the row: after a crash it
 * may be there twice, but is never missing. */
static int
note_end(const struct drive *drive, json_t *resolved, const struct dispatch_ending *end,
         struct err *err)
{
	OWN(operator_close) struct operator op = {0};
	char hash[HASH_NAME + 1], what[HASH_NAME + 1], code[16];
	struct audit_member members[] = {
		{ .name = "dispatch", .text = drive->d.id },
		{ .name = "agent", .text = drive->d.agent_hash },
		{ .name = "resolved", .text = resolved != NULL ? what : NULL },
		{ .name = "cell", .text = drive->d.cell[0] != '\0' ? drive->d.cell : NULL },
		{ .name = "state", .text = dispatch_state_name(end->state) },
		{ .name = "exit_code", .kind = AUDIT_JSON,
		  .text = end->state == DISPATCH_FINISHED ? code : NULL },
		{ .name = "result", .text = end->result != NULL ? hash : NULL },
	};
	int r = 0;

	snprintf(code, sizeof(code), "%d", end->exit_code);
	if (end->result != NULL)
		r = dispatch_hash_json(end->result, DISPATCH_JSON_MAX, hash, err);
	if (r == 0 && resolved != NULL)
		r = dispatch_hash_json(resolved, DISPATCH_JSON_MAX, what, err);
	r = r == 0 ? operator_open(&op, err) : r;
	return r < 0 ? r : operator_append_members(&op, OPERATOR_LATER, "dispatch.ended", members,
	                                           ARRAY_LEN(members), err);
}

int
drive_note_far_end(struct drive *drive, struct err *err)
{
	OWN(json_decrefp) json_t *resolved = NULL, *result = NULL;
	struct registry *reg = drive->dispatcher->reg;
	struct dispatch_ending end = { .state = drive->d.state, .exit_code = drive->d.exit_code, .reason = drive->d.reason };
	int r;

	if (!dispatch_is_untidy(drive->d.id))
		return 0;
	r = dispatch_get_asked(reg, drive->d.id, &resolved, err);
	/* One whose resolution or row is damaged ends, too. */
	if (r < 0 && r != -EINVAL)
		return r;
	r = dispatch_get_result(reg, drive->d.id, &result, err);
	if (r < 0 && r != -EINVAL)
		return r;
	end.result = json_is_object(result) ? result : NULL;
	return note_end(drive, resolved, &end, err);
}

/* dispatch.finished is recorded: removes what is kept of the cell, then updates the row, for all
 * that wait for a place. */
static int
write_end(struct drive *drive, const struct dispatch_ending *end, struct err *err)
{
	struct registry *reg = drive->dispatcher->reg;
	OWN(json_decrefp) json_t *resolved = NULL;
	bool keeps;
	int r = drive->d.resolved != NULL ? dispatch_get_to_run(reg, &drive->d, &resolved, err) :
	        dispatch_get_resolved(reg, drive->d.id, &resolved, err);

	/* A dispatch with a damaged row ends, too. */
	if (r < 0 && r != -EINVAL)
		return r;
	keeps = strcmp(dispatch_text(resolved, "state"), "keep") == 0;
	/* Nobody waits for its children any more. */
	if (end->state != DISPATCH_FINISHED)
		(void)dispatch_cancel_children(reg, drive->d.id, CHILDREN_GRACE_MS, NULL);
	r = drive->d.cell[0] != '\0' && !keeps && !end->left ?
	    drive->at->target->discard(drive->d.cell, err) : 0;
	r = r == 0 ? note_end(drive, resolved, end, err) : r;
	if (r == 0)
		r = drive_is_claimed(drive) ? dispatcher_send(drive->dispatcher, drive, end, err) :
		    dispatch_set_end(registry_db(reg), drive->d.id, end, err);
	if (r < 0)
		return r;
	drive->d.state = end->state;
	drive->d.exit_code = end->exit_code;
	drive->phase = DRIVE_OVER;
	if (!drive->d.mine)
		dispatch_remove_folder(drive->d.id);
	else if (!keeps)
		dispatch_tidy(drive->d.id);
	if (dispatcher_driven(drive->dispatcher) == 0)
		dispatch_prepare_folder();
	dispatch_tell();
	dispatcher_tell(drive);
	dispatcher_soon(drive->dispatcher);
	return 0;
}

static int
finish(struct drive *drive, const struct dispatch_ending *end, struct err *err)
{
	int r = dispatch_log_end(&drive->log, &drive->d, end, err);

	return r < 0 ? r : write_end(drive, end, err);
}

/* ---- one attempt ---- */

/* The agent may have written it, so it is reduced to one line of text. */
static void
clean(char *text)
{
	size_t len = strlen(text), to = 0, step;
	uint32_t code;

	for (size_t at = 0; at < len; at += step) {
		step = utf8_next(text + at, len - at, &code);
		if (step > 0 && !utf8_is_control(code)) {
			memmove(text + to, text + at, step);
			to += step;
			continue;
		}
		step = step > 0 ? step : 1;
		text[to++] = '?';
	}
	text[to] = '\0';
}

static int
try_again(struct drive *drive, const struct dispatch_ending *end, struct err *err)
{
	uint64_t ms = backoff(drive->d.attempts);
	json_t *event = json_object();
	int r = drive->at->target->discard(drive->d.cell, err);

	json_object_set_new(event, "attempt", json_integer((json_int_t)drive->d.attempts));
	json_object_set_new(event, "again_ms", json_integer((json_int_t)ms));
	json_object_set_new(event, "exit_code", end->state == DISPATCH_FINISHED ?
	                    json_integer(end->exit_code) : json_null());
	json_object_set_new(event, "reason", end->reason[0] != '\0' ? json_string(end->reason) :
	                    json_null());
	if (r == 0)
		r = dispatch_log_put(&drive->log, "attempt.failed", event, false, err);
	else
		json_decref(event);
	if (r == 0)
		r = dispatch_requeue(registry_db(drive->dispatcher->reg), drive->d.id,
		                     ms, err);
	if (r < 0)
		return r;
	dispatch_tell();
	drive_detach(drive);
	drive->phase = DRIVE_ENTERS;
	drive->d.state = DISPATCH_QUEUED;
	dispatcher_tell(drive);
	dispatcher_soon(drive->dispatcher);
	return 0;
}

/* Why there is no other attempt, besides the reason; NULL: there may be one.  Another cell would
 * again have the rights that were taken from this one, and repeat what this one was ended for. */
static const char *
why_last(int ending, uint32_t lost)
{
	switch (ending) {
	case CELL_END_OPERATOR:
	case CELL_END_RULES:
	case CELL_END_ALARM:
	case CELL_END_BUDGET: return "";
	default:              return lost != 0 ? dispatch_lost_text(lost) : NULL;
	}
}

/* The same for a cell that was not harvested yet. */
static const char *
why_last_of(const struct drive *drive)
{
	const struct target_harvest how = { .folder = DISPATCH_OUT };
	struct target_end end;

	if (drive->at->target->harvest(drive->d.cell, &how, &end, NULL) < 0)
		return "it is not known whether something was taken back from it while it ran";
	return why_last(end.end, end.lost);
}

static void
explain_last(const struct dispatch_ending *end, const char *why, char ret_reason[DISPATCH_REASON_MAX])
{
	snprintf(ret_reason, DISPATCH_REASON_MAX, "%.300s%sit was not tried again%s%s", end->reason,
	         end->reason[0] != '\0' ? "; " : "", why[0] != '\0' ? ": " : "", why);
	clean(ret_reason);
}

/* Whether the cell's files are those that were compared with their hashes. */
static bool
had_what_was_given(const struct drive *drive)
{
	const char *hash;
	json_t *since;

	json_object_foreach(drive->given, hash, since)
		if (!registry_tree_is_since(drive->dispatcher->reg, hash, (uint64_t)json_integer_value(since)))
			return false;
	return true;
}

/* LAST, as from why_last(). */
static int
end_attempt(struct drive *drive, struct dispatch_ending end, const char *last, struct err *err)
{
	char reason[DISPATCH_REASON_MAX];
	OWN(dispatch_free) struct dispatch now = {0};
	bool well = end.state == DISPATCH_FINISHED && end.exit_code == 0;
	/* A claim's end is sent on the condition that it is not another's, and nothing else of the row counts. */
	bool decided = drive_is_claimed(drive) && end.state == DISPATCH_FINISHED && (well || drive->d.attempts > drive->d.retries) &&
	               had_what_was_given(drive);
	int r = decided ? 0 : dispatch_read(registry_db(drive->dispatcher->reg), drive->d.id, &now, err);

	if (r < 0)
		return r;
	/* What another machine records is the end of it. */
	if (now.away)
		return err_set(err, ESTALE, "dispatch %s is another worker's now", drive->d.id);
	if (now.cancel && end.state != DISPATCH_FINISHED) {
		end.state = DISPATCH_CANCELLED;
		end.reason = end.left ? end.reason : "";
	}
	if (!had_what_was_given(drive)) {
		end.state = DISPATCH_FAILED;
		end.reason = "somebody changed the files of a capability in the registry while it ran, so it is not "
		             "known what ran: see `cloister audit verify`";
		well = false;
		last = "";
	}
	end.ended_ms = dispatch_now_ms();
	if (!well && !now.cancel && drive->d.attempts <= drive->d.retries) {
		if (last == NULL)
			return try_again(drive, &end, err);
		explain_last(&end, last, reason);
		end.reason = reason;
	}
	return finish(drive, &end, err);
}

int
drive_fail(struct drive *drive, const char *reason, bool ran, struct err *err)
{
	char text[DISPATCH_REASON_MAX];
	struct dispatch_ending end = { .state = DISPATCH_FAILED, .exit_code = -1, .reason = text };

	/* REASON may be in *ERR. */
	snprintf(text, sizeof(text), "%s", reason);
	clean(text);
	return end_attempt(drive, end, ran ? why_last_of(drive) : NULL, err);
}

/* It is not tried again: the agent has done its work. */
int
drive_leave_results(struct drive *drive, const char *why, struct err *err)
{
	const char *last = why_last_of(drive);
	char text[DISPATCH_REASON_MAX];
	struct dispatch_ending end = { .state = DISPATCH_FAILED, .exit_code = -1, .reason = text, .left = true };

	snprintf(text, sizeof(text), "what the agent left is still in the cell %s%s: %.300s", drive->d.cell,
	         drive->d.mine ? "" : " on its worker's machine", why);
	clean(text);
	return end_attempt(drive, end, last != NULL ? last : "", err);
}

int
drive_cancel(struct drive *drive, struct err *err)
{
	struct dispatch_ending end = { .state = DISPATCH_CANCELLED, .exit_code = -1, .reason = "",
	                               .ended_ms = dispatch_now_ms() };
	int r = dispatch_log_end(&drive->log, &drive->d, &end, err);

	return r < 0 ? r : write_end(drive, &end, err);
}

/* ---- harvested results ---- */

/* For the check of tools, its output is the reason. */
static void
explain(struct drive *drive, char reason[DISPATCH_REASON_MAX])
{
	static const char tools[] = "setup " DISPATCH_TOOLS " ";

	if (strncmp(reason, tools, sizeof(tools) - 1) == 0)
		drive_last_line(drive, DISPATCH_STDERR, reason);
}

static enum dispatch_state
state_of(int end)
{
	switch (end) {
	case CELL_END_EXITED: return DISPATCH_FINISHED;
	case CELL_END_TIME:
	case CELL_END_TTL:    return DISPATCH_TIMED_OUT;
	default:              return DISPATCH_FAILED;
	}
}

int
drive_conclude(struct drive *drive, const json_t *result, struct err *err)
{
	OWN(json_decrefp) json_t *shown = json_object();
	static const char *const members[] = { "stdout", "stderr", "files", "incomplete" };
	int ending = (int)json_integer_value(json_object_get(result, "end"));
	char reason[DISPATCH_REASON_MAX];
	struct dispatch_ending end = { .state = state_of(ending), .exit_code = -1, .reason = reason,
	                               .result = shown };

	/* All results are available now. */
	drive->phase = DRIVE_HARVESTS;
	drive_tail(drive);
	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		json_object_set(shown, members[i], json_object_get(result, members[i]));
	snprintf(reason, sizeof(reason), "%s", dispatch_text(result, "cause"));
	dispatch_own_words(reason);
	explain(drive, reason);
	if (end.state == DISPATCH_FINISHED)
		end.exit_code = (int)json_integer_value(json_object_get(result, "status"));
	else if (reason[0] == '\0')
		snprintf(reason, sizeof(reason), "%s", drive->trouble[0] != '\0' ? drive->trouble :
		         "its cell was killed");
	clean(reason);
	return end_attempt(drive, end, why_last(ending, (uint32_t)json_integer_value(json_object_get(result, "taken"))),
	                   err);
}

/* This process, or one before it, was killed between the event and the row. */
int
drive_end_again(struct drive *drive, struct err *err)
{
	struct dispatch_ending end;

	dispatch_ending_of(drive->log.end, &end);
	return write_end(drive, &end, err);
}
