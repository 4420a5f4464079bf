/* source.h - fetches values when they are used: from a variable, a file or a program.
 *
 * Programs connect to password managers, vaults and the clouds' own tools.  They run without a
 * shell, with empty standard input and a timeout.  Their output goes directly into guarded memory. */
#ifndef CLOISTER_SOURCE_H
#define CLOISTER_SOURCE_H
#include <stdint.h>

#include "trust/trust.h"
#include "vault/guard.h"
#include "vault/secret.h"

struct err;

#define SOURCE_WORDS_MAX 64
#define SOURCE_TEXT_MAX POLICY_TEXT_MAX
#define SOURCE_OUTPUT_MAX (48 * 1024)
#define SOURCE_TIMEOUT_MS 30000

/* The fields of one credential; empty ones have no memory. */
struct secret_values {
	struct guard field[SECRET_FIELDS];
	uint64_t expires;               /* seconds since 1970; 0: never */
};
void secret_values_free(struct secret_values *v);       /* for OWN() too */

/* Check that FROM is a well-formed "env:NAME", "file:PATH" or "cmd:PROGRAM ARGS". */
int source_check(const char *from, struct err *err);

/* The words of a command: separated by blanks, with '...' or "..." around words that contain
 * blanks.  Nothing else is special.  AT points into TEXT. */
struct source_words {
	char text[SOURCE_TEXT_MAX + 1];
	char *at[SOURCE_WORDS_MAX + 1]; /* ends with NULL */
	size_t n;
};
int source_split(const char *command, struct source_words *ret_words, struct err *err);

/* Run a program, and read its output into G, whose size is the maximum.  Afterwards the program and
 * its whole process group are dead, whatever the result. */
int source_run(enum trust_use use, const char *command, unsigned timeout_ms, struct guard *g,
               struct err *err);
/* Fetch the raw text from FROM.  A program or file that an agent could have written is refused. */
int source_fetch(const char *from, struct guard *ret_text, struct err *err);

/* Find the fields for S in TEXT.  NOW: seconds since 1970.  Errors contain nothing of TEXT.
 *
 * - If TEXT is JSON, by S's members.
 * - Otherwise, if S's scheme needs an id that S does not give: id, secret and token, one per line.
 * - Otherwise TEXT is the secret. */
int source_fields(const struct secret *s, const struct guard *text, uint64_t now,
                  struct secret_values *ret_values, struct err *err);

/* When to fetch values again that were fetched at FETCHED and end at EXPIRES: a tenth of their life
 * before the end, but at most five minutes before. */
uint64_t source_due(uint64_t fetched, uint64_t expires);
/* Parse "2026-11-15T10:00:00Z" (also with a fraction or an offset) into seconds since 1970; 0:
 * invalid. */
uint64_t source_time(const char *text);
#endif
