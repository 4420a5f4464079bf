/* courier_wire.h - credentials of protocols that are no HTTP: a client of Postgres or Redis logs
 * in with a placeholder, and the server is told, or shown, the real password.
 *
 * The gate has read how the connection begins, and says who logs in and with what; everything
 * else passes as bytes, in which placeholders are looked for. */
#ifndef CLOISTER_COURIER_WIRE_H
#define CLOISTER_COURIER_WIRE_H
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "ipc/egress_channel.h"
#include "vault/secret.h"

struct courier;
struct events;
struct exchange;
struct pg_login;

#define WIRE_LOGIN_S 30                 /* for all of a login */
#define WIRE_NAME_MAX 64                /* of a user or database, as it is recorded */

struct exchange_wire {
	enum egress_routed kind;        /* EGRESS_POSTGRES or EGRESS_REDIS */
	bool tls;                       /* towards the server */
	bool asked;                     /* Postgres: what it wants is known, in ex->frame */
	bool is_cancel;
	bool done;                      /* Postgres: the rest is bytes */
	bool judging;                   /* a login is: whoever logs in is told */
	bool owes_logged;               /* Redis: EGRESS_LOGGED, once all has gone */
	size_t secret;                  /* of the cell's, that it is logged in with */
	struct pg_login *login;
	char nonce[32];
	/* For the record. */
	char name[SECRET_NAME_MAX + 1], user[WIRE_NAME_MAX], database[WIRE_NAME_MAX];
};

/* A connection that a rule allows: goes on raw, or as what a secret of the cell is for. */
void exchange_wire_begin(struct exchange *ex);
void exchange_wire_free(struct exchange *ex);
/* What the gate says; a negative errno ends the channel. */
int exchange_wire_login(struct exchange *ex, struct buf *body);
int exchange_wire_cancel(struct exchange *ex, struct buf *body);
/* Whether bytes may come from the gate though there is no server yet. */
bool exchange_wire_has_bytes(const struct exchange *ex);
/* Whether EX's connection begins with TLS, or with a login. */
bool exchange_wire_begins_tls(const struct exchange *ex);
bool exchange_wire_logs_in(const struct exchange *ex);
/* All that came has gone to the server. */
void exchange_wire_went(struct exchange *ex);
/* Tell the client in its own terms why it is over, if that can be: then EX is, too. */
bool exchange_wire_tell(struct exchange *ex, const char *why, const char *reason);
void exchange_wire_record(struct events *e, const struct exchange *ex);

/* Look for placeholders in raw bytes.  False: EX is refused. */
bool exchange_search(struct exchange *ex, const void *data, size_t len);
#endif
