/* sign_schemes.h - the schemes outside the SigV4 family, and what they are configured with.
 *
 * Which member of a struct sign_key holds what is said at each. */
#ifndef CLOISTER_SIGN_SCHEMES_H
#define CLOISTER_SIGN_SCHEMES_H
#include "sign/scheme_parts.h"

/* Azure Storage, SharedKey and SharedKeyLite, and shared access signatures in URLs.  Key: id is the account, secret its key in
 * base64.  Options: NULL takes a host whose second label is "table" for Tables. */
struct sign_azure_options {
	bool table;
};
extern const struct sign_scheme sign_azure;

/* HMAC by a template: WITH is a struct sign_hmac (sign_hmac.h), and must not be NULL.  Key:
 * id and token where the template says they stand, secret in the template's coding.  `find`
 * knows the built-in templates; for others there is sign_hmac_find(). */
extern const struct sign_scheme sign_hmac;

/* JWTs that the client signs: as `authorization: Bearer`, or in a form's `assertion` or
 * `client_assertion`.  Key: secret is a PEM key, or a shared secret for HS256 and its kin;
 * id is what `kid`, `iss` or `sub` are where the placeholder's differs (and only then are
 * these bytes changed).  `find` is true for any form with a body that is not too long for one:
 * a form without an assertion is signed by leaving it as it is.  The signature covers the
 * token and nothing else of the request.  An RSA key with an id also signs what is signed
 * with GOOG4-RSA-SHA256, as the keys of Google's service accounts do; that covers the request. */
struct sign_jwt_options {
	const char *audience;           /* the only one that is signed for; NULL: any */
	enum sign_coding secret;        /* of a shared secret */
	const char *algorithm;          /* the only one that is signed with; NULL: any */
};
extern const struct sign_scheme sign_jwt;

/* OAuth 1.0a.  Key: id is the consumer key, token the access token; secret is the consumer's
 * secret, "&", and the token's secret, each percent-encoded (RFC 5849, 3.4.2; "&" and what
 * follows may be left out where there is no token), or a PEM key for RSA.  PLAINTEXT, which
 * is no signature but the secret itself, is refused. */
extern const struct sign_scheme sign_oauth1;

/* HTTP Message Signatures (RFC 9421) of requests.  Key: id is the keyid, secret a PEM key or
 * a shared secret.  It never wants the body: where a body is at hand, a Content-Digest that
 * is covered is checked. */
struct sign_message_options {
	enum sign_coding secret;        /* of a shared secret */
};
extern const struct sign_scheme sign_message;
#endif
