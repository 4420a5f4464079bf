/* sign.h - credential schemes: checks what was signed with one key, and signs it with
 * another.
 *
 * Pure: no I/O, no clock, nothing kept between calls.  The agent's requests are signed
 * with a placeholder, which is a credential like any other; so the same function that
 * signs with the real key tells whether the agent's signature is right, by signing with
 * the placeholder and comparing.  What comes in (a webhook) has the roles swapped. */
#ifndef CLOISTER_SIGN_H
#define CLOISTER_SIGN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"

struct err;

#define SIGN_MEMORY_MAX (64 * 1024)     /* all that one request's new strings may take */
#define SIGN_DIGEST_MAX 64              /* SHA-512 */
#define SIGN_MADE_MAX 2                 /* tokens of one request */

/* One credential.  Texts are borrowed; what a scheme does not use is empty. */
struct sign_key {
	struct http_text id;            /* access key id, account, consumer key, key id */
	struct http_text secret;        /* key material as the scheme has it: text, base64, PEM */
	struct http_text token;         /* session or access token that goes with it */
};

/* A body that had to be there before the head could be signed. */
struct sign_body {
	const void *at;
	size_t len;
};

/* The request as the client made it and signed it.  What is sent may be spelled otherwise,
 * or have a token in it that was signed anew: it is only the signature that is checked here. */
struct sign_was {
	const struct http_head *head;
	const struct sign_body *body;   /* NULL: it is not there yet */
};

/* Room for what a signer writes; HEAD's texts point into it afterwards.  Wiped by its
 * owner: there are signatures in it, never keys. */
struct sign_memory {
	char at[SIGN_MEMORY_MAX];
	size_t used;
	struct sign_body body;          /* where the signature stands in the body: all of the
	                                 * body to send instead (HEAD's length is set to its);
	                                 * else NULL */
	/* Of a scheme that is ALONE: what makes a token good, and what stood in its place.  Whoever
	 * has the token may use it, until it ends. */
	struct sign_made {
		struct http_text real, agents;
	} made[SIGN_MADE_MAX];
	size_t n_made;
	bool h1_only;                   /* `transfer-encoding` is signed, which HTTP/2 has not */
};

enum sign_next {
	SIGN_DONE,                      /* HEAD is signed anew; the body goes as it comes */
	SIGN_WANTS_BODY,                /* HEAD is untouched: call again with all of the body */
	SIGN_WANTS_CHUNKS,              /* HEAD is signed anew; the body's pieces go through
	                                 * sign_chunks, which signs each of them */
	SIGN_NOTHING,                   /* there is no signature after all, or one that may be good
	                                 * as it is: all goes as it comes */
};

struct sign_chunks;                     /* see sign_chunks.h */

struct sign_scheme {
	const char *name;               /* "sigv4", "azure-sharedkey", "hmac", ... */
	/* Whether HEAD carries a signature of this scheme; where it names its key, *ret_id is
	 * that name (in HEAD), else empty. */
	bool (*find)(const struct http_head *head, struct http_text *ret_id);
	/* Check WAS with FROM, then sign HEAD and BODY, which are to be sent, with TO in place.
	 * WAS is NULL where they are the same.  BODY is NULL at first.  WITH: what the scheme was
	 * configured with (its own type; NULL: its defaults).  A signature that is not right is
	 * an error which says what differed and gives no signature or key away. */
	int (*sign)(const void *with, const struct sign_key *from, const struct sign_key *to,
	            const struct sign_was *was, struct http_head *head,
	            const struct sign_body *body, struct sign_memory *m,
	            enum sign_next *ret_next, struct sign_chunks **ret_chunks, struct err *err);
	/* Whether SECRET is a key that this scheme can sign with at all; NULL: any is. */
	int (*check_key)(struct http_text secret, struct err *err);
	bool alone;                     /* what is signed is the credential itself: the rest of
	                                 * the request may change */
	/* Of one that is ALONE: whether HEAD is signed as a whole all the same; NULL: never. */
	bool (*covers)(const struct http_head *head);
};

bool sign_is_alone(const struct sign_scheme *scheme, const struct http_head *head);

/* The schemes by name; NULL if there is none. */
const struct sign_scheme *sign_scheme_find(const char *name);
#endif
