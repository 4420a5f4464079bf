/* tally.c - see tally.h. */
#include "audit/tally.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "base/own.h"
#include "http/json_walk.h"

#define MEMBERS_MAX_LEN 4096            /* of a refusal, to describe it in a few words */
#define STEP_MAX_S (1u << 24)

struct line {
	struct http_text event, type, verdict, why, time;
	uint64_t n, sent, received, count;
	bool misplaced;
};

static uint64_t
number(struct http_text raw)
{
	char text[24];
	uint64_t n = 0;

	if (raw.len >= sizeof(text))
		return 0;
	memcpy(text, raw.at, raw.len);
	text[raw.len] = '\0';
	return num_parse_count(text, 0, UINT64_MAX, &n, NULL) == 0 ? n : 0;
}

static void
take_member(struct line *l, const struct json_walk_item *item)
{
	const struct {
		const char *name;
		enum json_walk_kind kind;
		size_t depth;
		struct http_text *text;
		uint64_t *number;
	} wanted[] = {
		{ "n", JSON_WALK_NUMBER, 1, NULL, &l->n }, { "time", JSON_WALK_STRING, 1, &l->time, NULL },
		{ "type", JSON_WALK_STRING, 2, &l->type, NULL },
		{ "verdict", JSON_WALK_STRING, 2, &l->verdict, NULL },
		{ "why", JSON_WALK_STRING, 2, &l->why, NULL },
		{ "sent", JSON_WALK_NUMBER, 2, NULL, &l->sent },
		{ "received", JSON_WALK_NUMBER, 2, NULL, &l->received },
		{ "count", JSON_WALK_NUMBER, 2, NULL, &l->count },
	};

	if (item->kind == JSON_WALK_TRUE && item->depth == 2 && http_text_is(item->name, "misplaced"))
		l->misplaced = true;
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		if (item->kind != wanted[i].kind || item->depth != wanted[i].depth ||
		    !http_text_is(item->name, wanted[i].name))
			continue;
		if (wanted[i].text != NULL)
			*wanted[i].text = item->raw;
		else
			*wanted[i].number = number(item->raw);
	}
}

/* A record has one object, its event, so members at depth two are in it. */
static bool
read_line(const char *line, size_t len, struct line *ret_line)
{
	struct json_walk walk;
	struct json_walk_item item;
	int r;

	*ret_line = (struct line){ .count = 1 };
	json_walk_begin(&walk, (struct http_text){ line, len });
	while ((r = json_walk_next(&walk, &item)) == 1) {
		if (item.name.at != NULL)
			take_member(ret_line, &item);
		else if (item.kind == JSON_WALK_CLOSE && item.depth == 1)
			ret_line->event = item.raw;
	}
	return r == 0 && ret_line->n > 0 && ret_line->event.len > 2;
}

/* Seconds since 1970; 0 if it is no time. */
static uint64_t
seconds_of(struct http_text time)
{
	struct tm tm = {0};
	char text[AUDIT_TIME_LEN + 1];
	time_t s;

	if (time.len != AUDIT_TIME_LEN)
		return 0;
	memcpy(text, time.at, AUDIT_TIME_LEN);
	text[AUDIT_TIME_LEN] = '\0';
	if (strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
		return 0;
	s = timegm(&tm);
	return s > 0 ? (uint64_t)s : 0;
}

static void
add(struct audit_slot *to, const struct audit_slot *more)
{
	to->requests += more->requests;
	to->refused += more->refused;
	to->bytes_in += more->bytes_in;
	to->bytes_out += more->bytes_out;
	to->thefts += more->thefts;
	to->misplaced += more->misplaced;
}

static void
join_pairs(struct audit_tally *t)
{
	for (size_t i = 0; i < AUDIT_TALLY_SLOTS / 2; i++) {
		struct audit_slot sum = t->slots[2 * i];
		struct audit_use use = t->uses[2 * i];

		add(&sum, &t->slots[2 * i + 1]);
		audit_use_join(&use, &t->uses[2 * i + 1]);
		t->slots[i] = sum;
		t->uses[i] = use;
	}
	memset(t->slots + AUDIT_TALLY_SLOTS / 2, 0, AUDIT_TALLY_SLOTS / 2 * sizeof(t->slots[0]));
	memset(t->uses + AUDIT_TALLY_SLOTS / 2, 0, AUDIT_TALLY_SLOTS / 2 * sizeof(t->uses[0]));
	t->n_slots = (t->n_slots + 1) / 2;
	t->step_s *= 2;
}

/* If a clock was set back, or is far ahead, the last slot is used.  Returns its number, or
 * AUDIT_TALLY_SLOTS: no time is known yet. */
static size_t
add_at(struct audit_tally *t, uint64_t at_s, const struct audit_slot *more)
{
	uint64_t i;

	if (at_s != 0 && t->since_s == 0) {
		t->since_s = at_s;
		t->step_s = 1;
		t->n_slots = 1;
	}
	if (t->since_s == 0)
		return AUDIT_TALLY_SLOTS;
	i = at_s < t->since_s ? t->n_slots - 1 : (at_s - t->since_s) / t->step_s;
	while (i >= AUDIT_TALLY_SLOTS && t->step_s < STEP_MAX_S) {
		join_pairs(t);
		i = (at_s - t->since_s) / t->step_s;
	}
	if (i >= AUDIT_TALLY_SLOTS)
		i = AUDIT_TALLY_SLOTS - 1;
	if (i >= t->n_slots)
		t->n_slots = (size_t)i + 1;
	add(&t->slots[i], more);
	return (size_t)i;
}

static void
keep_refusal(struct audit_refusal *last, const struct line *l)
{
	struct cell_refusals told = {0};
	char members[MEMBERS_MAX_LEN];
	size_t len = l->event.len - 2 < sizeof(members) ? l->event.len - 2 : sizeof(members) - 1;

	memcpy(members, l->event.at + 1, len);
	members[len] = '\0';
	cell_refusals_note(&told, members);
	if (told.n == 0)
		return;
	snprintf(last->time, sizeof(last->time), "%.*s", (int)l->time.len, l->time.at);
	memcpy(last->what, told.kinds[0].what, sizeof(last->what));
	memcpy(last->why, told.kinds[0].why, sizeof(last->why));
}

static unsigned
what_it_was(const struct line *l)
{
	static const struct {
		const char *type;
		unsigned was;
	} types[] = {
		{ "cell", AUDIT_WAS_CELL },
		{ "steer", AUDIT_WAS_STEER | AUDIT_WAS_CELL | AUDIT_WAS_ASK },
		{ "approval", AUDIT_WAS_ASK | AUDIT_WAS_CELL },
		{ "budget", AUDIT_WAS_BUDGET }, { "tripwire", AUDIT_WAS_CELL }, { "watch", AUDIT_WAS_CELL },
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (http_text_is(l->type, types[i].type))
			return types[i].was;
	return 0;
}

unsigned
audit_tally_line(struct audit_tally *t, const char *line, size_t len)
{
	static const char *const requests[] = { "http", "tcp", "tls", "ssh" };
	struct audit_slot more = {0};
	bool refused;
	struct line l;
	size_t slot;

	if (!read_line(line, len, &l) || l.n <= t->n)
		return 0;
	t->n = l.n;
	refused = http_text_is(l.verdict, "deny") || http_text_is(l.verdict, "ask");
	if (refused)
		more.refused = l.count;
	if (refused && http_text_is(l.why, "exfiltration"))
		*(l.misplaced ? &more.misplaced : &more.thefts) = l.count;
	if (l.verdict.len > 0 && http_text_is_one_of(l.type, requests, ARRAY_LEN(requests)))
		more.requests = l.count;
	more.bytes_in = l.received;
	more.bytes_out = l.sent;
	add(&t->total, &more);
	slot = add_at(t, seconds_of(l.time), &more);
	audit_tally_act(t, l.type, l.event, l.time, l.count, slot < AUDIT_TALLY_SLOTS ? &t->uses[slot] : NULL);
	if (refused)
		keep_refusal(&t->refusal, &l);
	if (more.thefts > 0)
		t->theft = t->refusal;
	if (more.misplaced > 0)
		t->misplaced = t->refusal;
	return what_it_was(&l) | (refused ? AUDIT_WAS_REFUSAL : 0);
}

size_t
audit_tally_over_time(const struct audit_tally *t, uint64_t now_s, size_t max,
                      struct audit_slot *ret_slots, uint64_t *ret_step_s)
{
	uint64_t all = t->n_slots, group;

	if (t->n_slots == 0 || max == 0) {
		*ret_step_s = 1;
		return 0;
	}
	if (now_s > t->since_s && (now_s - t->since_s) / t->step_s + 1 > all)
		all = (now_s - t->since_s) / t->step_s + 1;
	group = (all + max - 1) / max;
	memset(ret_slots, 0, max * sizeof(*ret_slots));
	for (size_t i = 0; i < t->n_slots; i++)
		add(&ret_slots[i / group], &t->slots[i]);
	*ret_step_s = t->step_s * group;
	return (size_t)((all + group - 1) / group);
}

/* A slot of the tally may be longer than one of the window: its sums are then spread evenly, what
 * cannot be divided first. */
static void
spread(const struct audit_slot *sum, uint64_t parts, uint64_t at, struct audit_slot *to)
{
#define SHARE(n) ((n) / parts + (at < (n) % parts))
	add(to, &(struct audit_slot){ SHARE(sum->requests), SHARE(sum->refused), SHARE(sum->bytes_in),
	                              SHARE(sum->bytes_out), SHARE(sum->thefts), SHARE(sum->misplaced) });
#undef SHARE
}

void
audit_tally_add_window(const struct audit_tally *t, uint64_t since_s, uint64_t step_s,
                       struct audit_slot *slots, size_t n)
{
	for (size_t i = 0; i < t->n_slots; i++) {
		uint64_t begin = t->since_s + i * t->step_s;
		uint64_t parts = t->step_s > step_s ? t->step_s / step_s : 1;

		if (begin + t->step_s <= since_s)
			continue;
		for (uint64_t k = 0; k < parts; k++) {
			uint64_t at = begin + k * step_s;

			if (at >= since_s && (at - since_s) / step_s < n)
				spread(&t->slots[i], parts, k, &slots[(at - since_s) / step_s]);
		}
	}
}
