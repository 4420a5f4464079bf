/* tools_record.c - the worker's records, which the keeper and the supervisor check again. */
#include <stdio.h>

#include "base/own.h"
#include "canon/members.h"
#include "ipc/ipc.h"
#include "proc/tools/tools_worker.h"

#define IN_A_SECOND 50                  /* a server that floods must not hide what others do */

static bool
is_too_much(void)
{
	static uint64_t since;
	static unsigned n;
	uint64_t now = loop_now_ms();

	if (now - since >= 1000) {
		since = now;
		n = 0;
	}
	return n++ >= IN_A_SECOND;
}

void
gateway_record(const struct policy_tools_server *server, const char *cell, const char *event, const char *tool,
               const char *why)
{
	OWN(members_free) struct members m = {0};
	char of[POLICY_TOOLS_NAME_MAX + 1];
	OWN(buf_free) struct buf text = BUF(TOOLS_EVENT_MAX), message = {0};

	if (is_too_much())
		return;
	snprintf(of, sizeof(of), "%s%s%s", server->name, tool != NULL ? "." : "", tool != NULL ? tool : "");
	members_init(&m, TOOLS_EVENT_MAX);
	members_str(&m, "type", TOOLS_EVENT_TYPE);
	members_str(&m, "did", event);
	members_str(&m, "of", of);
	members_str(&m, "server_cell", cell);
	members_str(&m, "reason", why);
	members_put(&m, &text);
	buf_put(&text, "", 1);
	if (members_failed(&m) || buf_failed(&text))
		return;
	ipc_begin(&message, TOOLS_EVENT);
	buf_put_str(&message, (char *)text.data);
	worker_send(&message);
}
