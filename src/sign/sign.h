/* sign.h - credential schemes: check a signature made with one key, and sign with another.
 *
 * Pure: no I/O, no clock, nothing kept between calls.  The agent signs its requests with a
 * placeholder, which is a credential like any other.  So one function does both: it signs with the
 * placeholder and compares, to check the agent's signature, and then signs with the real key.  For
 * incoming requests (webhooks) the roles are swapped. */
#ifndef CLOISTER_SIGN_H
#define CLOISTER_SIGN_H
#include <stdbool.h>
#include <stddef.h>

#include "http/http_head.h"

struct err;

#define SIGN_MEMORY_MAX (64 * 1024)     /* bytes for all new strings of one request */
#define SIGN_DIGEST_MAX 64              /* SHA-512 */
#define SIGN_MADE_MAX 2                 /* tokens of one request */

/* One credential.  Texts are borrowed; those that a scheme does not use are empty. */
struct sign_key {
	struct http_text id;            /* access key id, account, consumer key, key id */
	struct http_text secret;        /* key material in the scheme's form: text, base64, PEM */
	struct http_text token;         /* the session or access token of the key */
};

/* A body that is needed before the head can be signed. */
struct sign_body {
	const void *at;
	size_t len;
};

/* The request as the client made and signed it; only its signature is checked.  The request to send
 * may be spelled differently, or contain a token that was signed anew. */
struct sign_was {
	const struct http_head *head;
	const struct sign_body *body;   /* NULL: not there yet */
};

/* Memory for a signer's output; HEAD's texts point into it afterwards.  Its owner wipes it: it
 * holds signatures, never keys. */
struct sign_memory {
	char at[SIGN_MEMORY_MAX];
	size_t used;
	struct sign_body body;          /* if the signature is in the body: the whole body to send instead
	                                 * (HEAD's length is set to its); else NULL */
	/* For a scheme that is ALONE: the parts that make a token valid, and what stood in their
	 * place.  Anyone with the token may use it until it ends. */
	struct sign_made {
		struct http_text real, agents;
	} made[SIGN_MADE_MAX];
	size_t n_made;
	bool h1_only;                   /* `transfer-encoding` is signed, which HTTP/2 lacks */
};

enum sign_next {
	SIGN_DONE,                      /* HEAD is signed anew; the body is sent unchanged */
	SIGN_WANTS_BODY,                /* HEAD is unchanged: call again with the whole body */
	SIGN_WANTS_CHUNKS,              /* HEAD is signed anew; the body goes through sign_chunks, which
	                                 * signs each chunk */
	SIGN_NOTHING,                   /* there is no signature after all, or one that may be valid as it
	                                 * is: send everything unchanged */
};

struct sign_chunks;                     /* see sign_chunks.h */

struct sign_scheme {
	const char *name;               /* "sigv4", "azure-sharedkey", "hmac", ... */
	/* Whether HEAD carries a signature of this scheme.  *ret_id is the key's name in HEAD, or
	 * empty. */
	bool (*find)(const struct http_head *head, struct http_text *ret_id);
	/* Check WAS with FROM, then sign HEAD and BODY, which will be sent, with TO.  WAS is NULL
	 * if they are the same.  BODY is NULL at first.  WITH is the scheme's configuration (its
	 * own type; NULL: defaults).  If a signature is wrong, ERR explains what differed, and
	 * reveals no signature or key. */
	int (*sign)(const void *with, const struct sign_key *from, const struct sign_key *to,
	            const struct sign_was *was, struct http_head *head,
	            const struct sign_body *body, struct sign_memory *m,
	            enum sign_next *ret_next, struct sign_chunks **ret_chunks, struct err *err);
	/* Whether this scheme can sign with the key SECRET; NULL: with any. */
	int (*check_key)(struct http_text secret, struct err *err);
	bool alone;                     /* it signs only the credential itself: the rest of the request may
	                                 * change */
	/* For a scheme that is ALONE: whether it signs HEAD as a whole nevertheless; NULL: never. */
	bool (*covers)(const struct http_head *head);
};

bool sign_is_alone(const struct sign_scheme *scheme, const struct http_head *head);

/* Whether HEAD carries a signature that covers more than itself, of any scheme that is found without
 * configuration. */
bool sign_is_signed(const struct http_head *head);
/* Find a scheme by name; NULL: unknown. */
const struct sign_scheme *sign_scheme_find(const char *name);
#endif
