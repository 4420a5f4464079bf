/* capture.h - finds tokens and their lifetimes in a response's body, and replaces them by others.
 *
 * Pure: no I/O, no clock.  A body that cannot be read for certain is an error, and is never passed
 * on unchanged. */
#ifndef CLOISTER_CAPTURE_H
#define CLOISTER_CAPTURE_H
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"

struct err;

#define CAPTURE_BODY_MAX (256 * 1024)
#define CAPTURE_VALUE_MAX (32 * 1024)   /* one token */
#define CAPTURE_MEMBERS_MAX 8           /* of one set */
#define CAPTURE_SETS_MAX 4              /* of one body */
#define CAPTURE_DEPTH_MAX 16            /* of nested objects, or of nested elements */

/* The purpose of a member.  The parts of an AWS credential belong together. */
enum capture_role {
	CAPTURE_TOKEN,                  /* an access token, or a text used as one */
	CAPTURE_REFRESH,
	CAPTURE_ID_TOKEN,
	CAPTURE_KEY_ID,
	CAPTURE_SECRET_KEY,
	CAPTURE_SESSION_TOKEN,
};

/* One token.  VALUE is decoded.  The callback sets WITH, which has to last until the next call or
 * the end.  EXPIRES_IN and EXPIRES_AT are from the body, or -1. */
struct capture_member {
	const char *name;               /* "access_token", "SecretAccessKey", ... */
	enum capture_role role;
	struct http_text value, with;
	int64_t expires_in;             /* seconds from now */
	int64_t expires_at;             /* seconds since 1970 */
};

/* Tokens that belong together. */
struct capture_set {
	struct capture_member members[CAPTURE_MEMBERS_MAX];
	size_t n;
};

/* Sets WITH of all members.  If it fails, capture_rewrite() fails. */
typedef int capture_replace(void *arg, struct capture_set *set, struct err *err);

/* Defines which members are secrets. */
struct capture_kind;

/* "oauth2", "sts", "s3-session", "github-app", "registry", "ecr"; NULL: unknown. */
const struct capture_kind *capture_kind_find(const char *name);

/* Rewrite BODY, of the content type TYPE, into *ret_body.  The caller has initialised *ret_body
 * with a maximum, and wipes it.  *ret_found is the number of tokens.  If it is 0, nothing was
 * written, and the body goes on unchanged.  If a token would remain elsewhere in the body, it is an
 * error. */
int capture_rewrite(const struct capture_kind *kind, struct http_text type,
                    const void *body, size_t len, capture_replace *replace, void *arg,
                    struct buf *ret_body, size_t *ret_found, struct err *err);

/* Parse "2016-07-11T22:14:10Z", also with a fraction or an offset.  -1: invalid. */
int64_t capture_parse_time(struct http_text text);
#endif
