/* wire.h - credentials for Postgres and Redis: the client logs in with a placeholder, and
 * the courier logs in to the server with the real password.
 *
 * The gate reads the start of the connection, and reports the user and the password.  All other
 * bytes pass through, and are searched for placeholders. */
#ifndef CLOISTER_EGRESS_WIRE_H
#define CLOISTER_EGRESS_WIRE_H
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "ipc/egress_channel.h"
#include "upstream/postgres.h"
#include "vault/secret.h"

struct events;
struct exchange;

#define WIRE_LOGIN_S (2 * POSTGRES_LOGIN_S)     /* for the client to begin its login */
#define WIRE_NAME_MAX 64                /* bytes of a user or database in the record */

struct exchange_wire {
	enum egress_routed kind;        /* EGRESS_POSTGRES or EGRESS_REDIS */
	bool asked;                     /* Postgres: its startup is known, in request.frame */
	bool done;                      /* Postgres: the login is over, and bytes pass through */
	bool judging;                   /* a login is being judged: a refusal is explained to its client */
	bool owes_logged;               /* Redis: EGRESS_LOGGED is due once all was sent */
	size_t secret;                  /* the number of the cell's secret used for the login */
	struct postgres postgres;       /* Postgres: the login at the server */
	/* For the record. */
	char name[SECRET_NAME_MAX + 1], user[WIRE_NAME_MAX], database[WIRE_NAME_MAX];
};

void exchange_wire_free(struct exchange *ex);
/* Handle the gate's messages.  A negative errno ends the channel. */
int exchange_wire_login(struct exchange *ex, struct buf *body);
int exchange_wire_cancel(struct exchange *ex, struct buf *body);
/* Whether the gate may send bytes before there is a server. */
bool exchange_wire_has_bytes(const struct exchange *ex);
/* All bytes so far have gone to the server. */
void exchange_wire_went(struct exchange *ex);
/* Explain the end to the client in its own protocol, if possible.  True: it was, and EX is over. */
bool exchange_wire_tell(struct exchange *ex, const char *why, const char *reason);
void exchange_wire_record(struct events *e, const struct exchange *ex);

/* Look for placeholders in raw bytes.  False: EX is refused. */
bool exchange_search(struct exchange *ex, const void *data, size_t len);
#endif
