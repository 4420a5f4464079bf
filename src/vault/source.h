/* source.h - values that come from elsewhere at use: a variable, a file, a program.
 *
 * Programs are the way to password managers, vaults and clouds' own tools.  They are run
 * without a shell, with nothing on standard input, for a limited time, and what they print
 * goes straight into guarded memory. */
#ifndef CLOISTER_SOURCE_H
#define CLOISTER_SOURCE_H
#include <stdbool.h>
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

/* Whether FROM is "env:NAME", "file:PATH" or "cmd:PROGRAM ARGS" and well-formed. */
int source_check(const char *from, struct err *err);

/* The words of a command: blanks between them, '...' and "..." around those that have
 * some.  Nothing else is special.  Points into WORDS' own text. */
struct source_words {
	char text[SOURCE_TEXT_MAX + 1];
	char *at[SOURCE_WORDS_MAX + 1]; /* ends with NULL */
	size_t n;
};
int source_split(const char *command, struct source_words *ret_words, struct err *err);

/* What a program prints, into G, which has room for the most that is taken.  The program
 * and all of its group are dead afterwards, however it went. */
int source_run(enum trust_use use, const char *command, unsigned timeout_ms, struct guard *g,
               struct err *err);
/* What FROM gives, raw.  A program or file that an agent could have written is refused. */
int source_fetch(const char *from, struct guard *ret_text, struct err *err);

/* The fields that TEXT has for S: by S's members where TEXT is JSON; else, where S's scheme
 * wants an id that S does not say, a line each of id, secret and token; else all of it is
 * the secret.  NOW: seconds since 1970.  No message has any of it in it. */
int source_fields(const struct secret *s, const struct guard *text, uint64_t now,
                  struct secret_values *ret_values, struct err *err);

/* When values that were fetched at FETCHED and end at EXPIRES should be fetched again: a
 * tenth of their life before they end, but no more than five minutes. */
uint64_t source_due(uint64_t fetched, uint64_t expires);
/* "2026-11-15T10:00:00Z" (fractions and offsets too) as seconds since 1970; 0 if it is
 * no such time. */
uint64_t source_time(const char *text);
#endif
