/* usage_asked.h - reads a request to a model: which model, and how much it may write.
 *
 * Pure.  It copies only the model's name and allocates nothing, so the courier may call it itself.
 * The agent wrote the request, possibly to be misread:
 *
 * - If a member occurs twice, the largest value counts.
 * - Names are compared without case.
 * - If a name has escapes, or a number an exponent, the request counts as asking for the maximum. */
#ifndef CLOISTER_USAGE_ASKED_H
#define CLOISTER_USAGE_ASKED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_budget.h"

#define USAGE_COPIES_MAX 1024           /* responses to one request; a higher number counts as this */

struct usage_asked {
	char model[POLICY_MODEL_MAX + 1];       /* printable; "" if there is none, or there are two */
	uint64_t max_output;            /* tokens of one response; 0: not given */
	uint64_t copies;                /* responses per request, at least 1 */
	bool kept;                      /* it continues a conversation that the provider stores */
};

/* The API of the request.  Each has its own name for the limit, and many servers ignore unknown
 * names.  USAGE_OTHER: models of many makers, where any of the names may be right. */
enum usage_style { USAGE_OTHER, USAGE_CHAT, USAGE_RESPONSES, USAGE_MESSAGES, USAGE_CONVERSE, USAGE_GEMINI };

/* False: TEXT cannot be read.  Others may be able to read it, so *ret_asked is the maximum that it
 * could ask for, unless it is multipart/form-data. */
bool usage_read_asked(const char *text, size_t len, enum usage_style style, struct usage_asked *ret_asked);
#endif
