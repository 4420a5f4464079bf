/* body_regex.c - matches regular expressions in a body, with limits on time and memory. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "inspect/body.h"

#include <pcre2.h>
#include <string.h>
#include <time.h>

#include "base/own.h"

#define MATCH_LIMIT 50000000            /* steps of one attempt; the time limit matters more */
#define DEPTH_LIMIT 1000000             /* nested ones; the heap limit is mostly reached first */
#define CALLS_PER_LOOK 256              /* between two checks of the clock, */
#define CALLS_FOR_BYTES (16 * 1024)     /* in a body of this size; a larger one takes longer */

/* An expression may be slow in ways that no count of steps shows, so each part of it checks the
 * time. */
struct watch {
	uint64_t start_us, left_us;
	unsigned calls, per_look;
};

static uint64_t
cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static int
look_at_clock(pcre2_callout_block *block, void *arg)
{
	struct watch *watch = arg;

	(void)block;
	if (++watch->calls % watch->per_look != 0)
		return 0;
	return cpu_us() - watch->start_us > watch->left_us ? PCRE2_ERROR_CALLOUT : 0;
}

struct regex {
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *context;
};

static void
regex_free(struct regex *re)
{
	pcre2_match_context_free(re->context);
	pcre2_match_data_free(re->data);
	pcre2_code_free(re->code);
}

/* Between two calls the whole body may be searched once. */
static unsigned
calls_per_look(size_t len)
{
	size_t n = CALLS_PER_LOOK;

	if (len > CALLS_FOR_BYTES)
		n = n * CALLS_FOR_BYTES / len;
	return n > 0 ? (unsigned)n : 1;
}

static bool
regex_make(struct regex *re, const char *pattern, struct watch *watch)
{
	size_t offset;
	int error;

	re->code = pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern),
	                         PCRE2_AUTO_CALLOUT | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP,
	                         &error, &offset, NULL);
	if (re->code != NULL)
		re->data = pcre2_match_data_create(1, NULL);
	if (re->data != NULL)
		re->context = pcre2_match_context_create(NULL);
	if (re->context == NULL)
		return false;
	pcre2_set_match_limit(re->context, MATCH_LIMIT);
	pcre2_set_depth_limit(re->context, DEPTH_LIMIT);
	pcre2_set_heap_limit(re->context, BODY_REGEX_HEAP_KIB);
	pcre2_set_callout(re->context, look_at_clock, watch);
	return true;
}

static enum body_fit
fits_one(const char *data, size_t len, const char *pattern, struct watch *watch)
{
	OWN(regex_free) struct regex re = {0};
	int r;

	if (!regex_make(&re, pattern, watch))
		return BODY_UNREADABLE;
	r = pcre2_match(re.code, (PCRE2_SPTR)data, len, 0, 0, re.data, re.context);
	if (r == PCRE2_ERROR_NOMATCH)
		return BODY_MISFITS;
	return r >= 0 ? BODY_FITS : BODY_UNREADABLE;
}

enum body_fit
body_regex_fits(const char *data, size_t len, const struct policy_list *list,
                struct body_regex_time *time)
{
	enum body_fit fit = BODY_MISFITS;

	for (size_t i = 0; i < list->n && fit != BODY_FITS; i++) {
		struct watch watch = { .start_us = cpu_us(), .per_look = calls_per_look(len) };
		enum body_fit one = BODY_UNREADABLE;

		if (time->used_us < BODY_REGEX_CPU_MS * 1000) {
			watch.left_us = BODY_REGEX_CPU_MS * 1000 - time->used_us;
			one = fits_one(data, len, list->at[i], &watch);
			time->used_us += cpu_us() - watch.start_us;
		}
		if (one != BODY_MISFITS)
			fit = one;
	}
	return fit;
}
