/* api_resources.c - what cells used over time, from the `resources` records of their timelines: of one cell,
 * and of all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/json.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "proc/serve/api.h"
#include "proc/serve/tallies.h"

#define BUCKETS_MAX AUDIT_TALLY_SLOTS
#define MINUTES_MAX (31u * 24 * 60)

struct window {
	uint64_t since_s, step_s;
	struct audit_use uses[BUCKETS_MAX];
	size_t n;
};

/* What was in use is null where nothing is known. */
static void
put_window(struct json *w, const struct window *window)
{
	json_open(w, NULL, '{');
	json_u64(w, "since", window->since_s);
	json_u64(w, "step_s", window->step_s);
	for (int m = 0; m < AUDIT_USES; m++) {
		json_open(w, audit_measure_name(m), '[');
		for (size_t i = 0; i < window->n; i++)
			if (m >= AUDIT_SUMS && window->uses[i].samples == 0)
				json_none(w, NULL);
			else
				json_u64(w, NULL, window->uses[i].at[m]);
		json_close(w, ']');
	}
	json_close(w, '}');
}

static int
answer(struct api_call *c, const struct window *window)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (out == NULL)
		return api_answer_text(c, NULL, 0, NULL);
	put_window(&(struct json){ .out = out }, window);
	fputc('\n', out);
	fclose(out);
	return api_answer_text(c, text, size, "application/json");
}

/* Its whole life, in at most MAX slots. */
static void
fill_window(struct window *window, const struct audit_tally *sum, bool is_live, size_t max)
{
	uint64_t all = sum->n_slots, now = (uint64_t)time(NULL), group;

	window->since_s = sum->since_s;
	window->step_s = 1;
	if (all == 0)
		return;
	if (is_live && now > sum->since_s && (now - sum->since_s) / sum->step_s + 1 > all)
		all = (now - sum->since_s) / sum->step_s + 1;
	group = (all + max - 1) / max;
	window->step_s = sum->step_s * group;
	window->n = (size_t)((all + group - 1) / group);
	audit_tally_add_uses(sum, window->since_s, window->step_s, sum->since_s + all * sum->step_s - 1,
	                     window->uses, window->n);
}

int
api_cell_resources(struct api_call *c)
{
	struct window window = {0};
	struct cell_entry entry;
	OWN(closep) int dir = -1;
	const struct tally *tally;
	uint64_t buckets;

	if (api_query_number(c, "buckets", 1, BUCKETS_MAX, 60, &buckets) < 0)
		return -EINVAL;
	dir = api_open_state(c->params.at[0], true, &entry, &c->err);
	if (dir < 0)
		return api_fail(c);
	tally = tallies_get_whole(c->api->tallies, dir, ".", entry.id);
	if (tally != NULL)
		fill_window(&window, &tally->sum, cell_state_is_live(dir), (size_t)buckets);
	tallies_done(c->api->tallies);
	return answer(c, &window);
}

static void
add_cell(void *arg, const struct tallies_cell *cell)
{
	struct window *window = arg;

	audit_tally_add_uses(cell->sum, window->since_s, window->step_s, cell->is_live ? UINT64_MAX : cell->last_s, window->uses,
	                     window->n);
}

int
api_resources(struct api_call *c)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(closep) int ended = state < 0 ? -1 : cell_ended_open(state);
	struct window window = {0};
	uint64_t minutes, buckets;

	if (api_query_number(c, "minutes", 1, MINUTES_MAX, 60, &minutes) < 0 ||
	    api_query_number(c, "buckets", 1, BUCKETS_MAX, 60, &buckets) < 0)
		return -EINVAL;
	window.n = (size_t)buckets;
	window.step_s = minutes * 60 / buckets > 0 ? minutes * 60 / buckets : 1;
	window.since_s = ((uint64_t)time(NULL) / window.step_s + 1 - window.n) * window.step_s;
	tallies_each_since(c->api->tallies, state, window.since_s, add_cell, &window);
	tallies_each_since(c->api->tallies, ended, window.since_s, add_cell, &window);
	return answer(c, &window);
}
