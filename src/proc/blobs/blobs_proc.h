/* blobs_proc.h - cloister-blobs: keeps a registry's blobs in S3.
 *
 * It works for one handle, on one question at a time.  Everything that it needs of the operator's files and variables is
 * read before the lockdown, but for tokens that others renew. */
#ifndef CLOISTER_BLOBS_PROC_H
#define CLOISTER_BLOBS_PROC_H
#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "canon/hash.h"
#include "http/http_head.h"
#include "store/aws_keys.h"
#include "store/s3_place.h"
#include "store/s3_xml.h"
#include "upstream/curl_way.h"

#define BLOBS_TRIES 6                   /* of a request that makes no progress */
#define BLOBS_CONNECT_S 10
#define BLOBS_STALL_S 30                /* with less than BLOBS_SLOW bytes a second for so long, a try ends */
#define BLOBS_SLOW 512
#define BLOBS_DEADLINE_MS (10 * 60 * 1000)      /* for one question, besides the time for its bytes */
#define BLOBS_BYTES_PER_MS 128          /* that the deadline allows for */
#define BLOBS_PAUSE_MAX_MS 20000
#define BLOBS_PART (32u << 20)          /* bytes of a part of an upload */
#define BLOBS_WHOLE_MAX (64u << 20)     /* larger ones are put in parts */
#define BLOBS_PARTS_MAX 64
#define BLOBS_CA_MAX (4u << 20)
#define BLOBS_KEY_MAX (S3_PREFIX_MAX + 128)     /* bytes of an object's key */
#define BLOBS_PATH_MAX (BLOBS_KEY_MAX + S3_BUCKET_MAX + 3 * S3_UPLOAD_MAX + 256)
#define BLOBS_FIELDS_MAX 8

/* ---- blobs_http.c: one request ---- */

struct exchange {
	/* Set by the caller. */
	const char *method;
	const char *doing;              /* the right that it needs, for people: "s3:PutObject" */
	char path[BLOBS_PATH_MAX];      /* with the query, behind the bucket: "/key?query", escaped */
	struct http_field fields[BLOBS_FIELDS_MAX];     /* to be signed */
	size_t n_fields;
	char payload[HASH_HEX + 1];     /* the body's hash; "": there is no body */
	const void *data;               /* the body, or NULL: */
	int from;                       /* a file; 0: none */
	uint64_t offset, length;        /* of the body in it */
	int to;                         /* gets the body of a 200 or 206; 0: BODY does */
	uint64_t at;                    /* bytes that are there already, of an answer in several tries */
	uint64_t max;                   /* of them */
	struct buf body;                /* of other answers */

	/* The answer. */
	long status;
	uint64_t size;                  /* UINT64_MAX: not known */
	int64_t date, modified;         /* the server's time; -1: not known */
	char etag[S3_WORD_MAX + 1], region[S3_REGION_MAX + 1];
	struct s3_error error;          /* of a status from 300 on */

	/* private */
	uint64_t sent, begun;
	bool is_timed;                  /* it was signed with the server's time */
	int64_t retry_after_ms;
	struct err err;
};

struct blobs;
enum blobs_next {
	BLOBS_OK,
	BLOBS_MISSING,                  /* 404, but not of the bucket */
	BLOBS_THERE,                    /* 412: If-None-Match */
	BLOBS_FAIL,
};

struct blobs {
	struct s3_place place;
	char *place_text;               /* as people wrote it, without the options */
	char host[HTTP_HOST_MAX + S3_BUCKET_MAX + 2];   /* where requests go: with the bucket, unless that is in the path */
	struct aws_keys keys;
	struct loop *loop;
	struct resolver *resolver;
	struct proxies proxies;
	char *pem;
	size_t pem_len;
	CURLM *multi;
	CURL *easy;
	int channel;
	int64_t deadline;               /* io_now_ms() */
	bool no_condition;              /* the server does not know If-None-Match */
	time_t apart;                   /* seconds by which its clock is before this machine's */
};

void exchange_free(struct exchange *x);         /* for OWN() */
/* Start X: a request for KEY ("": the bucket) with this query ("": none). */
void exchange_begin(struct exchange *x, const struct blobs *b, const char *method, const char *key, const char *query,
                    const char *doing);
void exchange_field(struct exchange *x, const char *name, const char *value);
/* Send X until it is answered, or there is no hope.  ERR explains all but BLOBS_OK. */
enum blobs_next exchange_run(struct blobs *b, struct exchange *x, struct err *err);
/* ---- blobs_ask.c: the questions ---- */

int blobs_put(struct blobs *b, const unsigned char hash[HASH_LEN], uint64_t size, int fd, struct err *err);
int blobs_get(struct blobs *b, const unsigned char hash[HASH_LEN], int fd, uint64_t *ret_size, struct err *err);
int blobs_touch(struct blobs *b, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err);
int blobs_remove(struct blobs *b, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err);
int blobs_purge(struct blobs *b, const unsigned char hash[HASH_LEN], bool put_back, struct err *err);
/* AFTER: NULL for the first page. */
int blobs_list(struct blobs *b, bool trash, const unsigned char *after, struct s3_page *ret_page, int64_t *ret_now,
               struct err *err);
int blobs_own(struct blobs *b, const unsigned char id[HASH_LEN], struct err *err);
int blobs_check(struct blobs *b, struct err *err);

/* ---- blobs_parts.c: large ones ---- */

enum blobs_next blobs_put_parts(struct blobs *b, const char *key, uint64_t size, int fd, struct err *err);
/* Add what every request that makes an object has. */
void blobs_add_encryption(const struct blobs *b, struct exchange *x);
#endif
