/* apply_ask.h - what a person chose to apply, by file and hunk. */
#ifndef CLOISTER_CLI_APPLY_ASK_H
#define CLOISTER_CLI_APPLY_ASK_H
#include "cli/changes.h"

struct apply_ask {
	struct apply_answer *answers;
	size_t n;
};
void apply_ask_free(struct apply_ask *ask);     /* for OWN() too */

/* Asks on the terminal about the changes of PART at and beneath the paths CHOSEN (NULL: all).
 * *ret_quit: the person wants no more questions. */
int apply_ask_part(struct apply_ask *ask, struct diff_reader *reader, const struct changes_part *part,
                   char *const *chosen, bool *ret_quit, struct err *err);
/* For struct workspace_apply: what was chosen of a change; none if nobody was asked about it.  Stale if it is not as it
 * was shown. */
enum workspace_choice apply_ask_choice(const struct apply_ask *ask, struct diff_reader *reader,
                                       const struct changes_part *part, const struct workspace_change *change);
/* Its merge(): writes a file, or the chosen hunks of it. */
int apply_ask_merge(const struct apply_ask *ask, struct diff_reader *reader, const struct changes_part *part,
                    const struct workspace_merge *files, struct err *err);
#endif
