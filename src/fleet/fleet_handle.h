/* fleet_handle.h - asks a target's engine through cloister-fleet: starts it, and believes its bounded answers.
 *
 * Everything here blocks, up to FLEET_ANSWER_MS.  fleet_interrupt() is for another thread. */
#ifndef CLOISTER_FLEET_HANDLE_H
#define CLOISTER_FLEET_HANDLE_H
#include "fleet/fleet.h"
#include "ipc/fleet_channel.h"

struct fleet_handle;                    /* opaque */

/* CONTENT is that of a registered target.  The caller owns *ret_handle. */
int fleet_handle_open(const char *content, const char *tag, struct fleet_handle **ret_handle, struct err *err);
void fleet_handle_close(struct fleet_handle *handle);   /* NULL is fine */
OWN_BY(fleet_handle_closep, struct fleet_handle *, fleet_handle_close)
/* A question that is waited for fails now, and all that follow: -EPIPE.  They need another handle. */
void fleet_handle_interrupt(struct fleet_handle *handle);

int fleet_handle_count(struct fleet_handle *handle, struct fleet_count *ret_count, struct err *err);
/* Starts up to FLEET_START_MAX workers, one for each of TOKENS (each "" or a token).  *ret_n: how many it has started,
 * whatever this returns; RET_IDS has room for N, or is NULL. */
int fleet_handle_start(struct fleet_handle *handle, bool probes, const char *const *tokens, size_t n, size_t *ret_n,
                       char (*ret_ids)[FLEET_ID_MAX], struct err *err);
int fleet_handle_look(struct fleet_handle *handle, const char *id, struct fleet_outcome *ret_outcome, struct err *err);
int fleet_handle_stop(struct fleet_handle *handle, const char *id, struct err *err);
int fleet_handle_check(struct fleet_handle *handle, struct fleet_findings *ret_findings, struct err *err);
#endif
