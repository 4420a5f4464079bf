// ended.js - cells that have ended, the newest first: asked for when one ends, and now and then.

import { get } from "./api.js";
import { follow, live } from "./live.js";

const LIMIT = 200;
const SOON_MS = 700;                    // after a cell has gone: its end is written by then
const AGAIN_MS = 30000;

export const ended = { cells: [], known: false, more: false };

const watchers = new Set();
let timer = 0, was = new Set();

async function load() {
	clearTimeout(timer);
	const said = await get("/v1/ended", { limit: LIMIT }).catch(() => null);
	if (said) {
		ended.cells = said.cells.filter(cell => !live.cells.has(cell.id));
		ended.known = true;
		ended.more = said.cells.length >= LIMIT;
		for (const then of watchers)
			then();
	}
	clearTimeout(timer);
	if (watchers.size > 0)
		timer = setTimeout(load, AGAIN_MS);
}

follow(changes => {
	const now = new Set(live.cells.keys());
	const gone = changes.all || changes.cells.size > 0 ? [...was].some(id => !now.has(id)) : false;
	was = now;
	if (gone && watchers.size > 0) {
		clearTimeout(timer);
		timer = setTimeout(load, SOON_MS);
	}
});

export const reload = load;

// THEN is called with each new list; what it returns ends that.
export function watchEnded(then) {
	watchers.add(then);
	load();
	return () => watchers.delete(then);
}
