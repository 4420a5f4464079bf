/* dispatch_look.c - `cloister dispatches`: lists dispatches, shows their results, and cancels them. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "dispatch/dispatch_parts.h"
#include "proc/dispatch/dispatch_proc.h"
#include "registry/registry.h"

#define AWAY_LOOK_MS 500               /* between fetches of what another machine records */

/* If there are no dispatches, there is nothing to open, and that is not an error. */
static int
open_one(const struct said *said, struct registry **ret_reg, struct dispatch *ret_d, struct err *err)
{
	int r;

	if (said->n_words < 1)
		return err_set(err, EINVAL, "which dispatch? see `cloister dispatches`");
	r = registry_open(false, ret_reg, err);
	if (r == -ENOENT)
		return err_set(err, ENOENT, "there is no dispatch '%.64s': nothing was dispatched yet",
		               said->words[0]);
	return r < 0 ? r : dispatch_get(*ret_reg, said->words[0], ret_d, err);
}

/* ---- list ---- */

struct listing {
	json_t *json;                   /* a list, or NULL */
	size_t n;
	uint64_t now;
};

static bool
is_being_cancelled(const struct dispatch *d)
{
	return d->cancel && !dispatch_state_is_over(d->state);
}

static void
print_row(struct listing *l, const struct dispatch *d)
{
	char age[NUM_TEXT_MAX], took[NUM_TEXT_MAX] = "", end[16] = "";
	uint64_t until = d->ended_ms != 0 ? d->ended_ms : l->now;

	if (l->n++ == 0)
		printf("%-16s  %-9s  %-24s  %7s  %7s  %s\n", "ID", "STATE", "AGENT", "AGE", "TOOK", "END");
	if (d->started_ms != 0)
		num_format_duration(took, until > d->started_ms ? until - d->started_ms : 0);
	if (d->state == DISPATCH_FINISHED)
		snprintf(end, sizeof(end), "%d", d->exit_code);
	printf("%-16s  %-9s  %-24s  %7s  %7s  %s", d->id, dispatch_state_name(d->state), d->agent,
	       num_format_age(age, l->now > d->created_ms ? l->now - d->created_ms : 0), took, end);
	if (is_being_cancelled(d))
		fputs("being cancelled", stdout);
	text_print_safe(stdout, d->reason, strlen(d->reason), false);
	fputc('\n', stdout);
}

static int
list_one(void *arg, const struct dispatch *d)
{
	struct listing *l = arg;

	if (l->json != NULL)
		return json_array_append_new(l->json, dispatch_to_json(d)) < 0 ? -ENOMEM : 0;
	print_row(l, d);
	return 0;
}

int
proc_list(const struct said *said)
{
	OWN(registry_closep) struct registry *reg = NULL;
	OWN(json_decrefp) json_t *json = said->json ? json_array() : NULL;
	struct listing listing = { .json = json, .now = dispatch_now_ms() };
	struct dispatch_filter filter = { .state = -1, .limit = (unsigned)said->limit };
	enum dispatch_state state;
	struct err err = {0};
	bool orphans;
	int r;

	if (said->state != NULL && dispatch_state_parse(said->state, &state) < 0)
		return proc_failf("there is no state '%.64s': use queued, starting, running, finished, "
		                  "failed, cancelled or timed_out", said->state);
	if (said->state != NULL)
		filter.state = (int)state;
	r = registry_open(false, &reg, &err);
	if (r == 0)
		r = dispatch_list(reg, &filter, list_one, &listing, &err);
	if ((r == 0 || r == -ENOENT) && json != NULL)
		r = proc_print_json(json_incref(json), &err);
	if (r < 0 && r != -ENOENT)
		return tell_error(&err);
	if (reg == NULL)
		return 0;
	/* This command also makes sure that dispatches without a driver go on. */
	orphans = dispatch_has_orphans(reg, NULL);
	registry_close(TAKE(reg));
	if (orphans)
		(void)proc_drive_behind(NULL, NULL);
	return 0;
}

/* ---- show ---- */

static int
show_json(struct registry *reg, const struct dispatch *d, struct err *err)
{
	OWN(json_decrefp) json_t *resolved = NULL, *result = NULL;
	json_t *o = dispatch_to_json(d);
	int r = dispatch_get_resolved(reg, d->id, &resolved, err);

	if (r == 0)
		r = dispatch_get_result(reg, d->id, &result, err);
	if (r == 0 && (json_object_set(o, "resolved", resolved) < 0 ||
	               json_object_set(o, "result", result) < 0))
		r = err_set(err, ENOMEM, "out of memory");
	if (r < 0)
		json_decref(o);
	return r < 0 ? r : proc_print_json(o, err);
}

static void
show_line(const char *name, const char *value)
{
	if (value[0] == '\0')
		return;
	printf("%-11s", name);
	text_print_safe(stdout, value, strlen(value), false);
	putchar('\n');
}

static int
show_people(struct registry *reg, const struct dispatch *d, struct err *err)
{
	OWN(json_decrefp) json_t *resolved = NULL;
	char number[32], state[48];
	int r = dispatch_get_resolved(reg, d->id, &resolved, err);

	if (r < 0)
		return r;
	show_line("id", d->id);
	snprintf(state, sizeof(state), "%s%s", dispatch_state_name(d->state),
	         is_being_cancelled(d) ? ", being cancelled" : "");
	show_line("state", state);
	show_line("target", d->target);
	if (d->state == DISPATCH_FINISHED) {
		snprintf(number, sizeof(number), "%d", d->exit_code);
		show_line("exit code", number);
	}
	show_line("reason", d->reason);
	snprintf(number, sizeof(number), "%u of %u", d->attempts, d->retries + 1);
	show_line("attempts", number);
	show_line("cell", d->cell);
	show_line("principal", d->principal);
	show_line("parent", d->parent);
	show_line("chain", d->chain);
	puts("resolved");
	proc_print_resolved(stdout, resolved);
	return 0;
}

int
proc_show(const struct said *said)
{
	OWN(registry_closep) struct registry *reg = NULL;
	OWN(dispatch_free) struct dispatch d = {0};
	struct err err = {0};
	int r = open_one(said, &reg, &d, &err);

	if (r == 0)
		r = said->json ? show_json(reg, &d, &err) : show_people(reg, &d, &err);
	return r < 0 ? tell_error(&err) : 0;
}

/* ---- events and output ---- */

/* Waits until there is something new, or it is time to check whether ID has a driver.  REG: what another machine
 * records of it is to be fetched; NULL: this one's records it. */
static int
await_news(int notify, const char *id, struct registry *reg, struct err *err)
{
	struct pollfd news = { .fd = notify, .events = POLLIN };
	char data[4096];
	int n = poll(&news, 1, reg != NULL ? AWAY_LOOK_MS : PROC_LOOK_MS);

	if (n < 0 && errno != EINTR)
		return err_errno(err, "cannot wait for events");
	if (n > 0 && read(notify, data, sizeof(data)) < 0 && errno != EINTR)
		return err_errno(err, "cannot watch the events");
	if (reg != NULL)
		return dispatch_mirror(registry_db(reg), id, err);
	if (n == 0 && !dispatch_is_driven(id))
		(void)proc_drive_behind(id, NULL);
	return 0;
}

int
proc_events(const struct said *said)
{
	OWN(registry_closep) struct registry *reg = NULL;
	OWN(dispatch_free) struct dispatch d = {0};
	OWN(proc_follower_free) struct follower follower = { .json = said->json };
	OWN(freep) char *path = NULL;
	OWN(closep) int notify = -1;
	struct err err = {0};
	int r = open_one(said, &reg, &d, &err);

	if (r == 0)
		r = follower.fd = dispatch_open_events(reg, d.id, &err);
	if (r >= 0 && said->follow) {
		path = dispatch_events_path(d.id, &err);
		notify = inotify_init1(IN_CLOEXEC);
		r = path == NULL ? -ENOENT : notify < 0 || inotify_add_watch(notify, path, IN_MODIFY) < 0 ?
		    err_errno(&err, "cannot watch '%s'", path) : 0;
	}
	if (r >= 0)
		r = proc_follow(&follower, &err);
	/* A database must not be open on both sides of a fork. */
	if (!d.away)
		registry_close(TAKE(reg));
	while (r == 0 && said->follow && !follower.over) {
		r = await_news(notify, d.id, reg, &err);
		r = r == 0 ? proc_follow(&follower, &err) : r;
	}
	return r < 0 ? tell_error(&err) : 0;
}

int
proc_output(const struct said *said)
{
	OWN(registry_closep) struct registry *reg = NULL;
	OWN(dispatch_free) struct dispatch d = {0};
	OWN(closep) int fd = -1;
	struct err err = {0};
	bool truncated = false;
	int r = open_one(said, &reg, &d, &err);

	if (r == 0)
		r = fd = dispatch_open_output(reg, d.id, said->errors ? DISPATCH_STDERR : DISPATCH_STDOUT,
		                              &truncated, &err);
	if (r >= 0)
		r = proc_copy_out(fd, stdout, &err);
	if (r == 0 && truncated)
		fputs("cloister: there was more output, which was not kept\n", stderr);
	return r < 0 ? tell_error(&err) : 0;
}

/* ---- cancel ---- */

/* The id may be abbreviated; the record has all of it. */
static int
cancel_one(struct registry *reg, const char *id, uint64_t grace_ms, struct err *err)
{
	OWN(dispatch_free) struct dispatch d = {0};
	int r = dispatch_get(reg, id, &d, err);

	if (r == 0)
		r = dispatch_cancel(reg, d.id, grace_ms, err);
	return r < 0 ? r : operator_note("dispatch.cancelled", (struct audit_member[]){
	                                 { .name = "dispatch", .text = d.id } }, 1, err);
}

int
proc_cancel(const struct said *said)
{
	OWN(registry_closep) struct registry *reg = NULL;
	OWN(dispatch_free) struct dispatch first = {0};
	struct err err = {0};
	int status = 0, r = open_one(said, &reg, &first, &err);

	if (r < 0)
		return tell_error(&err);
	for (size_t i = 0; i < said->n_words; i++)
		if (cancel_one(reg, said->words[i], said->grace_ms, &err) < 0)
			status = tell_error(&err);
	return status;
}

int
proc_cancel_all(void)
{
	OWN(registry_closep) struct registry *reg = NULL;
	struct err err = {0};
	unsigned n = 0;
	int r = registry_open(false, &reg, &err);

	if (r == -ENOENT)
		return 0;
	r = r == 0 ? dispatch_cancel_all(reg, &n, &err) : r;
	if (n > 0)
		printf("cancelled %u %s\n", n, n == 1 ? "dispatch" : "dispatches");
	if (r == 0 && n > 0)
		r = operator_note("dispatches.cancelled", (struct audit_member[]){
		                  { .name = "dispatches", .kind = AUDIT_NUMBER, .number = n } }, 1, &err);
	return r < 0 ? tell_error(&err) : 0;
}
