/* placeholder.h - makes placeholders: fake credentials that look like the real ones.
 *
 * A placeholder is made for one cell and one secret.  It has the real one's prefix, length,
 * alphabet and checksum; or it is a JWT that parses, or a key of the same kind and size.  It
 * contains nothing of the real value, except what every credential of its kind has. */
#ifndef CLOISTER_PLACEHOLDER_H
#define CLOISTER_PLACEHOLDER_H
#include <stddef.h>

#include "vault/secret.h"
#include "vault/source.h"

struct err;

#define PLACEHOLDER_PART 8              /* successive characters that it never shares with the real value */
#define PLACEHOLDER_MIN 16              /* random characters: for a shorter password, the placeholder is
                                         * longer; otherwise it would match by accident */
#define PLACEHOLDER_RSA_MAX 8192        /* bits */

/* Fields that the secret does not have are NULL. */
struct placeholder {
	char *field[SECRET_FIELDS];     /* NUL-terminated; owned */
};

/* An id that is no secret (a user, an account) stays unchanged: see secret_scheme. */
int placeholder_mint(const struct secret *s, const struct secret_values *real,
                     struct placeholder *ret_placeholder, struct err *err);
void placeholder_free(struct placeholder *p);   /* for OWN() too */

/* Make one field.  The first of SHAPES that fits REAL is used; otherwise the shape is guessed.  The
 * caller owns *ret_text. */
int placeholder_mint_text(const struct policy_list *shapes, const struct guard *real,
                          char **ret_text, struct err *err);

/* ---- placeholder_text.c ---- */

/* As placeholder_mint_text(), for a token from a server, which ends at EXPIRES (0: never) and is no
 * key.  REAL is NUL-terminated. */
int placeholder_mint_token(const struct policy_list *shapes, const struct guard *real,
                           uint64_t expires, char **ret_text, struct err *err);

/* ---- placeholder_key.c ---- */

/* Make a private key with the kind, size and format of REAL (PEM), and a certificate for it if REAL
 * has one. */
int placeholder_mint_pem(const struct guard *real, char **ret_text, struct err *err);
/* Check that REAL is a certificate and its private key, both in PEM. */
int placeholder_check_pair(const struct guard *real, struct err *err);
/* Make a self-signed certificate. */
int placeholder_mint_certificate(char **ret_text, struct err *err);

/* ---- placeholder_file.c: files in which tools look for credentials ---- */

enum placeholder_format { PLACEHOLDER_AWS, PLACEHOLDER_NETRC, PLACEHOLDER_NPMRC, PLACEHOLDER_PYPIRC,
                          PLACEHOLDER_GH, PLACEHOLDER_GOOGLE, PLACEHOLDER_DOCKER,
                          PLACEHOLDER_CLAUDE, PLACEHOLDER_CODEX, PLACEHOLDER_GEMINI,
                          PLACEHOLDER_FORMATS };
#define PLACEHOLDER_FORMAT_NAMES "aws-credentials, netrc, npmrc, pypirc, gh-hosts, " \
	"google-service-account, docker-config, claude-login, codex-login or gemini-login"

struct placeholder_file {
	const char *name;               /* "aws-credentials" */
	const char *path;               /* where its tools look, relative to the home folder */
	const char *env;                /* the variable with its path, or NULL */
};
extern const struct placeholder_file placeholder_files[PLACEHOLDER_FORMATS];
const struct placeholder_file *placeholder_file_find(const char *name);         /* or NULL */

/* One secret for a file. */
struct placeholder_facts {
	const char *id, *secret, *token;        /* placeholders; NULL if there is none */
	const char *const *hosts;               /* "name" or "name:port", ..., NULL; NULL: none */
	const char *const *with;                /* name, value, ..., NULL: project, region */
};
/* Write a file with N secrets; the caller owns *ret_text.  If two of them need the same entry, it
 * is an error. */
int placeholder_file_text(const struct placeholder_file *file,
                          const struct placeholder_facts *facts, size_t n, char **ret_text,
                          struct err *err);
#endif
