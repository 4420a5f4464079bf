/* s3_place.h - where blobs are kept in S3: a bucket, a prefix, and the server that has them.
 *
 *   s3://BUCKET[/PREFIX][?OPTION=VALUE[&...]]
 *
 *   endpoint=URL        the server (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; else Amazon's of the region)
 *   region=NAME         (AWS_REGION, AWS_DEFAULT_REGION; else us-east-1)
 *   style=path|host     whether the bucket is in the path or in the host's name
 *   sse=AES256|aws:kms  what the server encrypts objects with; kms_key=ID: with this key
 *   timeout=SECONDS     a request that moves next to nothing for so long is sent again (30)
 *   insecure=yes        plain HTTP to another machine
 *
 * Pure. */
#ifndef CLOISTER_STORE_S3_PLACE_H
#define CLOISTER_STORE_S3_PLACE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"

struct err;

#define S3_VARIABLE "CLOISTER_BLOBS"
#define S3_BUCKET_MAX 63
#define S3_PREFIX_MAX 512
#define S3_REGION_MAX 63
#define S3_KMS_KEY_MAX 2048
#define S3_PLACE_MAX 4096               /* bytes of the text */
#define S3_STALL_S 30

struct s3_place {
	char bucket[S3_BUCKET_MAX + 1];
	char prefix[S3_PREFIX_MAX + 2]; /* "" or "a/b/": segments of A-Z a-z 0-9 "-._~" */
	char region[S3_REGION_MAX + 1];
	/* The server's name without the bucket; IPv6 in brackets. */
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;
	bool is_tls, is_amazon;
	bool in_path;                   /* the bucket is */
	unsigned stall_s;
	char sse[8];                    /* "", "AES256" or "aws:kms" */
	char kms_key[S3_KMS_KEY_MAX + 1];
};

/* Read TEXT, with what ENVIRONMENT ("NAME=VALUE" strings) adds.  *ret_place is untouched on failure. */
int s3_place_parse(const char *text, char *const *environment, struct s3_place *ret_place, struct err *err);
/* Whether both are the same objects of the same server, however they are written. */
bool s3_place_is_same(const struct s3_place *a, const struct s3_place *b);
/* Whether HOST names this machine, without asking anybody: localhost and names in it, 127.0.0.0/8, ::1. */
bool s3_is_loopback(const char *host);
#endif
