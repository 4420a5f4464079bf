/* git.h - writes refusals in the form that git shows to its user. */
#ifndef CLOISTER_EGRESS_GIT_H
#define CLOISTER_EGRESS_GIT_H
#include <stdbool.h>
#include <stddef.h>

#include "egress/courier.h"
#include "ipc/inspect_channel.h"

#define COURIER_GIT_REFS_MAX 128

/* Split PUSHED (as in INSPECT_RESULT) into refs, which are stored in ROOM.  Returns their number. */
size_t courier_git_refs(const char *pushed, char room[INSPECT_PUSHED_MAX],
                        const char *ret_refs[COURIER_GIT_REFS_MAX]);
bool courier_git_has(const char *pushed, char flag);

/* Answer a push with a report that refuses each ref, and record it.  False: this is not a push, or
 * its client wants no report. */
bool courier_git_refuse(struct exchange *ex, const char *reason);

/* Whether git asks for the refs of a repository.  Git shows a refusal of that as plain text. */
bool courier_git_is_asking(const struct exchange *ex);
void courier_git_put_text(struct buf *b, const char *reason, const char *rule,
                          const char *hint);
#endif
