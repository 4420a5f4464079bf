/* timeline_seen.c - a recorded request in the terms of policies. */
#include <string.h>

#include "cli/timeline.h"

/* What was agreed on when a request became a WebSocket. */
#define SWITCHING_PROTOCOLS 101

void
timeline_get_seen(const struct timeline_event *e, struct policy_seen *ret_seen)
{
	bool http = strcmp(e->type, "http") == 0;
	/* It was cut off where the rule ended: how much there was, nobody knows. */
	bool cut = strcmp(e->why, "too-large") == 0 && e->sent <= POLICY_UPLOAD_MAX;

	*ret_seen = (struct policy_seen){
		.protocol = strcmp(e->type, "tcp") == 0 ? POLICY_TCP :
		            strcmp(e->type, "tls") == 0 ? POLICY_TLS : POLICY_HTTP,
		.method = http && e->method[0] != '\0' ? e->method : NULL,
		.path = http && e->path[0] != '\0' ? e->path : NULL,
		.host = e->host,
		.port = e->port,
		.plain = strcmp(e->scheme, "http") == 0,
		.websocket = e->is_upgrade || e->status == SWITCHING_PROTOCOLS,
		.refs = e->refs,
		.push_options = e->has_push_options,
		.private_address = strcmp(e->why, "private-address") == 0,
		.secret = strcmp(e->why, "secret") == 0,
		.sent = cut ? 2 * POLICY_UPLOAD_MAX : e->sent,
	};
}
