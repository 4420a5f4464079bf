/* usage_asked.c - see usage_asked.h. */
#include "inspect/usage_asked.h"

#include <string.h>

#include "base/own.h"
#include "http/json_walk.h"
#include "inspect/usage.h"

#define NAMES_DEPTH 2                   /* no member that matters is deeper */

#define IN(style) (1u << (style))

enum field { MODEL, OUTPUT, COPIES, KEPT };

/* The members of each provider.  OUTER is the object around it, or NULL.  STYLES: the requests in
 * which it is a limit. */
static const struct {
	const char *outer, *name;
	enum field field;
	unsigned styles;
} rows[] = {
	{ NULL, "model", MODEL, 0 },
	{ NULL, "modelId", MODEL, 0 },
	{ NULL, "max_tokens", OUTPUT, IN(USAGE_CHAT) | IN(USAGE_MESSAGES) },
	{ NULL, "max_completion_tokens", OUTPUT, IN(USAGE_CHAT) },
	{ NULL, "max_output_tokens", OUTPUT, IN(USAGE_RESPONSES) },
	{ NULL, "max_tokens_to_sample", OUTPUT, IN(USAGE_MESSAGES) },
	{ NULL, "max_gen_len", OUTPUT, 0 },
	{ "generationConfig", "maxOutputTokens", OUTPUT, IN(USAGE_GEMINI) },
	{ "generationConfig", "max_output_tokens", OUTPUT, IN(USAGE_GEMINI) },
	{ "generation_config", "maxOutputTokens", OUTPUT, IN(USAGE_GEMINI) },
	{ "generation_config", "max_output_tokens", OUTPUT, IN(USAGE_GEMINI) },
	{ "inferenceConfig", "maxTokens", OUTPUT, IN(USAGE_CONVERSE) },
	{ NULL, "n", COPIES, 0 },
	{ NULL, "best_of", COPIES, 0 },
	{ "generationConfig", "candidateCount", COPIES, 0 },
	{ "generationConfig", "candidate_count", COPIES, 0 },
	{ "generation_config", "candidateCount", COPIES, 0 },
	{ "generation_config", "candidate_count", COPIES, 0 },
	{ NULL, "previous_response_id", KEPT, 0 },
	{ NULL, "conversation", KEPT, 0 },
	{ "prompt", "id", KEPT, 0 },
	{ NULL, "cachedContent", KEPT, 0 },
	{ NULL, "cached_content", KEPT, 0 },
};

struct reading {
	struct usage_asked *asked;
	enum usage_style style;
	bool limited;                   /* by a name in the provider's exact spelling */
	struct http_text outer;         /* the current member of the request */
	bool models;                    /* there are two models */
	bool unlimited;                 /* the limit is given in a form that is not read */
	bool uncounted;                 /* the number of responses is, too */
	uint64_t prompts;               /* in a list: each gets a response */
};

static bool
is_row(size_t i, const struct json_walk_item *item, struct http_text outer)
{
	if (rows[i].outer == NULL)
		return item->depth == 1 && http_text_is_nocase(item->name, rows[i].name);
	return item->depth == 2 && outer.at != NULL && http_text_is_nocase(outer, rows[i].outer) &&
	       http_text_is_nocase(item->name, rows[i].name);
}

static bool
get_number(const struct json_walk_item *item, uint64_t *ret_n)
{
	uint64_t n = 0;

	if (item->kind != JSON_WALK_NUMBER)
		return false;
	for (size_t i = 0; i < item->raw.len; i++) {
		if (item->raw.at[i] < '0' || item->raw.at[i] > '9' || n > USAGE_TOKENS_MAX)
			return false;
		n = n * 10 + (uint64_t)(item->raw.at[i] - '0');
	}
	*ret_n = n;
	return true;
}

static void
take_model(struct reading *r, const struct json_walk_item *item)
{
	struct usage_asked *a = r->asked;

	if (item->kind != JSON_WALK_STRING || item->raw.len == 0 || item->raw.len > POLICY_MODEL_MAX) {
		r->models = true;
		return;
	}
	for (size_t i = 0; i < item->raw.len; i++)
		r->models |= item->raw.at[i] <= ' ' || item->raw.at[i] > '~' || item->raw.at[i] == '\\';
	r->models |= a->model[0] != '\0' && !http_text_is(item->raw, a->model);
	memcpy(a->model, item->raw.at, item->raw.len);
	a->model[item->raw.len] = '\0';
}

static void
take_item(struct reading *r, enum field field, const struct json_walk_item *item)
{
	struct usage_asked *a = r->asked;
	uint64_t n;

	if (field == MODEL) {
		take_model(r, item);
	} else if (field == KEPT) {
		a->kept |= item->kind != JSON_WALK_NULL;
	} else if (item->kind == JSON_WALK_NULL) {
		return;
	} else if (!get_number(item, &n)) {
		r->unlimited |= field == OUTPUT;
		r->uncounted |= field == COPIES;
	} else if (field == OUTPUT && n > a->max_output) {
		a->max_output = n;
	} else if (field == COPIES && n > a->copies) {
		a->copies = n < USAGE_COPIES_MAX ? n : USAGE_COPIES_MAX;
	}
}

/* Whether ITEM, of row I, is a limit in the place where the provider looks for it.  Many providers
 * ignore a limit elsewhere. */
static bool
is_obeyed(const struct reading *r, size_t i, const struct json_walk_item *item)
{
	if (rows[i].field != OUTPUT || item->kind == JSON_WALK_NULL || !http_text_is(item->name, rows[i].name) ||
	    (rows[i].outer != NULL && !http_text_is(r->outer, rows[i].outer)))
		return false;
	return r->style == USAGE_OTHER || (rows[i].styles & IN(r->style)) != 0;
}

/* False: others may read the item differently. */
static bool
read_item(struct reading *r, const struct json_walk_item *item)
{
	if (item->kind == JSON_WALK_CLOSE || item->depth == 0 || item->depth > NAMES_DEPTH)
		return true;
	if (item->name.at == NULL) {
		r->prompts += r->outer.at != NULL && http_text_is_nocase(r->outer, "prompt");
		return true;
	}
	if (memchr(item->name.at, '\\', item->name.len) != NULL)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (is_row(i, item, r->outer)) {
			take_item(r, rows[i].field, item);
			r->limited |= is_obeyed(r, i, item);
		}
	if (item->depth == 1)
		r->outer = item->name;
	return true;
}

/* Sound and pictures come in this form, and get one response. */
static bool
is_multipart(const char *text, size_t len)
{
	return len > 2 && memcmp(text, "--", 2) == 0;
}

bool
usage_read_asked(const char *text, size_t len, enum usage_style style, struct usage_asked *ret_asked)
{
	struct reading r = { .asked = ret_asked, .style = style };
	struct json_walk walk;
	struct json_walk_item item;
	int more;

	*ret_asked = (struct usage_asked){ .copies = 1 };
	json_walk_begin(&walk, (struct http_text){ text, len });
	while ((more = json_walk_next(&walk, &item)) == 1)
		if (!read_item(&r, &item))
			break;
	if (r.prompts > 1)
		ret_asked->copies *= r.prompts < USAGE_COPIES_MAX ? r.prompts : USAGE_COPIES_MAX;
	if (r.models || more != 0)
		ret_asked->model[0] = '\0';
	if (r.unlimited || !r.limited || more != 0)
		ret_asked->max_output = 0;
	if (r.uncounted || (more != 0 && !is_multipart(text, len)))
		ret_asked->copies = USAGE_COPIES_MAX;
	ret_asked->kept |= more != 0 && !is_multipart(text, len);
	return more == 0;
}
