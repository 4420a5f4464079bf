/* api_timeline.c - a cell's timeline in pages, filtered and searched; sums over time, of one cell and of
 * all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "audit/page.h"
#include "base/json.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "proc/serve/api.h"
#include "proc/serve/tallies.h"

#define BUCKETS_MAX AUDIT_TALLY_SLOTS
#define TRAFFIC_MINUTES_MAX (31u * 24 * 60)

/* A record is valid JSON as it is. */
static int
put_record(void *arg, const char *line, size_t len)
{
	struct json *w = arg;

	json_raw(w, NULL, "%.*s", (int)len, line);
	return ferror(w->out) ? -ENOMEM : 0;
}

static int
check_page(struct api_call *c, struct audit_page *page, uint64_t *ret_limit)
{
	if (api_query_number(c, "after", 0, INT64_MAX, 0, &page->after) < 0 ||
	    api_query_number(c, "before", 1, INT64_MAX, 0, &page->before) < 0 ||
	    api_query_number(c, "pid", 0, UINT32_MAX, 0, &page->pid) < 0 ||
	    api_query_number(c, "limit", 1, AUDIT_PAGE_MAX, API_PAGE, ret_limit) < 0)
		return -EINVAL;
	page->is_after = api_query(c, "after") != NULL;
	page->types = api_query(c, "type");
	page->search = api_query(c, "search");
	page->has_pid = api_query(c, "pid") != NULL;
	if (page->types != NULL && page->types[0] == '\0')
		page->types = NULL;
	if (page->search != NULL && page->search[0] == '\0')
		page->search = NULL;
	if (page->search != NULL && strlen(page->search) > AUDIT_PAGE_SEARCH_MAX)
		return api_fail_with(c, 400, "invalid", "the parameter 'search' is at most %d bytes long",
		                     AUDIT_PAGE_SEARCH_MAX);
	return 0;
}

int
api_cell_timeline(struct api_call *c)
{
	struct audit_page page = {0};
	struct cell_entry entry;
	struct json w = {0};
	OWN(closep) int dir = -1;
	OWN(freep) char *text = NULL;
	uint64_t limit;
	size_t size = 0;
	int r;

	if (check_page(c, &page, &limit) < 0)
		return -EINVAL;
	dir = api_open_state(c->params.at[0], true, &entry, &c->err);
	if (dir < 0)
		return api_fail(c);
	w.out = open_memstream(&text, &size);
	if (w.out == NULL)
		return api_answer_text(c, NULL, 0, NULL);
	page.limit = (size_t)limit;
	page.take = put_record;
	page.arg = &w;
	json_open(&w, NULL, '{');
	json_open(&w, "records", '[');
	r = audit_page_read(&page, dir, CELL_EVENTS, &c->err);
	json_close(&w, ']');
	json_bool(&w, "more", page.more);
	if (page.more)
		json_u64(&w, "next", page.next);
	else
		json_none(&w, "next");
	json_close(&w, '}');
	fputc('\n', w.out);
	fclose(w.out);
	if (r < 0 && r != -ENOENT)
		return api_fail(c);
	return api_answer_text(c, TAKE(text), size, "application/json");
}

/* ---- over time ---- */

static void
put_slots(struct json *w, const char *name, const struct audit_slot *slots, size_t n, size_t at)
{
	json_open(w, name, '[');
	for (size_t i = 0; i < n; i++) {
		uint64_t value;

		memcpy(&value, (const char *)&slots[i] + at, sizeof(value));
		json_u64(w, NULL, value);
	}
	json_close(w, ']');
}

static void
put_traffic(struct json *w, uint64_t since_s, uint64_t step_s, const struct audit_slot *slots, size_t n)
{
	json_open(w, NULL, '{');
	json_u64(w, "since", since_s);
	json_u64(w, "step_s", step_s);
	put_slots(w, "requests", slots, n, offsetof(struct audit_slot, requests));
	put_slots(w, "refused", slots, n, offsetof(struct audit_slot, refused));
	put_slots(w, "bytes_in", slots, n, offsetof(struct audit_slot, bytes_in));
	put_slots(w, "bytes_out", slots, n, offsetof(struct audit_slot, bytes_out));
	put_slots(w, "thefts", slots, n, offsetof(struct audit_slot, thefts));
	json_close(w, '}');
}

static void
put_cell_traffic(struct json *w, const struct audit_tally *sum, bool is_live, size_t buckets)
{
	struct audit_slot slots[BUCKETS_MAX];
	uint64_t step;
	size_t n = audit_tally_over_time(sum, is_live ? (uint64_t)time(NULL) : 0, buckets, slots, &step);

	put_traffic(w, sum->since_s, step, slots, n);
}

int
api_cell_traffic(struct api_call *c)
{
	struct cell_entry entry;
	OWN(closep) int dir = -1;
	const struct tally *tally;
	char *text = NULL;
	uint64_t buckets;
	size_t size = 0;
	FILE *out;
	struct json w;

	if (api_query_number(c, "buckets", 1, BUCKETS_MAX, 60, &buckets) < 0)
		return -EINVAL;
	dir = api_open_state(c->params.at[0], true, &entry, &c->err);
	if (dir < 0)
		return api_fail(c);
	out = open_memstream(&text, &size);
	if (out == NULL)
		return api_answer_text(c, NULL, 0, NULL);
	w = (struct json){ .out = out };
	tally = tallies_get_whole(c->api->tallies, dir, ".", entry.id);
	if (tally != NULL)
		put_cell_traffic(&w, &tally->sum, cell_state_is_live(dir), (size_t)buckets);
	tallies_done(c->api->tallies);
	fputc('\n', out);
	fclose(out);
	return api_answer_text(c, text, size, "application/json");
}

/* ---- of all cells ---- */

struct window {
	uint64_t since_s, step_s;
	struct audit_slot slots[BUCKETS_MAX];
	size_t n;
};

static void
add_cell(void *arg, const struct tallies_cell *cell)
{
	struct window *window = arg;

	audit_tally_add_window(cell->sum, window->since_s, window->step_s, window->slots, window->n);
}

/* Buckets begin at whole multiples of their length, so that a picture of them does not flicker. */
int
api_traffic(struct api_call *c)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(closep) int ended = state < 0 ? -1 : cell_ended_open(state);
	struct window window = {0};
	char *text = NULL;
	uint64_t minutes, buckets;
	size_t size = 0;
	FILE *out;

	if (api_query_number(c, "minutes", 1, TRAFFIC_MINUTES_MAX, 60, &minutes) < 0 ||
	    api_query_number(c, "buckets", 1, BUCKETS_MAX, 60, &buckets) < 0)
		return -EINVAL;
	window.n = (size_t)buckets;
	window.step_s = minutes * 60 / buckets > 0 ? minutes * 60 / buckets : 1;
	window.since_s = ((uint64_t)time(NULL) / window.step_s + 1 - window.n) * window.step_s;
	tallies_each_since(c->api->tallies, state, window.since_s, add_cell, &window);
	tallies_each_since(c->api->tallies, ended, window.since_s, add_cell, &window);
	out = open_memstream(&text, &size);
	if (out == NULL)
		return api_answer_text(c, NULL, 0, NULL);
	put_traffic(&(struct json){ .out = out }, window.since_s, window.step_s, window.slots, window.n);
	fputc('\n', out);
	fclose(out);
	return api_answer_text(c, text, size, "application/json");
}
