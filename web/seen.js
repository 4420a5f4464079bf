// seen.js - which news of a cell somebody has looked at, kept by this browser: by cell, how many there were.

const SEEN_MAX = 200;                   // cells, of each kind

export class Seen {
	constructor(kind) {
		this.kept = `cloister.${kind}`;
	}

	all() {
		try {
			return JSON.parse(localStorage.getItem(this.kept)) ?? {};
		} catch {
			return {};
		}
	}

	of(id) {
		return this.all()[id] ?? 0;
	}

	saw(id, n) {
		const all = Object.entries({ ...this.all(), [id]: n }).slice(-SEEN_MAX);
		localStorage.setItem(this.kept, JSON.stringify(Object.fromEntries(all)));
	}
}

export const seenThefts = new Seen("thefts");
export const seenWatches = new Seen("watches");
export const seenMisplaced = new Seen("misplaced");
