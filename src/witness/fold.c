/* fold.c - see fold.h.
 *
 * An entry is in two tables, by its text and by its process, and in the list of entries in the order in which they
 * are due.  An entry whose count is 0 waits for more, and is dropped if nothing comes. */
#include "witness/fold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

#define BUCKETS 4096
#define WHY_SECOND "there were more than are recorded in a second"
#define WHY_TOTAL "the cell's timeline has no room for more of them"
#define WHY_MEMORY "the witness was out of memory"
#define COUNT_DIGITS 20
#define DUE_LISTS 11                    /* waits of FOLD_WAIT_MS, twice that, ... */

struct entry {
	struct entry *next_text, *next_pid;
	struct entry *next_due, **prev_due;
	uint64_t count, due_ms;
	uint32_t hash, pid, len, count_at;
	uint8_t kind, wait;             /* WAIT: the index of its list */
	char text[];
};

/* Entries that wait equally long, so the first is due first. */
struct due {
	struct entry *first, **last;
};

struct lost {
	uint64_t n;
	const char *why;
};

struct fold {
	struct fold_sink sink;
	struct entry *by_text[BUCKETS], *by_pid[BUCKETS];
	struct due due[DUE_LISTS];
	size_t bytes;
	uint64_t burst, burst_at_ms;    /* bytes that may still be passed on at once, as of that time */
	uint64_t total, total_left;
	struct lost lost[ACT_KINDS];
	uint64_t lost_due_ms;           /* 0: nothing is lost */
};

struct fold *
fold_new(const struct fold_sink *sink, uint64_t total, uint64_t now_ms)
{
	struct fold *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return NULL;
	f->sink = *sink;
	f->total = f->total_left = total;
	f->burst = FOLD_BURST_MAX;
	f->burst_at_ms = now_ms;
	for (size_t i = 0; i < DUE_LISTS; i++)
		f->due[i].last = &f->due[i].first;
	return f;
}

void
fold_free(struct fold *f)
{
	if (f == NULL)
		return;
	for (size_t i = 0; i < DUE_LISTS; i++)
		for (struct entry *e = f->due[i].first, *next; e != NULL; e = next) {
			next = e->next_due;
			free(e);
		}
	free(f);
}

/* ---- room ---- */

/* The part of the room, in hundredths, that must be left for a kind to be passed on. */
static const struct {
	unsigned burst, total;
} spare[ACT_KINDS] = {
	[ACT_CALLS] = { 60, 40 }, [ACT_FILE] = { 40, 25 }, [ACT_NET] = { 20, 15 }, [ACT_REFUSED] = { 20, 15 },
	[ACT_DANGER] = { 10, 10 }, [ACT_EXIT] = { 2, 2 }, [ACT_EXEC] = { 1, 1 },
};

static void
fill_burst(struct fold *f, uint64_t now_ms)
{
	uint64_t more = now_ms > f->burst_at_ms ? (now_ms - f->burst_at_ms) * FOLD_SECOND_MAX / 1000 : 0;

	if (more == 0)
		return;
	f->burst = f->burst + more < FOLD_BURST_MAX ? f->burst + more : FOLD_BURST_MAX;
	f->burst_at_ms = now_ms;
}

void
fold_lose(struct fold *f, enum act_kind kind, uint64_t n, const char *why, uint64_t now_ms)
{
	struct lost *lost = &f->lost[(unsigned)kind < ACT_KINDS ? kind : ACT_LOST];

	lost->n += n;
	lost->why = why;
	if (f->lost_due_ms == 0)
		f->lost_due_ms = now_ms + (f->total_left > 0 ? FOLD_LOST_MS : FOLD_LOST_LATE_MS);
}

void
fold_pass(struct fold *f, enum act_kind kind, uint64_t count, const char *text, size_t len, uint64_t now_ms)
{
	fill_burst(f, now_ms);
	if (f->total_left < len + f->total / 100 * spare[kind].total) {
		/* From now on, counts come seldom. */
		if (kind == ACT_EXEC)
			f->total_left = 0;
		fold_lose(f, kind, count, WHY_TOTAL, now_ms);
	} else if (f->burst < len + FOLD_BURST_MAX / 100 * spare[kind].burst) {
		fold_lose(f, kind, count, WHY_SECOND, now_ms);
	} else {
		f->burst -= len;
		f->total_left -= len;
		f->sink.pass(f->sink.arg, kind, count, text, len);
	}
}

static void
pass_lost(struct fold *f)
{
	for (unsigned kind = 0; kind < ACT_KINDS; kind++) {
		uint64_t n = f->lost[kind].n;

		if (n == 0)
			continue;
		f->lost[kind].n = 0;
		f->sink.lose(f->sink.arg, kind == ACT_LOST ? ACT_KINDS : kind, n, f->lost[kind].why);
	}
	f->lost_due_ms = 0;
}

/* ---- entries ---- */

static uint32_t
hash_of_text(const char *text, size_t len)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * 1099511628211u;
	return (uint32_t)(h ^ h >> 32);
}

static size_t
size_of(const struct entry *e)
{
	return sizeof(*e) + e->len + 16;        /* malloc's own, about */
}

static void
wait_for_more(struct fold *f, struct entry *e, uint64_t now_ms)
{
	struct due *due = &f->due[e->wait];

	e->due_ms = now_ms + ((uint64_t)FOLD_WAIT_MS << e->wait);
	e->next_due = NULL;
	e->prev_due = due->last;
	*due->last = e;
	due->last = &e->next_due;
}

static void
stop_waiting(struct fold *f, struct entry *e)
{
	*e->prev_due = e->next_due;
	if (e->next_due != NULL)
		e->next_due->prev_due = e->prev_due;
	else
		f->due[e->wait].last = e->prev_due;
}

static void
drop(struct fold *f, struct entry *e)
{
	struct entry **at = &f->by_text[e->hash % BUCKETS];

	while (*at != e)
		at = &(*at)->next_text;
	*at = e->next_text;
	at = &f->by_pid[e->pid % BUCKETS];
	while (*at != e)
		at = &(*at)->next_pid;
	*at = e->next_pid;
	stop_waiting(f, e);
	f->bytes -= size_of(e);
	free(e);
}

/* With its count in place of the "1". */
static void
pass_entry(struct fold *f, struct entry *e, uint64_t now_ms)
{
	OWN(freep) char *text = NULL;
	char digits[COUNT_DIGITS + 1];
	size_t n, rest = e->len - e->count_at - 1;

	if (e->count == 0)
		return;
	if (e->count == 1) {
		fold_pass(f, e->kind, 1, e->text, e->len, now_ms);
		e->count = 0;
		return;
	}
	n = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)e->count);
	text = malloc(e->len + n);
	if (text == NULL) {
		fold_lose(f, e->kind, e->count, WHY_MEMORY, now_ms);
	} else {
		memcpy(text, e->text, e->count_at);
		memcpy(text + e->count_at, digits, n);
		memcpy(text + e->count_at + n, e->text + e->count_at + 1, rest);
		fold_pass(f, e->kind, e->count, text, e->count_at + n + rest, now_ms);
	}
	e->count = 0;
}

/* It has waited: what has counted waits for more, twice as long. */
static void
turn_entry(struct fold *f, struct entry *e, uint64_t now_ms)
{
	if (e->count == 0) {
		drop(f, e);
		return;
	}
	pass_entry(f, e, now_ms);
	stop_waiting(f, e);
	if (e->wait < DUE_LISTS - 1 && (uint64_t)FOLD_WAIT_MS << (e->wait + 1) <= FOLD_WAIT_MAX_MS)
		e->wait++;
	wait_for_more(f, e, now_ms);
}

/* Makes room in memory: first those that wait for nothing, then the oldest. */
static void
make_room(struct fold *f, size_t len, uint64_t now_ms)
{
	for (int with_count = 0; with_count < 2; with_count++)
		for (size_t i = 0; i < DUE_LISTS; i++)
			for (struct entry *e = f->due[i].first, *next; e != NULL && f->bytes + len > FOLD_BYTES_MAX / 2;
			     e = next) {
				next = e->next_due;
				if (e->count > 0 && with_count == 0)
					continue;
				pass_entry(f, e, now_ms);
				drop(f, e);
			}
}

static struct entry *
find(struct fold *f, uint32_t hash, const char *text, size_t len)
{
	struct entry *e = f->by_text[hash % BUCKETS];

	while (e != NULL && (e->hash != hash || e->len != len || memcmp(e->text, text, len) != 0))
		e = e->next_text;
	return e;
}

void
fold_take(struct fold *f, enum act_kind kind, uint32_t pid, const char *text, size_t len, size_t count_at,
          uint64_t now_ms)
{
	const uint32_t hash = count_at == 0 ? 0 : hash_of_text(text, len);
	struct entry *e;

	if (count_at == 0) {
		fold_pass(f, kind, 1, text, len, now_ms);
		return;
	}
	e = find(f, hash, text, len);
	if (e != NULL) {
		e->count++;
		return;
	}
	if (f->bytes + sizeof(*e) + len + 16 > FOLD_BYTES_MAX)
		make_room(f, sizeof(*e) + len + 16, now_ms);
	e = malloc(sizeof(*e) + len);
	if (e == NULL) {
		fold_lose(f, kind, 1, WHY_MEMORY, now_ms);
		return;
	}
	*e = (struct entry){ .next_text = f->by_text[hash % BUCKETS], .next_pid = f->by_pid[pid % BUCKETS], .count = 1,
	                     .hash = hash, .pid = pid, .len = (uint32_t)len, .count_at = (uint32_t)count_at,
	                     .kind = (uint8_t)kind };
	memcpy(e->text, text, len);
	f->by_text[hash % BUCKETS] = f->by_pid[pid % BUCKETS] = e;
	f->bytes += size_of(e);
	wait_for_more(f, e, now_ms);
}

/* The table has the newest first. */
static struct entry *
reverse(struct entry *e)
{
	struct entry *done = NULL, *next;

	for (; e != NULL; e = next) {
		next = e->next_pid;
		e->next_pid = done;
		done = e;
	}
	return done;
}

void
fold_flush(struct fold *f, uint32_t pid, uint64_t now_ms)
{
	struct entry **bucket = &f->by_pid[pid % BUCKETS], *e, *next;

	*bucket = reverse(*bucket);
	for (e = *bucket; e != NULL; e = e->next_pid)
		if (e->pid == pid)
			pass_entry(f, e, now_ms);
	*bucket = reverse(*bucket);
	for (e = *bucket; e != NULL; e = next) {
		next = e->next_pid;
		if (e->pid == pid)
			drop(f, e);
	}
}

void
fold_turn(struct fold *f, bool all, uint64_t now_ms)
{
	for (size_t i = 0; i < DUE_LISTS; i++)
		while (f->due[i].first != NULL && (all || f->due[i].first->due_ms <= now_ms)) {
			if (all) {
				pass_entry(f, f->due[i].first, now_ms);
				drop(f, f->due[i].first);
			} else {
				turn_entry(f, f->due[i].first, now_ms);
			}
		}
	if (f->lost_due_ms != 0 && (all || f->lost_due_ms <= now_ms))
		pass_lost(f);
}

uint64_t
fold_next(const struct fold *f)
{
	uint64_t next = f->lost_due_ms != 0 ? f->lost_due_ms : UINT64_MAX;

	for (size_t i = 0; i < DUE_LISTS; i++)
		if (f->due[i].first != NULL && f->due[i].first->due_ms < next)
			next = f->due[i].first->due_ms;
	return next;
}
