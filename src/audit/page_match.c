/* page_match.c - decides which records are on a page: by their type, their process and their text. */
#include <ctype.h>
#include <string.h>

#include "audit/fields.h"
#include "audit/log.h"
#include "audit/page.h"
#include "base/num.h"
#include "http/json_walk.h"

#define TAIL "\"n\":"
#define BEGIN "\"event\":"
#define BEGIN_WITHIN 64                 /* the part before the event is short */

static const char *
find_last(const char *line, size_t len, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = len < n ? 0 : len - n + 1; i > 0; i--)
		if (line[i - 1] == word[0] && memcmp(line + i - 1, word, n) == 0)
			return line + i - 1;
	return NULL;
}

uint64_t
audit_page_number(const char *line, size_t len)
{
	const char *at = find_last(line, len, "," TAIL);
	char text[24];
	uint64_t n = 0;
	size_t digits = 0;

	if (at == NULL)
		return 0;
	at += sizeof(TAIL);
	while (at + digits < line + len && isdigit((unsigned char)at[digits]) && digits + 1 < sizeof(text))
		digits++;
	memcpy(text, at, digits);
	text[digits] = '\0';
	return num_parse_count(text, 1, UINT64_MAX, &n, NULL) == 0 ? n : 0;
}

/* The event of a record, unparsed. */
static struct http_text
event_of(const char *line, size_t len)
{
	const char *begin = memmem(line, len < BEGIN_WITHIN ? len : BEGIN_WITHIN, BEGIN, sizeof(BEGIN) - 1);
	size_t depth = 0;
	bool quoted = false;

	if (begin == NULL)
		return (struct http_text){0};
	begin += sizeof(BEGIN) - 1;
	for (const char *at = begin; at < line + len; at++) {
		if (quoted && *at == '\\')
			at++;
		else if (*at == '"')
			quoted = !quoted;
		else if (!quoted && *at == '{')
			depth++;
		else if (!quoted && *at == '}' && --depth == 0)
			return (struct http_text){ begin, (size_t)(at - begin) + 1 };
	}
	return (struct http_text){0};
}

static void
lower(char *to, const char *from, size_t len)
{
	for (size_t i = 0; i < len; i++)
		to[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] | 0x20) : from[i];
}

static bool
holds(const char *text, size_t len, struct audit_page *page)
{
	lower(page->low, text, len);
	return memmem(page->low, len, page->needle, strlen(page->needle)) != NULL;
}

static bool
is_in(const char *list, struct http_text word)
{
	for (const char *at = list; *at != '\0';) {
		size_t n = strcspn(at, ",");

		if (n == word.len && memcmp(at, word.at, n) == 0)
			return true;
		at += n + (at[n] == ',');
	}
	return false;
}

static bool
value_holds(const struct json_walk_item *item, struct audit_page *page)
{
	size_t len;

	if (item->kind == JSON_WALK_NUMBER || item->kind == JSON_WALK_TRUE || item->kind == JSON_WALK_FALSE)
		return holds(item->raw.at, item->raw.len, page);
	if (item->kind != JSON_WALK_STRING ||
	    json_walk_decode(item->raw, page->low, AUDIT_LINE_MAX, &len) < 0)
		return false;
	lower(page->low, page->low, len);
	return memmem(page->low, len, page->needle, strlen(page->needle)) != NULL;
}

/* Escaped characters in the search text are only found after decoding. */
static bool
may_hold(struct http_text event, struct audit_page *page)
{
	for (const char *c = page->needle; *c != '\0'; c++)
		if (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20)
			return true;
	return holds(event.at, event.len, page);
}

bool
audit_page_wants(struct audit_page *page, const char *line, size_t len)
{
	bool typed = page->types == NULL, found = page->search == NULL, of_process = !page->has_pid;
	struct http_text event;
	struct json_walk walk;
	struct json_walk_item item;
	uint64_t pid;

	if (typed && found && of_process)
		return true;
	event = event_of(line, len);
	if (len > AUDIT_LINE_MAX || event.len == 0 || (!found && !may_hold(event, page)))
		return false;
	json_walk_begin(&walk, event);
	while (!(typed && found && of_process) && json_walk_next(&walk, &item) == 1) {
		bool is_own = item.depth == 1 && item.kind == JSON_WALK_STRING;

		if (!typed && is_own && http_text_is(item.name, "type"))
			typed = is_in(page->types, item.raw);
		else if (!typed && is_own && http_text_is(item.name, "verdict") &&
		         (http_text_is(item.raw, "deny") || http_text_is(item.raw, "ask")))
			typed = is_in(page->types, (struct http_text){ "refusal", 7 });
		if (!of_process && item.depth == 1 && item.kind == JSON_WALK_NUMBER && http_text_is(item.name, "pid"))
			of_process = audit_number(item.raw, &pid) && pid == page->pid;
		found = found || value_holds(&item, page);
	}
	return typed && found && of_process;
}
