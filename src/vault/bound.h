/* bound.h - the secrets of one cell, with their values and placeholders.
 *
 * cloister-vault hands them to the courier in a memory file, which no process in between reads.
 * Texts point into the guarded memory that holds the file's content. */
#ifndef CLOISTER_BOUND_H
#define CLOISTER_BOUND_H
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"
#include "sign/sign.h"
#include "vault/guard.h"
#include "vault/placeholder.h"
#include "vault/secret.h"
#include "vault/source.h"

struct err;

#define BOUND_MAX 64                    /* secrets of one cell */
#define BOUND_ENCODED_MAX (8 * 1024 * 1024)

struct bound_secret {
	struct secret *secret;
	struct http_text placeholder[SECRET_FIELDS], real[SECRET_FIELDS];
	uint64_t expires;               /* of the values: seconds since 1970; 0: never */
};

struct bound {
	struct guard memory;
	struct bound_secret at[BOUND_MAX];
	size_t n;
};

/* Read all of FD, from its start.  The caller frees BOUND, even on failure. */
int bound_read(int fd, struct bound *bound, struct err *err);
int bound_get(struct bound *bound, struct err *err);    /* parses its memory */
/* The fields of one secret, placeholders or values, in the form for schemes. */
struct sign_key bound_key(const struct http_text field[SECRET_FIELDS]);
void bound_free(struct bound *bound);   /* for OWN() too; wipes */

/* One secret, as it is in such a file. */
int bound_pack(const struct secret *s, const struct placeholder *placeholder, const struct secret_values *real,
               struct guard *ret_packed, struct err *err);
/* Append one secret to FD. */
int bound_write(int fd, const struct secret *s, const struct placeholder *placeholder,
                const struct secret_values *real, struct err *err);
#endif
