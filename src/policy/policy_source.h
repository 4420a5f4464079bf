/* policy_source.h - the text of a policy while it is loaded from files: as it was written, if it
 * is one file that names no other, else written out. */
#ifndef CLOISTER_POLICY_SOURCE_H
#define CLOISTER_POLICY_SOURCE_H
#include "policy/policy_flat.h"

struct policy_source {
	struct policy_flat flat;
	char *text;                     /* of the first file; NULL: there is none */
	size_t len;
	bool is_more;                   /* than TEXT */
};

void policy_source_init(struct policy_source *s);
void policy_source_free(struct policy_source *s);       /* for OWN() too */
/* For a policy_reader's `text`; `rule` and `part` are those of FLAT, and what its `file` is called
 * for makes it more than one text. */
int policy_source_text(struct policy_source *s, const char *text, size_t len, struct err *err);
/* A rule that the command line adds, as policy_add_short() does. */
int policy_source_short(struct policy_source *s, const char *text, struct err *err);
/* All of it. */
void policy_source_put(struct buf *b, const struct policy_source *s);

/* The file at PATH, checked, and its text.  FAULTS may be NULL. */
int policy_source_load(int dirfd, const char *path, struct policy_faults *faults,
                       struct buf *ret_text, struct err *err);
#endif
