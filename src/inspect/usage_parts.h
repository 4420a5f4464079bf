/* usage_parts.h - what a response has reported so far; only for the files of usage. */
#ifndef CLOISTER_USAGE_PARTS_H
#define CLOISTER_USAGE_PARTS_H
#include <sys/types.h>

#include "inspect/usage.h"

/* WITHIN is part of INPUT and was cached; LONG is part of CACHE_WRITE and is kept for an hour. */
enum usage_field { USAGE_INPUT, USAGE_OUTPUT, USAGE_CACHE_READ, USAGE_CACHE_WRITE, USAGE_LONG,
                   USAGE_WITHIN, USAGE_THOUGHTS, USAGE_TOOL, USAGE_FIELDS };

struct usage_said {
	bool seen[USAGE_FIELDS];
	uint64_t said[USAGE_FIELDS];
	uint64_t text;
	bool kept, background, over;
	char model[POLICY_MODEL_MAX + 1];
};

/* Read a whole response, or the content of one event. */
void usage_said_json(struct usage_said *s, const char *at, size_t len);
/* Read a line of a stream of events, without its line end. */
void usage_said_line(struct usage_said *s, const char *at, size_t len);
/* Read the first frame of an AWS event stream, which is changed.  Returns its length; 0 if it is
 * incomplete; -EBADMSG if it is invalid. */
ssize_t usage_said_frame(struct usage_said *s, unsigned char *at, size_t len);
/* Compute the total. */
void usage_said_sum(const struct usage_said *s, bool complete, struct usage_found *ret_found);
#endif
