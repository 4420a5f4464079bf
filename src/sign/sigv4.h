/* sigv4.h - AWS Signature Version 4 and related schemes: declarations shared by their files.
 *
 * Each related scheme is a row of data.  All sign a hash of the canonical request, with a key
 * derived from the secret and the scope.  The `authorization` field, or the query of a presigned
 * URL, names the key, the scope and the signed fields. */
#ifndef CLOISTER_SIGV4_H
#define CLOISTER_SIGV4_H
#include <openssl/evp.h>

#include "sign/sign.h"

#define SIGV4_HASH_LEN 32               /* SHA-256 */
#define SIGV4_HEX_LEN 64
#define SIGV4_PARAMS_MAX 512            /* of a query */
#define SIGV4_SCOPE_MAX 256
#define SIGV4_ID_MAX 256
#define SIGV4_SECRET_MAX 1024           /* of a secret that is not a PEM key */
#define SIGV4_SIGNATURE_MAX 1024        /* hex digits; RSA with 4096 bits */
#define SIGV4_TO_SIGN_MAX 640           /* label, time, scope, hash */

enum sigv4_crypt { SIGV4_HMAC, SIGV4_P256, SIGV4_RSA };

enum sigv4_flags {
	SIGV4_TWICE = 1,                /* the path is encoded twice, except for S3 */
	SIGV4_UNSIGNED_BODY = 2,        /* an undeclared hash is UNSIGNED-PAYLOAD */
	SIGV4_RAW_QUERY = 4,            /* as on the wire, not sorted */
	SIGV4_LOWER_VALUES = 8,         /* fields' values in lower case */
	SIGV4_TOKEN_UNSIGNED = 16,      /* a session token is not added to SignedHeaders */
	SIGV4_HASHED_WORD = 32,         /* UNSIGNED-PAYLOAD is hashed like a body */
	SIGV4_CHUNKS = 64,              /* supports aws-chunked bodies */
	SIGV4_REGION_SET = 128,         /* x-amz-region-set must be signed */
};

struct sigv4_row {
	const char *label;              /* the algorithm's name */
	const char *prefix;             /* precedes the secret */
	const char *terminator;         /* the scope's last word; NULL: there is no scope */
	size_t n_scope;                 /* number of words in the scope */
	const char *date, *hash, *token;        /* fields, or NULL */
	const char *query;              /* prefix of a presigned URL's parameters, or NULL: there are none */
	enum sigv4_crypt crypt;
	unsigned flags;
};

/* Interpretations of the specification in which clients differ.  The one that verifies is also used
 * for the new signature. */
enum sigv4_way {
	SIGV4_PLUS_IS_SPACE = 1,        /* in the query */
	SIGV4_TOKEN_APART = 2,          /* a presigned URL's token was added after signing */
	SIGV4_VALUES_AS_IS = 4,         /* not in lower case, for SIGV4_LOWER_VALUES */
	SIGV4_SLASHES_AS_IS = 8,        /* "//" in the path is not merged */
	SIGV4_LAST_WAY = SIGV4_SLASHES_AS_IS,
};

/* ---- a request's claim about its signature (sigv4_read.c) ------------------------------- */

struct sigv4_param {
	struct http_text name, value;   /* as on the wire, in the head's path */
};

struct sigv4_query {
	struct sigv4_param params[SIGV4_PARAMS_MAX];
	size_t n;
};

struct sigv4_claim {
	bool presigned;
	bool tight;                     /* no blank after the commas of `authorization` */
	struct http_text id, scope, fields, signature;
	struct http_text time;          /* as it is signed */
	struct http_text service;       /* in SCOPE */
};

/* Whether HEAD carries a signature of ROW.  RET_ID is as in struct sign_scheme; for a presigned
 * URL, its escapes are as on the wire. */
bool sigv4_claim_find(const struct sigv4_row *row, const struct http_head *head,
                      struct http_text *ret_id);
/* Read the claim.  QUERY is the head's (sigv4_query_read).  Texts that had escapes are put into M. */
int sigv4_claim_read(const struct sigv4_row *row, const struct http_head *head,
                     const struct sigv4_query *query, struct sign_memory *m,
                     struct sigv4_claim *ret_claim, struct err *err);
int sigv4_query_read(struct http_text path, struct sigv4_query *ret_query, struct err *err);
/* The parameter named ROW's prefix plus SUFFIX, or NULL. */
const struct sigv4_param *sigv4_param_find(const struct sigv4_row *row,
                                           const struct sigv4_query *query,
                                           const char *suffix);
/* Find the only field NAME: its index, or -1 if it is not there.  Two such fields are an error. */
int sigv4_field_find(const struct http_head *head, const char *name, int *ret_at,
                     struct err *err);
/* S3 and services with its protocol. */
bool sigv4_is_s3(const struct sigv4_claim *claim);
/* Allocate in M; NULL with an error if it is full. */
char *sigv4_room(struct sign_memory *m, size_t len, struct err *err);
/* Undo the escapes of TEXT.  If there are none, *ret_text is TEXT itself. */
int sigv4_decode(struct sign_memory *m, struct http_text text, struct http_text *ret_text,
                 struct err *err);

/* ---- the canonical request (sigv4_canon.c) ------------------------------------------ */

struct sigv4_canon {
	const struct sigv4_row *row;
	const struct http_head *head;
	const struct sigv4_query *query;
	struct http_text fields;        /* SignedHeaders */
	struct http_text hash;          /* of the body, or the word in its place */
	bool presigned, once;           /* ONCE: the path is encoded once only */
	unsigned ways;
};

int sigv4_canon_hash(const struct sigv4_canon *canon, char ret_hex[SIGV4_HEX_LEN],
                     struct err *err);

/* ---- keys (sigv4_key.c, sigv4a.c) --------------------------------------------------- */

/* Derived from a secret and a scope. */
struct sigv4_key {
	enum sigv4_crypt crypt;
	unsigned char hmac[SIGV4_HASH_LEN];
	size_t hmac_len;                /* 0: the secret itself is used, and stays borrowed */
	struct http_text secret;
	EVP_MAC_CTX *mac;
	EVP_PKEY *pkey;
};

int sigv4_key_open(const struct sigv4_row *row, const struct sign_key *key,
                   struct http_text scope, struct sigv4_key *ret_key, struct err *err);
void sigv4_key_close(struct sigv4_key *key);    /* wipes it; for OWN() too */
int sigv4_key_sign(const struct sigv4_key *key, const char *text, size_t len,
                   char ret_hex[SIGV4_SIGNATURE_MAX], size_t *ret_len, struct err *err);
bool sigv4_key_fits(const struct sigv4_key *key, const char *text, size_t len,
                    struct http_text signature);
/* Derive the P-256 key from a secret, as SigV4A does.  NULL: it failed. */
EVP_PKEY *sigv4a_key(const char *label, const char *prefix, const struct sign_key *key);
int sigv4_hmac(const void *key, size_t key_len, const void *data, size_t len,
               unsigned char ret_mac[SIGV4_HASH_LEN]);

/* ---- requests of our own (sigv4_fresh.c) --------------------------------------------- */

#define SIGV4_AUTHORIZATION_MAX 2048
extern const struct sigv4_row sigv4_row;        /* AWS's own */
/* Sign HEAD, which carries no signature: its host and every field of it.  These include `x-amz-date`,
 * `x-amz-content-sha256` and, if KEY has a token, `x-amz-security-token`.  The result is the value of `authorization`. */
int sigv4_sign_fresh(const struct sign_key *key, const char *region, const char *service, const struct http_head *head,
                     char ret_authorization[SIGV4_AUTHORIZATION_MAX], struct err *err);
/* The same as lines "name: value": one for each field of HEAD, then `authorization`.  RET_LINES has room for them, and
 * is all NULL.  It is the caller's after an error too: sigv4_lines_free(). */
int sigv4_sign_lines(const struct sign_key *key, const char *region, const char *service, const struct http_head *head,
                     char **ret_lines, struct err *err);
void sigv4_lines_free(char **lines, size_t n);  /* wiped first: they may have a token */

/* ---- the schemes (sigv4.c), and their table (sigv4_family.c) ------------------------------ */

/* As struct sign_scheme's sign. */
int sigv4_sign_row(const struct sigv4_row *row, const struct sign_key *from,
                   const struct sign_key *to, const struct sign_was *was,
                   struct http_head *head, const struct sign_body *body, struct sign_memory *m,
                   enum sign_next *ret_next, struct sign_chunks **ret_chunks,
                   struct err *err);

/* Options of `sigv4`; patterns as for file names.  NULL: any. */
struct sigv4_options {
	const char *service, *region;
};
/* `sigv4` includes all of these: the request decides which one applies. */
extern const struct sign_scheme sigv4_scheme, sigv4a_scheme, goog4_hmac_scheme,
	goog4_rsa_scheme, acs3_scheme, tc3_scheme;
#endif
