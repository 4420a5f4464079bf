/* inspect_usage.c - tests of inspect/usage. */
#include <zlib.h>

#include "inspect/usage.h"
#include "test.h"

static const struct {
	const char *text;
	bool found, cut;                /* CUT: it was broken off */
	struct policy_tokens want;
	const char *model;
} answers[] = {
	/* Anthropic, whole and as a stream; what an hour's cache costs more is counted in. */
	{ "{\"model\":\"claude-x\",\"content\":[{\"text\":\"Hello\"}],\"usage\":{\"input_tokens\":12,"
	  "\"cache_creation_input_tokens\":100,\"cache_read_input_tokens\":2000,\"output_tokens\":6}}",
	  true, false, { 12, 6, 2000, 100 }, "claude-x" },
	{ "{\"model\":\"claude-x\",\"usage\":{\"input_tokens\":1,\"cache_creation_input_tokens\":100,"
	  "\"cache_creation\":{\"ephemeral_1h_input_tokens\":100},\"output_tokens\":6}}",
	  true, false, { 1, 6, 0, 160 }, "claude-x" },
	{ "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-x\","
	  "\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n"
	  "event: content_block_delta\ndata: {\"delta\":{\"text\":\"0123456789012345678901234567\"}}\n\n"
	  "event: message_delta\ndata: {\"usage\":{\"output_tokens\":15}}\n\n",
	  true, false, { 25, 15, 0, 0 }, "claude-x" },
	{ "data: {\"message\":{\"model\":\"claude-x\",\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n"
	  "data: {\"delta\":{\"text\":\"0123456789012345678901234567\"}}\n\n",
	  true, true, { 25, 7, 0, 0 }, "claude-x" },
	/* OpenAI: what was cached is part of the prompt. */
	{ "{\"model\":\"gpt-x\",\"usage\":{\"prompt_tokens\":30,\"completion_tokens\":10,"
	  "\"prompt_tokens_details\":{\"cached_tokens\":20}}}",
	  true, false, { 10, 10, 20, 0 }, "gpt-x" },
	{ "data: {\"model\":\"gpt-x\",\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\r\n\r\n"
	  "data: {\"model\":\"gpt-x\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
	  "\"completion_tokens\":4}}\r\n\r\ndata: [DONE]\r\n\r\n",
	  true, false, { 9, 4, 0, 0 }, "gpt-x" },
	{ "data: {\"model\":\"gpt-x\",\"choices\":[{\"delta\":{\"content\":\"01234567\"}}]}\n\n"
	  "data: [DONE]\n\n", false, false, { 0, 0, 0, 0 }, "gpt-x" },
	{ "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"model\":"
	  "\"gpt-y\",\"usage\":{\"input_tokens\":50,\"input_tokens_details\":{\"cached_tokens\":8},"
	  "\"output_tokens\":7}}}\n\n", true, false, { 42, 7, 8, 0 }, "gpt-y" },
	/* Gemini: what it thought costs as what it wrote. */
	{ "{\"usageMetadata\":{\"promptTokenCount\":11,\"candidatesTokenCount\":5,"
	  "\"thoughtsTokenCount\":7,\"cachedContentTokenCount\":1},\"modelVersion\":\"gemini-x\"}",
	  true, false, { 10, 12, 1, 0 }, "gemini-x" },
	{ "[{\"usageMetadata\":{\"promptTokenCount\":11}},\n{\"usageMetadata\":{\"promptTokenCount\":11,"
	  "\"candidatesTokenCount\":5},\"modelVersion\":\"gemini-x\"}]",
	  true, false, { 11, 5, 0, 0 }, "gemini-x" },
	/* What only looks like it. */
	{ "{\"content\":[{\"usage\":{\"input_tokens\":5},\"model\":\"a\"}],\"tool\":{\"usage\":"
	  "{\"input_tokens\":7},\"model\":\"b\"}}", false, false, { 0, 0, 0, 0 }, "" },
	{ "{\"usage\":{\"input_tokens\":-5,\"output_tokens\":1.5,\"prompt_tokens\":\"7\"}}",
	  false, false, { 0, 0, 0, 0 }, "" },
	{ "{\"usage\":{\"input_tokens\":99999999999999999999999}}", false, false, { 0, 0, 0, 0 }, "" },
	{ "{\"model\":\"a b\"}", false, false, { 0, 0, 0, 0 }, "" },
	{ "<html>", false, false, { 0, 0, 0, 0 }, "" },
	{ "", false, false, { 0, 0, 0, 0 }, "" },
};

static void
read_in(const char *coding, const void *data, size_t len, size_t step, bool cut,
        struct usage_found *ret_found)
{
	OWN(usage_freep) struct usage *u = NULL;

	CHECK_OK(usage_new((struct http_text){ coding, strlen(coding) }, &u, NULL));
	for (size_t i = 0; i < len; i += step)
		usage_feed(u, (const char *)data + i, len - i < step ? len - i : step);
	usage_finish(u, !cut, ret_found);
}

static void
check(size_t i, const struct usage_found *got)
{
	if (got->found != answers[i].found || strcmp(got->model, answers[i].model) != 0 ||
	    memcmp(&got->tokens, &answers[i].want, sizeof(got->tokens)) != 0)
		test_fail(__FILE__, __LINE__, "%s\nfound %d input %llu output %llu read %llu write %llu "
		          "model '%s'", answers[i].text, got->found, (unsigned long long)got->tokens.input,
		          (unsigned long long)got->tokens.output,
		          (unsigned long long)got->tokens.cache_read,
		          (unsigned long long)got->tokens.cache_write, got->model);
}

TEST(usage_is_read)
{
	struct usage_found got;

	for (size_t i = 0; i < ARRAY_LEN(answers); i++)
		for (size_t step = 1; step < 400; step = step * 3 + 1) {
			read_in("", answers[i].text, strlen(answers[i].text), step, answers[i].cut, &got);
			check(i, &got);
		}
}

TEST(usage_is_unpacked)
{
	unsigned char packed[2048];
	struct usage_found got;

	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		z_stream z = { .next_in = (unsigned char *)(uintptr_t)answers[i].text,
			.avail_in = (unsigned)strlen(answers[i].text), .next_out = packed,
			.avail_out = sizeof(packed) };

		CHECK(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
		CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
		deflateEnd(&z);
		read_in("gzip", packed, sizeof(packed) - z.avail_out, 7, answers[i].cut, &got);
		check(i, &got);
	}
}

/* A line that nobody could hold is passed over, and what follows it is read. */
TEST(usage_passes_over_long_lines)
{
	static const char last[] = "\ndata: {\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}\n";
	OWN(usage_freep) struct usage *u = NULL;
	char filler[65536];
	struct usage_found got;

	memset(filler, 'x', sizeof(filler));
	CHECK_OK(usage_new((struct http_text){ "", 0 }, &u, NULL));
	usage_feed(u, "data: \"", 7);
	for (size_t i = 0; i < USAGE_PIECE_MAX / sizeof(filler) + 1; i++)
		usage_feed(u, filler, sizeof(filler));
	usage_feed(u, last, sizeof(last) - 1);
	usage_finish(u, true, &got);
	CHECK(got.found && got.tokens.input == 3 && got.tokens.output == 4);
}
