/* api_routes.c - the table of all requests, and who may make them.
 *
 * It feeds the routing, the OpenAPI document and `cloister serve --routes`.  An agent may make only
 * requests that widen nothing: a new line with SERVE_AGENT in it is a decision. */
#include "proc/serve/api.h"

#define OPERATOR SERVE_OPERATOR
#define BOTH (SERVE_OPERATOR | SERVE_AGENT)
#define ANYBODY (SERVE_OPERATOR | SERVE_GUEST)  /* with a browser, before logging in */

#define A_VERSION(name) "/v1/" name "/{name}"

/* The same for each kind of registered object: its plural, its name in ids, its schema. */
#define REGISTERED(plural, One, Many, max, who) \
	{ "POST", "/v1/" plural, OPERATOR, "register" One, "Register a version; one that is there already " \
	  "stays as it is.", NULL, One, "Registered", 201, max, api_register, NULL }, \
	{ "GET", "/v1/" plural, who, "list" Many, "Names, with their newest versions.", \
	  "limit after retired", NULL, "VersionList", 200, 0, api_list, NULL }, \
	{ "GET", A_VERSION(plural), who, "get" One, "One version: NAME, or NAME@sha256:HASH.", \
	  NULL, NULL, One "Version", 200, 0, api_show, NULL }, \
	{ "GET", A_VERSION(plural) "/versions", OPERATOR, "list" One "Versions", "All versions of a name, the " \
	  "newest first.", "limit after", NULL, "VersionList", 200, 0, api_versions, NULL }, \
	{ "GET", A_VERSION(plural) "/diff", OPERATOR, "diff" One, "What differs between two versions: `from` " \
	  "(the last but one) and `to` (the newest).", "from to", NULL, "VersionDiff", 200, 0, api_diff, NULL }, \
	{ "DELETE", A_VERSION(plural), OPERATOR, "retire" One, "Retire a name, or one version of it; what ran " \
	  "with it stays on record.", "hash", NULL, "Retired", 200, 0, api_retire, NULL }

const struct api_route api_routes[] = {
	{ "GET", "/", ANYBODY, "getDashboard", "The dashboard, for browsers.", NULL, NULL, "text/html", 200, 0,
	  api_page, api_page_begin },
	{ "GET", "/assets/{name}", ANYBODY, "getDashboardFile", "A file of the dashboard's.", NULL, NULL,
	  "application/octet-stream", 200, 0, api_page, api_page_begin },
	{ "POST", "/login", ANYBODY, "login", "Log a browser in with the operator's token, or a one-time code: "
	  "it gets a cookie.", NULL, "Login", "Session", 200, 4096, api_login, api_login_begin },
	{ "POST", "/logout", OPERATOR, "logout", "End the browser's session.", NULL, "?Nothing", NULL, 204, 4096,
	  api_nothing, api_logout_begin },
	{ "GET", "/v1/session", OPERATOR, "getSession", "Who one is, and the word that a browser has to send as "
	  "X-Cloister-Csrf with all that changes something.", NULL, NULL, "Session", 200, 0, api_nothing,
	  api_session_begin },
	{ "POST", "/v1/session/code", OPERATOR, "makeLoginCode", "A one-time link to log a browser in with; on "
	  "the unix socket only.", NULL, "?Nothing", "LoginCode", 200, 4096, api_nothing, api_login_code_begin },

	{ "GET", "/healthz", BOTH, "getHealth", "Whether the service works.",
	  NULL, NULL, "Health", 200, 0, api_healthz, NULL },
	{ "GET", "/metrics", OPERATOR, "getMetrics", "Numbers for Prometheus.",
	  NULL, NULL, "text/plain", 200, 0, api_metrics, NULL },
	{ "GET", "/v1/version", BOTH, "getVersion", "Which cloister this is.",
	  NULL, NULL, "Version", 200, 0, api_version, NULL },
	{ "GET", "/v1/openapi.json", BOTH, "getOpenapi", "This document, as far as it is for who asks.",
	  NULL, NULL, "application/json", 200, 0, api_openapi, NULL },

	{ "GET", "/v1/cells", OPERATOR, "listCells", "The running cells; with `all` ended ones too, "
	  "of which something is kept.", "all", NULL, "CellList", 200, 0, api_cells_list, NULL },
	{ "GET", "/v1/live", OPERATOR, "getLive", "What changes in any cell, as it happens: `cells`, `cell`, `gone`, "
	  "`refusal`, `approval`, `audit`.", NULL, NULL, "text/event-stream", 200, 0, api_live, api_live_begin },
	{ "GET", "/v1/cells/{cell}", OPERATOR, "getCell", "One cell, by its id, its name or the "
	  "beginning of its id.", NULL, NULL, "Cell", 200, 0, api_cell_show, NULL },
	{ "GET", "/v1/cells/{cell}/events", OPERATOR, "getCellEvents", "What a cell did, as records; "
	  "server-sent events if they are accepted.", "follow after limit", NULL, "text/event-stream", 200, 0,
	  api_cell_events, api_follow_begin },
	{ "GET", "/v1/cells/{cell}/timeline", OPERATOR, "getCellTimeline", "A page of a cell's timeline: the newest "
	  "first, or from `after` on; those only that are of a `type` (or several, with commas; `refusal` is one, "
	  "too) or have `search` in them.", "after before limit type search", NULL, "TimelinePage", 200, 0,
	  api_cell_timeline, NULL },
	{ "GET", "/v1/cells/{cell}/traffic", OPERATOR, "getCellTraffic", "What a cell asked for over its time, in "
	  "at most so many `buckets` (60).", "buckets", NULL, "Traffic", 200, 0, api_cell_traffic, NULL },
	{ "POST", "/v1/cells/{cell}/stop", OPERATOR, "stopCell", "Ask a cell to end, and end it after "
	  "`grace` (10s).", "grace", "?Nothing", "CellEnd", 200, 4096, api_cell_stop, NULL },
	{ "POST", "/v1/cells/{cell}/kill", OPERATOR, "killCell", "End a cell, now.",
	  NULL, "?Nothing", "CellEnd", 200, 4096, api_cell_kill, NULL },
	{ "POST", "/v1/cells/{cell}/freeze", OPERATOR, "freezeCell", "Stop a cell where it is.",
	  NULL, "?Nothing", "Cell", 200, 4096, api_cell_freeze, NULL },
	{ "POST", "/v1/cells/{cell}/thaw", OPERATOR, "thawCell", "Let a frozen cell go on.",
	  NULL, "?Nothing", "Cell", 200, 4096, api_cell_thaw, NULL },

	{ "POST", "/v1/cells/kill", OPERATOR, "killAllCells", "The emergency stop: end every cell, now, "
	  "and cancel all dispatches.",
	  NULL, "?Nothing", "Done", 200, 4096, api_cells_kill, NULL },
	{ "POST", "/v1/cells/freeze", OPERATOR, "freezeAllCells", "Stop every cell where it is.",
	  NULL, "?Nothing", "Done", 200, 4096, api_cells_freeze, NULL },
	{ "POST", "/v1/cells/thaw", OPERATOR, "thawAllCells", "Let every frozen cell go on.",
	  NULL, "?Nothing", "Done", 200, 4096, api_cells_thaw, NULL },
	{ "POST", "/v1/cells/{cell}/ttl", OPERATOR, "setCellTtl", "How long a cell lives from now on.",
	  NULL, "Ttl", "Done", 200, API_STEER_MAX, api_cell_ttl, NULL },
	{ "GET", "/v1/cells/{cell}/policy", OPERATOR, "getCellPolicy", "The policy of a running cell, and how often "
	  "each rule decided.", NULL, NULL, "CellPolicy", 200, 0, api_cell_policy, NULL },
	{ "PUT", "/v1/cells/{cell}/policy", OPERATOR, "setCellPolicy", "Another policy, between two requests; `now` "
	  "cuts off what is under way and would be refused; `hash` is that of the policy it was made from.",
	  NULL, "CellPolicyChange", "CellPolicyChanged", 200, API_OBJECT_MAX, api_cell_policy_set, NULL },
	{ "POST", "/v1/cells/{cell}/policy/check", OPERATOR, "checkCellPolicy", "What is wrong with a text, and what "
	  "would change.", NULL, "CellPolicyText", "CellPolicyCheck", 200, API_OBJECT_MAX, api_cell_policy_check,
	  NULL },
	{ "POST", "/v1/cells/{cell}/allow", OPERATOR, "allowInCell", "Put a rule that allows in front.", NULL,
	  "CellRule", "CellPolicyChanged", 200, API_STEER_MAX, api_cell_allow, NULL },
	{ "POST", "/v1/cells/{cell}/deny", OPERATOR, "denyInCell", "Put a rule that refuses in front.", NULL,
	  "CellRule", "CellPolicyChanged", 200, API_STEER_MAX, api_cell_deny, NULL },
	{ "GET", "/v1/cells/{cell}/budget", OPERATOR, "getCellBudget", "What a cell has used of what it may: money in "
	  "dollars, times in seconds.", NULL, NULL, "CellBudget", 200, 0, api_cell_budget, NULL },
	{ "POST", "/v1/cells/{cell}/budget", OPERATOR, "raiseCellBudget", "More of one of them.", NULL,
	  "CellBudgetRaise", "CellBudget", 200, API_STEER_MAX, api_cell_budget_raise, NULL },
	{ "GET", "/v1/approvals", OPERATOR, "listApprovals", "Requests that wait for people, or did, of cells that "
	  "run.", "cell state", NULL, "ApprovalList", 200, 0, api_approvals_list, NULL },
	{ "POST", "/v1/approvals/{id}/approve", OPERATOR, "approve", "Let it go: this `once`, all of its rule `for` a "
	  "time, or by its `rule` as long as the cell lives.", NULL, "?Approve", "Approval", 200, API_STEER_MAX,
	  api_approve, NULL },
	{ "POST", "/v1/approvals/{id}/refuse", OPERATOR, "refuse", "Refuse it; the agent is told why.", NULL,
	  "Refuse", "Approval", 200, API_STEER_MAX, api_refuse, NULL },
	{ "GET", "/v1/cells/{cell}/secrets", OPERATOR, "listCellSecrets", "The secrets that a cell may use; never "
	  "values.", NULL, NULL, "CellSecretList", 200, 0, api_cell_secrets, NULL },
	{ "POST", "/v1/cells/{cell}/secrets/{name}/revoke", OPERATOR, "revokeCellSecret", "Take a secret back from a "
	  "cell: in force when it is answered, and what is under way with it is cut.", NULL, "?Revoke", "Done", 200,
	  API_STEER_MAX, api_cell_revoke, NULL },
	{ "POST", "/v1/cells/{cell}/secrets/{name}/rotate", OPERATOR, "rotateCellSecret", "Give a cell the value that "
	  "the vault has now, under the same placeholder.", NULL, "?Why", "Done", 200, API_STEER_MAX,
	  api_cell_rotate, NULL },
	{ "GET", "/v1/secrets", OPERATOR, "listSecrets", "What the vault has: names, schemes and scopes; never "
	  "values.", NULL, NULL, "SecretList", 200, 0, api_secrets_list, NULL },
	{ "POST", "/v1/secrets/{name}/revoke", OPERATOR, "revokeSecret", "Take a secret back from every cell.",
	  NULL, "?Revoke", "Done", 200, API_STEER_MAX, api_secret_revoke, NULL },
	{ "POST", "/v1/secrets/{name}/rotate", OPERATOR, "rotateSecret", "Give every cell the value that the vault "
	  "has now.", NULL, "?Why", "Done", 200, API_STEER_MAX, api_secret_rotate, NULL },

	REGISTERED("capabilities", "Capability", "Capabilities", SERVE_BODY_MAX, OPERATOR),
	REGISTERED("agents", "Agent", "Agents", API_OBJECT_MAX, BOTH),
	REGISTERED("envs", "Env", "Envs", API_OBJECT_MAX, OPERATOR),
	REGISTERED("policies", "Policy", "Policies", API_OBJECT_MAX, OPERATOR),

	{ "POST", "/v1/dispatches", BOTH, "dispatch", "Put an agent to work. It is kept on the disk before "
	  "this is answered; the same idempotency key gives the same dispatch.", NULL, "DispatchRequest",
	  "Dispatch", 202, API_DISPATCH_MAX, api_dispatch, api_dispatch_begin },
	{ "GET", "/v1/dispatches", OPERATOR, "listDispatches", "The newest first.",
	  "state parent limit after", NULL, "DispatchList", 200, 0, api_dispatches_list, NULL },
	{ "GET", "/v1/dispatches/{id}", BOTH, "getDispatch", "How it stands, what it was resolved to and "
	  "what came of it.", NULL, NULL, "Dispatch", 200, 0, api_dispatch_show, NULL },
	{ "GET", "/v1/dispatches/{id}/events", BOTH, "getDispatchEvents", "What happens, to its end; "
	  "server-sent events if they are accepted.", "follow after limit", NULL, "text/event-stream", 200, 0,
	  api_dispatch_events, api_follow_begin },
	{ "GET", "/v1/dispatches/{id}/output", BOTH, "getDispatchOutput", "What the agent wrote to its "
	  "standard output, or standard error.", "stream", NULL, "application/octet-stream", 200, 0,
	  api_dispatch_output, NULL },
	{ "GET", "/v1/dispatches/{id}/files", BOTH, "listDispatchFiles", "What the agent left in /out.",
	  NULL, NULL, "FileList", 200, 0, api_dispatch_files, NULL },
	{ "GET", "/v1/dispatches/{id}/files/{path*}", BOTH, "getDispatchFile", "One of them.",
	  NULL, NULL, "application/octet-stream", 200, 0, api_dispatch_file, NULL },
	{ "POST", "/v1/dispatches/{id}/cancel", BOTH, "cancelDispatch", "End it. It is over when its state "
	  "says so.", NULL, "?Nothing", "Dispatch", 200, 4096, api_dispatch_cancel, NULL },

	{ "GET", "/v1/audit/operator", OPERATOR, "getOperatorTimeline", "What operators did: signed records, "
	  "one a line.", "follow after limit", NULL, "text/event-stream", 200, 0, api_operator_events,
	  api_follow_begin },
	{ "GET", "/v1/audit/state", OPERATOR, "getAuditState", "Whether all timelines are as they were written, as "
	  "far as is known; it is found out again and again.", NULL, NULL, "AuditState", 200, 0, api_nothing,
	  api_audit_state_begin },
	{0}
};
