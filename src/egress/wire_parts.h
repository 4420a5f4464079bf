/* wire_parts.h - shared by wire.c and wire_postgres.c. */
#ifndef CLOISTER_EGRESS_WIRE_PARTS_H
#define CLOISTER_EGRESS_WIRE_PARTS_H
#include "egress/courier.h"
#include "egress/secrets_parts.h"

/* A login attempt.  OTHERS are texts that may contain no placeholder. */
struct wire_attempt {
	struct http_text password, user;
	const struct http_text *others;
	size_t n_others;
};

/* Find the secret whose placeholder is the password.  False: EX is refused. */
bool wire_judge(struct exchange *ex, const struct wire_attempt *attempt, size_t *ret_secret);
/* The current state of secret NUMBER: a connection may outlive a value. */
const struct bound_secret *wire_secret(const struct exchange *ex, size_t number);
bool wire_wants_tls(const struct bound_secret *b);

/* ---- wire_postgres.c ---- */

int wire_take_postgres(struct exchange *ex, struct buf *body);
/* EX begins with a login to Postgres, over TLS unless the secret says otherwise. */
void wire_begin_postgres(struct exchange *ex, bool tls);
#endif
