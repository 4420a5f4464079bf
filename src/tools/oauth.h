/* oauth.h - what an MCP client needs of OAuth 2.1: metadata, registration, PKCE and tokens.
 *
 * Pure.  All documents are hostile: a server wrote them.  An address that they name is used only if it is https, or if
 * the MCP server itself is on this machine. */
#ifndef CLOISTER_TOOLS_OAUTH_H
#define CLOISTER_TOOLS_OAUTH_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define OAUTH_URL_MAX 2048
#define OAUTH_WORD_MAX 512
#define OAUTH_TOKEN_MAX (16 * 1024)     /* bytes of a token */
#define OAUTH_VERIFIER_LEN 43           /* 32 bytes in base64url */

struct oauth {
	char resource[OAUTH_URL_MAX + 1];       /* the MCP server */
	bool is_here;                           /* on this machine, for tests: plain HTTP to loopback is fine */
	char metadata[OAUTH_URL_MAX + 1];       /* of the resource, if it said where */
	char issuer[OAUTH_URL_MAX + 1];
	char authorize[OAUTH_URL_MAX + 1], token[OAUTH_URL_MAX + 1], registration[OAUTH_URL_MAX + 1];
	char scope[OAUTH_WORD_MAX + 1];
	char client_id[OAUTH_WORD_MAX + 1];
	char redirect[64];
	char verifier[OAUTH_VERIFIER_LEN + 1], state[OAUTH_VERIFIER_LEN + 1];
};

/* The MCP server's own address. */
int oauth_begin(struct oauth *o, const char *url, struct err *err);
/* Whether URL may be used. */
bool oauth_is_usable(const struct oauth *o, const char *url);
/* The parameter resource_metadata of a WWW-Authenticate field, if it has one. */
void oauth_take_challenge(struct oauth *o, const char *field);
/* Address N at which the metadata of the resource (RFC 9728) or of the issuer (RFC 8414, OpenID) may be; false: there are
 * no more. */
bool oauth_resource_place(const struct oauth *o, unsigned n, char ret_url[OAUTH_URL_MAX + 1]);
bool oauth_issuer_place(const struct oauth *o, unsigned n, char ret_url[OAUTH_URL_MAX + 1]);
int oauth_take_resource(struct oauth *o, const json_t *document, struct err *err);
int oauth_take_issuer(struct oauth *o, const json_t *document, struct err *err);

/* Dynamic registration (RFC 7591). */
int oauth_put_registration(struct buf *b, const struct oauth *o, struct err *err);
int oauth_take_registration(struct oauth *o, const json_t *document, struct err *err);

/* NOISE: 64 random bytes. */
void oauth_make_verifier(struct oauth *o, const unsigned char noise[64]);
/* The address that a person opens. */
int oauth_put_visit(struct buf *b, const struct oauth *o, struct err *err);
/* The query of the redirect.  The code is in B. */
int oauth_take_redirect(const struct oauth *o, const char *query, struct buf *b, struct err *err);

/* The form that gets the first token, or with a CODE of NULL a new one. */
int oauth_put_token_form(struct buf *b, const struct oauth *o, const char *code, const char *refresh, struct err *err);

/* A login, as it is kept in the vault: one object.  DOCUMENT is the response of the token endpoint; OLD_REFRESH is kept if it
 * has no other.  NOW: seconds since 1970. */
json_t *oauth_login(const struct oauth *o, const json_t *document, const char *old_refresh, uint64_t now, struct err *err);
int oauth_take_login(struct oauth *o, const json_t *login, struct err *err);
#endif
