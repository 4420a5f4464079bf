/* witness_search.c - folds the search for a program: a shell tries one folder after the other.
 *
 * Attempts that found no file wait for the next act of their process.  If that starts a program of the same name, its
 * record has their number; otherwise they are one record. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "proc/witness/witness_proc.h"
#include "witness/put.h"

#define DIGITS 24

static struct act_text
name_of(const struct act_text *path)
{
	const char *slash = path->len > 0 ? memrchr(path->at, '/', path->len) : NULL;
	size_t from = slash == NULL ? 0 : (size_t)(slash - path->at) + 1;

	return (struct act_text){ .at = path->at + from, .len = path->len - from };
}

static struct witness_search *
find(struct witness *w, uint32_t pid)
{
	for (size_t i = 0; i < WITNESS_SEARCHES; i++)
		if (w->searches[i].n > 0 && w->searches[i].pid == pid)
			return &w->searches[i];
	return NULL;
}

static bool
is_for(const struct witness_search *s, const struct act *act)
{
	const struct act_text name = name_of(&act->path);

	return s != NULL && s->name_len == name.len && memcmp(s->name, name.at, name.len) == 0;
}

static void
forget(struct witness_search *s)
{
	buf_free(&s->event);
	s->n = 0;
}

/* The number of attempts takes the place of the "1". */
static void
pass(struct witness *w, struct witness_search *s)
{
	OWN(buf_free) struct buf text = BUF(PUT_MAX + DIGITS);
	const size_t after = s->count_at + 1;

	fold_flush(w->fold, s->pid, loop_now_ms());
	buf_put(&text, s->event.data, s->count_at);
	buf_put_decimal(&text, s->n);
	buf_put(&text, s->event.data + after, s->event.len - after);
	fold_pass(w->fold, ACT_EXEC, s->n, (const char *)text.data, text.len, loop_now_ms());
	forget(s);
}

/* A free place; the oldest one has waited long enough. */
static struct witness_search *
find_place(struct witness *w)
{
	struct witness_search *oldest = &w->searches[0];

	for (size_t i = 0; i < WITNESS_SEARCHES; i++) {
		if (w->searches[i].n == 0)
			return &w->searches[i];
		if (w->searches[i].since_ms < oldest->since_ms)
			oldest = &w->searches[i];
	}
	pass(w, oldest);
	return oldest;
}

bool
witness_search_take(struct witness *w, const struct act *act)
{
	const struct act_text name = name_of(&act->path);
	OWN(buf_free) struct buf event = BUF(PUT_MAX);
	struct witness_search *s = find(w, act->pid);
	size_t count_at;

	if (act->path.cut || act->unknown || name.len == 0 || name.len > sizeof(s->name) ||
	    put_act(&event, act, &(struct put_more){ .counted = true }, &count_at) < 0 || count_at == 0)
		return false;
	if (s != NULL && !is_for(s, act)) {
		pass(w, s);
		s = NULL;
	}
	if (s == NULL) {
		s = find_place(w);
		*s = (struct witness_search){ .pid = act->pid, .since_ms = loop_now_ms(), .name_len = name.len };
		memcpy(s->name, name.at, name.len);
	}
	buf_free(&s->event);
	s->event = event;
	event = (struct buf){0};
	s->count_at = count_at;
	s->n++;
	return true;
}

uint64_t
witness_search_found(struct witness *w, const struct act *act)
{
	const struct act by_script = { .path = act->script };
	struct witness_search *s = find(w, act->pid);
	uint64_t n = s == NULL || !is_for(s, act->script.len > 0 ? &by_script : act) ? 0 : s->n;

	if (n > 0)
		forget(s);
	return n;
}

void
witness_search_flush(struct witness *w, uint32_t pid)
{
	struct witness_search *s = find(w, pid);

	if (s != NULL)
		pass(w, s);
}

void
witness_search_turn(struct witness *w, bool all)
{
	const uint64_t now = loop_now_ms();

	for (size_t i = 0; i < WITNESS_SEARCHES; i++)
		if (w->searches[i].n > 0 && (all || w->searches[i].since_ms + WITNESS_SEARCH_MS <= now))
			pass(w, &w->searches[i]);
}

uint64_t
witness_search_next(const struct witness *w)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < WITNESS_SEARCHES; i++)
		if (w->searches[i].n > 0 && w->searches[i].since_ms + WITNESS_SEARCH_MS < next)
			next = w->searches[i].since_ms + WITNESS_SEARCH_MS;
	return next;
}
