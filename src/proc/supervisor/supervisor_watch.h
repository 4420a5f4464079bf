/* supervisor_watch.h - the consequences of `watch`: rules of the policy over what the cell's processes do.
 *
 * The witness compares, and says which rule fits.  It reads what the agent wrote and may be compromised, so a
 * consequence is the rule's own, and the witness chooses none.  The worst that it can do is to stop the cell. */
#ifndef CLOISTER_SUPERVISOR_WATCH_H
#define CLOISTER_SUPERVISOR_WATCH_H

struct buf;
struct err;
struct ipc_message;
struct supervisor;

/* Take the rules of the cell's policy; again after the policy was replaced.  On failure those before stay. */
int supervisor_watch_load(struct supervisor *sv, struct err *err);
void supervisor_watch_close(struct supervisor *sv);
/* Write the fields of WITNESS_RULES. */
void supervisor_watch_put(const struct supervisor *sv, struct buf *message);
/* WITNESS_FIRED: -EBADMSG if it is malformed. */
int supervisor_watch_fired(struct supervisor *sv, struct ipc_message *message);
#endif
