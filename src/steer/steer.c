/* steer.c - see steer.h. */
#include "steer/steer.h"

#define CELL "/v1/cells/{cell}/"
#define NOTHING_MAX 4096u               /* a body without members */
#define WORDS_MAX (16u << 10)           /* a few words */
#define POLICY_MAX (4u << 20)

#define STARTED (STEER_ALIVE | STEER_BEGUN)

const struct steer_row steer_rows[STEER_VERBS] = {
	/* ---- the cell's life ---- */

	[VERB_INFO] = { "info", CONTROL_INFO, "", .who = STEER_OPERATOR },
	[VERB_WAIT] = { "wait", CONTROL_WAIT, "", .who = STEER_OPERATOR, .after = CONTROL_KILL, .stays = true },
	[VERB_STOP] = { "stop", CONTROL_STOP, "uW", .who = STEER_OPERATOR, .record = "cell.stop",
		.record_every = "cells.stop",
		.one = { "POST", CELL "stop", "stopCell", "Ask a cell to end, and end it after `grace` (10s).",
			"grace", "?Nothing", "CellEnd", NOTHING_MAX } },
	[VERB_KILL] = { "kill", CONTROL_KILL, "W", .who = STEER_OPERATOR, .record = "cell.kill",
		.record_every = "cells.kill",
		.one = { "POST", CELL "kill", "killCell", "End a cell, now.", NULL, "?Nothing", "CellEnd",
			NOTHING_MAX },
		.every = { "POST", "/v1/cells/kill", "killAllCells", "The emergency stop: end every cell, now, and "
			"cancel all dispatches.", NULL, "?Nothing", "Done", NOTHING_MAX } },
	[VERB_FREEZE] = { "freeze", CONTROL_FREEZE, "W", .who = STEER_OPERATOR, .when = STARTED,
		.record = "cell.freeze", .record_every = "cells.freeze",
		.one = { "POST", CELL "freeze", "freezeCell", "Stop a cell where it is.", NULL, "?Nothing", "Cell",
			NOTHING_MAX },
		.every = { "POST", "/v1/cells/freeze", "freezeAllCells", "Stop every cell where it is.", NULL,
			"?Nothing", "Done", NOTHING_MAX } },
	[VERB_THAW] = { "thaw", CONTROL_THAW, "W", .who = STEER_OPERATOR, .when = STARTED,
		.record = "cell.thaw", .record_every = "cells.thaw",
		.one = { "POST", CELL "thaw", "thawCell", "Let a frozen cell go on.", NULL, "?Nothing", "Cell",
			NOTHING_MAX },
		.every = { "POST", "/v1/cells/thaw", "thawAllCells", "Let every frozen cell go on.", NULL, "?Nothing",
			"Done", NOTHING_MAX } },
	[VERB_EXEC] = { "exec", CONTROL_EXEC, "x", .n_fds = -1, .who = STEER_OPERATOR,
		.when = STARTED | STEER_THAWED | STEER_AWAKE, .stays = true },
	[VERB_PAUSE] = { "pause", CONTROL_PAUSE, "W", .who = STEER_OPERATOR, .when = STARTED | STEER_LASTING,
		.stays = true },
	[VERB_RESUME] = { "resume", CONTROL_RESUME, "W", .who = STEER_OPERATOR, .when = STARTED | STEER_LASTING,
		.stays = true },
	[VERB_FORK] = { "fork", CONTROL_FORK, "", .n_fds = 2, .who = STEER_OPERATOR,
		.when = STARTED | STEER_LASTING | STEER_THAWED | STEER_AWAKE, .stays = true },
	[VERB_SIGNAL] = { "signal", CONTROL_SIGNAL, "u", .who = STEER_OPERATOR, .later = true,
		.after = CONTROL_EXEC },
	[VERB_RESIZE] = { "resize", CONTROL_RESIZE, "uu", .who = STEER_OPERATOR, .later = true,
		.after = CONTROL_EXEC },
	[VERB_TTL] = { "ttl", CONTROL_TTL, "wU", .who = STEER_OPERATOR, .when = STARTED | STEER_LASTING,
		.record = "cell.ttl",
		.one = { "POST", CELL "ttl", "setCellTtl", "How long a cell lives from now on.", NULL, "Ttl", "Done",
			WORDS_MAX } },
	[VERB_START] = { "start", CONTROL_START, "w", .who = STEER_OPERATOR, .when = STEER_ALIVE | STEER_LASTING },
	[VERB_SIGNAL_AGENT] = { "signal-agent", CONTROL_SIGNAL_AGENT, "wu", .who = STEER_OPERATOR,
		.when = STEER_ALIVE | STEER_AWAKE },
	[VERB_ATTACH] = { "attach", CONTROL_ATTACH, "uuW", .who = STEER_OPERATOR, .when = STEER_BEGUN | STEER_AWAKE,
		.after = CONTROL_ATTACH, .stays = true },
	[VERB_COPY] = { "copy", CONTROL_COPY, "", .n_fds = 1, .who = STEER_OPERATOR, .when = STARTED, .stays = true },
	[VERB_CHECKPOINT] = { "checkpoint", CONTROL_CHECKPOINT, "", .who = STEER_OPERATOR, .when = STARTED, .stays = true },
	[VERB_LOST_RIGHTS] = { "lost-rights", CONTROL_LOST_RIGHTS, "w", .who = STEER_OPERATOR },

	/* ---- its policy and its budgets ---- */

	[VERB_GET_POLICY] = { "get-policy", CONTROL_GET_POLICY, "w", .who = STEER_OPERATOR,
		.one = { "GET", CELL "policy", "getCellPolicy", "The policy of a running cell, and how often each rule "
			"decided.", NULL, NULL, "CellPolicy", 0 } },
	[VERB_POLICY] = { "policy", CONTROL_SET_POLICY, "wnssuuu", .n_fds = 3, .who = STEER_OPERATOR,
		.when = STEER_ALIVE, .record = "cell.policy",
		.one = { "PUT", CELL "policy", "setCellPolicy", "Another policy, between two requests; `now` cuts off "
			"what is under way and would be refused; `hash` is that of the policy it was made from.", NULL,
			"CellPolicyChange", "CellPolicyChanged", POLICY_MAX } },
	[VERB_ALLOW] = { "allow", CONTROL_SET_POLICY, "wnssuuu", .n_fds = 3, .who = STEER_OPERATOR,
		.when = STEER_ALIVE, .record = "cell.allow",
		.one = { "POST", CELL "allow", "allowInCell", "Put a rule that allows in front.", NULL, "CellRule",
			"CellPolicyChanged", WORDS_MAX } },
	[VERB_DENY] = { "deny", CONTROL_SET_POLICY, "wnssuuu", .n_fds = 3, .who = STEER_OPERATOR,
		.when = STEER_ALIVE, .record = "cell.deny",
		.one = { "POST", CELL "deny", "denyInCell", "Put a rule that refuses in front.", NULL, "CellRule",
			"CellPolicyChanged", WORDS_MAX } },
	[VERB_GET_BUDGET] = { "get-budget", CONTROL_GET_BUDGET, "w", .who = STEER_OPERATOR,
		.one = { "GET", CELL "budget", "getCellBudget", "What a cell has used of what it may: money in "
			"dollars, times in seconds.", NULL, NULL, "CellBudget", 0 } },
	[VERB_BUDGET] = { "budget", CONTROL_RAISE, "wuUuUs", .who = STEER_OPERATOR, .when = STEER_ALIVE,
		.record = "cell.budget",
		.one = { "POST", CELL "budget", "raiseCellBudget", "More of one of them.", NULL, "CellBudgetRaise",
			"CellBudget", WORDS_MAX } },

	/* ---- requests that wait for people ---- */

	[VERB_APPROVALS] = { "approvals", CONTROL_APPROVALS, "wUu", .who = STEER_OPERATOR,
		.after = CONTROL_APPROVALS, .stays = true,
		.every = { "GET", "/v1/approvals", "listApprovals", "Requests that wait for people, or did, of cells "
			"that run.", "cell state", NULL, "ApprovalList", 0 } },
	[VERB_APPROVE] = { "approve", CONTROL_APPROVE, "wUuU", .who = STEER_APPROVER, .when = STEER_ALIVE,
		.record = "approval.approve",
		.one = { "POST", "/v1/approvals/{id}/approve", "approve", "Let it go: this `once`, all of its rule "
			"`for` a time, or by its `rule` as long as the cell lives.", NULL, "?Approve", "Approval",
			WORDS_MAX } },
	[VERB_REFUSE] = { "refuse", CONTROL_REFUSE_ASKED, "wU", .who = STEER_APPROVER, .when = STEER_ALIVE,
		.record = "approval.refuse",
		.one = { "POST", "/v1/approvals/{id}/refuse", "refuse", "Refuse it; the agent is told why.", NULL,
			"Refuse", "Approval", WORDS_MAX } },

	/* ---- its secrets ---- */

	[VERB_SECRETS] = { "secrets", CONTROL_SECRETS, "w", .who = STEER_OPERATOR,
		.one = { "GET", CELL "secrets", "listCellSecrets", "The secrets that a cell may use; never values.",
			NULL, NULL, "CellSecretList", 0 } },
	[VERB_REVOKE] = { "revoke", CONTROL_REVOKE, "wso", .who = STEER_OPERATOR, .when = STEER_ALIVE,
		.record = "cell.revoke", .record_every = "cells.revoke",
		.one = { "POST", CELL "secrets/{name}/revoke", "revokeCellSecret", "Take a secret back from a cell: in "
			"force when it is answered, and what is under way with it is cut.", NULL, "?Revoke", "Done",
			WORDS_MAX },
		.every = { "POST", "/v1/secrets/{name}/revoke", "revokeSecret", "Take a secret back from every cell.",
			NULL, "?Revoke", "Done", WORDS_MAX } },
	[VERB_ROTATE] = { "rotate", CONTROL_ROTATE, "ws", .n_fds = 1, .who = STEER_OPERATOR,
		.when = STEER_ALIVE, .record = "cell.rotate", .record_every = "cells.rotate",
		.one = { "POST", CELL "secrets/{name}/rotate", "rotateCellSecret", "Give a cell the value that the "
			"vault has now, under the same placeholder.", NULL, "?Why", "Done", WORDS_MAX },
		.every = { "POST", "/v1/secrets/{name}/rotate", "rotateSecret", "Give every cell the value that the "
			"vault has now.", NULL, "?Why", "Done", WORDS_MAX } },
};
