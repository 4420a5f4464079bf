/* e2b_routes.c - the table of E2B's API, as its SDKs use it.
 *
 * A client with a token of the service makes and ends sandboxes; one with a sandbox's token uses that sandbox, and is a
 * guest everywhere else: see e2b_door.c. */
#include "proc/serve/e2b.h"

#define CLIENT (SERVE_OPERATOR | SERVE_AGENT)
#define INSIDE SERVE_GUEST

#define SMALL 65536
#define ANYTHING "application/octet-stream"     /* not read, or read by the route itself */
#define SIGNED "path username signature signature_expiration"

#define REST(method, path, ...) { method, path, CLIENT, "", "", __VA_ARGS__ }
#define UNSERVED(method, path) REST(method, path, "limit nextToken sandboxID name teamID level start end", ANYTHING, NULL, \
	501, E2B_BODY_MAX, .work = e2b_unserved)
#define RPC(path, handle, start) { "POST", path, INSIDE, "", "", NULL, "Message", "Message", 200, E2B_BODY_MAX, \
	.work = handle, .begin = start }
#define STREAM(path, handle, start) { "POST", path, INSIDE, "", "", NULL, E2B_STREAM, E2B_STREAM, 200, E2B_BODY_MAX, \
	.work = handle, .begin = start }

#define PROCESS "/process.Process/"
#define FILES "/filesystem.Filesystem/"

static const struct api_route routes[] = {
	REST("POST", "/sandboxes", NULL, "NewSandbox", "Sandbox", 201, E2B_BODY_MAX, .work = e2b_create,
	     .begin = e2b_create_begin),
	REST("POST", "/v2/sandboxes", NULL, "NewSandbox", "Sandbox", 201, E2B_BODY_MAX, .work = e2b_create,
	     .begin = e2b_create_begin),
	REST("GET", "/sandboxes", "metadata", NULL, "List", 200, 0, .work = e2b_list),
	REST("GET", "/v2/sandboxes", "metadata state startedAfter template order limit nextToken", NULL, "List", 200, 0,
	     .work = e2b_list),
	REST("GET", "/sandboxes/{id}", NULL, NULL, "Sandbox", 200, 0, .work = e2b_info),
	REST("DELETE", "/sandboxes/{id}", NULL, NULL, NULL, 204, 0, .work = e2b_kill, .begin = e2b_kill_begin),
	REST("POST", "/sandboxes/{id}/timeout", NULL, "Timeout", NULL, 204, SMALL, .work = e2b_set_timeout),
	REST("POST", "/sandboxes/{id}/connect", NULL, "Connect", "Sandbox", 200, SMALL, .work = e2b_connect),
	REST("POST", "/v2/sandboxes/{id}/connect", NULL, "Connect", "Sandbox", 200, SMALL, .work = e2b_connect),
	REST("POST", "/sandboxes/{id}/resume", NULL, "Connect", "Sandbox", 201, SMALL, .work = e2b_connect),
	REST("GET", "/sandboxes/{id}/metrics", "start end", NULL, "Metrics", 200, 0, .work = e2b_metrics),

	UNSERVED("POST", "/sandboxes/{id}/pause"),
	UNSERVED("POST", "/sandboxes/{id}/snapshots"),
	UNSERVED("POST", "/sandboxes/{id}/fork"),
	UNSERVED("POST", "/sandboxes/{id}/refreshes"),
	UNSERVED("PUT", "/sandboxes/{id}/network"),
	UNSERVED("GET", "/sandboxes/{id}/logs"),
	UNSERVED("GET", "/v2/sandboxes/{id}/logs"),
	UNSERVED("GET", "/snapshots"),
	UNSERVED("GET", "/templates"), UNSERVED("POST", "/templates"),
	UNSERVED("GET", "/v2/templates"), UNSERVED("POST", "/v2/templates"), UNSERVED("POST", "/v3/templates"),
	UNSERVED("GET", "/templates/{path*}"), UNSERVED("POST", "/templates/{path*}"), UNSERVED("PATCH", "/templates/{path*}"),
	UNSERVED("DELETE", "/templates/{path*}"), UNSERVED("POST", "/v2/templates/{path*}"),
	UNSERVED("GET", "/volumes"), UNSERVED("POST", "/volumes"), UNSERVED("GET", "/volumes/{path*}"),
	UNSERVED("DELETE", "/volumes/{path*}"),
	UNSERVED("GET", "/secrets"), UNSERVED("POST", "/secrets"), UNSERVED("GET", "/secrets/{path*}"),
	UNSERVED("POST", "/secrets/{path*}"), UNSERVED("DELETE", "/secrets/{path*}"),

	{ "GET", "/health", INSIDE, "", "", NULL, NULL, NULL, 204, 0, .work = e2b_health },
	{ "GET", "/files", INSIDE, "", "", SIGNED, NULL, ANYTHING, 200, 0, .work = e2b_file_read,
	  .begin = api_sandbox_read_begin },
	{ "POST", "/files", INSIDE, "", "", SIGNED, ANYTHING, "Written", 200, 4ull * API_FILE_MAX, .work = e2b_file_write,
	  .begin = e2b_run_begin },

	STREAM(PROCESS "Start", e2b_process_start, e2b_process_start_begin),
	STREAM(PROCESS "Connect", e2b_process_connect, e2b_process_connect_begin),
	RPC(PROCESS "List", e2b_process_use, e2b_process_list_begin),
	RPC(PROCESS "SendInput", e2b_process_use, e2b_process_input_begin),
	RPC(PROCESS "CloseStdin", e2b_process_use, e2b_process_close_begin),
	RPC(PROCESS "SendSignal", e2b_process_use, e2b_process_signal_begin),
	RPC(PROCESS "Update", e2b_process_use, e2b_process_update_begin),
	RPC(FILES "Stat", e2b_entry_stat, e2b_run_begin),
	RPC(FILES "ListDir", e2b_entry_list, e2b_run_begin),
	RPC(FILES "MakeDir", e2b_entry_make, e2b_run_begin),
	RPC(FILES "Move", e2b_entry_move, e2b_run_begin),
	RPC(FILES "Remove", e2b_entry_remove, e2b_run_begin),
	STREAM(FILES "WatchDir", e2b_watch, e2b_watch_begin),
	RPC(FILES "CreateWatcher", e2b_watch, e2b_watch_poll_begin),
	RPC(FILES "GetWatcherEvents", e2b_process_use, e2b_watch_events_begin),
	RPC(FILES "RemoveWatcher", e2b_process_use, e2b_watch_remove_begin),
	{0}
};

const struct api_route *
e2b_routes(void)
{
	return routes;
}
