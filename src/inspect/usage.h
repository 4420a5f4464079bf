/* usage.h - reads what a model's answer says that it cost: tokens, and of which model.
 *
 * The answers of Anthropic (messages), OpenAI (chat completions, responses, embeddings) and
 * Gemini (generateContent), of Bedrock (invoke, converse), and of everybody who answers as they
 * do; whole ones, and streams of events.  Which of them it is need not be known: no two mean
 * different things by one name.  Pure, but for memory.  What cannot be read is not found.
 *
 * Runs in cloister-inspect, but for usage_read(). */
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

/* Where nobody says how many there were, rather too many are assumed: */
#define USAGE_BYTES_PER_TOKEN 3         /* English has four, code and other languages fewer */
#define USAGE_TOKENS_PER_S 100          /* that a model may write unseen: it thinks, too */
#define USAGE_KEPT_TOKENS 200000        /* of what the provider keeps of a conversation */
#define USAGE_LATER_TOKENS 32768        /* that are written when the answer is over */

struct usage_found {
	bool found;                     /* TOKENS are what the answer says */
	struct policy_tokens tokens;
	uint64_t text;                  /* bytes of what the model wrote, as far as it was seen */
	bool kept;                      /* it goes on from what the provider keeps */
	bool whole;                     /* it was there to its end */
	bool later;                     /* it is written in the background, and says nothing yet */
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

/* The same of an answer that is there whole and not packed: nothing is copied, allocated or
 * decoded, so that the courier may do it by itself.  False: it is none of lines or JSON. */
bool usage_read(const char *text, size_t len, bool complete, struct usage_found *ret_found);
#endif
