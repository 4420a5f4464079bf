/* policy_rewrite.h - changes a request as a rule's `rewrite` asks, before it is sent.
 *
 * Pure: no I/O, no clock.  A rewrite is a list of edits.  Each edit changes one part of a request:
 * the host, the path's prefix, a query parameter, a header, or a field of a JSON body.
 *
 * Fails closed: if an edit cannot be made for certain, the request must be refused.  That includes
 * queries with a ";", bodies that are compressed or not JSON, and names that occur twice. */
#ifndef CLOISTER_POLICY_REWRITE_H
#define CLOISTER_POLICY_REWRITE_H
#include "policy/policy.h"

#define POLICY_EDITS_MAX 64             /* of one rewrite; one bit of `changed` for each */
#define POLICY_EDIT_TEXT_MAX 256        /* longer text is cut */
#define POLICY_POINTER_DEPTH_MAX 8      /* names in a JSON pointer */

enum policy_edit_kind {
	POLICY_EDIT_HOST,               /* send to NAME, and to port VALUE unless that is "" */
	POLICY_EDIT_PATH,               /* replace the prefix NAME by VALUE */
	POLICY_EDIT_QUERY_SET,          /* parameter NAME, decoded, becomes VALUE */
	POLICY_EDIT_QUERY_REMOVE,
	POLICY_EDIT_HEADER_SET,         /* header NAME becomes VALUE, whether present or not */
	POLICY_EDIT_HEADER_REMOVE,
	/* NAME is a JSON pointer to a member of an object.  VALUE is JSON. */
	POLICY_EDIT_JSON_SET,           /* the field becomes VALUE, whether present or not */
	POLICY_EDIT_JSON_DEFAULT,       /* a missing or null field becomes VALUE */
	POLICY_EDIT_JSON_MAX,           /* a number over VALUE becomes VALUE */
	POLICY_EDIT_JSON_REMOVE,
	POLICY_EDIT_KINDS
};
struct policy_edit {
	enum policy_edit_kind kind;
	const char *name, *value;       /* VALUE is "" if the kind has none */
};
struct policy_rewrite {
	const struct policy_edit *edits;        /* in the order in which they are made */
	size_t n;                       /* at least one */
};

/* The `rewrite` of RULE, numbered through all layers, or NULL. */
const struct policy_rewrite *policy_rewrite_of(const struct policy *p, int rule);
/* Whether any rule of any layer has one. */
bool policy_rewrites(const struct policy *p);

/* Whether RW changes the body of a request with HEAD.  If so, hold the body. */
bool policy_rewrite_needs_body(const struct policy_rewrite *rw, const struct http_head *head);

/* Make the edits of HEAD.  On success, HEAD is canonical (http_head_check).  It points into RW and
 * into *ret_path, which the caller owns; NULL if the path stays.  Bit I of *ret_changed is set if
 * edit I changed something.  On failure, HEAD and the outputs are untouched. */
int policy_rewrite_head(const struct policy_rewrite *rw, struct http_head *head, char **ret_path,
                        uint64_t *ret_changed, struct err *err);

/* Append to OUT the BODY of a request with HEAD, with the edits of the body made.  All other bytes
 * stay as they are and in their order.  An empty body stays empty.  The caller adapts the length in
 * the head.  On failure, *ret_changed is untouched, and OUT is meaningless. */
int policy_rewrite_body(const struct policy_rewrite *rw, const struct http_head *head,
                        const char *body, size_t len, struct buf *out, uint64_t *ret_changed,
                        struct err *err);

/* The part of a request that an edit changes: signatures may cover it. */
enum policy_part { POLICY_PART_HOST, POLICY_PART_PATH, POLICY_PART_QUERY, POLICY_PART_HEADER,
                   POLICY_PART_BODY };
enum policy_part policy_edit_part(const struct policy_edit *edit);
/* Write EDIT for people: "json /max_tokens max 1024", "header x-debug removed". */
const char *policy_edit_text(const struct policy_edit *edit, char ret_text[POLICY_EDIT_TEXT_MAX]);

/* Decide on REQ as the layers around the first N layers do, and join that with INNER.  REQ is the
 * request after the rewrites of those N layers, so an inner layer cannot rewrite a request into one
 * that an outer layer refuses.  INNER is the decision on the request before the last of these
 * rewrites.  If *ret_decision needs the body, decide again with the same INNER. */
void policy_decide_outside(const struct policy *p, unsigned n, const struct policy_request *req,
                           const struct policy_decision *inner,
                           struct policy_decision *ret_decision);

/* Whether the host to which RW sends requests of RULE may be a private address: the rule has
 * `private`, or RW names an address or the host of this machine itself. */
bool policy_rewrite_may_use_private(const struct policy *p, int rule,
                                    const struct policy_rewrite *rw);

/* ---- for readers of rewrites ---- */

/* Check EDIT: names and values are canonical, and a rule may change that part.  The error has no
 * place. */
int policy_edit_check(const struct policy_edit *edit, struct err *err);
#endif
