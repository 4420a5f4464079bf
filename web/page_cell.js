// page_cell.js - one cell: how it is, what can be done to it, and all there is to know of it.

import { cellPath, get, post } from "./api.js";
import { fill, h, icon, setAttr, setText } from "./dom.js";
import { draftOf } from "./drafts.js";
import { age, count, size, stamp, words } from "./format.js";
import { follow, live, pending } from "./live.js";
import { onThisPage } from "./keys.js";
import { Budget, Secrets } from "./cell_budget.js";
import { Policy, ruleForm } from "./cell_policy.js";
import { Timeline } from "./cell_timeline.js";
import { attempt, empty, meter, setMeter, setState, stateMark, sureButton, tabs, tell } from "./ui.js";

const FIGURES = [["requests", cell => count(cell.requests)], ["refused", cell => count(cell.refused)],
	["in", cell => size(cell.bytes_in)], ["out", cell => size(cell.bytes_out)], ["memory", cell => size(cell.memory || null)],
	["processes", cell => count(cell.pids || null)], ["age", cell => age(cell.started)]];

// What is known of a cell, one thing of it, in words.
function fact(name, value) {
	if (value === null || (Array.isArray(value) && value.length === 0))
		return "–";
	if (typeof value === "boolean")
		return value ? "yes" : "no";
	if (name === "started" || name === "ended")
		return stamp(value);
	if (name === "memory" || name.startsWith("bytes_"))
		return size(value);
	if (name === "command")
		return words(value);
	if (name === "ports")
		return value.map(port => `${port.cell} as ${port.host}`).join(", ");
	return typeof value === "object" ? [value].flat().map(one => typeof one === "string" ? one : JSON.stringify(one)).join(", ") : String(value);
}

class Cell {
	constructor(root, id, tab, go) {
		this.id = id;
		this.go = go;
		this.state = stateMark("running");
		this.title = h("h1", { class: "t" });
		this.command = h("code", { class: "t command" });
		this.who = h("span", { class: "dim t" });
		this.figures = h("div", { class: "figures" }, FIGURES.map(([label]) => h("span", null, h("b"), h("small", null, label))));
		this.budget = meter();
		this.budgetOf = h("small", { class: "dim t" });
		this.waits = h("a", { class: "chip warn", href: "#/approvals", hidden: true });
		this.acts = h("div", { class: "acts" });
		this.unsaved = h("span", { class: "chip warn", hidden: !draftOf(id) }, "not set yet");
		this.tabs = tabs("About this cell", this.parts(), tab, key => {
			history.replaceState(null, "", `#/cell/${encodeURIComponent(id)}/${key}`);
			onThisPage(this.keys());
		});
		root.append(h("div", { class: "bar" }, h("a", { class: "back", href: "#/cells", "aria-label": "All cells" }, icon("back")), this.title, this.state, this.waits, this.who,
			this.acts), this.command, h("div", { class: "bar" }, this.figures, h("span", { class: "budget" }, this.budget, this.budgetOf)), this.tabs.list, this.tabs.panel);
		this.end = follow(changes => (changes.cells.has(id) || changes.all || changes.approvals.size > 0) && this.show());
		this.show();
		this.tabs.show(this.parts().some(part => part.key === tab) ? tab : "timeline");
		this.load();
	}

	parts() {
		const hold = (Part, ...more) => panel => {
			this.part = new Part(panel, this.id, ...more);
			return () => {
				this.part.close();
				this.part = null;
			};
		};
		return [{ key: "timeline", title: "Timeline", open: hold(Timeline) }, { key: "policy", title: "Policy", badge: this.unsaved, open: panel => {
			const place = h("div");
			const end = hold(Policy, is => {
				this.unsaved.hidden = !is;
			})(place);
			panel.append(ruleForm(this.id, () => this.part.load()), place);
			return end;
		} }, { key: "budget", title: "Budget", open: hold(Budget) }, { key: "secrets", title: "Secrets", open: hold(Secrets) },
		{ key: "about", title: "About", open: panel => this.about(panel) }];
	}

	async load() {
		this.record = await get(cellPath(this.id)).catch(() => null);
		this.show();
		if (this.aboutPanel)
			this.about(this.aboutPanel);
	}

	show() {
		const cell = live.cells.get(this.id);
		const over = !cell && this.record?.state === "ended";
		const known = cell ?? (this.record ? { ...this.record, id: this.record.cell } : null);
		setText(this.title, known?.name || this.id);
		setState(this.state, cell?.state ?? (over ? "ended" : known?.state ?? "gone"));
		setText(this.who, [known?.name ? this.id : null, cell?.agent, known?.principal].filter(Boolean).join(" · "));
		setText(this.command, words(known?.command));
		FIGURES.forEach(([, value], at) => setText(this.figures.children[at].firstChild, cell ? value(cell) : "–"));
		setAttr(this.budget, "hidden", cell?.budget ? null : "");
		const of = cell?.budget ? `${cell.budget.name ?? ""} ${(cell.budget.kind ?? "").replace("_", " ")}`.trim() : "";
		setText(this.budgetOf, of ? `of the budget: ${of}` : "");
		if (cell?.budget)
			setMeter(this.budget, cell.budget.fraction, of);
		const waiting = pending().filter(a => a.cell === this.id).length;
		this.waits.hidden = waiting === 0;
		setText(this.waits, waiting === 1 ? "1 request waits for an answer" : `${waiting} requests wait for an answer`);
		this.showActs(cell);
	}

	showActs(cell) {
		const kind = `${cell?.state ?? "none"} ${cell?.can_freeze}`;
		if (this.actsFor === kind)
			return;
		this.actsFor = kind;
		fill(this.acts);
		if (!cell)
			return;
		if (cell.state === "frozen")
			this.acts.append(h("button", { type: "button", onclick: () => this.act("thaw", "Thawed") }, icon("thaw"), " Thaw"));
		else if (cell.can_freeze !== false)
			this.acts.append(h("button", { type: "button", onclick: () => this.act("freeze", "Frozen") }, icon("freeze"), " Freeze"));
		this.acts.append(this.ttlForm(), sureButton("Stop", "Press again to stop", () => this.act("stop", "Stopped")),
		sureButton("Kill", "Press again to kill", () => this.act("kill", "Killed"), { class: "bad" }));
	}

	ttlForm() {
		const ttl = h("input", { type: "text", class: "tiny", required: true, placeholder: "2h", "aria-label": "Time to live, from now" });
		return h("form", { class: "inline", onsubmit: async event => {
			event.preventDefault();
			const done = await attempt(post(cellPath(this.id, "/ttl"), { ttl: ttl.value.trim() }), `It lives for another ${ttl.value.trim()}`);
			if (done !== undefined)
				ttl.value = "";
		} }, ttl, h("button", { title: "How much longer it may live" }, "Set TTL"));
	}

	async act(verb, done) {
		const said = await attempt(post(cellPath(this.id, `/${verb}`)));
		if (said !== undefined)
			tell(`${done}: ${live.cells.get(this.id)?.name || this.id}`);
		this.load();
	}

	about(panel) {
		const cell = this.record;
		this.aboutPanel = panel;
		if (!cell) {
			fill(panel, empty(cell === null ? "Nothing more is known of this cell." : "…"));
			return () => {
				this.aboutPanel = null;
			};
		}
		const rows = Object.entries(cell).map(([name, value]) => [h("dt", null, name.replace("_", " ")), h("dd", { class: "t" }, fact(name, value))]);
		fill(panel, h("dl", { class: "facts" }, rows));
		return () => {
			this.aboutPanel = null;
		};
	}

	keys() {
		const tab = (key, name, title) => [key, title, () => this.tabs.show(name)];
		return [tab("t", "timeline", "timeline"), tab("p", "policy", "policy"), tab("b", "budget", "budget"), tab("s", "secrets", "secrets"),
			["z", "freeze or thaw", () => {
				const state = live.cells.get(this.id)?.state;
				if (state)
					this.act(state === "frozen" ? "thaw" : "freeze", state === "frozen" ? "Thawed" : "Frozen");
			}],
			["u", "all cells", () => this.go("#/cells")], ...(this.part?.keys?.() ?? [])];
	}

	close() {
		this.end();
		this.tabs.close();
	}
}

export function open(root, [id, tab], go) {
	return new Cell(root, id, tab, go);
}
