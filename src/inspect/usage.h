/* usage.h - reads the cost that a model's response reports: tokens, and the model.
 *
 * It reads responses of Anthropic (messages), OpenAI (chat completions, responses, embeddings),
 * Gemini (generateContent) and Bedrock (invoke, converse), and of compatible services.  They may be
 * whole, or streams of events.  The provider need not be known: no two providers use one name in
 * different meanings.  Pure, except for memory.  If a response cannot be read, nothing is found.
 *
 * Runs in cloister-inspect, except for usage_read(). */
#ifndef CLOISTER_USAGE_H
#define CLOISTER_USAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "http/http_head.h"
#include "policy/policy_budget.h"

struct err;
struct usage;                           /* opaque: one response */

#define USAGE_PIECE_MAX (8 * 1024 * 1024)       /* a whole response, or one event of a stream */
#define USAGE_HELD_MAX (64 * 1024 * 1024)       /* of all responses at once */
#define USAGE_TOKENS_MAX 1000000000000ULL       /* a higher number is invalid */

/* If a number is not reported, a high estimate is used: */
#define USAGE_BYTES_PER_TOKEN 3         /* English has four, code and other languages fewer */
#define USAGE_BYTES_AT_LEAST 1          /* of a token: the agent may write text with the shortest tokens */
#define USAGE_TOKENS_PER_S 100          /* that a model may generate unseen while it thinks */
#define USAGE_KEPT_TOKENS 200000        /* of a conversation that the provider stores */
#define USAGE_LATER_TOKENS 32768        /* that are generated after the response is over */

struct usage_found {
	bool found;                     /* TOKENS are as reported in the response */
	struct policy_tokens tokens;
	uint64_t text;                  /* bytes of the model's text, as far as seen */
	bool kept;                      /* it continues a conversation that the provider stores */
	bool whole;                     /* it was complete */
	bool later;                     /* it is generated in the background, and reports nothing yet */
	char model[POLICY_MODEL_MAX + 1];       /* printable; "" if unknown */
};

/* CODING is the value of Content-Encoding.  The caller owns *ret_usage. */
int usage_new(struct http_text coding, struct usage **ret_usage, struct err *err);
void usage_free(struct usage *u);       /* NULL is fine */
OWN_BY(usage_freep, struct usage *, usage_free)
void usage_feed(struct usage *u, const void *data, size_t len);
/* The response has ended; COMPLETE: as it should.  If a stream was cut off, the text so far counts,
 * whatever its beginning reports. */
void usage_finish(struct usage *u, bool complete, struct usage_found *ret_found);

/* As above, for a whole uncompressed response.  It copies, allocates and decodes nothing, so the
 * courier may call it itself.  False: it is neither lines nor JSON. */
bool usage_read(const char *text, size_t len, bool complete, struct usage_found *ret_found);
#endif
