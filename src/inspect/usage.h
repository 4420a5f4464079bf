/* usage.h - reads what a model's answer says that it cost: tokens, and of which model.
 *
 * The answers of Anthropic (messages), OpenAI (chat completions, responses, embeddings) and
 * Gemini (generateContent), and of everybody who answers as they do; whole ones, and streams of
 * events.  Which of them it is need not be known: no two mean different things by one name.
 * Runs in cloister-inspect; pure, but for memory.  What cannot be read is not found. */
#ifndef CLOISTER_USAGE_H
#define CLOISTER_USAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"
#include "policy/policy_budget.h"

struct err;
struct usage;                           /* opaque: one answer */

#define USAGE_PIECE_MAX (8 * 1024 * 1024)       /* a whole answer, or one event of a stream */
#define USAGE_HELD_MAX (64 * 1024 * 1024)       /* of all answers at once */
#define USAGE_TOKENS_MAX 1000000000000ULL       /* more is nonsense */
#define USAGE_BYTES_PER_TOKEN 4         /* of text, where nobody says how many there were */

struct usage_found {
	bool found;                     /* TOKENS are what the answer says */
	struct policy_tokens tokens;
	uint64_t text;                  /* bytes of what the model wrote, as far as it was seen */
	char model[POLICY_MODEL_MAX + 1];       /* printable; "" if nothing says */
};

/* CODING is the value of Content-Encoding.  The caller owns *ret_usage. */
int usage_new(struct http_text coding, struct usage **ret_usage, struct err *err);
void usage_free(struct usage *u);       /* NULL is fine */
void usage_freep(struct usage **u);
void usage_feed(struct usage *u, const void *data, size_t len);
/* There is no more; COMPLETE: there should be no more.  Of a stream that was broken off, what
 * was written so far counts, whatever its beginning says. */
void usage_finish(struct usage *u, bool complete, struct usage_found *ret_found);
#endif
