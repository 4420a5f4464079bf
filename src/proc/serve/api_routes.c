/* api_routes.c - the table of all requests, and who may make them.
 *
 * It feeds the routing, the OpenAPI document and `cloister serve --routes`.  An agent may make only
 * requests that widen nothing: a new line with SERVE_AGENT in it is a decision.  The routes to a running
 * cell's supervisor are rows of steer/steer.c; here are only the functions that do their work. */
#include <assert.h>
#include <pthread.h>

#include "base/own.h"
#include "proc/serve/api.h"

#define OPERATOR SERVE_OPERATOR
#define BOTH (SERVE_OPERATOR | SERVE_AGENT)
#define ANYBODY (SERVE_OPERATOR | SERVE_GUEST)  /* with a browser, before logging in */

#define SANDBOX "/v1/sandboxes/{id}/"
#define CELL "/v1/cells/{cell}/"
#define A_VERSION(name) "/v1/" name "/{name}"

/* The same for each kind of registered object: its plural, its name in ids, its schema. */
#define REGISTERED(plural, One, Many, max, who) \
	{ "POST", "/v1/" plural, OPERATOR, "register" One, "Register a version. A version that exists " \
	  "stays as it is.", NULL, One, "Registered", 201, max, .work = api_register }, \
	{ "GET", "/v1/" plural, who, "list" Many, "Names, with their newest versions.", \
	  "limit after retired", NULL, "VersionList", 200, 0, .work = api_list }, \
	{ "GET", A_VERSION(plural), who, "get" One, "One version: NAME, or NAME@sha256:HASH.", \
	  NULL, NULL, One "Version", 200, 0, .work = api_show }, \
	{ "GET", A_VERSION(plural) "/versions", OPERATOR, "list" One "Versions", "All versions of a name, the " \
	  "newest first.", "limit after", NULL, "VersionList", 200, 0, .work = api_versions }, \
	{ "GET", A_VERSION(plural) "/diff", OPERATOR, "diff" One, "The differences between two versions: `from` " \
	  "(the last but one) and `to` (the newest).", "from to", NULL, "VersionDiff", 200, 0, .work = api_diff }, \
	{ "DELETE", A_VERSION(plural), OPERATOR, "retire" One, "Retire a name, or one version of it. The " \
	  "records of its use stay.", "hash", NULL, "Retired", 200, 0, .work = api_retire }

/* The same for sandboxes and for all cells. */
#define ATTACH(path, who, Of, of, attach, use, resize) \
	{ "POST", path "attach", who, "attachTo" Of, "Join the terminal of " of " that was started with one. Its events " \
	  "are `attach.started`, `attach.output` and `attach.exited`. A client that hangs up has left the terminal; the " \
	  "cell goes on.", NULL, "ExecSize", "text/event-stream", 200, 4096, .work = attach, .begin = api_attach_begin }, \
	{ "POST", path "attach/{attach}/input", who, "typeTo" Of, "Bytes to type into the terminal. The response comes " \
	  "when it has taken them.", NULL, "application/octet-stream", NULL, 204, SERVE_BODY_KEPT, .work = use, \
	  .begin = api_attach_input_begin }, \
	{ "POST", path "attach/{attach}/resize", who, "resizeTerminalOf" Of, "Give the terminal another size.", NULL, \
	  "ExecSize", NULL, 204, 4096, .work = resize, .begin = api_attach_resize_begin }

static const struct api_route own_routes[] = {
	{ "GET", "/", ANYBODY, "getDashboard", "The dashboard, for browsers.", NULL, NULL, "text/html", 200, 0,
	  .work = api_page, .begin = api_page_begin },
	{ "GET", "/assets/{name}", ANYBODY, "getDashboardFile", "A file of the dashboard.", NULL, NULL,
	  "application/octet-stream", 200, 0, .work = api_page, .begin = api_page_begin },
	{ "POST", "/login", ANYBODY, "login", "Log a browser in with the operator's token, or a one-time code: "
	  "it gets a cookie, and the CSRF token that it has to send as X-Cloister-Csrf with each change.", NULL, "Login", "Session", 200, 4096, .work = api_login, .begin = api_login_begin },
	{ "POST", "/logout", OPERATOR, "logout", "End the browser's session.", NULL, "?Nothing", NULL, 204, 4096,
	  .work = api_nothing, .begin = api_logout_begin },
	{ "GET", "/v1/session", OPERATOR, "getSession", "The logged-in user.", NULL, NULL, "Session", 200, 0,
	  .work = api_nothing, .begin = api_session_begin },
	{ "POST", "/v1/session/code", OPERATOR, "makeLoginCode", "Make a one-time link that logs a browser "
	  "in; on the unix socket only.", NULL, "?Nothing", "LoginCode", 200, 4096,
	  .work = api_nothing, .begin = api_login_code_begin },

	{ "GET", "/healthz", BOTH, "getHealth", "Whether the service works.",
	  NULL, NULL, "Health", 200, 0, .work = api_healthz },
	{ "GET", "/metrics", OPERATOR, "getMetrics", "Numbers for Prometheus.",
	  NULL, NULL, "text/plain", 200, 0, .work = api_metrics },
	{ "GET", "/v1/version", BOTH, "getVersion", "The version of cloister.",
	  NULL, NULL, "Version", 200, 0, .work = api_version },
	{ "GET", "/v1/store", OPERATOR, "getStore", "Where the service keeps its registry and the contents of files.",
	  NULL, NULL, "Store", 200, 0, .work = api_store },
	{ "GET", "/v1/openapi.json", BOTH, "getOpenapi", "This document, limited to the requests that the "
	  "caller may make.",
	  NULL, NULL, "application/json", 200, 0, .work = api_openapi },

	{ "GET", "/v1/cells", OPERATOR, "listCells", "The running cells; with `all`, also ended cells with "
	  "kept data.", "all", NULL, "CellList", 200, 0, .work = api_cells_list },
	{ "GET", "/v1/ended", OPERATOR, "listEndedCells", "Cells that have ended, with the sums of their "
	  "timelines: the newest first.", "limit", NULL, "EndedList", 200, 0, .work = api_ended },
	{ "GET", "/v1/ended/{cell}", OPERATOR, "getEndedCell", "One cell that has ended, by its id, its name or "
	  "the beginning of its id.", NULL, NULL, "Ended", 200, 0, .work = api_ended_one },
	{ "GET", "/v1/traffic", OPERATOR, "getTraffic", "The requests of all cells over the last `minutes` "
	  "(60), in `buckets` (60) parts.", "minutes buckets", NULL, "Traffic", 200, 0, .work = api_traffic },
	{ "GET", "/v1/resources", OPERATOR, "getResources", "What all cells used over the last `minutes` (60), in "
	  "`buckets` (60) parts.", "minutes buckets", NULL, "Resources", 200, 0, .work = api_resources },
	{ "GET", "/v1/live", OPERATOR, "getLive", "Changes in any cell, as they happen: `cells`, `cell`, "
	  "`gone`, `refusal`, `approval`, `audit`.", NULL, NULL, "text/event-stream", 200, 0,
	  .work = api_live, .begin = api_live_begin },
	{ "GET", "/v1/cells/{cell}", OPERATOR, "getCell", "One cell, by its id, its name or the "
	  "beginning of its id.", NULL, NULL, "Cell", 200, 0, .work = api_cell_show },
	{ "GET", "/v1/cells/{cell}/events", OPERATOR, "getCellEvents", "The records of a cell; as "
	  "server-sent events if the client accepts them.", "follow after limit type", NULL, "text/event-stream", 200, 0,
	  .work = api_cell_events, .begin = api_follow_begin },
	{ "GET", "/v1/cells/{cell}/timeline", OPERATOR, "getCellTimeline", "A page of a cell's timeline: "
	  "the newest records first, or those behind `after`. `type` keeps records of one type, or of "
	  "several separated by commas (`refusal` is a type, too). `pid` keeps records of one process in the "
	  "cell. `search` keeps records that contain a text.", "after before limit type pid search", NULL, "TimelinePage", 200, 0,
	  .work = api_cell_timeline },
	{ "GET", "/v1/cells/{cell}/traffic", OPERATOR, "getCellTraffic", "A cell's requests over its "
	  "lifetime, in at most `buckets` (60) parts.", "buckets", NULL, "Traffic", 200, 0, .work = api_cell_traffic },
	{ "GET", "/v1/cells/{cell}/resources", OPERATOR, "getCellResources", "What a cell used over its lifetime, "
	  "in at most `buckets` (60) parts.", "buckets", NULL, "Resources", 200, 0, .work = api_cell_resources },
	{ "GET", "/v1/cells/{cell}/changes", OPERATOR, "listChanges", "The files that a cell changed in its "
	  "workspaces, as `cloister diff --json` lists them.", NULL, NULL, "Changes", 200, 0,
	  .work = api_changes_list, .heavy = true },
	{ "GET", "/v1/cells/{cell}/changes/diff", OPERATOR, "diffChanges", "The difference of the files at "
	  "`path`, or of all, as `cloister diff` prints it.", "path", NULL, "ChangesDiff", 200, 0,
	  .work = api_changes_diff, .heavy = true },
	{ "POST", "/v1/cells/{cell}/changes/apply", OPERATOR, "applyChanges", "Write a cell's changes to its "
	  "workspaces, as `cloister apply` does. A file that this machine would run is held back unless "
	  "`paths` names it.", NULL, "?ChangesApply", "ChangesApplied", 200, API_OBJECT_MAX,
	  .work = api_changes_apply, .heavy = true },
	{ "POST", "/v1/cells/{cell}/changes/discard", OPERATOR, "discardChanges", "Delete a cell's changes "
	  "and its kept data, as `cloister discard` does. Its timeline stays.", NULL, "?Nothing",
	  "ChangesDiscarded", 200, 4096, .work = api_changes_discard,
	  .heavy = true },

	ATTACH(CELL, OPERATOR, "Cell", "a cell", api_cell_attach, api_cell_use, api_cell_attach_resize),
	{ "POST", "/v1/cells/{cell}/policy/check", OPERATOR, "checkCellPolicy", "Check the text of a "
	  "policy: its errors, and what it would change.", NULL, "CellPolicyText", "CellPolicyCheck", 200, API_OBJECT_MAX,
	  .work = api_cell_policy_check },
	{ "GET", "/v1/secrets", OPERATOR, "listSecrets", "The secrets in the vault: names, schemes and "
	  "scopes; never values.", NULL, NULL, "SecretList", 200, 0, .work = api_secrets_list },

	{ "GET", "/v1/states", OPERATOR, "listStates", "The versioned states of this user.", NULL, NULL, "StateList", 200, 0,
	  .work = api_states_list },
	{ "GET", "/v1/states/{state}/drift", OPERATOR, "getStateDrift", "How far a state's commits are from `tag` (known-good), "
	  "the newest first: at most `limit` (100).", "tag limit", NULL, "StateDrift", 200, 0, .work = api_state_drift,
	  .heavy = true },

	REGISTERED("capabilities", "Capability", "Capabilities", SERVE_BODY_MAX, OPERATOR),
	REGISTERED("agents", "Agent", "Agents", API_OBJECT_MAX, BOTH),
	{ "POST", "/v1/agents/{name}/assign", OPERATOR, "assignToAgent", "Give an agent more grants: its next "
	  "version.", NULL, "Assignment", "Registered", 201, API_OBJECT_MAX, .work = api_assign },
	REGISTERED("envs", "Env", "Envs", API_OBJECT_MAX, OPERATOR),
	REGISTERED("policies", "Policy", "Policies", API_OBJECT_MAX, OPERATOR),
	REGISTERED("targets", "Target", "Targets", API_OBJECT_MAX, OPERATOR),

	{ "POST", "/v1/dispatches", BOTH, "dispatch", "Dispatch an agent. The dispatch is on disk before "
	  "the answer; the same idempotency key gives the same dispatch.", NULL, "DispatchRequest",
	  "Dispatch", 202, API_DISPATCH_MAX, .work = api_dispatch, .begin = api_dispatch_begin },
	{ "GET", "/v1/dispatches", OPERATOR, "listDispatches", "The newest first.",
	  "state parent limit after", NULL, "DispatchList", 200, 0, .work = api_dispatches_list },
	{ "GET", "/v1/dispatches/{id}", BOTH, "getDispatch", "The state of a dispatch, the versions that "
	  "it uses, and its result.", NULL, NULL, "Dispatch", 200, 0, .work = api_dispatch_show },
	{ "GET", "/v1/dispatches/{id}/events", BOTH, "getDispatchEvents", "The events of a dispatch, until "
	  "its end; as server-sent events if the client accepts them.", "follow after limit", NULL, "text/event-stream", 200, 0,
	  .work = api_dispatch_events, .begin = api_follow_begin },
	{ "GET", "/v1/dispatches/{id}/output", BOTH, "getDispatchOutput", "The agent's standard output or "
	  "standard error.", "stream", NULL, "application/octet-stream", 200, 0,
	  .work = api_dispatch_output },
	{ "GET", "/v1/dispatches/{id}/files", BOTH, "listDispatchFiles", "The files that the agent left in "
	  "/out.",
	  NULL, NULL, "FileList", 200, 0, .work = api_dispatch_files },
	{ "GET", "/v1/dispatches/{id}/files/{path*}", BOTH, "getDispatchFile", "One of these files.",
	  NULL, NULL, "application/octet-stream", 200, 0, .work = api_dispatch_file },
	{ "POST", "/v1/dispatches/{id}/cancel", BOTH, "cancelDispatch", "Cancel a dispatch. It has ended "
	  "once its state is final.", NULL, "?Nothing", "Dispatch", 200, 4096, .work = api_dispatch_cancel },

	{ "PUT", "/v1/reserves/{name}", BOTH, "reserve", "Keep slots ready for sandboxes of an agent, for `seconds`; repeat it to "
	  "keep them longer. No slots release the reserve. Over TCP and inside cells, agents reserve nothing.", NULL, "Reserve",
	  "Reserved", 200, 4096, .work = api_reserve },
	{ "GET", "/v1/reserves", OPERATOR, "listReserves", "The reserves that are in force.", NULL, NULL, "ReserveList", 200, 0,
	  .work = api_reserves },

	{ "POST", SANDBOX "exec", BOTH, "execInSandbox", "Run a command in the cell of a running dispatch, whose agent is "
	  "registered with `sandbox: true`. Its events are `exec.started`, `exec.output` and `exec.exited`. A client that "
	  "hangs up kills it.", NULL, "Exec", "text/event-stream", 200, API_OBJECT_MAX, .work = api_sandbox_exec,
	  .begin = api_sandbox_exec_begin },
	{ "POST", SANDBOX "exec/{exec}/input", BOTH, "sendExecInput", "Bytes for the standard input of a command that was "
	  "started with `stdin` or `tty`. The response comes when it has taken them.", "end", "application/octet-stream",
	  NULL, 204, SERVE_BODY_KEPT, .work = api_sandbox_use, .begin = api_sandbox_input_begin },
	{ "POST", SANDBOX "exec/{exec}/signal", BOTH, "signalExec", "Send a signal to a command.", NULL, "ExecSignal", NULL,
	  204, 4096, .work = api_sandbox_signal, .begin = api_sandbox_signal_begin },
	{ "POST", SANDBOX "exec/{exec}/resize", BOTH, "resizeExec", "Give a command's terminal another size.", NULL,
	  "ExecSize", NULL, 204, 4096, .work = api_sandbox_resize, .begin = api_sandbox_resize_begin },
	ATTACH(SANDBOX, BOTH, "Sandbox", "a sandbox", api_sandbox_attach, api_sandbox_use, api_sandbox_attach_resize),
	{ "GET", SANDBOX "file", BOTH, "readSandboxFile", "Read a regular file of the cell, as its agent can.", "path", NULL,
	  "application/octet-stream", 200, 0, .work = api_sandbox_read, .begin = api_sandbox_read_begin },
	{ "PUT", SANDBOX "file", BOTH, "writeSandboxFile", "Write a regular file of the cell, as its agent can. Missing "
	  "folders are made.", "path", "application/octet-stream", NULL, 204, API_FILE_MAX, .work = api_sandbox_write,
	  .begin = api_sandbox_write_begin },
	{ "GET", SANDBOX "folder", BOTH, "listSandboxFolder", "The entries of a folder of the cell.", "path", NULL,
	  "SandboxFolder", 200, 0, .work = api_sandbox_list, .begin = api_sandbox_list_begin },
	{ "GET", SANDBOX "watch", BOTH, "watchSandboxFiles", "Changes of a file or folder of the cell, as they happen: "
	  "`file.watching`, `file.created`, `file.modified`, `file.removed` and `file.overflow`.", "path recursive", NULL,
	  "text/event-stream", 200, 0, .work = api_sandbox_watch, .begin = api_sandbox_watch_begin },
	{ "POST", SANDBOX "publish", OPERATOR, "publishSandboxPort", "Make a port of the cell's loopback reachable at a port of "
	  "this machine's, until the sandbox or the service ends.", NULL, "Publish", "Published", 200, 4096,
	  .work = api_sandbox_publish, .begin = api_sandbox_publish_begin },

	{ "GET", "/v1/audit/operator", OPERATOR, "getOperatorTimeline", "The actions of operators: signed "
	  "records, one per line.", "follow after limit", NULL, "text/event-stream", 200, 0, .work = api_operator_events,
	  .begin = api_follow_begin },
	{ "GET", "/v1/audit/state", OPERATOR, "getAuditState", "The result of the last check of all "
	  "timelines, which is repeated regularly.", NULL, NULL, "AuditState", 200, 0, .work = api_nothing,
	  .begin = api_audit_state_begin },
};

/* ---- requests to a running cell ---- */

static const struct {
	int (*one)(struct api_call *c), (*every)(struct api_call *c);
} steer_work[STEER_VERBS] = {
	[VERB_STOP] = { api_cell_stop, NULL },
	[VERB_KILL] = { api_cell_kill, api_cells_kill },
	[VERB_FREEZE] = { api_cell_freeze_or_thaw, api_cells_freeze_or_thaw },
	[VERB_THAW] = { api_cell_freeze_or_thaw, api_cells_freeze_or_thaw },
	[VERB_TTL] = { api_cell_ttl, NULL },
	[VERB_GET_POLICY] = { api_cell_policy, NULL },
	[VERB_POLICY] = { api_cell_policy_set, NULL },
	[VERB_ALLOW] = { api_cell_add_rule, NULL },
	[VERB_DENY] = { api_cell_add_rule, NULL },
	[VERB_GET_BUDGET] = { api_cell_budget, NULL },
	[VERB_BUDGET] = { api_cell_budget_raise, NULL },
	[VERB_APPROVALS] = { NULL, api_approvals_list },
	[VERB_APPROVE] = { api_approve, NULL },
	[VERB_REFUSE] = { api_refuse, NULL },
	[VERB_SECRETS] = { api_cell_secrets, NULL },
	[VERB_REVOKE] = { api_cell_revoke, api_secret_revoke },
	[VERB_ROTATE] = { api_cell_rotate, api_secret_rotate },
};

/* Which operators may approve a request, its supervisor decides. */
static unsigned
steer_roles(enum steer_by who)
{
	return who == STEER_OPERATOR || who == STEER_APPROVER ? OPERATOR : 0;
}

static struct api_route routes[ARRAY_LEN(own_routes) + 2 * STEER_VERBS + 1];

static size_t
add_steer(size_t n, enum steer_verb verb, const struct steer_http *http, const char *record,
          int (*work)(struct api_call *c))
{
	assert((http->method != NULL) == (work != NULL));
	if (http->method == NULL)
		return n;
	routes[n] = (struct api_route){ http->method, http->path, steer_roles(steer_rows[verb].who), http->id,
		http->summary, http->query, http->body, http->answer, 200, http->body_max, work, NULL, verb, record, false };
	return n + 1;
}

static void
make_routes(void)
{
	size_t n = 0;

	for (; n < ARRAY_LEN(own_routes); n++)
		routes[n] = own_routes[n];
	for (int i = 0; i < STEER_VERBS; i++) {
		const struct steer_row *row = &steer_rows[i];

		n = add_steer(n, (enum steer_verb)i, &row->one, row->record, steer_work[i].one);
		n = add_steer(n, (enum steer_verb)i, &row->every, row->record_every, steer_work[i].every);
	}
}

const struct api_route *
api_routes(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, make_routes);
	return routes;
}
