/* inspect.h - looks into request bodies: their coding, secrets in them, and what
 * rules say about them.  Runs in cloister-inspect; pure, but for memory. */
#ifndef CLOISTER_INSPECT_H
#define CLOISTER_INSPECT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"
#include "ipc/inspect_channel.h"
#include "policy/policy.h"

struct err;
struct inspect;                         /* opaque: one body */

#define INSPECT_DECODED_MAX (64 * 1024 * 1024)  /* of what was packed */
#define INSPECT_RATIO_MAX 200                   /* packed to unpacked, beyond 1 MiB */
#define INSPECT_HELD_MAX (192 * 1024 * 1024)    /* of all bodies at once */

struct inspect_request {
	const struct policy *policy;    /* borrowed until inspect_free(); may be NULL without
	                                 * RULES */
	struct http_text method, path, content_type, content_coding;
	bool secrets, rules, shape;     /* what is wanted */
};
enum inspect_progress { INSPECT_WANTS_MORE, INSPECT_DONE };

int inspect_new(const struct inspect_request *req, struct inspect **ret_inspect,
                struct err *err);
void inspect_free(struct inspect *in);
void inspect_freep(struct inspect **in);
/* INSPECT_DONE: what may still come changes nothing; it need not be sent. */
enum inspect_progress inspect_feed(struct inspect *in, const void *data, size_t len);
/* The body is complete. */
void inspect_finish(struct inspect *in);

/* After INSPECT_DONE or inspect_finish().
 *
 * UNREADABLE is about the body as a whole: its coding cannot be undone (or what is pushed
 * cannot be read and secrets are looked for), so that nobody knows what is in it.  A body
 * that only is not what a rule speaks of, broken JSON say, is not unreadable: it fits or
 * does not fit that rule, as policy_rule.h says.  FITS is there with all of it. */
struct inspect_findings {
	bool secret, unreadable;
	char what[128];                 /* the kind of secret ("GitHub token"), or why it cannot
	                                 * be read ("its gzip data are broken"); "" otherwise */
	char pushed[INSPECT_PUSHED_MAX]; /* as INSPECT_RESULT has it */
	const char *shape;              /* likewise; the inspect's */
	const unsigned char *fits;      /* bit R: the body fits rule R; n bytes, the inspect's */
	size_t n_fits;
};
void inspect_result(const struct inspect *in, struct inspect_findings *ret_findings);

/* ---- secrets.c: used by the courier on bodies that are not packed ---- */

/* An exact string to look for besides the catalogue: a placeholder, say.  It is found
 * wherever it stands, if it is no longer than SECRETS_TAIL. */
struct secrets_extra {
	const char *name;               /* what secrets_find() returns for it */
	const void *text;
	size_t len;                     /* not 0 */
};

/* A scanner of a stream of bytes; no memory but itself.  All zeros to begin with. */
#define SECRETS_TAIL 512
struct secrets_scan {
	unsigned char tail[SECRETS_TAIL];       /* the end of what came before */
	size_t n_tail;
	const struct secrets_extra *extra;      /* borrowed; NULL: none */
	size_t n_extra;
};
/* The name of the kind of credential found in DATA (with what came before it), or NULL.
 * The catalogue knows well-known key shapes (with their checksums where they have one,
 * and entropy where they have none) and private keys; also behind URL and JSON escapes
 * and in base64.  The end of DATA counts as the end of a key, so there is nothing to be
 * called when the stream ends. */
const char *secrets_find(struct secrets_scan *scan, const void *data, size_t len);
#endif
