/* sign_schemes.h - the schemes outside the SigV4 family, and their options.
 *
 * Each comment explains the members of its struct sign_key. */
#ifndef CLOISTER_SIGN_SCHEMES_H
#define CLOISTER_SIGN_SCHEMES_H
#include "sign/scheme_parts.h"

/* Azure Storage, SharedKey and SharedKeyLite, and shared access signatures in URLs.  Key: id is the
 * account, secret its key in base64.  Options: if NULL, a host whose second label is "table" is for
 * Tables. */
struct sign_azure_options {
	bool table;
};
extern const struct sign_scheme sign_azure;

/* HMAC by a template: WITH is a struct sign_hmac (sign_hmac.h), and must not be NULL.  Key: id and
 * token are in the template's places, secret is in the template's coding.  `find` knows the
 * built-in templates; for others there is sign_hmac_find(). */
extern const struct sign_scheme sign_hmac;

/* JWTs that the client signs: as `authorization: Bearer`, or in a form's `assertion` or
 * `client_assertion`.  The signature covers the token, and nothing else of the request.
 *
 * Key: secret is a PEM key, or a shared secret for HS256 and its variants.  id is the value of
 * `kid`, `iss` or `sub`; it is replaced only if the placeholder's id differs.
 *
 * `find` is true for any form whose body is not too long.  A form without an assertion is left
 * unchanged.
 *
 * An RSA key with an id also makes GOOG4-RSA-SHA256 signatures, as the keys of Google's service
 * accounts do.  These cover the request. */
struct sign_jwt_options {
	const char *audience;           /* the only audience to sign for; NULL: any */
	enum sign_coding secret;        /* coding of a shared secret */
	const char *algorithm;          /* the only algorithm to sign with; NULL: any */
};
extern const struct sign_scheme sign_jwt;

/* OAuth 1.0a.  Key: id is the consumer key, token the access token.  secret is the consumer's
 * secret, "&", and the token's secret, each percent-encoded (RFC 5849, 3.4.2), or a PEM key for
 * RSA.  Without a token, "&" and the rest may be left out.  PLAINTEXT is refused: it is not a
 * signature, but the secret itself. */
extern const struct sign_scheme sign_oauth1;

/* HTTP Message Signatures (RFC 9421) of requests.  Key: id is the keyid, secret a PEM key or a
 * shared secret.  It never asks for the body.  If there is a body, a covered Content-Digest is
 * checked. */
struct sign_message_options {
	enum sign_coding secret;        /* coding of a shared secret */
};
extern const struct sign_scheme sign_message;
#endif
