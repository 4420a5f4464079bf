/* tree_model.c - see tree.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "cli/timeline.h"
#include "cli/timeline_acts.h"
#include "cli/tree.h"

const char *const tree_kind_names[TREE_KINDS] = {
	[TREE_PROGRAM] = "programs", [TREE_FILE] = "files", [TREE_NET] = "connections", [TREE_REQUEST] = "requests",
	[TREE_REFUSED] = "refused calls", [TREE_DANGER] = "dangerous calls", [TREE_WATCH] = "matches of `watch`",
};

struct tree *
tree_new(void)
{
	return calloc(1, sizeof(struct tree));
}

static void
free_deeds(struct tree_deeds *d)
{
	for (struct tree_deed *at = d->first, *next; at != NULL; at = next) {
		next = at->next;
		free(at);
	}
}

void
tree_free(struct tree *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; i < t->n; i++) {
		free(t->at[i].command);
		free(t->at[i].end);
		free_deeds(&t->at[i].deeds);
	}
	free_deeds(&t->others);
	free(t->at);
	free(t->record);
	free(t->end);
	free(t->lost);
	free(t);
}

/* ---- texts ---- */

static char *
safe_text(const char *raw)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = raw == NULL ? NULL : open_memstream(&text, &len);

	if (out == NULL)
		return NULL;
	text_print_safe(out, raw, strlen(raw), false);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

static char *
print_to_text(void (*print)(FILE *out, const struct timeline_event *e), const struct timeline_event *e)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (out == NULL)
		return NULL;
	print(out, e);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* A request, and what became of it. */
static void
print_request(FILE *out, const struct timeline_event *e)
{
	timeline_print_what(out, e);
	if (timeline_is_refusal(e)) {
		fputs("  refused: ", out);
		timeline_print_cause(out, e);
	} else if (e->status != 0) {
		fprintf(out, "  %u", e->status);
	}
}

static int
add_deed(struct tree *t, struct tree_deeds *d, enum tree_kind kind, const struct timeline_event *e,
         void (*print)(FILE *out, const struct timeline_event *e))
{
	OWN(freep) char *text = NULL;
	struct tree_deed *deed;
	size_t len;

	d->all[kind]++;
	if (t->text >= TREE_TEXT_MAX)
		return 0;
	text = print_to_text(print, e);
	len = text == NULL ? 0 : strlen(text);
	deed = text == NULL ? NULL : malloc(sizeof(*deed) + len + 1);
	if (deed == NULL)
		return -ENOMEM;
	deed->next = NULL;
	deed->n = e->n;
	deed->kind = kind;
	memcpy(deed->text, text, len + 1);
	if (d->last != NULL)
		d->last->next = deed;
	else
		d->first = deed;
	d->last = deed;
	d->kept[kind]++;
	t->text += sizeof(*deed) + len;
	return 0;
}

/* ---- processes ---- */

static struct tree_process *
find(const struct tree *t, uint32_t pid)
{
	uint32_t i = t->buckets[pid % TREE_BUCKETS];

	while (i != 0 && t->at[i - 1].pid != pid)
		i = t->at[i - 1].older;
	return i == 0 ? NULL : &t->at[i - 1];
}

/* NULL and *ret_full: there are too many. */
static struct tree_process *
add(struct tree *t, uint32_t pid, bool *ret_full)
{
	struct tree_process *p;

	if (t->n == t->cap && t->n < TREE_PROCESSES_MAX) {
		size_t cap = t->cap == 0 ? 64 : t->cap * 2;
		struct tree_process *more = realloc(t->at, cap * sizeof(*more));

		if (more == NULL)
			return NULL;
		t->at = more;
		t->cap = cap;
	}
	*ret_full = t->n == TREE_PROCESSES_MAX;
	if (*ret_full)
		return NULL;
	p = &t->at[t->n++];
	*p = (struct tree_process){ .pid = pid, .older = t->buckets[pid % TREE_BUCKETS] };
	t->buckets[pid % TREE_BUCKETS] = (uint32_t)t->n;
	return p;
}

/* The process of this number that lives, as far as is known.  Numbers are used again. */
static struct tree_process *
living(struct tree *t, uint32_t pid, bool *ret_full)
{
	struct tree_process *p = find(t, pid);

	*ret_full = false;
	return p != NULL && p->ended[0] == '\0' ? p : add(t, pid, ret_full);
}

static bool
is_above(const struct tree *t, uint32_t above, uint32_t i)
{
	while (i != 0 && i != above)
		i = t->at[i - 1].parent;
	return i == above;
}

/* Never makes a circle, whatever was recorded. */
static void
set_parent(struct tree *t, struct tree_process *p, uint64_t pid)
{
	uint32_t own = (uint32_t)(p - t->at) + 1;
	struct tree_process *parent;
	bool full = false;

	if (p->parent != 0 || pid == 0 || pid > UINT32_MAX)
		return;
	parent = find(t, (uint32_t)pid);
	if (parent == NULL)
		parent = add(t, (uint32_t)pid, &full);
	if (parent == NULL)
		return;
	p = &t->at[own - 1];
	if (parent == p || (p->is_parent && is_above(t, own, (uint32_t)(parent - t->at) + 1)))
		return;
	p->parent = (uint32_t)(parent - t->at) + 1;
	parent->is_parent = true;
}

static int
note_exec(struct tree *t, struct tree_process *p, const struct timeline_event *e)
{
	OWN(freep) char *raw = NULL, *command = NULL;

	if (timeline_has(e, "error"))
		return add_deed(t, &p->deeds, TREE_PROGRAM, e, timeline_print_deed);
	/* The program before is one of the things that it did. */
	if (p->command != NULL && add_deed(t, &p->deeds, TREE_PROGRAM, e, timeline_print_deed) < 0)
		return -ENOMEM;
	raw = timeline_command(e, TREE_COMMAND_MAX);
	command = safe_text(raw);
	if (command == NULL)
		return -ENOMEM;
	if (p->command == NULL) {
		p->command = TAKE(command);
		snprintf(p->sha256, sizeof(p->sha256), "%.64s", timeline_text(e, "sha256"));
	}
	if (p->started[0] == '\0')
		snprintf(p->started, sizeof(p->started), "%.*s", AUDIT_TIME_LEN, e->time);
	return 0;
}

static int
note_exit(struct tree_process *p, const struct timeline_event *e)
{
	snprintf(p->ended, sizeof(p->ended), "%.*s", AUDIT_TIME_LEN, e->time[0] != '\0' ? e->time : "-");
	snprintf(p->signal, sizeof(p->signal), "%.15s", timeline_text(e, "signal"));
	p->has_status = timeline_has(e, "status");
	p->status = e->status;
	p->ms = timeline_number(e, "ms");
	p->cpu_ms = timeline_number(e, "cpu_ms");
	p->peak = timeline_number(e, "peak");
	free(p->end);
	p->end = print_to_text(timeline_print_exit, e);
	return p->end == NULL ? -ENOMEM : 0;
}

static int
note_act(struct tree *t, struct tree_process *p, enum timeline_act act, const struct timeline_event *e)
{
	uint64_t local = timeline_number(e, "local");

	switch (act) {
	case TIMELINE_EXEC: return note_exec(t, p, e);
	case TIMELINE_EXIT: return note_exit(p, e);
	case TIMELINE_FILE: return add_deed(t, &p->deeds, TREE_FILE, e, timeline_print_deed);
	case TIMELINE_REFUSED: return add_deed(t, &p->deeds, TREE_REFUSED, e, timeline_print_deed);
	case TIMELINE_DANGER: return add_deed(t, &p->deeds, TREE_DANGER, e, timeline_print_deed);
	case TIMELINE_WATCH: return add_deed(t, &p->deeds, TREE_WATCH, e, timeline_print_deed);
	case TIMELINE_NET:
		if (local > 0 && local < 65536 && strcmp(timeline_text(e, "act"), "connect") == 0)
			t->ports[local] = (uint32_t)(p - t->at) + 1;
		return add_deed(t, &p->deeds, TREE_NET, e, timeline_print_deed);
	default: return 0;
	}
}

/* ---- the cell ---- */

static int
keep_text(char **text, void (*print)(FILE *out, const struct timeline_event *e), const struct timeline_event *e)
{
	free(*text);
	*text = print_to_text(print, e);
	return *text == NULL ? -ENOMEM : 0;
}

static void
print_lost(FILE *out, const struct timeline_event *e)
{
	timeline_print_deed(out, e);
	fputs(e->note[0] != '\0' ? ": " : "", out);
	text_print_safe(out, e->note, strlen(e->note), false);
}

/* A request belongs to the process that the record names, or else to the one that used its port. */
static int
note_request(struct tree *t, const struct timeline_event *e)
{
	uint64_t pid = timeline_number(e, "pid"), from = timeline_number(e, "from");
	struct tree_process *p = pid > 0 && pid <= UINT32_MAX ? find(t, (uint32_t)pid) : NULL;

	if (p == NULL && from > 0 && from < 65536 && t->ports[from] != 0)
		p = &t->at[t->ports[from] - 1];
	return add_deed(t, p != NULL ? &p->deeds : &t->others, TREE_REQUEST, e, print_request);
}

int
tree_note(struct tree *t, const struct timeline_event *e)
{
	const enum timeline_act act = timeline_act(e);
	uint64_t pid = timeline_number(e, "pid");
	struct tree_process *p;
	bool full;
	uint32_t own;

	if (strcmp(e->type, "cell.end") == 0)
		return keep_text(&t->end, timeline_print_what, e);
	if (act == TIMELINE_NO_ACT)
		return timeline_is_decision(e) && strcmp(e->type, "intent") != 0 ? note_request(t, e) : 0;
	t->n_acts++;
	if (act == TIMELINE_RECORD)
		return keep_text(&t->record, timeline_print_deed, e);
	if (act == TIMELINE_LOST) {
		t->n_lost += e->count;
		return keep_text(&t->lost, print_lost, e);
	}
	if (act == TIMELINE_RESOURCES || act == TIMELINE_CALLS || pid == 0 || pid > UINT32_MAX)
		return 0;
	p = living(t, (uint32_t)pid, &full);
	t->uncounted += full;
	if (p == NULL)
		return full ? 0 : -ENOMEM;
	own = (uint32_t)(p - t->at);
	set_parent(t, p, timeline_number(e, "parent"));
	return note_act(t, &t->at[own], act, e);
}

void
tree_finish(struct tree *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct tree_process *p = &t->at[i], *parent = p->parent == 0 ? NULL : &t->at[p->parent - 1];

		if (parent == NULL)
			continue;
		if (parent->last != 0)
			t->at[parent->last - 1].next = (uint32_t)i + 1;
		else
			parent->first = (uint32_t)i + 1;
		parent->last = (uint32_t)i + 1;
	}
}

static const struct tree_process *
next_root(const struct tree *t, size_t from)
{
	while (from < t->n && t->at[from].parent != 0)
		from++;
	return from < t->n ? &t->at[from] : NULL;
}

const struct tree_process *
tree_next(const struct tree *t, const struct tree_process *p, unsigned *depth)
{
	if (p == NULL) {
		*depth = 0;
		return next_root(t, 0);
	}
	if (p->first != 0) {
		++*depth;
		return &t->at[p->first - 1];
	}
	while (p->next == 0 && p->parent != 0) {
		p = &t->at[p->parent - 1];
		--*depth;
	}
	return p->next != 0 ? &t->at[p->next - 1] : next_root(t, (size_t)(p - t->at) + 1);
}
