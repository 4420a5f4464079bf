/* top_asked.c - lists approvals, and answers them. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "base/num.h"
#include "base/own.h"
#include "canon/canon.h"
#include "cell/cell_approvals.h"
#include "cell/cell_policy.h"
#include "proc/top/top.h"

#define CHANGES_MAX 256                 /* of one cell per look */

static void
drop_json(json_t **value)
{
	json_decref(*value);
}

/* ---- reading one ---- */

static const char *
text_of(const json_t *a, const char *key)
{
	const char *text = json_string_value(json_object_get(a, key));

	return text != NULL ? text : "";
}

static void
put_list(char ret_text[TOP_TEXT], const json_t *list, const char *member)
{
	char joined[TOP_TEXT] = "";
	size_t i, used = 0;
	json_t *one;

	json_array_foreach(list, i, one) {
		const char *word = json_string_value(member == NULL ? one : json_object_get(one, member));
		int n = snprintf(joined + used, sizeof(joined) - used, "%s%s", i > 0 ? ", " : "",
		                 word != NULL ? word : "?");

		if (n < 0 || (size_t)n >= sizeof(joined) - used)
			break;
		used += (size_t)n;
	}
	top_safe(ret_text, joined);
}

/* Seconds since 1970, from a time in the format of records. */
static int64_t
time_of(const char *text)
{
	struct tm tm = {0};

	return strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) == NULL ? 0 : (int64_t)timegm(&tm);
}

static void
put_what(struct top_asked *asked, const json_t *a)
{
	char text[TOP_TEXT], port[16] = "";
	json_int_t number = json_integer_value(json_object_get(a, "port"));
	const char *method = text_of(a, "method");

	if (number != 0 && number != 80 && number != 443)
		snprintf(port, sizeof(port), ":%d", (int)number);
	snprintf(text, sizeof(text), "%s %s%s%s", method[0] != '\0' ? method : text_of(a, "protocol"),
	         text_of(a, "host"), port, text_of(a, "path"));
	top_safe(asked->what, text);
}

static void
put_body(struct top_asked *asked, const json_t *body)
{
	const json_t *size = json_object_get(body, "size");
	char text[TOP_TEXT], bytes[NUM_TEXT_MAX] = "?";

	if (size != NULL)
		num_format_size(bytes, (uint64_t)json_integer_value(size));
	snprintf(text, sizeof(text), "%s %s", text_of(body, "type"), bytes);
	top_safe(asked->body, json_object_size(body) > 0 ? text : "none");
	top_safe_lines(asked->shape, sizeof(asked->shape), text_of(body, "shape"), true);
}

static void
put_people(struct top_asked *asked, const json_t *a)
{
	const json_t *given = json_object_get(a, "given"), *may = json_object_get(a, "approvers");
	char list[TOP_TEXT], by[TOP_TEXT], text[2 * TOP_TEXT + 64];
	json_int_t needs = json_integer_value(json_object_get(a, "needs"));

	put_list(list, may, NULL);
	put_list(by, given, "by");
	snprintf(text, sizeof(text), "%s", json_array_size(may) > 0 ? list : "any operator");
	if (needs > 1)
		snprintf(text, sizeof(text), "%s; %zu of %d approved%s%s", json_array_size(may) > 0 ?
		         list : "any operator", json_array_size(given), (int)needs, by[0] != '\0' ? ": " : "", by);
	snprintf(asked->approvers, sizeof(asked->approvers), "%.*s", TOP_TEXT - 1, text);
}

static void
put_who(struct top_asked *asked, const json_t *a)
{
	const char *name = text_of(a, "name"), *chain = text_of(a, "chain");
	char text[TOP_TEXT];

	snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", name[0] != '\0' ? name : asked->cell,
	         text_of(a, "principal")[0] != '\0' ? ", for " : "", text_of(a, "principal"),
	         chain[0] != '\0' ? " (" : "", chain, chain[0] != '\0' ? ")" : "",
	         json_is_true(json_object_get(a, "frozen")) ? ", frozen while it waits" : "");
	top_safe(asked->who, text);
}

static void
fill(struct top_asked *asked, const json_t *a)
{
	char rule[TOP_TEXT], place[CELL_POLICY_PLACE];

	asked->pending = strcmp(text_of(a, "state"), "pending") == 0;
	asked->until_s = time_of(text_of(a, "until"));
	snprintf(asked->since, sizeof(asked->since), "%s", text_of(a, "asked"));
	snprintf(rule, sizeof(rule), "%s  %s", text_of(a, "rule"),
	         cell_policy_place(place, text_of(a, "place")));
	top_safe(asked->rule, rule);
	top_safe(asked->reason, text_of(a, "reason"));
	top_safe_lines(asked->query, sizeof(asked->query), text_of(a, "query"), true);
	top_safe_lines(asked->headers, sizeof(asked->headers), text_of(a, "headers"), true);
	put_what(asked, a);
	put_who(asked, a);
	put_body(asked, json_object_get(a, "body"));
	put_list(asked->secrets, json_object_get(a, "secrets"), NULL);
	put_people(asked, a);
}

/* ---- keeping them ---- */

static struct top_asked *
find(const struct top *t, const char *id)
{
	for (size_t i = 0; i < t->n_asked; i++)
		if (strcmp(t->asked[i].id, id) == 0)
			return &t->asked[i];
	return NULL;
}

static void
remove_one(struct top *t, struct top_asked *asked)
{
	size_t at = (size_t)(asked - t->asked);

	memmove(asked, asked + 1, (t->n_asked - at - 1) * sizeof(*asked));
	t->n_asked--;
}

static void
take(struct top *t, const char *cell, const char *text)
{
	OWN(drop_json) json_t *a = canon_value(text, strlen(text));
	const char *id = text_of(a, "id"), *dash = strrchr(id, '-');
	struct top_asked *asked = find(t, id), *more;

	if (dash == NULL || strlen(id) >= sizeof(asked->id))
		return;
	if (strcmp(text_of(a, "state"), "pending") != 0) {
		if (asked != NULL)
			remove_one(t, asked);
		return;
	}
	if (asked == NULL && t->n_asked < TOP_ASKED_MAX) {
		more = realloc(t->asked, (t->n_asked + 1) * sizeof(*more));
		if (more == NULL)
			return;
		t->asked = more;
		asked = &more[t->n_asked++];
		*asked = (struct top_asked){0};
		snprintf(asked->id, sizeof(asked->id), "%s", id);
		snprintf(asked->cell, sizeof(asked->cell), "%s", cell);
		snprintf(asked->name, sizeof(asked->name), "%s", text_of(a, "name")[0] != '\0' ? text_of(a, "name") : cell);
		asked->number = strtoull(dash + 1, NULL, 10);
	}
	if (asked != NULL)
		fill(asked, a);
}

void
top_look_asked(struct top *t, int runtime, struct top_cell *cell)
{
	const struct timeval patience = { .tv_sec = 2 };
	OWN(closep) int fd = cell_connect(runtime, &cell->entry, NULL);

	if (fd < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	for (unsigned i = 0; i < CHANGES_MAX; i++) {
		OWN(freep) char *text = NULL;

		if (cell_approvals_ask(fd, cell->change, false, NULL) < 0 ||
		    cell_approvals_take(fd, &cell->change, &text, NULL) != 1)
			return;
		take(t, cell->entry.id, text);
	}
}

static int
by_age(const void *a, const void *b)
{
	const struct top_asked *x = a, *y = b;
	int r = strcmp(x->since, y->since);

	return r != 0 ? r : strcmp(x->id, y->id);
}

void
top_sort_asked(struct top *t)
{
	if (t->n_asked > 0)
		qsort(t->asked, t->n_asked, sizeof(*t->asked), by_age);
}

void
top_drop_asked(struct top *t, const char *cell)
{
	for (size_t i = t->n_asked; i-- > 0;)
		if (strcmp(t->asked[i].cell, cell) == 0)
			remove_one(t, &t->asked[i]);
}

struct top_asked *
top_chosen_asked(const struct top *t)
{
	return find(t, t->approval);
}

/* ---- answering ---- */

int
top_answer(struct top *t, const struct top_asked *asked, uint64_t ms, const char *reason, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	const struct cell_steer_who who = { .by = "", .why = reason != NULL ? reason : "" };
	const struct top_cell *cell = top_find_cell(t, asked->cell);
	OWN(closep) int fd = -1;
	bool enough = true;
	int r;

	if (runtime < 0)
		return runtime;
	if (cell == NULL)
		return err_set(err, ENOENT, "the cell has just ended");
	fd = cell_connect(runtime, &cell->entry, err);
	if (fd < 0)
		return fd;
	if (reason != NULL)
		return cell_refuse(fd, asked->number, &who, err);
	r = cell_approve(fd, asked->number, ms > 0 ? CONTROL_APPROVE_FOR : CONTROL_APPROVE_ONCE, ms, &who,
	                 &enough, err);
	return r < 0 ? r : enough;
}
