/* policy_source.h - keeps the text of a policy while it is loaded from files.
 *
 * If the policy is one file that names no other, the text is that file's, unchanged.  Otherwise it
 * is written out as one text. */
#ifndef CLOISTER_POLICY_SOURCE_H
#define CLOISTER_POLICY_SOURCE_H
#include "policy/policy.h"
#include "policy/policy_flat.h"

struct policy_source {
	struct policy_flat flat;
	char *text;                     /* the first file's; NULL: none */
	size_t len;
	bool is_more;                   /* the policy is more than TEXT */
};

void policy_source_init(struct policy_source *s);
void policy_source_free(struct policy_source *s);       /* for OWN() too */
/* The policy_reader's `text` callback.  Its `rule` and `part` are those of FLAT.  A call of `file`
 * makes the policy more than one text. */
int policy_source_text(struct policy_source *s, const char *text, size_t len, struct err *err);
/* Add a rule of the command line, as policy_add_short() does. */
int policy_source_short(struct policy_source *s, const char *text, struct err *err);
/* Append the whole text. */
void policy_source_put(struct buf *b, const struct policy_source *s);

/* A reader that keeps the text in S, and accepts any file and hook. */
struct policy_reader policy_source_reader(struct policy_source *s);
/* Load and check the file at PATH, and return its text.  FAULTS may be NULL. */
int policy_source_load(int dirfd, const char *path, struct policy_faults *faults,
                       struct buf *ret_text, struct err *err);
#endif
