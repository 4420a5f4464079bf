// live.js - what the service tells as it happens, kept, and handed on once per frame.

import { session } from "./api.js";

const APPROVALS_MAX = 2000;             // answered ones are forgotten first
const REFUSALS_MAX = 200;
const AGAIN_MS = 2000;                  // until a stream that was refused is asked for again

export const live = {
	cells: new Map(),
	approvals: new Map(),
	refusals: [],                   // the newest first
	audit: null,
	state: "connecting",            // or "live", "lost"
};

const followers = new Set();
let changes = fresh();
let frame = 0, source = null, again = 0;

function fresh() {
	return { cells: new Set(), all: false, approvals: new Set(), refusals: 0, audit: false, state: false };
}

// FOLLOW(changes) is called at most once per frame; what it returns ends that.
export function follow(then) {
	followers.add(then);
	return () => followers.delete(then);
}

function flush() {
	frame = 0;
	const told = changes;
	changes = fresh();
	for (const then of followers)
		then(told);
}

function touch() {
	// A hidden page has no frames, and its title should tell of approvals all the same.
	if (frame === 0)
		frame = document.hidden ? setTimeout(flush, 250) : requestAnimationFrame(flush);
}

document.addEventListener("visibilitychange", () => {
	if (frame !== 0 && document.hidden)
		flush();
});

function setState(state) {
	if (live.state === state)
		return;
	live.state = state;
	changes.state = true;
	touch();
}

function takeCells(list) {
	live.cells = new Map((list.cells ?? list).map(cell => [cell.id, cell]));
	dropApprovals(id => !live.cells.has(id));
	changes.all = true;
	touch();
}

// The newest words on a cell, from the stream or from an answer.
export function takeCell(cell) {
	const before = live.cells.get(cell.id);
	live.cells.set(cell.id, before ? { ...before, ...cell } : cell);
	changes.cells.add(cell.id);
	if (!before)
		changes.all = true;
	touch();
}

// With a cell goes what waits in it: nobody is left to tell of that.
function dropApprovals(isGone) {
	for (const approval of live.approvals.values())
		if (approval.state === "pending" && isGone(approval.cell))
			takeApproval({ ...approval, state: "gone" });
}

function takeGone({ id }) {
	if (live.cells.delete(id)) {
		dropApprovals(cell => cell === id);
		changes.cells.add(id);
		changes.all = true;
		touch();
	}
}

export function takeApproval(approval) {
	live.approvals.set(approval.id, approval);
	if (live.approvals.size > APPROVALS_MAX)
		for (const [id, old] of live.approvals)
			if (old.state !== "pending" || live.approvals.size > 2 * APPROVALS_MAX) {
				live.approvals.delete(id);
				break;
			}
	changes.approvals.add(approval.id);
	touch();
}

// All that are pending, as the service has them now: others that were are over.
export function takeApprovals(list) {
	const there = new Set(list.map(approval => approval.id));
	for (const [id, approval] of live.approvals)
		if (approval.state === "pending" && !there.has(id))
			takeApproval({ ...approval, state: "gone" });
	list.forEach(takeApproval);
}

function takeRefusal(refusal) {
	live.refusals.unshift(refusal);
	live.refusals.length = Math.min(live.refusals.length, REFUSALS_MAX);
	changes.refusals++;
	touch();
}

export function takeAudit(audit) {
	live.audit = audit;
	changes.audit = true;
	touch();
}

const TAKES = { cells: takeCells, cell: takeCell, gone: takeGone, approval: takeApproval,
	refusal: takeRefusal, audit: takeAudit };

export function start() {
	stop();
	source = new EventSource("/v1/live");
	for (const [name, take] of Object.entries(TAKES))
		source.addEventListener(name, event => take(JSON.parse(event.data)));
	source.addEventListener("open", () => setState("live"));
	source.addEventListener("error", () => {
		setState("lost");
		// The browser comes again by itself, unless it was refused: then perhaps the session is over.
		if (source?.readyState === EventSource.CLOSED && again === 0)
			again = setTimeout(async () => {
				again = 0;
				if (await session().catch(() => true))
					start();
			}, AGAIN_MS);
	});
}

export function stop() {
	clearTimeout(again);
	again = 0;
	source?.close();
	source = null;
}

export function pending() {
	return [...live.approvals.values()].filter(approval => approval.state === "pending")
		.sort((a, b) => a.asked < b.asked ? -1 : a.asked > b.asked ? 1 : 0);
}
