/* usage.c - see usage.h. */
#include "inspect/usage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "http/json_walk.h"
#include "inspect/decode.h"

#define PATH_MAX_LEN 80                 /* of names with dots between them; longer ones are none of ours */

/* What an answer may say.  WITHIN is part of INPUT and was cached; LONG is part of CACHE_WRITE
 * and is kept for an hour. */
enum field { INPUT, OUTPUT, CACHE_READ, CACHE_WRITE, LONG, WITHIN, THOUGHTS, TOOL, FIELDS };

static const struct {
	const char *path;
	enum field field;
} rows[] = {
	{ "usage.input_tokens", INPUT },
	{ "usage.output_tokens", OUTPUT },
	{ "usage.cache_read_input_tokens", CACHE_READ },
	{ "usage.cache_creation_input_tokens", CACHE_WRITE },
	{ "usage.cache_creation.ephemeral_1h_input_tokens", LONG },
	{ "usage.input_tokens_details.cached_tokens", WITHIN },
	{ "usage.prompt_tokens", INPUT },
	{ "usage.completion_tokens", OUTPUT },
	{ "usage.prompt_tokens_details.cached_tokens", WITHIN },
	{ "usageMetadata.promptTokenCount", INPUT },
	{ "usageMetadata.candidatesTokenCount", OUTPUT },
	{ "usageMetadata.thoughtsTokenCount", THOUGHTS },
	{ "usageMetadata.toolUsePromptTokenCount", TOOL },
	{ "usageMetadata.cachedContentTokenCount", WITHIN },
};
/* Events of streams have what a whole answer has in one of these. */
static const char *const prefixes[] = { "message.", "response." };
static const char *const models[] = { "model", "modelVersion" };
/* Names of what a model wrote. */
static const char *const texts[] = { "text", "content", "delta", "arguments", "partial_json",
	"thinking", "reasoning_content", "input" };

struct usage {
	struct decode *decode;
	enum { SNIFF, JSON, EVENTS } kind;
	struct buf piece;               /* the answer, or the line that is being read */
	bool skips;                     /* that line is too long */
	bool seen[FIELDS];
	uint64_t said[FIELDS];
	uint64_t text;
	char model[POLICY_MODEL_MAX + 1];
};

static size_t held;                     /* see USAGE_HELD_MAX */

/* ---- one piece of JSON ---- */

struct walk {
	struct usage *u;
	struct http_text names[JSON_WALK_DEPTH_MAX + 1];
};

/* "usage.input_tokens", without what it is wrapped in; "" if it is none of ours. */
static const char *
path_of(const struct walk *w, const struct json_walk_item *item, char room[PATH_MAX_LEN])
{
	size_t len = 0;

	room[0] = '\0';
	for (size_t i = 1; i <= item->depth; i++) {
		struct http_text name = i == item->depth ? item->name : w->names[i];

		/* The answers of a stream may stand in a list. */
		if (name.at == NULL && len == 0 && i < item->depth)
			continue;
		if (name.at == NULL || len + name.len + 2 > PATH_MAX_LEN) {
			room[0] = '\0';
			return room;
		}
		if (len > 0)
			room[len++] = '.';
		memcpy(room + len, name.at, name.len);
		len += name.len;
		room[len] = '\0';
	}
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (strncmp(room, prefixes[i], strlen(prefixes[i])) == 0)
			return room + strlen(prefixes[i]);
	return room;
}

static void
take_number(struct usage *u, const char *path, struct http_text raw)
{
	uint64_t n = 0;

	for (size_t i = 0; i < raw.len; i++) {
		if (raw.at[i] < '0' || raw.at[i] > '9' || n > USAGE_TOKENS_MAX)
			return;
		n = n * 10 + (uint64_t)(raw.at[i] - '0');
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].path, path) == 0 && n <= USAGE_TOKENS_MAX) {
			u->said[rows[i].field] = n;
			u->seen[rows[i].field] = true;
		}
}

/* It goes into records and is compared with globs: nothing but plain characters. */
static void
take_model(struct usage *u, struct http_text raw)
{
	if (raw.len == 0 || raw.len > POLICY_MODEL_MAX)
		return;
	for (size_t i = 0; i < raw.len; i++)
		if (raw.at[i] <= ' ' || raw.at[i] > '~' || raw.at[i] == '\\')
			return;
	memcpy(u->model, raw.at, raw.len);
	u->model[raw.len] = '\0';
}

static void
take_string(struct usage *u, const char *path, const struct json_walk_item *item)
{
	for (size_t i = 0; i < ARRAY_LEN(models); i++)
		if (strcmp(path, models[i]) == 0)
			take_model(u, item->raw);
	for (size_t i = 0; item->name.at != NULL && i < ARRAY_LEN(texts); i++)
		if (item->name.len == strlen(texts[i]) &&
		    memcmp(item->name.at, texts[i], item->name.len) == 0)
			u->text += item->raw.len;
}

static void
read_json(struct usage *u, const char *at, size_t len)
{
	struct walk w = { .u = u };
	struct json_walk walk;
	struct json_walk_item item;
	char room[PATH_MAX_LEN];

	json_walk_begin(&walk, (struct http_text){ at, len });
	while (json_walk_next(&walk, &item) == 1) {
		switch (item.kind) {
		case JSON_WALK_OBJECT:
		case JSON_WALK_ARRAY:
			w.names[item.depth] = item.name;
			break;
		case JSON_WALK_NUMBER:
			take_number(u, path_of(&w, &item, room), item.raw);
			break;
		case JSON_WALK_STRING:
			take_string(u, path_of(&w, &item, room), &item);
			break;
		default:
			break;
		}
	}
}

/* ---- pieces ---- */

static void
drop_piece(struct usage *u)
{
	held -= u->piece.len;
	buf_free(&u->piece);
	buf_init(&u->piece, USAGE_PIECE_MAX);
}

static void
keep(struct usage *u, const unsigned char *data, size_t len)
{
	if (u->skips || len == 0)
		return;
	if (len > USAGE_HELD_MAX - held || len > USAGE_PIECE_MAX - u->piece.len) {
		drop_piece(u);
		u->skips = true;
		return;
	}
	buf_put(&u->piece, data, len);
	if (buf_failed(&u->piece)) {
		drop_piece(u);
		u->skips = true;
		return;
	}
	held += len;
}

static void
end_line(struct usage *u)
{
	const char *at = (const char *)u->piece.data;
	size_t len = u->piece.len;

	if (!u->skips && len > 5 && memcmp(at, "data:", 5) == 0)
		read_json(u, at + 5, len - 5);
	held -= u->piece.len;
	buf_reset(&u->piece);
	u->skips = false;
}

static void
take_events(struct usage *u, const unsigned char *data, size_t len)
{
	while (len > 0) {
		const unsigned char *end = memchr(data, '\n', len);
		size_t n = end != NULL ? (size_t)(end - data) : len;

		keep(u, data, n > 0 && data[n - 1] == '\r' && end != NULL ? n - 1 : n);
		if (end == NULL)
			return;
		end_line(u);
		data += n + 1;
		len -= n + 1;
	}
}

static int
take_decoded(void *arg, const unsigned char *data, size_t len)
{
	struct usage *u = arg;

	while (u->kind == SNIFF && len > 0) {
		if (*data == '{' || *data == '[')
			u->kind = JSON;
		else if (strchr(" \t\r\n", *data) == NULL || *data == '\0')
			u->kind = EVENTS;
		else
			data++, len--;
	}
	if (u->kind == JSON)
		keep(u, data, len);
	else
		take_events(u, data, len);
	return 0;
}

/* ---- from outside ---- */

int
usage_new(struct http_text coding, struct usage **ret_usage, struct err *err)
{
	OWN(usage_freep) struct usage *u = calloc(1, sizeof(*u));
	int r;

	if (u == NULL)
		return err_set(err, ENOMEM, "out of memory");
	buf_init(&u->piece, USAGE_PIECE_MAX);
	r = decode_new(coding, take_decoded, u, &u->decode, err);
	if (r == 0)
		*ret_usage = TAKE(u);
	return r;
}

void
usage_free(struct usage *u)
{
	if (u == NULL)
		return;
	decode_free(u->decode);
	drop_piece(u);
	buf_free(&u->piece);
	free(u);
}

void
usage_freep(struct usage **u)
{
	usage_free(*u);
}

void
usage_feed(struct usage *u, const void *data, size_t len)
{
	/* What was unpacked before it broke stays. */
	if (u->decode != NULL && decode_feed(u->decode, data, len, NULL) < 0) {
		decode_free(u->decode);
		u->decode = NULL;
	}
}

static void
add_up(const struct usage *u, struct policy_tokens *t)
{
	const uint64_t *said = u->said;
	uint64_t within = said[WITHIN] < said[INPUT] ? said[WITHIN] : said[INPUT];
	uint64_t lasting = said[LONG] < said[CACHE_WRITE] ? said[LONG] : said[CACHE_WRITE];

	t->input = said[INPUT] - within + said[TOOL];
	t->output = said[OUTPUT] + said[THOUGHTS];
	t->cache_read = said[CACHE_READ] + within;
	/* What is kept for an hour costs 2 times the input, what is kept for five minutes 1.25:
	 * prices have only the latter. */
	t->cache_write = said[CACHE_WRITE] + lasting * 3 / 5;
}

void
usage_finish(struct usage *u, bool complete, struct usage_found *ret_found)
{
	uint64_t written;

	if (u->decode != NULL)
		(void)decode_finish(u->decode, NULL);
	if (u->kind == JSON && !u->skips)
		read_json(u, (const char *)u->piece.data, u->piece.len);
	else if (u->kind == EVENTS)
		end_line(u);
	*ret_found = (struct usage_found){ .found = u->seen[INPUT] || u->seen[OUTPUT], .text = u->text };
	memcpy(ret_found->model, u->model, sizeof(u->model));
	add_up(u, &ret_found->tokens);
	written = u->text / USAGE_BYTES_PER_TOKEN;
	if (!complete && ret_found->tokens.output < written)
		ret_found->tokens.output = written;
}
