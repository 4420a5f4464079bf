/* auth.h - the operator's logins for registries: auth.json of containers' tools, config.json of Docker, and
 * the answers of credential helpers and token servers.
 *
 * Pure: text in, credentials out. */
#ifndef CLOISTER_IMAGE_AUTH_H
#define CLOISTER_IMAGE_AUTH_H
#include <stddef.h>
#include <stdint.h>

struct err;

#define AUTH_FILE_MAX (1024 * 1024)
#define AUTH_HELPER_MAX 64              /* bytes of a helper's name */
#define AUTH_ANSWER_MAX (64 * 1024)     /* bytes that a helper may print */
#define AUTH_TOKEN_MAX (64 * 1024)
#define AUTH_WORD_MAX (16 * 1024)       /* bytes of a user or password */
#define AUTH_SERVER_MAX 512

/* Zero: nobody in particular.  Members that are NULL are not known. */
struct auth {
	char *user, *password;
	char *identity;                 /* a token to get tokens with (OAuth2's refresh_token) */
	char *bearer;                   /* a token that the registry itself takes */
};
void auth_free(struct auth *a);         /* wipes; for OWN() too */

/* The program to ask for credentials: docker-credential-NAME. */
struct auth_helper {
	char name[AUTH_HELPER_MAX + 1];         /* "": none */
	char server[AUTH_SERVER_MAX + 1];       /* what it is asked for */
};

/* Find the credentials for REPOSITORY ("a/b") of REGISTRY ("host[:port]") in the file's TEXT.  An entry for
 * the repository, or for a path on the way to it, counts before one for the registry.  Returns 0 if there are
 * none, 1 if they are in *ret_auth, and 2 if *ret_helper has them.  -EBADMSG if the file is malformed. */
int auth_find(const char *text, size_t len, const char *registry, const char *repository,
              struct auth *ret_auth, struct auth_helper *ret_helper, struct err *err);
/* Read the answer of a helper: {"Username": ..., "Secret": ...}. */
int auth_read_answer(const char *text, size_t len, struct auth *ret_auth, struct err *err);

/* Read the answer of a token server.  The caller owns *ret_token, which is fit for a header field. */
#define AUTH_TOKEN_S 60                 /* how long a token is valid if the server does not say it */
int auth_read_token(const char *text, size_t len, char **ret_token, uint64_t *ret_seconds, struct err *err);
#endif
