/* review_narrow.c - proposes a narrower policy: edits the lines of the file, and checks the result with every
 * request that was allowed.
 *
 * An edit that the check refuses is not proposed, so a file that is written in an unusual way costs only a
 * suggestion. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "cli/policy.h"
#include "cli/review.h"

#define LINES_MOST 20000
#define CONTEXT 3                       /* lines around a change */
#define WORDS_MAX 2048

struct line {
	const char *at;                 /* without its newline */
	size_t len;
	bool removed;
	char *added;                    /* behind it, or in its place: one line; or NULL */
};

struct edit {
	const struct review *v;
	const char *name;
	struct line *lines;
	size_t n;
	bool changed;
};

static void
edit_free(struct edit *e)
{
	for (size_t i = 0; e->lines != NULL && i < e->n; i++)
		free(e->lines[i].added);
	free(e->lines);
}

static int
split(struct edit *e, const char *text, size_t len)
{
	e->lines = calloc(LINES_MOST, sizeof(*e->lines));
	for (size_t at = 0, n; e->lines != NULL && at < len; at += n + 1) {
		const char *end = memchr(text + at, '\n', len - at);

		n = end == NULL ? len - at : (size_t)(end - text) - at;
		if (e->n == LINES_MOST)
			return -E2BIG;
		e->lines[e->n++] = (struct line){ .at = text + at, .len = n };
	}
	return e->lines == NULL ? -ENOMEM : 0;
}

static size_t
indent_of(const struct line *line)
{
	size_t n = 0;

	while (n < line->len && line->at[n] == ' ')
		n++;
	return n;
}

static bool
is_blank(const struct line *line)
{
	size_t n = indent_of(line);

	return n == line->len || line->at[n] == '#';
}

/* ---- rules ---- */

/* The line of a rule of this file, from 0; -1: it is of another file, or is not one item by itself. */
static long
line_of(const struct edit *e, const struct review_item *rule)
{
	size_t len = strlen(e->name);
	const struct line *line;
	size_t dash;
	long n;

	if (strncmp(rule->key, e->name, len) != 0 || rule->key[len] != ':')
		return -1;
	n = strtol(rule->key + len + 1, NULL, 10) - 1;
	if (n < 0 || (size_t)n >= e->n)
		return -1;
	line = &e->lines[n];
	dash = indent_of(line);
	return dash + 2 < line->len && line->at[dash] == '-' && line->at[dash + 1] == ' ' ? n : -1;
}

/* The first line behind the item that begins at FIRST. */
static size_t
end_of(const struct edit *e, size_t first)
{
	size_t dash = indent_of(&e->lines[first]), end = first + 1;

	for (size_t i = first + 1; i < e->n; i++) {
		if (is_blank(&e->lines[i]))
			continue;
		if (indent_of(&e->lines[i]) <= dash)
			break;
		end = i + 1;
	}
	return end;
}

/* The first line of the comment on the item from FIRST to END; FIRST if there is none, or if it may be about the
 * next item too. */
static size_t
first_comment(const struct edit *e, size_t first, size_t end)
{
	const size_t dash = indent_of(&e->lines[first]);
	size_t at = first;

	if (end < e->n && !is_blank(&e->lines[end]) && indent_of(&e->lines[end]) == dash)
		return first;
	while (at > 0 && indent_of(&e->lines[at - 1]) == dash && dash < e->lines[at - 1].len && is_blank(&e->lines[at - 1]))
		at--;
	return at;
}

static bool
is_permission(const struct review_item *rule)
{
	return strncmp(rule->text, "allow ", 6) == 0 || strncmp(rule->text, "ask ", 4) == 0;
}

static void
remove_lines(struct edit *e, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		e->lines[i].removed = true;
	e->changed = true;
}

/* "[a, b]"; false if a word would need quotes, or there are too many. */
static bool
put_words(char text[WORDS_MAX], const struct review_names *names)
{
	size_t len = (size_t)snprintf(text, WORDS_MAX, "[");

	if (names->more || names->n == 0)
		return false;
	for (size_t i = 0; i < names->n && len < WORDS_MAX; i++) {
		if (names->at[i][strspn(names->at[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-")] != '\0' ||
		    names->at[i][0] == '\0')
			return false;
		len += (size_t)snprintf(text + len, WORDS_MAX - len, "%s%s", i > 0 ? ", " : "", names->at[i]);
	}
	return len + 2 < WORDS_MAX && snprintf(text + len, WORDS_MAX - len, "]") == 1;
}

/* Whether the hosts in the rule's text are more than those that were used: a wildcard, or a list. */
static bool
is_wide(const struct review_item *rule)
{
	const char *hosts = strchr(rule->text, ' ') + 1;
	size_t len = strcspn(hosts, " "), n = 1;

	for (; len > 0 && hosts[len - 1] == ',' && hosts[len] == ' '; n++)
		len += 1 + strcspn(hosts + len + 1, " ");
	if (memchr(hosts, '/', len) != NULL || memchr(hosts, ':', len) != NULL)
		return false;
	return memchr(hosts, '*', len) != NULL || n > rule->hosts.n;
}

/* Rewrites "- allow: '*.example'" with the hosts that were used. */
static void
narrow_hosts(struct edit *e, const struct review_item *rule, size_t first)
{
	struct line *line = &e->lines[first];
	const char *verb = rule->text[1] == 'l' ? "- allow: " : "- ask: ";
	size_t dash = indent_of(line);
	char words[WORDS_MAX];

	/* A value that goes on in the next line is left alone. */
	if (!is_wide(rule) || !put_words(words, &rule->hosts) || line->len <= dash + strlen(verb) ||
	    strncmp(line->at + dash, verb, strlen(verb)) != 0 || memchr(line->at, '#', line->len) != NULL ||
	    line->at[line->len - 1] == ',' || line->at[line->len - 1] == '[')
		return;
	line->removed = true;
	line->added = rule->hosts.n == 1 ? str_format("%*s%s%s", (int)dash, "", verb, rule->hosts.at[0]) :
	              str_format("%*s%s%s", (int)dash, "", verb, words);
	e->changed = true;
}

/* Adds "methods: [...]" to a rule that has none. */
static void
narrow_methods(struct edit *e, const struct review_item *rule, size_t first)
{
	struct line *line = &e->lines[first];
	size_t dash = indent_of(line);
	char words[WORDS_MAX];
	OWN(freep) char *before = NULL;

	if (!rule->only_http || strstr(rule->text, " methods ") != NULL || strstr(rule->text, " git ") != NULL ||
	    memchr(line->at, '{', line->len) != NULL || memchr(line->at, ':', line->len) == NULL ||
	    line->at[line->len - 1] == '[' || line->at[line->len - 1] == ',' || !put_words(words, &rule->methods))
		return;
	before = TAKE(line->added);
	line->added = str_format("%s%s%*smethods: %s", before != NULL ? before : "", before != NULL ? "\n" : "", (int)dash + 2, "",
	                         words);
	e->changed = true;
}

/* A list without items is written as one. */
static void
close_list(struct edit *e)
{
	for (size_t i = 0; i < e->n; i++) {
		size_t next = i + 1;

		if (e->lines[i].len < 7 || strncmp(e->lines[i].at, "egress:", 7) != 0)
			continue;
		while (next < e->n && (e->lines[next].removed || is_blank(&e->lines[next])) && e->lines[next].added == NULL)
			next++;
		if (e->lines[i].len == 7 && (next == e->n || e->lines[next].at[0] != ' ') && e->lines[i].added == NULL &&
		    (next == e->n || e->lines[next].at[0] != '-')) {
			e->lines[i].removed = true;
			e->lines[i].added = strdup("egress: []");
		}
	}
}

static void
edit_rules(struct edit *e, bool narrow)
{
	for (size_t i = 0; i < e->v->rules.n; i++) {
		const struct review_item *rule = &e->v->rules.at[i];
		long first = rule->is_given && is_permission(rule) ? line_of(e, rule) : -1;

		if (first < 0)
			continue;
		if (rule->uses == 0) {
			const size_t end = end_of(e, (size_t)first);

			remove_lines(e, first_comment(e, (size_t)first, end), end);
		} else if (narrow) {
			narrow_hosts(e, rule, (size_t)first);
			narrow_methods(e, rule, (size_t)first);
		}
	}
	close_list(e);
}

/* ---- limits ---- */

uint64_t
review_lower(enum review_limit limit, uint64_t given, uint64_t used)
{
	static const uint64_t least[REVIEW_LIMITS] = { 64u << 20, 32, 10 * 60 * 1000 };
	/* Processes may be known only as they were once a second. */
	const uint64_t enough = (limit == REVIEW_PIDS ? 4 : 2) * used;
	uint64_t lower = least[limit];

	while (lower < enough && lower < given)
		lower *= 2;
	return used > 0 && given > 0 && 4 * used < given && lower < given ? lower : 0;
}

/* Replaces the value behind "KEY:" in LINE. */
static void
edit_limit(struct edit *e, struct line *line, enum review_limit limit)
{
	OWN(freep) char *text = strndup(line->at, line->len);
	const uint64_t lower = review_lower(limit, e->v->limits[limit].given, e->v->limits[limit].used);
	char key[32], value[NUM_TEXT_MAX], *at, *end;

	snprintf(key, sizeof(key), "%s: ", review_limit_names[limit]);
	at = text == NULL || line->added != NULL ? NULL : strstr(text, key);
	if (at == NULL || lower == 0 || (at > text && strchr(" {,", at[-1]) == NULL))
		return;
	at += strlen(key);
	end = at + strcspn(at, ",} #");
	if (limit == REVIEW_MEMORY)
		num_format_size(value, lower);
	else if (limit == REVIEW_TIME)
		snprintf(value, sizeof(value), "%" PRIu64 "m", lower / 60000);
	else
		snprintf(value, sizeof(value), "%" PRIu64, lower);
	line->added = str_format("%.*s%s%s", (int)(at - text), text, value, end);
	line->removed = true;
	e->changed = true;
}

/* The lines of `limits:`; one limit of each line is changed. */
static void
edit_limits(struct edit *e)
{
	bool inside = false;

	for (size_t i = 0; i < e->n; i++) {
		struct line *line = &e->lines[i];

		if (line->len > 0 && line->at[0] != ' ' && line->at[0] != '#')
			inside = line->len >= 7 && strncmp(line->at, "limits:", 7) == 0;
		for (int limit = 0; inside && limit < REVIEW_LIMITS; limit++)
			edit_limit(e, line, (enum review_limit)limit);
	}
}

/* ---- the check ---- */

static void
put_text(struct buf *b, const struct edit *e)
{
	for (size_t i = 0; i < e->n; i++) {
		if (!e->lines[i].removed) {
			buf_put(b, e->lines[i].at, e->lines[i].len);
			buf_put(b, "\n", 1);
		}
		if (e->lines[i].added != NULL) {
			buf_put_text(b, e->lines[i].added);
			buf_put(b, "\n", 1);
		}
	}
}

static bool
is_allowed(const struct policy *p, const struct timeline_event *e)
{
	const bool http = strcmp(e->type, "http") == 0;
	OWN(freep) char *url = str_format("%s://%s%s%s:%u%s", http ? e->is_upgrade ? strcmp(e->scheme, "http") == 0 ? "ws" : "wss" :
	                                  e->scheme : e->type, strchr(e->host, ':') != NULL ? "[" : "", e->host,
	                                  strchr(e->host, ':') != NULL ? "]" : "", e->port, http ? e->path : "");
	struct policy_asked asked = {0};
	struct policy_decision d;
	int r = url == NULL ? -ENOMEM : policy_asked_init(&asked, http ? e->method : NULL, url, NULL, 0, NULL, 0, NULL);

	asked.head.length = HTTP_LENGTH_UNKNOWN;
	if (r == 0)
		policy_decide(p, &asked.req, &d, NULL);
	policy_asked_free(&asked);
	/* Conditions on queries, headers and bodies are not recorded: those rules stay as they are. */
	return r < 0 || d.verdict != POLICY_DENY || d.needs_body;
}

/* Whether the edited text is a policy that allows what the one before allowed. */
static bool
is_enough(const struct edit *e, const struct policy *before)
{
	const struct policy_reader reader = { .hook = policy_any_hook };
	OWN(policy_freep) struct policy *p = NULL;
	OWN(buf_free) struct buf text = BUF(POLICY_FILE_MAX);

	put_text(&text, e);
	if (buf_failed(&text) ||
	    policy_load_text_all(e->name, (const char *)text.data, text.len, &reader, &p, NULL, NULL) < 0)
		return false;
	for (size_t i = 0; i < e->v->n_seen; i++)
		if (is_allowed(before, &e->v->events[i]) && !is_allowed(p, &e->v->events[i]))
			return false;
	return true;
}

/* ---- the diff ---- */

/* Lines of the old text around a change at I: whether the line at I is shown. */
static bool
is_near(const struct edit *e, size_t i)
{
	size_t from = i > CONTEXT ? i - CONTEXT : 0, to = i + CONTEXT < e->n ? i + CONTEXT : e->n - 1;

	for (size_t k = from; k <= to; k++)
		if (e->lines[k].removed || e->lines[k].added != NULL)
			return true;
	return false;
}

static size_t
count_lines(const char *text)
{
	size_t n = 1;

	for (; *text != '\0'; text++)
		n += *text == '\n';
	return n;
}

static void
put_added(struct buf *b, const char *text)
{
	for (size_t n; ; text += n + 1) {
		n = strcspn(text, "\n");
		buf_put(b, "+", 1);
		buf_put(b, text, n);
		buf_put(b, "\n", 1);
		if (text[n] == '\0')
			return;
	}
}

/* The hunk of the lines FROM to TO; SHIFT lines were added before it. */
static void
put_hunk(struct buf *b, const struct edit *e, size_t from, size_t to, long *shift)
{
	size_t old = to - from, new = 0;
	char head[96];

	for (size_t i = from; i < to; i++)
		new += (e->lines[i].removed ? 0 : 1) + (e->lines[i].added != NULL ? count_lines(e->lines[i].added) : 0);
	snprintf(head, sizeof(head), "@@ -%zu,%zu +%ld,%zu @@\n", from + 1, old, (long)from + 1 + *shift - (new == 0), new);
	buf_put_text(b, head);
	for (size_t i = from; i < to; i++) {
		buf_put(b, e->lines[i].removed ? "-" : " ", 1);
		buf_put(b, e->lines[i].at, e->lines[i].len);
		buf_put(b, "\n", 1);
		if (e->lines[i].added != NULL)
			put_added(b, e->lines[i].added);
	}
	*shift += (long)new - (long)old;
}

static void
put_diff(struct buf *b, const struct edit *e)
{
	OWN(freep) char *head = str_format("--- %s\n+++ %s\n", e->name, e->name);
	long shift = 0;

	buf_put_text(b, head != NULL ? head : "");
	for (size_t from = 0, to; from < e->n; from = to) {
		to = from + 1;
		if (!is_near(e, from))
			continue;
		while (to < e->n && is_near(e, to))
			to++;
		put_hunk(b, e, from, to, &shift);
	}
}

int
review_narrow(const struct review *v, const char *name, const char *text, size_t len, struct buf *ret_diff,
              struct err *err)
{
	const struct policy_reader reader = { .hook = policy_any_hook };
	OWN(policy_freep) struct policy *before = NULL;

	if (v->seen_more)
		return err_set(err, ENOTSUP, "there are too many different requests to check a narrower policy with: use --last");
	if (policy_load_text_all(name, text, len, &reader, &before, NULL, NULL) < 0)
		return err_set(err, ENOTSUP, "'%s' names other files, so no narrower policy is proposed", name);
	/* Everything; and if that is not enough, only what was never used. */
	for (int narrow = 1; narrow >= 0; narrow--) {
		OWN(edit_free) struct edit e = { .v = v, .name = name };

		if (split(&e, text, len) < 0)
			return err_set(err, ENOTSUP, "'%s' is too long for a narrower policy to be proposed", name);
		edit_rules(&e, narrow != 0);
		edit_limits(&e);
		if (!e.changed)
			return 0;
		if (is_enough(&e, before)) {
			put_diff(ret_diff, &e);
			return buf_failed(ret_diff) ? err_set(err, ENOMEM, "out of memory") : 0;
		}
	}
	return err_set(err, ENOTSUP, "no narrower policy was found that allows what was allowed");
}
