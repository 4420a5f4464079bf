/* scheme_parts.h - building blocks of the schemes: codings, parameters and text functions. */
#ifndef CLOISTER_SCHEME_PARTS_H
#define CLOISTER_SCHEME_PARTS_H
#include <openssl/evp.h>

#include "sign/sign.h"

#define SCHEME_SECRET_MAX 4096          /* bytes of a shared secret, decoded */
#define SCHEME_BASE_MAX (512 * 1024)    /* bytes of a string to sign, without the body */
#define SCHEME_FORM_MAX (48 * 1024)     /* bytes of a form that a scheme reads or rewrites */
#define SCHEME_PARAMS_MAX 256           /* of a query and a form together */

enum sign_coding { SIGN_RAW, SIGN_HEX, SIGN_BASE64, SIGN_BASE64URL };

/* A shared secret as bytes; wiped with OWN(scheme_secret_wipe). */
struct scheme_secret {
	unsigned char at[SCHEME_SECRET_MAX];
	size_t len;
};

void scheme_secret_wipe(struct scheme_secret *s);
/* WHOSE is "the placeholder's" or "the real". */
int scheme_secret_read(struct http_text secret, enum sign_coding coding, const char *whose,
                       struct scheme_secret *ret, struct err *err);

struct http_text scheme_text(const char *s);
struct http_text scheme_text_of(const struct buf *b);
bool scheme_same(struct http_text a, struct http_text b);
int scheme_compare(struct http_text a, struct http_text b);     /* by bytes, as memcmp() */
bool scheme_begins(struct http_text text, const char *with);
/* Takes constant time for equal lengths; lengths are no secret. */
bool scheme_same_secret(const void *a, size_t a_len, const void *b, size_t b_len);

/* The index of the first field NAME, or -1. */
int scheme_field_at(const struct http_head *head, const char *name);
/* Whether the content type is application/x-www-form-urlencoded. */
bool scheme_is_form(const struct http_head *head);
struct http_text scheme_path_of(const struct http_head *head);   /* without the query */
struct http_text scheme_query_of(const struct http_head *head);  /* without "?"; .at is NULL if there is no
                                                                  * "?" */
/* Put "host" or "host:port" as in the request, without the default port. */
void scheme_put_authority(struct buf *b, const struct http_head *head);

void scheme_put(struct buf *b, struct http_text text);
void scheme_put_coded(struct buf *b, enum sign_coding coding, const void *data, size_t len);
/* Percent-encode all but letters, digits and "-._~" (RFC 3986). */
void scheme_put_encoded(struct buf *b, struct http_text text);
/* Percent-decode; PLUS: "+" is a space.  An invalid escape is kept. */
void scheme_put_decoded(struct buf *b, struct http_text text, bool plus);
/* Strict: no blanks, no foreign characters, base64 with its padding and base64url without, no
 * leftover bits.  -EINVAL, or -ENOBUFS if SIZE is too small. */
int scheme_decode(enum sign_coding coding, struct http_text text, unsigned char *out,
                  size_t size, size_t *ret_len);

/* One NAME=VALUE of a query or form, as written. */
struct scheme_param {
	struct http_text name, value;
	struct http_text whole;
};
/* Read the next parameter, and advance *REST; empty ones are skipped. */
bool scheme_param_next(struct http_text *rest, struct scheme_param *ret);
/* Whether CODED, percent-decoded, is TEXT. */
bool scheme_same_decoded(struct http_text coded, struct http_text text);
/* Whether NAME, decoded, is WANT. */
bool scheme_param_is(struct http_text name, const char *want);
/* The first parameter WANT of TEXT. */
bool scheme_param_find(struct http_text text, const char *want, struct scheme_param *ret);

/* A part of a text, and its replacement. */
struct scheme_cut {
	struct http_text at, with;
};
/* Write TEXT with its CUTS replaced; they are in order and do not overlap. */
void scheme_splice(struct buf *b, struct http_text text, const struct scheme_cut *cuts,
                   size_t n);

/* Copy TEXT into M, for as long as M lives. */
int scheme_keep(struct sign_memory *m, struct http_text text, struct http_text *ret_text,
                struct err *err);
/* Report a wrong signature: the same sentence for all schemes. */
int scheme_wrong(struct err *err, const char *scheme, const char *covers);
int scheme_failed(struct err *err, const char *what);   /* for OpenSSL errors or lack of memory */

int scheme_hmac(const EVP_MD *md, const struct scheme_secret *key, struct http_text message,
                unsigned char ret_mac[SIGN_DIGEST_MAX], size_t *ret_len, struct err *err);
#endif
