// drafts.js - policies that were begun and not yet set: they stay while this page is open, whatever
// is looked at meanwhile, and leaving it is asked about.

const drafts = new Map();               // by the cell's id: {text, why, now, hash}

export function draftOf(id) {
	return drafts.get(id);
}

// HASH is that of the policy that it was begun from.
export function keepDraft(id, draft) {
	drafts.set(id, draft);
}

export function dropDraft(id) {
	drafts.delete(id);
}

addEventListener("beforeunload", event => {
	if (drafts.size > 0)
		event.preventDefault();
});
