/* state_review.c - `cloister state review`, `accept` and `refuse`: changes that wait for a person. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/since.h"
#include "base/text.h"
#include "cell/cell_user.h"
#include "cli/state.h"
#include "state/state_read.h"

#define CONFLICTS 1                     /* the exit status if nothing was accepted because of a conflict */

static const char *const kept_words[] = { "aside", "refused", "pending", "accepted" };

void
state_person(char ret_name[STATE_TEXT_MAX])
{
	char name[CELL_USER_MAX];

	if (cell_user_name(getuid(), name))
		snprintf(ret_name, STATE_TEXT_MAX, "%s (uid %u)", name, getuid());
	else
		snprintf(ret_name, STATE_TEXT_MAX, "uid %u", getuid());
}

/* ---- review ---- */

/* The diff of one file, as a text of a JSON document. */
static int
take_hunk(void *arg, const void *data, size_t len)
{
	buf_put(arg, data, len);
	return buf_failed(arg) ? -EFBIG : 0;
}

#define DIFF_MAX (1u << 20)             /* bytes of one file's diff in a JSON document */

static void
json_diff(struct json *w, struct state *state, const struct state_review *e, const char *path)
{
	OWN(buf_free) struct buf text = BUF(DIFF_MAX);
	uint64_t added, removed;
	struct err err = {0};
	bool binary;

	if (state_diff_file(state, e->base, e->commit, path, take_hunk, &text, &binary, &added, &removed, &err) < 0) {
		json_str(w, "error", err.text);
		return;
	}
	json_bool(w, "binary", binary);
	if (binary)
		return;
	buf_put(&text, "", 1);
	json_str(w, "diff", buf_failed(&text) ? NULL : (const char *)text.data);
}

static void
json_entry(struct json *w, struct state *state, const struct state_words *words, const struct state_review *e)
{
	char when[SINCE_TEXT_MAX];

	since_format((uint64_t)e->time * 1000, when);
	json_open(w, NULL, '{');
	json_str(w, "id", e->id);
	json_str(w, "branch", e->branch);
	json_str(w, "cell", e->cell);
	json_str(w, "time", when);
	json_str(w, "base", e->base[0] != '\0' ? e->base : NULL);
	json_str(w, "commit", e->commit[0] != '\0' ? e->commit : NULL);
	json_str(w, "aside", e->aside[0] != '\0' ? e->aside : NULL);
	json_u64(w, "more", e->more);
	json_open(w, "changes", '[');
	for (size_t i = 0; i < e->n; i++) {
		json_open(w, NULL, '{');
		json_str(w, "path", e->items[i].path);
		json_str(w, "kept", kept_words[e->items[i].kept]);
		json_str(w, "why", e->items[i].why);
		if (e->commit[0] != '\0' && !words->names)
			json_diff(w, state, e, e->items[i].path);
		json_close(w, '}');
	}
	json_close(w, ']');
	json_close(w, '}');
}

static int
print_entry(struct state *state, const struct state_words *words, const struct state_review *e, struct err *err)
{
	char when[SINCE_TEXT_MAX];

	since_format((uint64_t)e->time * 1000, when);
	printf("%s  %.19sZ  branch %s", e->id, when, e->branch);
	fputs(e->cell[0] != '\0' ? "  cell " : "", stdout);
	state_print(e->cell);
	putchar('\n');
	for (size_t i = 0; i < e->n; i++) {
		printf("  %-8s ", kept_words[e->items[i].kept]);
		state_print(e->items[i].path);
		fputs("  (", stdout);
		state_print(e->items[i].why);
		puts(")");
	}
	if (e->more > 0)
		printf("  and %" PRIu64 " more\n", e->more);
	if (e->aside[0] != '\0')
		printf("  their files are in '%s/%s' of the state's folder\n", STATE_ASIDE, e->aside);
	return e->commit[0] == '\0' || words->names ? 0 : state_print_diffs(state, e->base, e->commit, false, err);
}

static int
review_one(struct state *state, const struct state_words *words, const char *id, struct json *w, struct err *err)
{
	OWN(state_review_free) struct state_review e = {0};
	int r = state_review_read(state, id, &e, err);

	if (r == 0 && w != NULL)
		json_entry(w, state, words, &e);
	return r == 0 && w == NULL ? print_entry(state, words, &e, err) : r;
}

int
state_do_review(const struct state_words *words, struct err *err)
{
	char *one[] = { words->n > 1 ? words->words[1] : NULL, NULL };
	struct json out = { .out = stdout }, *w = words->json ? &out : NULL;
	OWN(state_close) struct state state = {0};
	OWN(strv_freep) char **all = NULL;
	int r = state_open(words->words[0], &state, err);

	state.progress = true;
	r = r == 0 && words->n < 2 ? state_review_list(&state, &all, err) : r;
	if (r == 0 && w != NULL)
		json_open(w, NULL, '[');
	for (char **id = all != NULL ? all : one; r == 0 && *id != NULL; id++)
		r = review_one(&state, words, *id, w, err);
	if (r == 0 && w != NULL) {
		json_close(w, ']');
		putchar('\n');
	}
	return r;
}

/* ---- accept, refuse ---- */

int
state_do_accept(const struct state_words *words, struct err *err)
{
	OWN(state_committed_free) struct state_committed c = {0};
	OWN(state_close) struct state state = {0};
	char subject[STATE_TEXT_MAX], who[STATE_TEXT_MAX];
	const struct state_author author = { .subject = subject, .reason = "accept", .who = who, .review = words->words[1] };
	int r = state_open(words->words[0], &state, err);

	state.progress = true;
	state_person(who);
	snprintf(subject, sizeof(subject), "Accept changes of %.64s", words->words[1]);
	r = r == 0 ? state_review_accept(&state, words->words[1], words->branch, words->words + 2, (size_t)(words->n - 2), &author, &c,
	                                 err) : r;
	if (r < 0)
		return r;
	state_print_committed(words, &c, "accepted");
	if (c.n_refused == 0)
		return 0;
	fprintf(stderr, "cloister: nothing was accepted: see the reason%s above\n", text_plural(c.n_refused));
	return CONFLICTS;
}

int
state_do_refuse(const struct state_words *words, struct err *err)
{
	OWN(state_close) struct state state = {0};
	char who[STATE_TEXT_MAX];
	const struct state_author author = { .reason = "refuse", .who = who, .review = words->words[1] };
	uint64_t n;
	int r = state_open(words->words[0], &state, err);

	state_person(who);
	if (r == 0 && words->remove && words->n > 2)
		r = err_set(err, EINVAL, "--remove takes all changes of '%.64s': name no path", words->words[1]);
	if (r < 0 || words->remove)
		return r < 0 ? r : state_review_remove(&state, words->words[1], &author, err);
	r = state_review_refuse(&state, words->words[1], words->words + 2, (size_t)(words->n - 2), &author, &n, err);
	if (r == 0)
		printf("refused: %" PRIu64 " change%s\n", n, text_plural(n));
	return r;
}
