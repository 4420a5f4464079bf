/* capture.h - tokens that come back: finds them in a response's body, with how long they
 * are good for, and puts others in their place.
 *
 * Pure: no I/O, no clock.  A body that cannot be read for certain is an error, never passed
 * on as it is. */
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
#define CAPTURE_DEPTH_MAX 16            /* of objects in objects, of elements in elements */

/* What a member is for.  The parts of an AWS credential belong together. */
enum capture_role {
	CAPTURE_TOKEN,                  /* an access token, or what serves as one */
	CAPTURE_REFRESH,
	CAPTURE_ID_TOKEN,
	CAPTURE_KEY_ID,
	CAPTURE_SECRET_KEY,
	CAPTURE_SESSION_TOKEN,
};

/* One token.  VALUE is decoded; WITH is for the callback to set, and has to last until the
 * next call or the end.  EXPIRES_IN and EXPIRES_AT: as the body says, else -1. */
struct capture_member {
	const char *name;               /* "access_token", "SecretAccessKey", ... */
	enum capture_role role;
	struct http_text value, with;
	int64_t expires_in;             /* seconds from now */
	int64_t expires_at;             /* seconds since 1970 */
};

/* The tokens that came together. */
struct capture_set {
	struct capture_member members[CAPTURE_MEMBERS_MAX];
	size_t n;
};

/* Sets WITH of all members.  A failure of it is capture_rewrite's. */
typedef int capture_replace(void *arg, struct capture_set *set, struct err *err);

/* Which members are secrets. */
struct capture_kind;

/* "oauth2", "sts", "s3-session", "github-app", "registry", "ecr"; NULL if there is none. */
const struct capture_kind *capture_kind_find(const char *name);

/* Rewrites BODY, of the content type TYPE, into *ret_body, which the caller initialised with
 * a maximum of its own choice and wipes.  *ret_found is how many tokens there were: with 0
 * nothing was written, and the body goes on as it came.  Where a token would still stand
 * somewhere else in the body, it is an error. */
int capture_rewrite(const struct capture_kind *kind, struct http_text type,
                    const void *body, size_t len, capture_replace *replace, void *arg,
                    struct buf *ret_body, size_t *ret_found, struct err *err);

/* "2016-07-11T22:14:10Z", also with a fraction or an offset; -1 if it is none. */
int64_t capture_parse_time(struct http_text text);
#endif
