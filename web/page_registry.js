// page_registry.js - what is registered: names, their versions, and what differs between these.

import { get } from "./api.js";
import { fill, h, say, setText } from "./dom.js";
import { short, size, stamp } from "./format.js";
import { attempt, chip, empty, tabs, table } from "./ui.js";

const KINDS = { agents: "Agents", capabilities: "Capabilities", envs: "Envs", policies: "Policies" };
const TEACH = {
	agents: ["An agent is a command with its capabilities, secrets and policy, to be dispatched by name.", "cloister agent register agent.yaml"],
	capabilities: ["A capability is a folder of files and programs that agents can be given.", "cloister capability register ./folder"],
	envs: ["An env is a set of plain values for agents.", "cloister env register env.yaml"],
	policies: ["A policy decides what a cell may reach.", "cloister policy register cloister.yaml"],
};
const PAGE = 100;

const path = (kind, name, rest = "") => `/v1/${kind}/${encodeURIComponent(name)}${rest}`;

// A button that brings the next page, as long as there is one.
export function pages(load, put) {
	const more = h("button", { type: "button", hidden: true }, "More");
	let after = null;
	const next = async () => {
		more.disabled = true;
		const said = await attempt(load(after));
		more.disabled = false;
		if (!said)
			return;
		after = said.next;
		more.hidden = after === null || after === undefined;
		put(said.items);
	};
	more.addEventListener("click", next);
	next();
	return more;
}

function names(panel, kind, go) {
	const place = h("div", { class: "names" });
	const none = empty(`No ${KINDS[kind].toLowerCase()} are registered.`, ...TEACH[kind]);
	none.hidden = true;
	const more = pages(after => get(`/v1/${kind}`, { limit: PAGE, after }), items => {
		none.hidden = items.length > 0 || place.childElementCount > 0;
		for (const item of items)
			place.append(h("a", { class: "name", href: `#/registry/${kind}/${encodeURIComponent(item.name)}` },
				h("b", { class: "t" }, item.name), h("span", { class: "dim t" }, item.description ?? ""),
				h("small", { class: "dim" }, `version ${item.number} · ${stamp(item.created)}`)));
	});
	panel.append(place, more, none);
	return null;
}

function value(content) {
	return h("pre", { class: "content t", tabindex: "0", role: "region", "aria-label": "Its members" }, say(JSON.stringify(content, null, 2), true));
}

function side(sign, kind, content) {
	return content === undefined ? null : h("div", { class: kind }, h("span", { class: "sign" }, sign),
		h("span", { class: "t" }, typeof content === "string" ? content : JSON.stringify(content)));
}

function diffOf(said) {
	if (said.diff.length === 0)
		return h("p", { class: "dim" }, "They do not differ.");
	return h("div", { class: "diff", role: "group", "aria-label": "What differs" }, said.diff.map(change =>
		[h("div", { class: "where" }, h("code", { class: "t" }, change.path || "/")), side("−", "del", change.from), side("+", "add", change.to)]));
}

class Thing {
	constructor(root, kind, name, hash) {
		this.kind = kind;
		this.name = name;
		this.content = h("section", { "aria-label": "Content" });
		this.difference = h("section", { "aria-label": "Difference" });
		this.list = h("section");
		root.append(h("div", { class: "bar" }, h("a", { class: "back", href: `#/registry/${kind}`, "aria-label": KINDS[kind] }, "‹"), h("h1", { class: "t" }, name),
			h("span", { class: "dim" }, KINDS[kind].toLowerCase())), h("div", { class: "columns" }, this.content, h("div", null, this.list, this.difference)));
		this.show(hash);
		this.versions();
	}

	async show(hash) {
		const said = await attempt(get(path(this.kind, hash ? `${this.name}@${hash}` : this.name)));
		if (said)
			fill(this.content, h("div", { class: "bar" }, h("h2", null, `Version ${said.number}`), said.retired ? chip("retired", "bad") : null,
				h("code", { class: "dim", title: said.hash }, short(said.hash)), h("span", { class: "dim" }, size(said.size), " bytes")), value(said.content));
	}

	async versions() {
		const said = await attempt(get(path(this.kind, this.name, "/versions"), { limit: PAGE }));
		if (!said)
			return;
		const rows = said.items.map((item, at) => h("tr", null, h("th", { scope: "row" }, String(item.number)), h("td", null, stamp(item.created)),
			h("td", null, h("code", { title: item.hash }, short(item.hash))), h("td", null, item.retired ? chip("retired", "bad") : at === 0 ? chip("newest", "ok") : ""),
			h("td", { class: "acts" }, h("button", { type: "button", onclick: () => this.show(item.hash) }, "Show"),
				said.items[at + 1] ? h("button", { type: "button", onclick: () => this.compare(said.items[at + 1], item) }, "Diff") : null)));
		fill(this.list, h("h2", null, "Versions"), table("Versions", ["#", "Registered", "Hash", "State", "Actions"], rows));
		if (said.items.length > 1)
			this.compare(said.items[1], said.items[0]);
	}

	async compare(from, to) {
		const said = await attempt(get(path(this.kind, this.name, "/diff"), { from: from.hash, to: to.hash }));
		if (said)
			fill(this.difference, h("h2", null, `From version ${from.number} to ${to.number}`), diffOf(said));
	}
}

export function open(root, [kind, name, hash], go) {
	if (name) {
		new Thing(root, kind in KINDS ? kind : "agents", name, hash);
		return { keys: () => [["u", "all of them", () => go(`#/registry/${kind}`)]], close() {} };
	}
	const parts = Object.entries(KINDS).map(([key, title]) => ({ key, title, open: panel => names(panel, key, go) }));
	const about = h("span", { class: "dim" });
	setText(about, "every version is immutable, and named by its content");
	const set = tabs("Kinds", parts, kind, key => history.replaceState(null, "", `#/registry/${key}`));
	root.append(h("div", { class: "bar" }, h("h1", null, "Registry"), about), set.list, set.panel);
	set.show(kind in KINDS ? kind : "agents");
	return { keys: () => [], close: () => set.close() };
}
