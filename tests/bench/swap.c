/* swap.c - times the search for placeholders and keys; prints what, and nanoseconds a head or
 * bytes a nanosecond (GB/s). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "sign/sign.h"
#include "sign/swap.h"

#define BYTES ((size_t)8 << 20)
#define PIECE ((size_t)64 << 10)        /* as the courier reads them */
#define ROUNDS 5
#define HEADS 100000

static uint32_t
random_below(uint32_t n)
{
	static uint64_t state = 1;

	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(state >> 33) % n;
}

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- texts ---- */

static void
fill(char *text, const char *const *words, size_t n)
{
	size_t at = 0, len;

	while (at < BYTES) {
		const char *word = words[random_below((uint32_t)n)];

		len = strlen(word) < BYTES - at ? strlen(word) : BYTES - at;
		memcpy(text + at, word, len);
		at += len;
	}
}

static void
fill_text(char *text)
{
	static const char *const words[] = { "the ", "quick ", "brown ", "fox ", "jumps ", "over ",
		"a ", "lazy ", "dog, ", "and ", "then ", "some ", "more ", "of ", "it.\n", "Token ",
		"authorization ", "request ", "sk-", "ghp ", "api ", "key ", "0x7f ", "2024 " };

	fill(text, words, ARRAY_LEN(words));
}

/* What is sent to models: texts with line ends and quotes in JSON. */
static void
fill_json(char *text)
{
	static const char *const words[] = { "{\"role\":\"user\",\"content\":\"", "static int\\n",
		"run(struct stream *s)\\n", "\\tif (r < 0)\\n", "\\t\\treturn r;\\n", "\"},", "the ",
		"print(\\\"hello\\\") ", "function ", "is called with ", "no arguments. ", "It ",
		"returns the number of bytes ", "caf\\u00e9 ", "https:\\/\\/example.com\\/a " };

	fill(text, words, ARRAY_LEN(words));
}

static void
fill_html(char *text)
{
	static const char *const words[] = { "<p class=\"a\">", "the quick ", "brown fox ", "</p>\n", "&amp; ",
		"<a href=\"/search?q=1&amp;page=2\">", "it&#39;s ", "more of it ", "</a> ", "a = b; " };

	fill(text, words, ARRAY_LEN(words));
}

static void
fill_form(char *text)
{
	static const char *const words[] = { "name%20of%20it", "&value=", "%7B%22a%22%3A", "+",
		"http%3A%2F%2Fexample.com%2F", "&grant_type=client_credentials", "%E2%82%AC" };

	fill(text, words, ARRAY_LEN(words));
}

static void
fill_base64(char *text)
{
	for (size_t i = 0; i < BYTES; i++)
		text[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[random_below(64)];
}

static void
fill_random(char *text)
{
	for (size_t i = 0; i < BYTES; i++)
		text[i] = (char)random_below(256);
}

static const struct {
	const char *name;
	void (*fill)(char *text);
} kinds[] = {
	{ "text", fill_text }, { "json", fill_json }, { "form", fill_form },
	{ "html", fill_html }, { "base64", fill_base64 }, { "random", fill_random },
};

/* ---- needles ---- */

static const char *const prefixes[] = { "sk-ant-api03-", "ghp_", "AKIA", "xoxb-", "glpat-", "" };

static void
make_needles(struct swap_needle *needles, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *texts = malloc(2 * 64);
		const char *prefix = prefixes[i % ARRAY_LEN(prefixes)];

		if (texts == NULL)
			abort();
		for (size_t k = 0; k < 2 * 64; k++)
			texts[k] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[random_below(62)];
		memcpy(texts, prefix, strlen(prefix));
		memcpy(texts + 64, prefix, strlen(prefix));
		needles[i] = (struct swap_needle){ { texts, 48 }, { texts + 64, 48 } };
	}
}

/* ---- measuring ---- */

struct count { size_t out, seen; };

static enum swap_verdict
judge(void *arg, const struct swap_seen *seen)
{
	(void)seen;
	((struct count *)arg)->seen++;
	return SWAP_REPLACE;
}

static int
sink(void *arg, const unsigned char *data, size_t len)
{
	(void)data;
	((struct count *)arg)->out += len;
	return 0;
}

static double
stream_rate(const struct swap_set *set, const char *text)
{
	double best = 1e9, began, took;

	for (int i = 0; i < ROUNDS; i++) {
		struct count count = {0};
		struct swap_stream s = { .set = set, .place = SWAP_BODY, .lengths = SWAP_SAME_LENGTH,
			.judge = judge, .sink = sink, .arg = &count };

		began = seconds();
		for (size_t at = 0; at < BYTES; at += PIECE)
			if (swap_feed(&s, text + at, PIECE, NULL) < 0)
				abort();
		if (swap_finish(&s, NULL) < 0 || count.out != BYTES)
			abort();
		took = seconds() - began;
		swap_free(&s);
		best = took < best ? took : best;
	}
	return (double)BYTES / best / 1e9;
}

static struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

/* A head as SDKs send it; with CARRIES its key is replaced. */
static double
head_cost(const struct swap_set *set, const struct swap_needle *needle, bool carries)
{
	static const char *const fields[][2] = {
		{ "accept", "application/json" }, { "accept-encoding", "gzip, deflate, br, zstd" },
		{ "accept-language", "*" }, { "anthropic-version", "2023-06-01" },
		{ "content-type", "application/json" }, { "sec-fetch-mode", "cors" },
		{ "user-agent", "Anthropic/JS 0.60.0 (Linux; arm64) node/v20.19.2" },
		{ "x-stainless-arch", "arm64" }, { "x-stainless-lang", "js" },
		{ "x-stainless-os", "Linux" }, { "x-stainless-package-version", "0.60.0" },
		{ "x-stainless-retry-count", "0" }, { "x-stainless-runtime-version", "v20.19.2" },
		{ "x-stainless-timeout", "600" },
	};
	static struct sign_memory memory;
	static struct http_head head;
	struct count count = {0};
	struct swap_heads how = { .set = set, .judge = judge, .arg = &count };
	double best = 1e9, began, took;

	for (int i = 0; i < ROUNDS; i++) {
		began = seconds();
		for (int k = 0; k < HEADS; k++) {
			head.method = text_of("POST");
			head.host = text_of("api.anthropic.com");
			head.path = text_of("/v1/messages?beta=true");
			for (size_t f = 0; f < ARRAY_LEN(fields); f++)
				head.fields[f] = (struct http_field){ text_of(fields[f][0]), text_of(fields[f][1]) };
			head.n_fields = ARRAY_LEN(fields);
			head.fields[head.n_fields++] = (struct http_field){ text_of("x-api-key"),
				carries ? needle->find : needle->with };
			memory.used = 0;
			if (swap_head(&how, &head, &memory, NULL) < 0)
				abort();
		}
		took = seconds() - began;
		best = took < best ? took : best;
	}
	if (count.seen != (carries ? (size_t)ROUNDS * HEADS : 0))
		abort();
	return best * 1e9 / HEADS;
}

int
main(void)
{
	static const size_t sizes[] = { 1, 16, 256 };
	static const struct {
		const char *what;
		unsigned flags;
	} looks[] = { { "placeholders", 0 }, { "keys, coded too", SWAP_CODED },
	              { "keys in answers", SWAP_CODED | SWAP_ECHOED } };
	static struct swap_needle needles[256];
	OWN(freep) char *text = malloc(BYTES);
	struct err err = {0};

	if (text == NULL)
		return 1;
	make_needles(needles, 256);
	for (size_t f = 0; f < ARRAY_LEN(looks); f++)
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			OWN(swap_set_freep) struct swap_set *set = NULL;
			const char *what = looks[f].what;

			if (swap_set_new(needles, sizes[i], looks[f].flags, &set, &err) < 0) {
				fprintf(stderr, "swap: %s\n", err.text);
				return 1;
			}
			for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
				kinds[k].fill(text);
				printf("%zu %s, %s: %.2f\n", sizes[i], what, kinds[k].name,
				       stream_rate(set, text));
			}
			printf("%zu %s, a head without: %.0f\n", sizes[i], what,
			       head_cost(set, &needles[0], false));
			printf("%zu %s, a head with one: %.0f\n", sizes[i], what,
			       head_cost(set, &needles[0], true));
		}
	return 0;
}
