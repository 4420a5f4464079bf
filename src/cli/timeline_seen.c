/* timeline_seen.c - describes a recorded request in the terms of policies. */
#include <string.h>

#include "cli/timeline.h"
#include "ipc/courier_channel.h"

/* The status of a request that became a WebSocket. */
#define SWITCHING_PROTOCOLS 101

/* A round limit above SIZE.  The body was cut off at the rule's limit, so it may be larger. */
static uint64_t
room_for(uint64_t size)
{
	uint64_t room = 16 * 1024 * 1024;

	while (room <= size)
		room *= 2;
	return room - 1;
}

void
timeline_get_seen(const struct timeline_event *e, struct policy_seen *ret_seen)
{
	bool http = strcmp(e->type, "http") == 0;
	bool too_large = strcmp(e->why, "too-large") == 0;

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
		.tool = e->tool[0] != '\0' ? e->tool : NULL,
		.prompt = e->prompt[0] != '\0' ? e->prompt : NULL,
		.resource = e->resource[0] != '\0' ? e->resource : NULL,
		.push_options = e->has_push_options,
		.private_address = strcmp(e->why, "private-address") == 0,
		.secret = strcmp(e->why, "secret") == 0 ||
		          (e->size > POLICY_INSPECTED_MAX && strstr(e->note, COURIER_IS_PACKED) != NULL),
		.sent = too_large ? room_for(e->size) : e->sent,
	};
}
