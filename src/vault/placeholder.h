/* placeholder.h - credentials that look like the real ones and are none.
 *
 * Minted for one cell and one secret: the real one's prefix, length, alphabet and checksum,
 * a JWT that parses, a key of the same kind and size.  Nothing of the real value is in it
 * but what every credential of its kind has. */
#ifndef CLOISTER_PLACEHOLDER_H
#define CLOISTER_PLACEHOLDER_H
#include <stddef.h>
#include <stdio.h>

#include "vault/secret.h"
#include "vault/source.h"

struct err;

#define PLACEHOLDER_PART 8              /* characters in a row that it never shares */
#define PLACEHOLDER_MIN 16              /* characters drawn: of a password that is shorter, the
                                         * placeholder is longer, or it would be found where
                                         * nobody put it */
#define PLACEHOLDER_RSA_MAX 8192        /* bits */

/* Fields that the secret does not have are NULL. */
struct placeholder {
	char *field[SECRET_FIELDS];     /* NUL-terminated; owned */
};

/* An id that is no secret (a user, an account) stays what it is: see secret_scheme. */
int placeholder_mint(const struct secret *s, const struct secret_values *real,
                     struct placeholder *ret_placeholder, struct err *err);
void placeholder_free(struct placeholder *p);   /* for OWN() too */

/* One field.  SHAPES: the first that fits REAL is taken, or else it is guessed.  The caller
 * owns *ret_text. */
int placeholder_mint_text(const struct policy_list *shapes, const struct guard *real,
                          char **ret_text, struct err *err);

/* ---- placeholder_text.c ---- */

/* The same for a token that a server gave, which ends at EXPIRES (0: never) and is no key.  REAL
 * has a NUL behind it. */
int placeholder_mint_token(const struct policy_list *shapes, const struct guard *real,
                           uint64_t expires, char **ret_text, struct err *err);

/* ---- placeholder_key.c ---- */

/* A private key of the kind, size and wrapping of REAL (PEM), and a certificate for it where
 * REAL has one. */
int placeholder_mint_pem(const struct guard *real, char **ret_text, struct err *err);
/* Whether REAL is a certificate and its private key, both in PEM. */
int placeholder_check_pair(const struct guard *real, struct err *err);
/* A certificate that signs itself. */
int placeholder_mint_certificate(char **ret_text, struct err *err);

/* ---- placeholder_file.c: what tools look for in files ---- */

enum placeholder_format { PLACEHOLDER_AWS, PLACEHOLDER_NETRC, PLACEHOLDER_NPMRC, PLACEHOLDER_PYPIRC,
                          PLACEHOLDER_GH, PLACEHOLDER_GOOGLE, PLACEHOLDER_DOCKER,
                          PLACEHOLDER_FORMATS };
#define PLACEHOLDER_FORMAT_NAMES "aws-credentials, netrc, npmrc, pypirc, gh-hosts, " \
	"google-service-account or docker-config"

struct placeholder_file {
	const char *name;               /* "aws-credentials" */
	const char *path;               /* where its tools look, under the home folder */
	const char *env;                /* the variable that says where it is, or NULL */
};
extern const struct placeholder_file placeholder_files[PLACEHOLDER_FORMATS];
const struct placeholder_file *placeholder_file_find(const char *name);         /* or NULL */

/* One secret that is to be in a file. */
struct placeholder_facts {
	const char *id, *secret, *token;        /* placeholders; NULL where there is none */
	const char *const *hosts;               /* "name" or "name:port", ..., NULL; NULL: none */
	const char *const *with;                /* name, value, ..., NULL: project, region */
};
/* The text of a file with N secrets in it; the caller owns *ret_text.  What two of them
 * would have under one name is an error. */
int placeholder_file_text(const struct placeholder_file *file,
                          const struct placeholder_facts *facts, size_t n, char **ret_text,
                          struct err *err);
#endif
