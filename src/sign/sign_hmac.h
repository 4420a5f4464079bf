/* sign_hmac.h - HMAC signatures described as data: what is signed, in which order, with
 * which digest, and where the signature is.
 *
 * A message is text with parts in braces:
 *	{method} {host} {path} {query} {target} {url} {body}
 *	                        target: path and query; host: with a port that is not the
 *	                        default; url: scheme, host and target
 *	{timestamp} {nonce}     from the places in the template
 *	{id} {token}            of the key
 *	{header:NAME} {param:NAME}      param: of the query or form, decoded
 *	{form:sorted}           names and values of a form, decoded, sorted, nothing between
 *	{sha256:...}            digest of the text in it, as bytes; {sha256.hex:...} and
 *	                        {sha256.base64:...} as text; sha1, sha384 and sha512 likewise
 *	{{ and }}               a brace
 * If the signature is a parameter, {query}, {target}, {url} and {body} leave it out.
 *
 * A place is "header:NAME"; "header:NAME:MEMBER" for one of "a=1,b=2"; "param:NAME" for a
 * parameter of the query, or else of the form; "body:NAME" for a parameter of a form, or a
 * member of a JSON object. */
#ifndef CLOISTER_SIGN_HMAC_H
#define CLOISTER_SIGN_HMAC_H
#include "sign/scheme_parts.h"

#define SIGN_HMAC_PARTS_MAX 24
#define SIGN_HMAC_TEMPLATE_MAX 512      /* characters of a message */
#define SIGN_HMAC_ALSO_MAX 3            /* templates in one chain */

enum sign_digest { SIGN_SHA1, SIGN_SHA256, SIGN_SHA384, SIGN_SHA512 };

struct sign_hmac_template {
	const char *name;
	const char *message;
	enum sign_digest digest;
	enum sign_coding secret;        /* coding of the secret */
	enum sign_coding signature;     /* SIGN_HEX or SIGN_BASE64 */
	const char *prefix;             /* before the signature; NULL: nothing */
	const char *at;                 /* the place of the signature */
	const char *id, *token;         /* their places; NULL: nowhere */
	const char *timestamp, *nonce;
	const struct sign_hmac_template *also;  /* an optional second signature */
};

enum hmac_place_kind { HMAC_NOWHERE, HMAC_HEADER, HMAC_MEMBER, HMAC_PARAM, HMAC_BODY };
struct hmac_place {
	enum hmac_place_kind kind;
	struct http_text name, member;  /* in the template */
};

enum hmac_part_kind {
	HMAC_LITERAL, HMAC_METHOD, HMAC_HOST, HMAC_PATH, HMAC_QUERY, HMAC_TARGET, HMAC_URL,
	HMAC_WHOLE_BODY, HMAC_TIMESTAMP, HMAC_NONCE, HMAC_ID, HMAC_TOKEN, HMAC_FIELD,
	HMAC_PARAMETER, HMAC_FORM_SORTED, HMAC_HASH, HMAC_HASH_END,
};
struct hmac_part {
	enum hmac_part_kind kind;
	struct http_text text;          /* LITERAL; the name of FIELD and PARAMETER */
	enum sign_digest digest;        /* HASH */
	enum sign_coding coding;
};

struct sign_hmac_one {
	const struct sign_hmac_template *template;
	struct hmac_part parts[SIGN_HMAC_PARTS_MAX];
	size_t n_parts;
	struct hmac_place at, id, token, timestamp, nonce;
	bool wants_body;
};

/* A compiled template: WITH of sign_hmac points to it. */
struct sign_hmac {
	struct sign_hmac_one one[SIGN_HMAC_ALSO_MAX];
	size_t n;
};

/* Compile T, which is borrowed for as long as *ret_hmac lives.  On failure ERR names the error and
 * its place, and *ret_hmac is untouched. */
int sign_hmac_compile(const struct sign_hmac_template *t, struct sign_hmac *ret_hmac,
                      struct err *err);
/* As struct sign_scheme's find, for one template.  If the signature is a parameter, it is true for
 * any form that could have one.  A form without a signature is left unchanged. */
bool sign_hmac_find(const struct sign_hmac *hmac, const struct http_head *head,
                    struct http_text *ret_id);

/* Find a built-in template by name ("github", "stripe", "binance", ...); NULL: unknown.
 * sign_hmac_rows is in no order and ends with an empty name. */
extern const struct sign_hmac_template sign_hmac_rows[];
const struct sign_hmac_template *sign_hmac_row(const char *name);
#endif
