// groups.js - requests that wait and are alike: one look and one answer for all of them.
//
// Alike are those that differ only in their cell, their query and their body.  A rule, a secret, a path or a header
// that differs makes another group, so that nothing is approved that is not shown.

const likeness = a => JSON.stringify([a.method, a.protocol, a.scheme, a.host, a.port, a.path, a.headers, a.rule, a.place, a.reason, a.secrets, a.needs, a.approvers]);

// [{key, list}], the oldest first; LIST is in order.
export function groupsOf(list) {
	const groups = new Map();
	for (const a of list) {
		const key = likeness(a);
		if (!groups.has(key))
			groups.set(key, { key, list: [] });
		groups.get(key).list.push(a);
	}
	return [...groups.values()];
}

export function placeOfRequest(a) {
	return `${a.host}${a.port && ![80, 443].includes(a.port) ? `:${a.port}` : ""}`;
}

export function nameOf(a) {
	return `${a.method || a.protocol || "connect"} ${placeOfRequest(a)}${a.path ?? ""}`;
}
