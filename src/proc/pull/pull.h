/* pull.h - cloister-pull: fetches an image from a registry into the store.
 *
 * Everything that needs the operator's files (configuration, logins, keys, certificates) is read before the
 * first byte goes out; then the process locks itself down, and can change only the store. */
#ifndef CLOISTER_PULL_H
#define CLOISTER_PULL_H
#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/auth.h"
#include "image/challenge.h"
#include "image/manifest.h"
#include "image/ref.h"
#include "image/registries.h"
#include "image/signature.h"
#include "image/store.h"
#include "upstream/curl_way.h"

#define PULL_PARALLEL 4                 /* blobs at once */
#define PULL_TRIES 5                    /* of a request that makes no progress */
#define PULL_REDIRECTS_MAX 5
#define PULL_SOURCES_MAX (REGISTRIES_MIRRORS_MAX + 1)
#define PULL_BLOB_MAX (UINT64_C(16) << 30)      /* defaults of the limits */
#define PULL_IMAGE_MAX (UINT64_C(32) << 30)
#define PULL_STALL_S 30                 /* with less than PULL_SLOW bytes a second for so long, a try ends */
#define PULL_SLOW 512
#define PULL_CONNECT_S 20
#define PULL_DOCUMENT_S 120             /* for a manifest or a token */
#define PULL_WAIT_MAX_S 60              /* the longest Retry-After that is honoured */
#define PULL_URL_MAX 8192
#define PULL_CA_MAX (4u << 20)
#define PULL_KEYS_MAX 64
#define PULL_SETS_MAX 16

/* One place to fetch from: the registry itself, or a mirror. */
struct pull_source {
	char name[REGISTRIES_NAME_MAX + 1];     /* host[:port], as people write it */
	char repository[2 * REGISTRIES_NAME_MAX + 2];
	struct challenge_url origin;            /* where requests go */
	char base[CHALLENGE_HOST_MAX + 32];     /* "https://host:port" */
	bool insecure;                          /* plain HTTP, because the operator said so */
	bool is_known;                          /* ORIGIN was tried, and answers */
	bool answers_only;                      /* any answer will do */
	bool is_here;                           /* ORIGIN is on this machine */
	struct auth auth;
	char *realm;                            /* borrowed: the host that may have the login for tokens, or NULL */
	char *pem;                              /* certificates to trust */
	size_t pem_len;
	/* How requests are authorized. */
	struct challenge challenge;
	char *token;
	int64_t token_until;                    /* io_now_ms() */
	unsigned n_tokens;                      /* so far */
};

struct pull_key {
	struct signature_key *key;
	unsigned set;                           /* one key of each set must have signed */
};

struct pull {
	/* Options. */
	struct image_name name;
	const char *platform;                   /* NULL: this machine's */
	const char *ca;
	bool verify_only;
	const char *verify_digest;              /* the image to check; NULL: the one with the name */
	uint64_t blob_max, image_max;
	unsigned stall_s;
	struct pull_key keys[PULL_KEYS_MAX];
	size_t n_keys;
	unsigned n_sets;
	bool needs_digest;

	struct registries registries;
	struct pull_source sources[PULL_SOURCES_MAX];
	size_t n_sources;
	struct proxies proxies;
	struct store *store;
	struct loop *loop;
	struct resolver *resolver;
	CURLM *small, *large;                   /* documents; blobs */
	struct pull_progress *progress;

	/* What was found. */
	char index[HASH_NAME + 1];              /* "": the image has no index */
	char digest[HASH_NAME + 1];             /* of the manifest */
	uint64_t manifest_size;
};

/* ---- pull_config.c: the operator's files, before the lockdown ---- */

int pull_read_config(struct pull *p, struct err *err);
/* REQUIRE: as policy_images_parse() takes it. */
int pull_read_required(struct pull *p, const char *require, struct err *err);
int pull_add_key(struct pull *p, const char *file, unsigned set, struct err *err);
void pull_free_config(struct pull *p);

/* ---- pull_http.c: one request ---- */

struct pull_exchange {
	/* Set by the caller. */
	struct pull_source *source;
	char url[PULL_URL_MAX + 1];
	const char *accept;                     /* or NULL */
	const char *form;                       /* a POST's body, or NULL */
	const char *login;                      /* an Authorization of its own, or NULL: the source's */
	bool is_head, is_token;
	bool is_large;                          /* no time limit */
	uint64_t from;                          /* bytes that are there already */
	uint64_t body_max;
	/* Gets the body of a 200 or 206; a negative value ends the exchange. */
	int (*take)(void *arg, const void *data, size_t len, struct err *err);
	/* Called before the first byte of such a body; may be NULL. */
	int (*begin)(void *arg, struct err *err);
	void *arg;
	unsigned stall_s;

	/* The answer. */
	long status;
	char type[IMAGE_TEXT_MAX + 1], digest[HASH_NAME + 1];
	char asks[CHALLENGE_FIELD_MAX + 1];     /* WWW-Authenticate */
	char location[PULL_URL_MAX + 1];
	uint64_t length, starts_at;             /* UINT64_MAX: not known */
	uint64_t retry_after;                   /* seconds; UINT64_MAX: not known */
	char said[512];                         /* the beginning of an error's body */
	size_t n_said;
	uint64_t received;
	CURLcode code;
	long proxy_status;                      /* of its answer to CONNECT */

	/* private: */
	CURL *easy;
	struct curl_slist *head;
	struct curl_way_lists lists;
	char why[CURL_ERROR_SIZE];
	struct err err;                         /* of TAKE and BEGIN */
	bool has_begun;
	unsigned redirects, logins;
	unsigned sent_with;                     /* the source's n_tokens then */
};

enum pull_next {
	PULL_DONE,                              /* a 200 or 206, whole */
	PULL_AGAIN,                             /* send it again at once: redirected, or authorized */
	PULL_RETRY,                             /* the server or the way to it failed: later */
	PULL_MISSING,                           /* 404 */
	PULL_FAILED,                            /* for good */
};

/* Set up X for MULTI, and add it. */
int pull_send(struct pull *p, CURLM *multi, struct pull_exchange *x, struct err *err);
/* X is over with CODE: take it off MULTI and decide what is next.  ERR explains all but PULL_DONE. */
enum pull_next pull_finish(struct pull *p, CURLM *multi, struct pull_exchange *x, CURLcode code,
                           struct err *err);
/* Take it off MULTI as it is. */
void pull_drop(CURLM *multi, struct pull_exchange *x);
/* Send X and wait for its end, with retries. */
enum pull_next pull_exchange(struct pull *p, struct pull_exchange *x, struct err *err);
/* As how many of PULL_TRIES a failed try counts: one that took long counts for more. */
unsigned pull_weight(const struct pull_exchange *x);
/* The pause before try N (from 1), in milliseconds. */
int64_t pull_pause(const struct pull_exchange *x, unsigned n);

/* Fetch a document of at most MAX bytes from PATH ("/v2/..." behind the source's base) into BODY. */
enum pull_next pull_fetch(struct pull *p, struct pull_source *source, const char *path, const char *accept,
                          bool is_head, struct pull_exchange *x, struct buf *body, struct err *err);

/* ---- pull_token.c ---- */

/* X was refused: get a token, or use the login.  0: send it again. */
int pull_authorize(struct pull *p, struct pull_exchange *x, struct err *err);
/* The Authorization field for a request to SOURCE; the caller owns *ret_line, which is NULL if there is none. */
int pull_authorization(struct pull *p, struct pull_source *source, char **ret_line, struct err *err);

/* ---- pull_manifest.c ---- */

/* Find out whether SOURCE answers, and over TLS or not. */
int pull_greet(struct pull *p, struct pull_source *source, struct err *err);
/* Find the manifest, and put it and its index into the store. */
int pull_find_manifest(struct pull *p, struct pull_source *source, struct err *err);

/* ---- pull_blobs.c ---- */

/* Fetch everything that MANIFEST names and that is not in the store. */
int pull_blobs(struct pull *p, struct pull_source *source, const struct image_manifest *manifest,
               struct err *err);

/* ---- pull_sign.c ---- */

/* Check that the image is signed by a key of each set, with what the store knows, or else with what SOURCE
 * (NULL: nothing) has. */
int pull_check_signed(struct pull *p, struct pull_source *source, struct err *err);

/* ---- pull_progress.c ---- */

/* FD (-1: none) gets lines of JSON; a terminal on standard error gets bars, unless QUIET. */
int pull_progress_new(int fd, bool quiet, struct pull_progress **ret_progress, struct err *err);
void pull_progress_begin(struct pull_progress *g, const char *name, uint64_t total, size_t blobs);
void pull_progress_blob(struct pull_progress *g, size_t slot, const char *digest, uint64_t done, uint64_t size);
void pull_progress_leave(struct pull_progress *g, size_t slot);
void pull_progress_add(struct pull_progress *g, uint64_t bytes, size_t blobs);
void pull_progress_note(struct pull_progress *g, const char *event, const char *text);
/* A request failed, for the reason TEXT, and is sent again.  TRIES: how many of PULL_TRIES are over. */
void pull_progress_retry(struct pull_progress *g, unsigned tries, const char *text);
/* Draw, unless that was a moment ago. */
void pull_progress_draw(struct pull_progress *g, bool now);
void pull_progress_end(struct pull_progress *g);
#endif
