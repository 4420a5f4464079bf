/* usage_said.c - reads token counts in models' responses, in place; allocates nothing. */
#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/own.h"
#include "http/json_walk.h"
#include "inspect/usage_parts.h"

#define PATH_MAX_LEN 80                 /* of names joined by dots; longer ones are not needed */
#define FRAME_HEAD 12                   /* of AWS: its length, that of its headers, a checksum; */
#define FRAME_TAIL 4                    /* another checksum */

static const struct {
	const char *path;
	enum usage_field field;
} rows[] = {
	{ "usage.input_tokens", USAGE_INPUT },
	{ "usage.output_tokens", USAGE_OUTPUT },
	{ "usage.cache_read_input_tokens", USAGE_CACHE_READ },
	{ "usage.cache_creation_input_tokens", USAGE_CACHE_WRITE },
	{ "usage.cache_creation.ephemeral_1h_input_tokens", USAGE_LONG },
	{ "usage.input_tokens_details.cached_tokens", USAGE_WITHIN },
	{ "usage.prompt_tokens", USAGE_INPUT },
	{ "usage.completion_tokens", USAGE_OUTPUT },
	{ "usage.prompt_tokens_details.cached_tokens", USAGE_WITHIN },
	{ "usageMetadata.promptTokenCount", USAGE_INPUT },
	{ "usageMetadata.candidatesTokenCount", USAGE_OUTPUT },
	{ "usageMetadata.thoughtsTokenCount", USAGE_THOUGHTS },
	{ "usageMetadata.toolUsePromptTokenCount", USAGE_TOOL },
	{ "usageMetadata.cachedContentTokenCount", USAGE_WITHIN },
	/* Bedrock: the Converse API, its additions to streams, and Llama's own responses. */
	{ "usage.inputTokens", USAGE_INPUT },
	{ "usage.outputTokens", USAGE_OUTPUT },
	{ "usage.cacheReadInputTokens", USAGE_CACHE_READ },
	{ "usage.cacheWriteInputTokens", USAGE_CACHE_WRITE },
	{ "amazon-bedrock-invocationMetrics.inputTokenCount", USAGE_INPUT },
	{ "amazon-bedrock-invocationMetrics.outputTokenCount", USAGE_OUTPUT },
	{ "prompt_token_count", USAGE_INPUT },
	{ "generation_token_count", USAGE_OUTPUT },
};
/* Events of streams have the members of a whole response in one of these. */
static const char *const prefixes[] = { "message.", "response." };
static const char *const models[] = { "model", "modelVersion" };
/* Members that show that it continues a stored conversation. */
static const char *const keepers[] = { "previous_response_id", "conversation.id", "prompt.id" };
/* Types of the last event of a stream. */
static const char *const ends[] = { "message_stop", "response.completed", "response.incomplete",
	"response.failed" };
/* Names of members with the model's text. */
#define NAME(word) { word, sizeof(word) - 1 }
static const struct http_text texts[] = { NAME("text"), NAME("content"), NAME("delta"),
	NAME("arguments"), NAME("partial_json"), NAME("thinking"), NAME("reasoning_content"),
	NAME("input"), NAME("generation") };

struct walk {
	struct usage_said *said;
	struct http_text names[JSON_WALK_DEPTH_MAX + 1];
};

/* "usage.input_tokens", without its wrapping object; "" if it is not needed. */
static const char *
path_of(const struct walk *w, const struct json_walk_item *item, char room[PATH_MAX_LEN])
{
	size_t len = 0;

	room[0] = '\0';
	for (size_t i = 1; i <= item->depth; i++) {
		struct http_text name = i == item->depth ? item->name : w->names[i];

		/* The responses of a stream may be in a list. */
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
take_number(struct usage_said *s, const char *path, struct http_text raw)
{
	uint64_t n = 0;

	for (size_t i = 0; i < raw.len; i++) {
		if (raw.at[i] < '0' || raw.at[i] > '9' || n > USAGE_TOKENS_MAX)
			return;
		n = n * 10 + (uint64_t)(raw.at[i] - '0');
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].path, path) == 0 && n <= USAGE_TOKENS_MAX) {
			s->said[rows[i].field] = n;
			s->seen[rows[i].field] = true;
		}
}

/* The name goes into records and is compared with globs: only plain characters. */
static void
take_model(struct usage_said *s, struct http_text raw)
{
	if (raw.len == 0 || raw.len > POLICY_MODEL_MAX)
		return;
	for (size_t i = 0; i < raw.len; i++)
		if (raw.at[i] <= ' ' || raw.at[i] > '~' || raw.at[i] == '\\')
			return;
	memcpy(s->model, raw.at, raw.len);
	s->model[raw.len] = '\0';
}

static void
take_string(struct usage_said *s, const char *path, const struct json_walk_item *item)
{
	for (size_t i = 0; i < ARRAY_LEN(models); i++)
		if (strcmp(path, models[i]) == 0)
			take_model(s, item->raw);
	for (size_t i = 0; i < ARRAY_LEN(keepers); i++)
		if (strcmp(path, keepers[i]) == 0)
			s->kept |= item->raw.len > 0;
	for (size_t i = 0; i < ARRAY_LEN(ends) && strcmp(path, "type") == 0; i++)
		s->over |= json_walk_is(item->raw, ends[i]);
	for (size_t i = 0; item->name.at != NULL && i < ARRAY_LEN(texts); i++)
		if (item->name.len == texts[i].len &&
		    memcmp(item->name.at, texts[i].at, item->name.len) == 0)
			s->text += item->raw.len;
}

void
usage_said_json(struct usage_said *s, const char *at, size_t len)
{
	struct walk w = { .said = s };
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
			take_number(s, path_of(&w, &item, room), item.raw);
			break;
		case JSON_WALK_STRING:
			take_string(s, path_of(&w, &item, room), &item);
			break;
		case JSON_WALK_TRUE:
			s->background |= strcmp(path_of(&w, &item, room), "background") == 0;
			break;
		default:
			break;
		}
	}
}

void
usage_said_line(struct usage_said *s, const char *at, size_t len)
{
	if (len > 5 && memcmp(at, "data:", 5) == 0)
		usage_said_json(s, at + 5, len - 5);
}

/* ---- AWS frames ---- */

static uint32_t
get_u32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Decodes in place, up to the first byte that is no digit; a slash may be escaped. */
static size_t
decode_base64(unsigned char *at, size_t len)
{
	uint32_t bits = 0;
	size_t n_bits = 0, n = 0;

	for (size_t i = 0; i < len; i++) {
		int value = codec_base64_value(at[i]);

		if (at[i] == '\\')
			continue;
		if (value < 0)
			break;
		bits = bits << 6 | (uint32_t)value;
		n_bits += 6;
		if (n_bits >= 8) {
			n_bits -= 8;
			at[n++] = (unsigned char)(bits >> n_bits);
		}
	}
	return n;
}

/* On Bedrock, a model's own output is encoded once more; Bedrock's own is not. */
static void
read_payload(struct usage_said *s, unsigned char *at, size_t len)
{
	struct http_text text = { (const char *)at, len };
	struct json_walk_item item;

	if (json_walk_member(text, "bytes", &item) != 1 || item.kind != JSON_WALK_STRING) {
		usage_said_json(s, text.at, text.len);
		return;
	}
	at += item.raw.at - text.at;
	usage_said_json(s, (const char *)at, decode_base64(at, item.raw.len));
}

ssize_t
usage_said_frame(struct usage_said *s, unsigned char *at, size_t len)
{
	size_t total, headers;

	if (len < FRAME_HEAD)
		return 0;
	total = get_u32(at);
	headers = get_u32(at + 4);
	if (total < FRAME_HEAD + FRAME_TAIL || total > USAGE_PIECE_MAX ||
	    headers > total - FRAME_HEAD - FRAME_TAIL)
		return -EBADMSG;
	if (len < total)
		return 0;
	read_payload(s, at + FRAME_HEAD + headers, total - FRAME_HEAD - FRAME_TAIL - headers);
	return (ssize_t)total;
}

/* ---- totals ---- */

static void
add_up(const struct usage_said *s, struct policy_tokens *t)
{
	const uint64_t *said = s->said;
	uint64_t within = said[USAGE_WITHIN] < said[USAGE_INPUT] ? said[USAGE_WITHIN] : said[USAGE_INPUT];
	uint64_t lasting = said[USAGE_LONG] < said[USAGE_CACHE_WRITE] ? said[USAGE_LONG]
	                                                              : said[USAGE_CACHE_WRITE];

	t->input = said[USAGE_INPUT] - within + said[USAGE_TOOL];
	t->output = said[USAGE_OUTPUT] + said[USAGE_THOUGHTS];
	t->cache_read = said[USAGE_CACHE_READ] + within;
	/* Caching for an hour costs 2 times the input, for five minutes 1.25: the prices have only
	 * the latter. */
	t->cache_write = said[USAGE_CACHE_WRITE] + lasting * 3 / 5;
}

void
usage_said_sum(const struct usage_said *s, bool complete, struct usage_found *ret_found)
{
	uint64_t written = s->text / USAGE_BYTES_PER_TOKEN;

	*ret_found = (struct usage_found){ .found = s->seen[USAGE_INPUT] || s->seen[USAGE_OUTPUT],
		.kept = s->kept, .whole = complete || s->over, .text = s->text };
	ret_found->later = s->background && !ret_found->found;
	memcpy(ret_found->model, s->model, sizeof(s->model));
	add_up(s, &ret_found->tokens);
	if (!ret_found->whole && ret_found->tokens.output < written)
		ret_found->tokens.output = written;
}

bool
usage_read(const char *text, size_t len, bool complete, struct usage_found *ret_found)
{
	struct usage_said said = {0};
	const char *end;
	size_t n;

	while (len > 0 && (*text == ' ' || *text == '\t' || *text == '\r' || *text == '\n'))
		text++, len--;
	if (len > 0 && *text == '\0')
		return false;
	if (len > 0 && (*text == '{' || *text == '[')) {
		usage_said_json(&said, text, len);
		len = 0;
	}
	for (; len > 0; text += n, len -= n) {
		end = memchr(text, '\n', len);
		n = end != NULL ? (size_t)(end - text) : len;
		usage_said_line(&said, text, n);
		n += end != NULL;
	}
	usage_said_sum(&said, complete, ret_found);
	return true;
}
