/* inspect_usage.c - tests of inspect/usage. */
#include <zlib.h>

#include "inspect/usage.h"
#include "inspect/usage_asked.h"
#include "test.h"

static const struct {
	const char *text;
	bool found, cut;                /* CUT: it was broken off, unless it says that it was over */
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
	  true, true, { 25, 9, 0, 0 }, "claude-x" },
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
	/* Bedrock. */
	{ "{\"output\":{\"message\":{\"content\":[{\"text\":\"Hi\"}]}},\"usage\":{\"inputTokens\":30,"
	  "\"outputTokens\":6,\"totalTokens\":36,\"cacheReadInputTokens\":4,\"cacheWriteInputTokens\":2}}",
	  true, false, { 30, 6, 4, 2 }, "" },
	{ "{\"generation\":\"Hi\",\"prompt_token_count\":8,\"generation_token_count\":2}",
	  true, false, { 8, 2, 0, 0 }, "" },
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

	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		CHECK(usage_read(answers[i].text, strlen(answers[i].text), !answers[i].cut, &got));
		check(i, &got);
	}
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

static const struct {
	const char *text;
	bool found, kept, later, whole;
} said[] = {
	/* Broken off, or over although nobody waited for the end of it. */
	{ "data: {\"type\":\"response.created\",\"response\":{\"model\":\"gpt-y\",\"usage\":null,"
	  "\"previous_response_id\":\"resp_1\"}}\n\n", false, true, false, false },
	{ "data: {\"response\":{\"conversation\":{\"id\":\"conv_1\"}}}\n\n", false, true, false, false },
	{ "data: {\"response\":{\"previous_response_id\":null,\"conversation\":null}}\n\n",
	  false, false, false, false },
	{ "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5}}}\n\n"
	  "data: {\"type\":\"message_stop\"}\n\n", true, false, false, true },
	{ "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":5}}}\n\n",
	  true, false, false, true },
	/* In the background: it costs something only later, unless it says so now. */
	{ "{\"id\":\"resp_2\",\"background\":true,\"status\":\"queued\",\"usage\":null}",
	  false, false, true, false },
	{ "{\"id\":\"resp_2\",\"background\":true,\"usage\":{\"input_tokens\":1}}",
	  true, false, false, false },
	{ "{\"tool\":{\"background\":true,\"previous_response_id\":\"x\",\"type\":\"message_stop\"}}",
	  false, false, false, false },
};

TEST(usage_reports_other_costs)
{
	struct usage_found got;

	for (size_t i = 0; i < ARRAY_LEN(said); i++) {
		read_in("", said[i].text, strlen(said[i].text), 7, true, &got);
		if (got.found != said[i].found || got.kept != said[i].kept || got.later != said[i].later ||
		    got.whole != said[i].whole)
			test_fail(__FILE__, __LINE__, "%s\nfound %d kept %d later %d whole %d", said[i].text,
			          got.found, got.kept, got.later, got.whole);
	}
}

/* A frame of AWS's, with one header in it. */
static size_t
frame(unsigned char *at, const char *payload)
{
	static const char header[] = "\x0b:event-type\x07\x00\x05" "chunk";
	size_t len = strlen(payload), total = 12 + sizeof(header) - 1 + len + 4;

	memset(at, 0, 12);
	at[2] = (unsigned char)(total >> 8);
	at[3] = (unsigned char)total;
	at[7] = sizeof(header) - 1;
	memcpy(at + 12, header, sizeof(header) - 1);
	memcpy(at + 12 + sizeof(header) - 1, payload, len);
	memset(at + total - 4, 0, 4);
	return total;
}

TEST(usage_is_read_in_frames)
{
	/* {"type":"message_start","message":{"model":"claude-b","usage":{"input_tokens":7}}} */
	static const char first[] = "{\"bytes\":\"eyJ0eXBlIjoibWVzc2FnZV9zdGFydCIsIm1lc3NhZ2UiOnsibW9kZWwiO"
		"iJjbGF1ZGUtYiIsInVzYWdlIjp7ImlucHV0X3Rva2VucyI6N319fQ==\",\"p\":\"abcd\"}";
	/* {"type":"message_stop","amazon-bedrock-invocationMetrics":{"outputTokenCount":9}} */
	static const char last[] = "{\"bytes\":\"eyJ0eXBlIjoibWVzc2FnZV9zdG9wIiwiYW1hem9uLWJlZHJvY2staW52b2NhdGlvbk1ldH"
		"JpY3MiOnsib3V0cHV0VG9rZW5Db3VudCI6OX19\"}";
	unsigned char stream[2048];
	size_t len = frame(stream, first);
	struct usage_found got;

	len += frame(stream + len, "{\"usage\":{\"cacheReadInputTokens\":3}}");
	len += frame(stream + len, last);
	for (size_t step = 1; step < 2048; step = step * 3 + 1) {
		read_in("", stream, len, step, true, &got);
		CHECK(got.found && got.whole && got.tokens.input == 7 && got.tokens.output == 9);
		CHECK(got.tokens.cache_read == 3);
		CHECK_STR(got.model, "claude-b");
	}
	CHECK(!usage_read((const char *)stream, len, true, &got));
	/* Headers that are longer than the frame, and what is shorter than one. */
	stream[6] = 0xff;
	read_in("", stream, len, 5, true, &got);
	CHECK(!got.found);
	read_in("", "\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01", 20, 3, true, &got);
	CHECK(!got.found);
}

static const struct {
	const char *text;
	bool read;
	struct usage_asked want;
} asked[] = {
	{ "{\"model\":\"claude-x\",\"max_tokens\":1000,\"messages\":[{\"content\":{\"max_tokens\":7}}]}", true,
	  { "claude-x", 1000, 1, false } },
	{ "{\"model\":\"gpt-x\",\"max_completion_tokens\":50,\"max_tokens\":9,\"n\":3}", true,
	  { "gpt-x", 50, 3, false } },
	{ "{\"model\":\"gpt-x\",\"max_output_tokens\":null,\"previous_response_id\":\"resp_1\"}", true,
	  { "gpt-x", 0, 1, true } },
	{ "{\"model\":\"gpt-x\",\"prompt\":{\"id\":\"pmpt_1\"}}", true, { "gpt-x", 0, 1, true } },
	{ "{\"model\":\"gpt-x\",\"prompt\":[\"a\",\"b\",\"c\"],\"n\":2,\"max_tokens\":5}", true,
	  { "gpt-x", 5, 6, false } },
	{ "{\"contents\":[],\"generationConfig\":{\"maxOutputTokens\":70,\"candidateCount\":2}}", true,
	  { "", 70, 2, false } },
	{ "{\"inferenceConfig\":{\"maxTokens\":80}}", true, { "", 80, 1, false } },
	/* What others may read otherwise: the most counts, or it says nothing. */
	{ "{\"max_tokens\":5,\"MAX_TOKENS\":900,\"max_tokens\":6}", true, { "", 900, 1, false } },
	{ "{\"model\":\"cheap\",\"model\":\"dear\",\"max_tokens\":5}", true, { "", 5, 1, false } },
	{ "{\"model\":\"a\",\"max_tokens\":5,\"max\\u005ftokens\":900}", false,
	  { "", 0, USAGE_COPIES_MAX, true } },
	{ "{\"\\u006e\":128,\"model\":\"a\",\"max_tokens\":5}", false, { "", 0, USAGE_COPIES_MAX, true } },
	{ "{\"n\":1e2,\"model\":\"a\",\"max_tokens\":5}", true, { "a", 5, USAGE_COPIES_MAX, false } },
	{ "{\"n\":128.0,\"max_tokens\":5}", true, { "", 5, USAGE_COPIES_MAX, false } },
	{ "\xef\xbb\xbf{\"n\":128,\"max_tokens\":5}", false, { "", 0, USAGE_COPIES_MAX, true } },
	{ "{\"model\":\"a\",\"max_tokens\":1e9}", true, { "a", 0, 1, false } },
	{ "{\"model\":\"a\",\"max_tokens\":-1}", true, { "a", 0, 1, false } },
	{ "{\"model\":\"a\\u0062\"}", true, { "", 0, 1, false } },
	{ "{\"model\":\"a\",\"max_tokens\":5}{\"max_tokens\":900}", false, { "", 0, USAGE_COPIES_MAX, true } },
	{ "model=a&max_tokens=5", false, { "", 0, USAGE_COPIES_MAX, true } },
	{ "--x\r\ncontent-disposition: form-data; name=n\r\n", false, { "", 0, 1, false } },
	{ "", false, { "", 0, USAGE_COPIES_MAX, true } },
};

TEST(usage_asked)
{
	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		struct usage_asked got;

		CHECK(usage_read_asked(asked[i].text, strlen(asked[i].text), USAGE_OTHER, &got) == asked[i].read);
		CHECK_STR(got.model, asked[i].want.model);
		CHECK_U64(got.max_output, asked[i].want.max_output);
		CHECK_U64(got.copies, asked[i].want.copies);
		CHECK(got.kept == asked[i].want.kept);
	}
}

/* A limit that the server does not look at is none. */
TEST(usage_asked_in_other_places)
{
	static const struct {
		const char *text;
		enum usage_style style;
		uint64_t max_output;
	} limits[] = {
		{ "{\"max_tokens\":5}", USAGE_CHAT, 5 },
		{ "{\"max_completion_tokens\":5}", USAGE_CHAT, 5 },
		{ "{\"max_output_tokens\":5}", USAGE_RESPONSES, 5 },
		{ "{\"max_output_tokens\":5}", USAGE_CHAT, 0 },
		{ "{\"max_tokens\":5}", USAGE_RESPONSES, 0 },
		{ "{\"max_gen_len\":5}", USAGE_CHAT, 0 },
		{ "{\"generationConfig\":{\"maxOutputTokens\":5}}", USAGE_CHAT, 0 },
		{ "{\"Max_Tokens\":5}", USAGE_CHAT, 0 },
		{ "{\"MAX_TOKENS\":5}", USAGE_OTHER, 0 },
		{ "{\"max_tokens\":null,\"MAX_TOKENS\":5}", USAGE_OTHER, 0 },
		{ "{\"GenerationConfig\":{\"maxOutputTokens\":5}}", USAGE_OTHER, 0 },
		{ "{\"max_tokens\":5,\"max_gen_len\":900}", USAGE_CHAT, 900 },
		{ "{\"max_tokens\":5}", USAGE_MESSAGES, 5 },
		{ "{\"max_tokens_to_sample\":5}", USAGE_MESSAGES, 5 },
		{ "{\"max_gen_len\":5}", USAGE_MESSAGES, 0 },
		{ "{\"inferenceConfig\":{\"maxTokens\":5}}", USAGE_MESSAGES, 0 },
		{ "{\"inferenceConfig\":{\"maxTokens\":5}}", USAGE_CONVERSE, 5 },
		{ "{\"max_tokens\":5}", USAGE_CONVERSE, 0 },
		{ "{\"generationConfig\":{\"maxOutputTokens\":5}}", USAGE_GEMINI, 5 },
		{ "{\"generation_config\":{\"max_output_tokens\":5}}", USAGE_GEMINI, 5 },
		{ "{\"max_tokens\":5}", USAGE_GEMINI, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		struct usage_asked got;

		CHECK(usage_read_asked(limits[i].text, strlen(limits[i].text), limits[i].style, &got));
		CHECK_U64(got.max_output, limits[i].max_output);
	}
}
