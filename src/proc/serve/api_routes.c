/* api_routes.c - the table of what can be asked, and by whom.
 *
 * It feeds the routing, the OpenAPI document and `cloister serve --routes`.  What an agent may
 * ask for is what does not widen anything: a new line with SERVE_AGENT in it is a decision. */
#include "proc/serve/api.h"

#define OPERATOR SERVE_OPERATOR
#define BOTH (SERVE_OPERATOR | SERVE_AGENT)

const struct api_route api_routes[] = {
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
	{ "GET", "/v1/cells/{cell}", OPERATOR, "getCell", "One cell, by its id, its name or the "
	  "beginning of its id.", NULL, NULL, "Cell", 200, 0, api_cell_show, NULL },
	{ "GET", "/v1/cells/{cell}/events", OPERATOR, "getCellEvents", "What a cell did, as records; "
	  "server-sent events if they are accepted.", "follow after limit", NULL, "text/event-stream", 200, 0,
	  api_cell_events, api_follow_begin },
	{ "POST", "/v1/cells/{cell}/stop", OPERATOR, "stopCell", "Ask a cell to end, and end it after "
	  "`grace` (10s).", "grace", NULL, "CellEnd", 200, 0, api_cell_stop, NULL },
	{ "POST", "/v1/cells/{cell}/kill", OPERATOR, "killCell", "End a cell, now.",
	  NULL, NULL, "CellEnd", 200, 0, api_cell_kill, NULL },
	{ "POST", "/v1/cells/{cell}/freeze", OPERATOR, "freezeCell", "Stop a cell where it is.",
	  NULL, NULL, "Cell", 200, 0, api_cell_freeze, NULL },
	{ "POST", "/v1/cells/{cell}/thaw", OPERATOR, "thawCell", "Let a frozen cell go on.",
	  NULL, NULL, "Cell", 200, 0, api_cell_thaw, NULL },
	{0}
};
