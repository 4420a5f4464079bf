/* inspect.h - inspects request bodies: undoes their coding, searches for secrets, and matches
 * rules.
 *
 * Runs in cloister-inspect; pure, except for memory. */
#ifndef CLOISTER_INSPECT_H
#define CLOISTER_INSPECT_H
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"
#include "http/http_head.h"
#include "ipc/inspect_channel.h"
#include "policy/policy.h"

struct err;
struct inspect;                         /* opaque: one body */

#define INSPECT_DECODED_MAX (64 * 1024 * 1024)  /* of compressed bodies */
#define INSPECT_RATIO_MAX 200                   /* decoded to compressed size, beyond 1 MiB */
#define INSPECT_HELD_MAX (192 * 1024 * 1024)    /* of all bodies at once */

struct inspect_request {
	const struct policy *policy;    /* borrowed until inspect_free(); may be NULL without
	                                 * RULES */
	struct http_text method, path, content_type, content_coding;
	bool secrets, rules, shape;     /* which results are wanted */
};
enum inspect_progress { INSPECT_WANTS_MORE, INSPECT_DONE };

int inspect_new(const struct inspect_request *req, struct inspect **ret_inspect,
                struct err *err);
void inspect_free(struct inspect *in);
OWN_BY(inspect_freep, struct inspect *, inspect_free)
/* INSPECT_DONE: the rest of the body cannot change the result, and need not be sent. */
enum inspect_progress inspect_feed(struct inspect *in, const void *data, size_t len);
/* The body is complete. */
void inspect_finish(struct inspect *in);

/* Valid after INSPECT_DONE or inspect_finish().
 *
 * UNREADABLE is about the body as a whole: its coding cannot be undone, or a push cannot be read
 * and secrets are searched for.  So its content is unknown.  A body that a matcher cannot read,
 * such as broken JSON, is not unreadable: it fits that rule or not, as policy_rule.h defines.  FITS
 * is complete in any case. */
struct inspect_findings {
	bool secret, unreadable;
	char what[128];                 /* the kind of secret ("GitHub token"), or why it is unreadable
	                                 * ("its gzip data are broken"); "" otherwise */
	char pushed[INSPECT_PUSHED_MAX]; /* as in INSPECT_RESULT */
	char call[INSPECT_CALL_MAX];    /* likewise */
	const char *shape;              /* likewise; owned by the inspect */
	const unsigned char *fits;      /* bit R: the body fits rule R; n bytes, owned by the inspect */
	size_t n_fits;
};
void inspect_result(const struct inspect *in, struct inspect_findings *ret_findings);

/* ---- secrets.c: the courier uses it on uncompressed bodies ---- */

/* An exact string to search for in addition to the catalogue, such as a placeholder.  It is found
 * anywhere, if it is not longer than SECRETS_TAIL. */
struct secrets_extra {
	const char *name;               /* secrets_find() returns it */
	const void *text;
	size_t len;                     /* not 0 */
};

/* A scanner for a stream of bytes; allocates nothing.  Initially all zeros. */
#define SECRETS_TAIL 512
struct secrets_scan {
	unsigned char tail[SECRETS_TAIL];       /* the end of the preceding bytes */
	size_t n_tail;
	const struct secrets_extra *extra;      /* borrowed; NULL: none */
	size_t n_extra;
};
/* The kind of credential found in DATA (with the preceding bytes), or NULL.  The catalogue has
 * well-known key formats and private keys.  Formats are verified by their checksum, or else by
 * their entropy.  They are also found behind URL and JSON escapes and in base64.  The end of DATA
 * counts as the end of a key, so nothing has to be called when the stream ends. */
const char *secrets_find(struct secrets_scan *scan, const void *data, size_t len);
#endif
