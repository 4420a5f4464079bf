/* witness_take.c - makes events of acts: adds grants and hashes, and has repeats counted. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"
#include "proc/witness/witness_proc.h"
#include "witness/put.h"

#define INIT_PID 1
#define WHY_SLOW "the supervisor was too slow to record them"
#define WHY_LONG "they were too long to be recorded"

/* ---- out ---- */

static void
set_turn(struct witness *w)
{
	uint64_t next = fold_next(w->fold), search = witness_search_next(w), now = loop_now_ms();

	next = search < next ? search : next;
	if (next == UINT64_MAX)
		loop_cancel_timer(w->loop, &w->turn);
	else if (w->turn.at_ms == 0 || next < w->turn.at_ms)
		loop_set_timer(w->loop, &w->turn, next > now ? next - now : 0);
}

static void
turn(void *arg)
{
	struct witness *w = arg;

	witness_search_turn(w, false);
	fold_turn(w->fold, false, loop_now_ms());
	set_turn(w);
}

static void
pass(void *arg, enum act_kind kind, uint64_t count, const char *text, size_t len)
{
	struct witness *w = arg;

	if (witness_out_event(&w->out, text, len) < 0)
		fold_lose(w->fold, kind, count, WHY_SLOW, loop_now_ms());
}

/* These must not be lost: they wait for the supervisor in the next count. */
static void
lose(void *arg, enum act_kind kind, uint64_t n, const char *why)
{
	struct witness *w = arg;
	struct act act = { .kind = ACT_LOST, .lost = kind, .n_lost = n };
	OWN(buf_free) struct buf event = BUF(PUT_MAX);
	size_t count;

	if (put_act(&event, &act, &(struct put_more){ .why = why }, &count) < 0 ||
	    witness_out_event(&w->out, (char *)event.data, event.len) < 0)
		fold_lose(w->fold, kind, n, why, loop_now_ms());
}

int
witness_take_open(struct witness *w)
{
	const struct fold_sink sink = { pass, lose, w };

	buf_init(&w->event, PUT_MAX + 1);
	loop_prepare_timer(&w->turn, turn, w);
	w->fold = fold_new(&sink, w->total, loop_now_ms());
	w->programs = programs_new(loop_now_ms());
	return w->fold == NULL || w->programs == NULL ? -ENOMEM : 0;
}

void
witness_take_close(struct witness *w)
{
	loop_cancel_timer(w->loop, &w->turn);
	fold_free(w->fold);
	programs_free(w->programs);
	witness_watch_free(w->watch);
	w->watch = NULL;
	buf_free(&w->event);
	w->fold = NULL;
	w->programs = NULL;
}

void
witness_take_all(struct witness *w)
{
	witness_search_turn(w, true);
	fold_turn(w->fold, true, loop_now_ms());
}

/* ---- in ---- */

/* The longest grant that has the path. */
static const char *
grant_of(const struct witness *w, const struct act_text *path)
{
	const char *best = NULL;
	size_t best_len = 0;

	for (char **grant = w->grants; grant != NULL && *grant != NULL; grant++) {
		size_t len = strlen(*grant);

		while (len > 1 && (*grant)[len - 1] == '/')
			len--;
		if (len <= path->len && memcmp(path->at, *grant, len) == 0 && len > best_len &&
		    (len == path->len || path->at[len] == '/' || len == 1)) {
			best = *grant;
			best_len = len;
		}
	}
	return best;
}

static void
take_event(struct witness *w, const struct act *act, const struct put_more *more)
{
	uint64_t now = loop_now_ms();
	size_t count;

	buf_reset(&w->event);
	if (put_act(&w->event, act, more, &count) < 0)
		fold_lose(w->fold, act->kind, 1, WHY_LONG, now);
	else
		fold_take(w->fold, act->kind, act->pid, (char *)w->event.data, w->event.len, count, now);
}

static void
take_exec(struct witness *w, const struct act *act)
{
	struct witness_hashes hashes = {0};
	struct put_more more = {0};

	if (act->error == ENOENT && witness_search_take(w, act))
		return;
	if (act->error == 0)
		more.searched = witness_search_found(w, act);
	witness_search_flush(w, act->pid);
	/* Files of the program before belong before it. */
	fold_flush(w->fold, act->pid, loop_now_ms());
	if (act->error == 0) {
		witness_hash(w, act, &hashes);
		more.program = hashes.has_program ? hashes.program : NULL;
		more.script = hashes.has_script ? hashes.script : NULL;
		more.unhashed = hashes.why;
	}
	take_event(w, act, &more);
}

void
witness_take_port(void *arg, uint32_t pid, uint16_t local)
{
	struct witness *w = arg;

	/* The process waits, too. */
	witness_out_connected(&w->out, pid, local, true);
}

/* The kernel's ring goes on to fill meanwhile, so this must not wait. */
static void
take_net(struct witness *w, const struct act *act)
{
	if (!act->told && act->net == ACT_CONNECT && act->local != 0 && act->family != AF_UNIX &&
	    (act->error == 0 || act->error == EINPROGRESS))
		witness_out_connected(&w->out, act->pid, act->local, false);
	take_event(w, act, &(struct put_more){0});
}

/* ---- the policy's rules over acts ---- */

int
witness_take_rules(struct witness *w, struct ipc_message *message)
{
	struct witness_watch *watch = NULL;
	const char *home;

	if (buf_get_str(&message->body, &home) < 0 || strlen(home) > WATCH_HOME_MAX ||
	    witness_watch_new(&message->body, home, &watch, NULL) < 0)
		return -EBADMSG;
	witness_watch_free(w->watch);
	w->watch = watch;
	return 0;
}

/* The act's own record goes first. */
static void
say_fired(struct witness *w, const struct act *act, size_t rule, uint32_t more)
{
	OWN(buf_free) struct buf message;
	char what[WATCH_WHAT_MAX];

	witness_search_flush(w, act->pid);
	fold_flush(w->fold, act->pid, loop_now_ms());
	witness_watch_what(act, what);
	ipc_begin(&message, WITNESS_FIRED);
	buf_put_u64(&message, witness_watch_key(w->watch, rule));
	buf_put_u32(&message, act->pid);
	buf_put_u32(&message, more);
	buf_put_str(&message, what);
	witness_out_say(&w->out, &message);
}

static void
look(struct witness *w, const struct act *act)
{
	uint32_t more = 0;

	if (w->watch == NULL)
		return;
	for (int i = -1; (i = witness_watch_next(w->watch, act, (size_t)(i + 1))) >= 0;)
		if (witness_watch_fires(w->watch, (size_t)i, act->time_ns, &more))
			say_fired(w, act, (size_t)i, more);
}

void
witness_take(void *arg, const struct act *act)
{
	struct witness *w = arg;

	/* Init is cloister's own: it makes no acts of the agent's.  But its filter refuses nothing that it does by itself. */
	if (act->pid == INIT_PID && (act->kind != ACT_REFUSED || act->by != ACT_BY_FILTER))
		return;
	if (act->kind != ACT_EXEC)
		witness_search_flush(w, act->pid);
	if (act->kind == ACT_LOST) {
		fold_lose(w->fold, act->lost, act->n_lost, "they came faster than they could be read", loop_now_ms());
	} else if (act->kind == ACT_EXEC) {
		take_exec(w, act);
	} else if (act->kind == ACT_NET) {
		take_net(w, act);
	} else if (act->kind == ACT_FILE) {
		take_event(w, act, &(struct put_more){ .grant = act->path.at == NULL ? NULL : grant_of(w, &act->path) });
	} else {
		if (act->kind == ACT_EXIT)
			fold_flush(w->fold, act->pid, loop_now_ms());
		take_event(w, act, &(struct put_more){0});
	}
	look(w, act);
	set_turn(w);
}
