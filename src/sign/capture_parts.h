/* capture_parts.h - rules and results shared by the readers of JSON, XML and forms. */
#ifndef CLOISTER_CAPTURE_PARTS_H
#define CLOISTER_CAPTURE_PARTS_H
#include "sign/capture.h"
#include "sign/scheme_parts.h"

#define CAPTURE_EXPIRIES_MAX 4          /* members of one set that give an expiry */

/* A member that is a secret, and the members beside it that give its expiry, best first. */
struct capture_rule {
	const char *name;
	enum capture_role role;
	const char *expiries[2];
	bool basic;                     /* it is USER:PASSWORD in base64, and the password is the token */
};

struct capture_kind {
	const char *name;
	const struct capture_rule *rules;       /* ends with an empty name */
	bool whole_key;                 /* only if the set has a secret key */
};

/* A set while it is read. */
struct capture_draft {
	struct capture_set set;
	const struct capture_rule *rules[CAPTURE_MEMBERS_MAX];
	struct http_text spots[CAPTURE_MEMBERS_MAX];    /* in the body */
	struct http_text users[CAPTURE_MEMBERS_MAX];    /* "USER:", if BASIC */
	struct {
		const char *name;
		int64_t in, at;
	} expiries[CAPTURE_EXPIRIES_MAX];
	size_t n_expiries;
};

struct capture_drafts {
	const struct capture_kind *kind;
	struct capture_draft list[CAPTURE_SETS_MAX];
	size_t n;
	struct buf values;              /* decoded; three times the body, so it never moves */
	struct err *err;
};

/* The rule for a member NAME, or NULL; and the name of an expiry, as in the rules. */
const struct capture_rule *capture_rule_find(const struct capture_kind *kind,
                                             struct http_text name);
const char *capture_expiry_find(const struct capture_kind *kind, struct http_text name);

int capture_draft_new(struct capture_drafts *d, struct capture_draft **ret_draft);
int capture_draft_add(struct capture_drafts *d, struct capture_draft *draft,
                      const struct capture_rule *rule, struct http_text value,
                      struct http_text spot);
/* TEXT is digits, or a time. */
void capture_draft_expiry(struct capture_draft *draft, const char *name, struct http_text text);
void capture_draft_expiry_number(struct capture_draft *draft, const char *name, double n);

/* Read drafts from XML.  BODY must be well-formed, and of the small kind that services send: no
 * DOCTYPE, no comments, no CDATA, and only the five predefined entities. */
int capture_read_xml(struct capture_drafts *d, struct http_text body);
void capture_put_xml(struct buf *b, struct http_text text);      /* escaped */
#endif
