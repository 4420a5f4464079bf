// page_cell.js - one cell: how it is, what can be done to it, and all there is to know of it.

import { cellPath, get, post } from "./api.js";
import { fill, h, icon, setAttr, setText } from "./dom.js";
import { draftOf } from "./drafts.js";
import { age, count, seconds, size, span, stamp, words } from "./format.js";
import { follow, live, pending } from "./live.js";
import { onThisPage } from "./keys.js";
import { Acts } from "./acts.js";
import { Budget, Secrets } from "./cell_budget.js";
import { Changes } from "./cell_changes.js";
import { Files } from "./cell_files.js";
import { Policy, ruleForm } from "./cell_policy.js";
import { Processes } from "./cell_processes.js";
import { CellResources } from "./cell_resources.js";
import { seenWatches } from "./seen.js";
import { Timeline } from "./cell_timeline.js";
import { attempt, command, empty, meter, setKnown, setMeter, setState, stateMark, sureButton, tabs, tell } from "./ui.js";

const FIGURES = [["requests", cell => count(cell.requests)], ["refused", cell => count(cell.refused)],
	["in", cell => size(cell.bytes_in)], ["out", cell => size(cell.bytes_out)], ["CPU", cell => cell.cpu === undefined ? null : `${Math.round(cell.cpu)}%`], ["memory", cell => cell.memory ? size(cell.memory) : null],
	["processes", cell => cell.pids ? count(cell.pids) : null], ["age", cell => cell.ended ? span(seconds(cell.ended) - seconds(cell.started)) : age(cell.started)]];
const TICK_MS = 1000;

// What is known of a cell, for people: [heading, [[name, words], ...]].  What is not known is left out.
function aboutOf(cell, past) {
	const yes = value => value === undefined || value === null ? null : value ? "yes" : "no";
	const list = values => values?.length ? values.join(", ") : null;
	return [
		["What it runs", [["Command", cell.command ? words(cell.command) : null], ["Agent", typeof cell.agent === "string" ? cell.agent : null], ["For", cell.principal], ["Through", cell.chain],
			["In the background", yes(cell.detached)]]],
		["Its walls", [["Machine", cell.machine], ["Boundary", cell.boundary], ["Runtime", cell.runtime], ["Network", cell.policy === undefined ? null : cell.policy ? "what its policy allows" : "none: it has no policy"],
			["Published ports", list((cell.ports ?? []).map(port => `${port.cell} in the cell is ${port.host} here`))], ["Can be frozen", past ? null : yes(cell.can_freeze)]]],
		["Its files", [["Workspaces", list(cell.workspace)], ["Changes", past ? cell.changes ? "wait to be reviewed" : "none are kept" : null]]],
		["Its life", [["Started", cell.started ? stamp(cell.started) : null], ["Ended", cell.ended ? stamp(cell.ended) : null],
			[past ? "Lasted" : "Age", past ? cell.ended && cell.started ? span(seconds(cell.ended) - seconds(cell.started)) : null : age(cell.started)],
			["Exit status", cell.status === undefined || cell.status === null ? null : String(cell.status)], ["Ended by", cell.cause]]],
		["Its processes", [["Processes", cell.pids ? count(cell.pids) : null], ["Memory", cell.memory ? size(cell.memory) : null], ["User", cell.user === undefined ? null : `uid ${cell.user}`],
			["Supervisor", cell.supervisor ? `process ${cell.supervisor}` : null]]],
	].map(([title, rows]) => [title, rows.filter(([, value]) => value !== null && value !== undefined && value !== "")]).filter(([, rows]) => rows.length > 0);
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
		this.toReview = h("span", { class: "chip warn", hidden: true }, "to review");
		this.theft = h("section", { class: "alarm", role: "alert", hidden: true });
		this.watch = h("section", { class: "alarm", role: "alert", hidden: true });
		this.calls = ["danger", "refused"].map(kind => h("a", { class: `chip ${kind === "danger" ? "stop" : "bad"}`, href: `#/cell/${encodeURIComponent(id)}/processes`, hidden: true }));
		this.inside = new Acts(id);
		this.tabs = tabs("About this cell", this.parts(), tab, key => {
			history.replaceState(null, "", `#/cell/${encodeURIComponent(id)}/${key}`);
			onThisPage(this.keys());
		});
		this.none = h("div", { hidden: true }, empty(`There is no cell “${id}”.`, "Its address has a cell's id, not its name. A cell whose record was discarded is not known any more.", "cloister ps --all"));
		this.none.firstChild.append(h("p", null, h("a", { href: "#/cells" }, "Cells that run"), " · ", h("a", { href: "#/cells/ended" }, "Cells that have ended")));
		const figures = h("div", { class: "bar" }, this.figures, h("span", { class: "budget" }, this.budget, this.budgetOf));
		const head = h("div", { class: "bar" }, h("a", { class: "back", href: "#/cells", "aria-label": "All cells" }, icon("back")), this.title, this.state, this.waits, this.calls, this.who,
			this.acts);
		this.there = [head, this.command, figures, this.tabs.list, this.tabs.panel];
		root.append(this.none, this.theft, this.watch, ...this.there);
		this.end = follow(changes => (changes.cells.has(id) || changes.all || changes.approvals.size > 0) && this.show());
		this.tick = setInterval(() => document.hidden || this.figure(), TICK_MS);
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
		return [{ key: "timeline", title: "Timeline", open: panel => {
			const { pid } = this;
			this.pid = undefined;
			return hold(Timeline, this.inside, pid)(panel);
		} }, { key: "processes", title: "Processes", open: hold(Processes, this.inside, process => {
			this.pid = process.pid;
			this.tabs.show("timeline");
		}) }, { key: "files", title: "Files", open: hold(Files, this.inside) }, { key: "resources", title: "Resources", open: hold(CellResources, () => this.known()) }, { key: "changes", title: "Changes", badge: this.toReview, open: hold(Changes, () => this.load()) }, { key: "policy", title: "Policy", badge: this.unsaved, open: panel => {
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
		let missing = true;
		const failed = error => {
			missing &&= error.status === 404;
			return null;
		};
		const [record, past] = await Promise.all([get(cellPath(this.id)).catch(failed), live.cells.has(this.id) ? null : get(`/v1/ended/${encodeURIComponent(this.id)}`).catch(failed)]);
		this.unknown = !record && !past && missing && !this.wasKnown;
		if (this.unknown)
			this.tabs.close();
		this.record = record || past ? { ...past, ...record } : null;
		this.past = past;
		this.show();
		if (this.aboutPanel)
			this.about(this.aboutPanel);
	}

	// The one that runs, or what is known of the one that has ended.
	known() {
		return live.cells.get(this.id) ?? (this.record ? { ...this.record, ...this.past, id: this.id } : null);
	}

	figure() {
		const cell = this.known();
		FIGURES.forEach(([, value], at) => {
			const text = cell ? value(cell) : null;
			setKnown(this.figures.children[at].firstChild, text);
			this.figures.children[at].hidden = (text === null || text === "–") && !live.cells.has(this.id);
		});
	}

	show() {
		const cell = live.cells.get(this.id), known = this.known();
		const over = !cell && (this.past || this.record?.state === "ended");
		const unknown = !known && Boolean(this.unknown);
		this.wasKnown ||= Boolean(known);
		this.none.hidden = !unknown;
		for (const part of this.there)
			part.hidden = unknown;
		setText(this.title, known?.name || this.id);
		setState(this.state, cell?.state ?? (over ? "ended" : known?.state ?? "gone"));
		setText(this.who, [known?.name ? this.id : null, cell?.agent, known?.principal, over && known.ended ? `ended ${age(known.ended)} ago` : null, over ? known.cause ?? (known.status ? `exit ${known.status}` : null) : null].filter(Boolean).join(" · "));
		setText(this.command, words(known?.command));
		setText(this.figures.lastChild.lastChild, over ? "lasted" : "age");
		this.figure();
		setAttr(this.budget, "hidden", cell?.budget ? null : "");
		const of = cell?.budget ? `${cell.budget.name ?? ""} ${(cell.budget.kind ?? "").replace("_", " ")}`.trim() : "";
		setText(this.budgetOf, of ? `of the budget: ${of}` : "");
		if (cell?.budget)
			setMeter(this.budget, cell.budget.fraction, of);
		const waiting = pending().filter(a => a.cell === this.id).length;
		this.waits.hidden = waiting === 0;
		setText(this.waits, waiting === 1 ? "1 request waits for an answer" : `${waiting} requests wait for an answer`);
		this.toReview.hidden = !(over && known.changes);
		this.showTheft(known);
		this.showWatch(known);
		[known?.calls_dangerous, known?.calls_refused].forEach((n, at) => {
			this.calls[at].hidden = !n;
			setText(this.calls[at], n ? `${count(n)} ${at === 0 ? "dangerous" : "refused"} ${n === 1 ? "call" : "calls"}` : "");
		});
		this.showActs(cell);
		// Only a running cell has these.
		for (const button of this.tabs.list.children)
			button.hidden = Boolean(over) && ["policy", "budget", "secrets"].includes(button.dataset.tab);
	}

	showTheft(cell) {
		this.theft.hidden = !cell?.thefts;
		if (!cell?.thefts || this.thefts === cell.thefts)
			return;
		this.thefts = cell.thefts;
		fill(this.theft, icon("key"), h("div", null, h("h2", null, cell.thefts === 1 ? "This agent tried to send a secret where it may not go" : `This agent tried ${count(cell.thefts)} times to send a secret where it may not go`),
			h("p", null, h("code", { class: "t" }, cell.last_theft?.what ?? ""), " ", h("span", { class: "t" }, cell.last_theft?.why ?? "")),
			h("p", null, "It was refused, and carried a placeholder: no real value has left this machine.")));
	}

	showWatch(cell) {
		const n = cell?.watches ?? 0;
		this.watch.hidden = n <= seenWatches.of(this.id);
		if (this.watch.hidden || this.watches === n)
			return;
		this.watches = n;
		fill(this.watch, icon("eye"), h("div", null, h("h2", null, n === 1 ? "A watch rule fired" : `Watch rules fired ${count(n)} times`),
			h("p", null, h("code", { class: "t" }, cell.last_watch?.what ?? "")), h("p", null, "The rule: ", h("code", { class: "t" }, cell.last_watch?.why ?? "")),
			h("p", { class: "acts" }, h("button", { type: "button", onclick: () => {
				seenWatches.saw(this.id, n);
				this.watch.hidden = true;
			} }, "I have seen it"))));
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
		this.aboutPanel = panel;
		const cell = this.known();
		if (!cell)
			fill(panel, empty(this.record === null ? "Nothing more is known of this cell." : "…"));
		else
			fill(panel, h("div", { class: "about-cell" }, aboutOf({ ...this.record, ...cell }, !live.cells.has(this.id)).map(([title, rows]) =>
				h("section", { "aria-label": title }, h("h2", null, title), h("dl", { class: "facts" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", { class: "t" }, value)]))))),
			h("p", { class: "dim as-command" }, "On a terminal: ", command(`cloister events ${this.id}`)));
		return () => {
			this.aboutPanel = null;
		};
	}

	keys() {
		const tab = (key, name, title) => [key, title, () => !this.tabs.list.querySelector(`[data-tab=${name}]`).hidden && this.tabs.show(name)];
		return [tab("t", "timeline", "timeline"), tab("o", "processes", "processes"), tab("f", "files", "files"), tab("r", "resources", "resources"), tab("c", "changes", "changes"), tab("p", "policy", "policy"), tab("b", "budget", "budget"), tab("s", "secrets", "secrets"),
			["z", "freeze or thaw", () => {
				const state = live.cells.get(this.id)?.state;
				if (state)
					this.act(state === "frozen" ? "thaw" : "freeze", state === "frozen" ? "Thawed" : "Frozen");
			}],
			["u", "all cells", () => this.go("#/cells")], ...(this.part?.keys?.() ?? [])];
	}

	close() {
		this.end();
		clearInterval(this.tick);
		this.inside.close();
		this.tabs.close();
	}
}

export function open(root, [id, tab], go) {
	return new Cell(root, id, tab, go);
}
