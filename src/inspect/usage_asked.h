/* usage_asked.h - reads what a request to a model asks for: which model, and how much it may
 * write.
 *
 * Pure; nothing is copied but the model's name, and nothing is allocated, so that the courier may
 * do it by itself.  The agent wrote these bytes, and may have written them to be misread: of
 * members that are there twice the largest counts, names are compared without case, and a
 * request that spells a name with escapes, or a number with an exponent, asks for the most. */
#ifndef CLOISTER_USAGE_ASKED_H
#define CLOISTER_USAGE_ASKED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_budget.h"

#define USAGE_COPIES_MAX 1024           /* more answers to one request are nonsense */

struct usage_asked {
	char model[POLICY_MODEL_MAX + 1];       /* printable; "" if it says none, or two */
	uint64_t max_output;            /* tokens of one answer; 0: it does not say */
	uint64_t copies;                /* answers to one question, at least 1 */
	bool kept;                      /* it goes on from what the provider keeps */
};

/* Where it is asked: OpenAI's two kinds of requests have their own names for the limit, and servers that
 * speak like it ignore what they do not know. */
enum usage_style { USAGE_OTHER, USAGE_CHAT, USAGE_RESPONSES };

/* False: TEXT is nothing that can be read.  Others may read it all the same, so *ret_asked is the most
 * that it could say, unless it is multipart/form-data. */
bool usage_read_asked(const char *text, size_t len, enum usage_style style, struct usage_asked *ret_asked);
#endif
