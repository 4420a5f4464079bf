/* supervisor_fired.h - consequences that a cell's own requests triggered under its policy: records
 * them, and keeps them for couriers that are restarted.
 *
 * The supervisor does not parse a consequence's content. */
#ifndef CLOISTER_SUPERVISOR_FIRED_H
#define CLOISTER_SUPERVISOR_FIRED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ipc/courier_channel.h"

struct ipc_message;
struct members;
struct supervisor;

struct supervisor_fired {
	struct {
		uint64_t key;
		struct buf bytes;
	} at[COURIER_FIRED_MAX];
	size_t n;
};

/* COURIER_FIRED, checked for size; borrowed from the message. */
struct fired_message {
	uint64_t key;
	uint32_t flags, n_revoked;
	uint32_t len;                   /* of the bytes that follow, which the next courier gets again */
	const char *place, *rule, *what, *why;
	const char *revoked[COURIER_FIRED_REVOKES];
};
int fired_get(struct buf *b, struct fired_message *f);
int fired_get_text(struct buf *b, const char **ret_text);

/* COURIER_FIRED and COURIER_TRIPPED. */
int supervisor_take_fired(struct supervisor *sv, struct ipc_message *message);
int supervisor_take_tripped(struct supervisor *sv, struct ipc_message *message);
/* The courier detected an exfiltration: do what the policy orders.  If a freeze is ordered and
 * fails, the cell is killed. */
void supervisor_alarm(struct supervisor *sv);
/* Notifies the operator that the tripwire WHICH has tripped. */
void supervisor_tell_tripped(struct supervisor *sv, const char *which, const char *then,
                             const char *what);
/* Whether the consequence KEY is kept; keep it, with the bytes that a restarted courier gets. */
bool supervisor_has_fired(const struct supervisor *sv, uint64_t key);
int supervisor_keep_fired(struct supervisor *sv, uint64_t key, const void *data, size_t len);
/* Freezes or kills the cell, BY and because of WHAT.  If the freeze fails, the cell is killed. */
void supervisor_stop_cell(struct supervisor *sv, bool freeze, const char *by, const char *what);
/* Notifies the operator of EVENT, which M was recorded for. */
void supervisor_notify_members(struct supervisor *sv, const char *event, const struct members *m);
/* For supervisor_courier_start.c: what a new courier gets. */
int supervisor_fired_tell(struct supervisor *sv);
void supervisor_fired_close(struct supervisor *sv);
#endif
