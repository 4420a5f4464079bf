/* tree_json.c - prints the processes of a cell for programs. */
#include <stdio.h>

#include "base/json.h"
#include "cli/tree.h"

static const char *const kinds[TREE_KINDS] = {
	[TREE_PROGRAM] = "exec", [TREE_FILE] = "file", [TREE_NET] = "net", [TREE_REQUEST] = "request",
	[TREE_REFUSED] = "refused", [TREE_DANGER] = "danger", [TREE_WATCH] = "watch",
};

static void
put_text(struct json *w, const char *key, const char *text)
{
	json_str(w, key, text != NULL && text[0] != '\0' ? text : NULL);
}

static void
put_number(struct json *w, const char *key, uint64_t n)
{
	if (n > 0)
		json_u64(w, key, n);
	else
		json_none(w, key);
}

static void
put_deeds(struct json *w, const char *key, const struct tree_deeds *d)
{
	uint64_t left_out = 0;

	json_open(w, key, '[');
	for (const struct tree_deed *deed = d->first; deed != NULL; deed = deed->next) {
		json_open(w, NULL, '{');
		json_u64(w, "event", deed->n);
		json_str(w, "type", kinds[deed->kind]);
		json_str(w, "text", deed->text);
		json_close(w, '}');
	}
	json_close(w, ']');
	for (size_t i = 0; i < TREE_KINDS; i++)
		left_out += d->all[i] - d->kept[i];
	json_u64(w, key[0] == 'd' ? "left_out" : "others_left_out", left_out);
}

static void
put_process(struct json *w, const struct tree *t, const struct tree_process *p)
{
	json_open(w, NULL, '{');
	json_u64(w, "id", (uint64_t)(p - t->at) + 1);
	json_u64(w, "pid", p->pid);
	put_number(w, "parent", p->parent);
	put_text(w, "command", p->command);
	put_text(w, "sha256", p->sha256);
	put_text(w, "started", p->started);
	put_text(w, "ended", p->ended);
	if (p->has_status)
		json_u64(w, "status", p->status);
	else
		json_none(w, "status");
	put_text(w, "signal", p->signal);
	put_number(w, "ms", p->ms);
	put_number(w, "cpu_ms", p->cpu_ms);
	put_number(w, "peak", p->peak);
	put_deeds(w, "did", &p->deeds);
	json_close(w, '}');
}

void
tree_print_json(const struct tree *t, const char *cell, bool live)
{
	struct json w = { .out = stdout };
	unsigned depth;

	json_open(&w, NULL, '{');
	json_str(&w, "cell", cell);
	json_bool(&w, "live", live);
	put_text(&w, "record", t->record);
	put_text(&w, "end", t->end);
	json_open(&w, "processes", '[');
	for (const struct tree_process *p = tree_next(t, NULL, &depth); p != NULL; p = tree_next(t, p, &depth))
		put_process(&w, t, p);
	json_close(&w, ']');
	put_deeds(&w, "others", &t->others);
	json_u64(&w, "lost", t->n_lost);
	json_u64(&w, "of_other_processes", t->uncounted);
	json_close(&w, '}');
	putchar('\n');
}
