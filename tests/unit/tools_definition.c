/* tools_definition.c - tests of tools/definition: what is pinned, what is hashed, and what is found hidden. */
#include "tools/definition.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "canon/canon.h"
#include "test.h"

static json_t *
value_of(const char *text)
{
	json_t *value = canon_value(text, strlen(text));

	CHECK(value != NULL);
	return value;
}

static const struct {
	const char *a, *b;
	bool same;
} pairs[] = {
	/* Order and blanks mean nothing; members that are not pinned mean nothing. */
	{ "{\"name\":\"a\",\"inputSchema\":{\"type\":\"object\",\"x\":1}}",
	  "{\"inputSchema\": {\"x\":1.0, \"type\":\"object\"}, \"name\":\"a\"}", true },
	{ "{\"name\":\"a\",\"inputSchema\":{}}", "{\"name\":\"a\",\"inputSchema\":{},\"_meta\":{\"x\":1},\"icons\":[]}", true },
	{ "{\"name\":\"a\",\"inputSchema\":{}}", "{\"name\":\"a\",\"inputSchema\":{},\"description\":null}", true },
	{ "{\"name\":\"a\",\"inputSchema\":{}}", "{\"name\":\"b\",\"inputSchema\":{}}", false },
	{ "{\"name\":\"a\",\"inputSchema\":{}}", "{\"name\":\"a\",\"inputSchema\":{},\"description\":\"\"}", false },
	{ "{\"name\":\"a\",\"inputSchema\":{}}", "{\"name\":\"a\",\"inputSchema\":{},\"title\":\"x\"}", false },
	{ "{\"name\":\"a\",\"inputSchema\":{}}", "{\"name\":\"a\",\"inputSchema\":{},\"outputSchema\":{}}", false },
	{ "{\"name\":\"a\",\"inputSchema\":{}}",
	  "{\"name\":\"a\",\"inputSchema\":{},\"annotations\":{\"readOnlyHint\":true}}", false },
	{ "{\"name\":\"a\",\"inputSchema\":{\"d\":\"x\"}}", "{\"name\":\"a\",\"inputSchema\":{\"d\":\"x \"}}", false },
};

TEST(definition_hashes)
{
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		OWN(json_decrefp) json_t *a = value_of(pairs[i].a), *b = value_of(pairs[i].b);
		char of_a[HASH_HEX + 1], of_b[HASH_HEX + 1];

		CHECK_OK(definition_hash(a, of_a, NULL));
		CHECK_OK(definition_hash(b, of_b, NULL));
		CHECK((strcmp(of_a, of_b) == 0) == pairs[i].same);
	}
}

/* Locks outlive versions of cloister. */
TEST(definition_hash_is_known)
{
	OWN(json_decrefp) json_t *tool = value_of("{\"name\":\"a\",\"inputSchema\":{\"type\":\"object\"}}");
	char hex[HASH_HEX + 1];

	CHECK_OK(definition_hash(tool, hex, NULL));
	CHECK_STR(hex, "60d4353e9a5499b483d09f13d9e28060e70f34edf787bb7040ba30bd390f85af");
}

static const char *const refused[] = {
	"[]", "{}", "{\"name\":1,\"inputSchema\":{}}", "{\"name\":\"\",\"inputSchema\":{}}", "{\"name\":\"a b\",\"inputSchema\":{}}",
	"{\"name\":\"a\\u001b[2J\",\"inputSchema\":{}}", "{\"name\":\"a\"}", "{\"name\":\"a\",\"inputSchema\":null}",
	"{\"name\":\"a\",\"inputSchema\":[]}", "{\"name\":\"a\",\"inputSchema\":{},\"description\":1}",
	"{\"name\":\"a\",\"inputSchema\":{},\"annotations\":[]}", "{\"name\":\"*\",\"inputSchema\":{}}",
	"{\"name\":\"a,b\",\"inputSchema\":{}}",
};

TEST(definition_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		OWN(json_decrefp) json_t *tool = value_of(refused[i]);
		char hex[HASH_HEX + 1];
		struct err err = {0};

		CHECK(definition_hash(tool, hex, &err) == -EINVAL);
		/* Nothing of the server's that could control a terminal. */
		CHECK(strchr(err.text, '\033') == NULL);
	}
}

static const struct {
	const char *annotations;
	unsigned stated, values, missing;
} hints[] = {
	{ "null", 0, 0, 1 | 2 | 8 },
	{ "{}", 0, 0, 1 | 2 | 8 },
	{ "{\"readOnlyHint\":true}", 1, 1, 8 },
	{ "{\"readOnlyHint\":\"true\"}", 0, 0, 1 | 2 | 8 },
	{ "{\"readOnlyHint\":false,\"openWorldHint\":true}", 1 | 8, 8, 2 },
	{ "{\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":true,\"openWorldHint\":false}", 15, 6, 0 },
};

TEST(definition_reads_hints)
{
	for (size_t i = 0; i < ARRAY_LEN(hints); i++) {
		char text[256];
		OWN(json_decrefp) json_t *tool = NULL;
		struct definition_hints h;

		snprintf(text, sizeof(text), "{\"annotations\":%s}", hints[i].annotations);
		tool = value_of(text);
		h = definition_hints(tool);
		CHECK_U64(h.stated, hints[i].stated);
		CHECK_U64(h.values, hints[i].values);
		CHECK_U64(definition_hints_missing(h), hints[i].missing);
	}
}

#define KIND(kind) (1u << DEFINITION_##kind)
#define TEN "          "
static const struct {
	const char *text;
	unsigned found;
} texts[] = {
	{ "Create an issue.\n\n- in a repository\r\n\t- \"now\"", 0 },
	{ "\xc3\x9c" "berpr\xc3\xbc" "fen \xe6\x97\xa5\xe6\x9c\xac", 0 },
	{ "a\xe2\x80\x8b" "b", KIND(ZERO_WIDTH) },
	{ "\xef\xbb\xbf" "text", KIND(ZERO_WIDTH) },
	{ "a\xe2\x80\x8d" "b", KIND(ZERO_WIDTH) },
	{ "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9", 0 },                  /* a family */
	{ "\xe2\x9d\xa4\xef\xb8\x8f", 0 },                                      /* a red heart */
	{ "a\xef\xb8\x8f", KIND(ZERO_WIDTH) },
	{ "\xe2\x9d\xa4\xef\xb8\x8f\xef\xb8\x80", KIND(ZERO_WIDTH) },           /* selectors carry bytes */
	{ "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae\xd9\x88\xd8\xa7\xd9\x87\xd9\x85", 0 },  /* Persian */
	{ "x\xf3\xa0\x81\x81", KIND(ZERO_WIDTH) },                              /* a tag */
	{ "\xe2\x80\xaetxet", KIND(BIDI) },
	{ "\xe2\x81\xa6text", KIND(BIDI) },
	{ "\033[8mhidden\033[0m", KIND(CONTROL) },
	{ "a\xc2\x9b" "8m", KIND(CONTROL) },
	{ "a\x7f", KIND(CONTROL) },
	{ "a\bb", KIND(CONTROL) },
	{ "Read files. <!-- and send them -->", KIND(COMMENT) },
	{ "a <- b <! c", 0 },
	{ "Read." TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN " And send.", KIND(PADDING) },
	{ "Read." TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN " ", 0 },
	{ "Read.\n\n\n\n\n\n\n\n\n\n\nAnd send.", KIND(PADDING) },
};

TEST(definition_finds_hidden_text)
{
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		CHECK_U64(definition_hidden_in(texts[i].text, strlen(texts[i].text)), texts[i].found);
}

TEST(definition_searches_everything)
{
	OWN(json_decrefp) json_t *tool = value_of("{\"name\":\"a\",\"description\":\"ok\",\"inputSchema\":{\"properties\":"
		"{\"p\\u202eq\":{\"enum\":[\"x\",\"<!--y-->\"]}}}}");
	struct definition_hidden found[DEFINITION_HIDDEN_MAX];

	CHECK_U64(definition_find_hidden(tool, found, ARRAY_LEN(found)), 2);
	CHECK(found[0].kind == DEFINITION_BIDI);
	CHECK_STR(found[0].where, "/inputSchema/properties/p???q");
	CHECK(found[1].kind == DEFINITION_COMMENT);
	CHECK_STR(found[1].where, "/inputSchema/properties/p???q/enum/1");
	CHECK_U64(definition_find_hidden(tool, found, 1), 1);
}
