/* supervisor_fired.h - what a cell's own requests led to, as its policy says: it is recorded, and
 * kept for couriers that are started again; what it is made of is not read here. */
#ifndef CLOISTER_SUPERVISOR_FIRED_H
#define CLOISTER_SUPERVISOR_FIRED_H
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ipc/courier_channel.h"

struct ipc_message;
struct supervisor;

struct supervisor_fired {
	struct {
		uint64_t key;
		struct buf bytes;
	} at[COURIER_FIRED_MAX];
	size_t n;
};

/* COURIER_FIRED, within bounds; borrowed from the message. */
struct fired_message {
	uint64_t key;
	uint32_t flags, n_revoked;
	uint32_t len;                   /* of what is to be known again, which follows */
	const char *place, *rule, *what, *why;
	const char *revoked[COURIER_FIRED_REVOKES];
};
int fired_get(struct buf *b, struct fired_message *f);
int fired_get_text(struct buf *b, const char **ret_text);

/* COURIER_FIRED and COURIER_TRIPPED. */
int supervisor_take_fired(struct supervisor *sv, struct ipc_message *message);
int supervisor_take_tripped(struct supervisor *sv, struct ipc_message *message);
/* Somebody is told that the tripwire WHICH has tripped. */
void supervisor_tell_tripped(struct supervisor *sv, const char *which, const char *then,
                             const char *what);
/* For supervisor_steer.c: what a courier gets that is started. */
int supervisor_fired_tell(struct supervisor *sv);
void supervisor_fired_close(struct supervisor *sv);
#endif
