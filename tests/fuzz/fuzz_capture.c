/* fuzz_capture.c - an answer with tokens in it: the first byte says of which kind. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "sign/capture.h"

static const char *const kinds[] = { "oauth2", "sts", "s3-session", "github-app", "registry",
                                     "ecr" };

struct seen {
	char with[CAPTURE_SETS_MAX * CAPTURE_MEMBERS_MAX][32];
	size_t n;
};

static int
replace(void *arg, struct capture_set *set, struct err *err)
{
	struct seen *seen = arg;

	(void)err;
	assert(set->n > 0 && set->n <= CAPTURE_MEMBERS_MAX);
	for (size_t i = 0; i < set->n; i++) {
		assert(set->members[i].value.len > 0 && set->members[i].name != NULL);
		snprintf(seen->with[seen->n], sizeof(seen->with[0]), "\x01<new>&\"'\\%zu", seen->n);
		/* A control character has no place in XML. */
		set->members[i].with.at = seen->with[seen->n] + 1;
		set->members[i].with.len = strlen(set->members[i].with.at);
		seen->n++;
	}
	return 0;
}

/* What came out has as many tokens in it, and they are the new ones. */
static void
check_again(const struct capture_kind *kind, const struct buf *body, size_t want)
{
	OWN(buf_free) struct buf b;
	struct seen seen = {0};
	size_t found = 0;
	struct err err = {0};

	buf_init(&b, 4 * CAPTURE_BODY_MAX);
	if (body->len > CAPTURE_BODY_MAX)
		return;
	if (capture_rewrite(kind, (struct http_text){ NULL, 0 }, body->data, body->len, replace,
	                    &seen, &b, &found, &err) < 0)
		return;                 /* the new ones are in another place, too */
	assert(found == want);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct capture_kind *kind;
	OWN(buf_free) struct buf b = {0};
	struct seen seen = {0};
	struct err err = {0};
	size_t found = 99;
	int r;

	if (size == 0)
		return 0;
	kind = capture_kind_find(kinds[data[0] % ARRAY_LEN(kinds)]);
	buf_init(&b, 4 * CAPTURE_BODY_MAX);
	r = capture_rewrite(kind, (struct http_text){ NULL, 0 }, data + 1, size - 1, replace, &seen,
	                    &b, &found, &err);
	assert((r < 0) == (err.text[0] != '\0') && r == -err.code);
	assert(r < 0 || (found == seen.n && (found > 0) == (b.len > 0)));
	if (r == 0 && found > 0)
		check_again(kind, &b, found);
	return 0;
}
