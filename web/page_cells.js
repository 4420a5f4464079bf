// page_cells.js - the first page: whether anything is wrong, and below it all cells, those that run and those
// that have ended.

import { fill, h, icon, setAttr, setText } from "./dom.js";
import { ended, watchEnded } from "./ended.js";
import { age, count, seconds, size, span, words } from "./format.js";
import { List } from "./list.js";
import { follow, live, pending } from "./live.js";
import { Overview } from "./overview.js";
import { empty, meter, setKnown, setMeter, setState, setWords, stateMark } from "./ui.js";

const TICK_MS = 1000;
const SORT_MS = 1000;                   // rows change places at most so often
const KEPT = "cloister.sort";

const COLUMNS = [
	["state", "State", cell => ({ silent: -1, waiting: 0, frozen: 0, running: 1, ending: 2 })[cell.state] ?? 3],
	["name", "Cell", cell => (cell.name || "\uffff") + cell.id],
	["command", "Command", cell => words(cell.command)],
	["budget", "Budget", cell => -(cell.budget?.fraction ?? -1)],
	["requests", "Requests", cell => -(cell.requests ?? 0)],
	["refused", "Refused", cell => -(cell.refused ?? 0)],
	["bytes", "In / out", cell => -((cell.bytes_in ?? 0) + (cell.bytes_out ?? 0))],
	["cpu", "CPU", cell => -(cell.cpu ?? -1)],
	["memory", "Memory", cell => -(cell.memory ?? 0)],
	["started", "Age", cell => -(cell.started ?? 0)],
	["refusal", "Last refusal", cell => cell.last_refusal ? -Date.parse(cell.last_refusal.time) : Infinity],
];

let waiting = new Set();                // cells of which a request waits for an answer

function makeRow(cell) {
	const part = (name, ...children) => h("span", { class: `c-${name}`, role: "gridcell" }, ...children);
	return h("div", { class: "row" },
		part("state", stateMark("running")),
		part("name", h("a", { href: `#/cell/${encodeURIComponent(cell.id)}`, tabindex: "-1" }), h("small", { class: "dim" })),
		part("command", h("code", { class: "t" })),
		part("budget", meter()),
		part("requests"), part("refused"), part("bytes"), part("cpu"), part("memory"), part("started"),
		part("refusal", h("span", { class: "t" }), h("small", { class: "why" })));
}

function fillRow(row, cell) {
	const [state, name, command, budget, requests, refused, bytes, cpu, memory, started, refusal] = row.children;
	setState(state.firstChild, cell.state === "running" && waiting.has(cell.id) ? "waiting" : cell.state);
	setAttr(row, "data-theft", cell.thefts || cell.watches ? "" : null);
	setText(name.firstChild, cell.name || cell.id);
	setText(name.lastChild, [cell.name ? cell.id : null, cell.agent, cell.principal, cell.machine ? `on ${cell.machine}` : null].filter(Boolean).join(" · "));
	setWords(command.firstChild, cell.command);
	setAttr(budget, "data-none", cell.budget ? null : "");
	if (cell.budget)
		setMeter(budget.firstChild, cell.budget.fraction, `${cell.budget.name ?? ""} ${cell.budget.kind ?? ""}`.trim());
	setText(requests, count(cell.requests));
	setText(refused, cell.refused ? count(cell.refused) : "–");
	setAttr(refused, "data-some", cell.refused ? "" : null);
	setText(bytes, `${size(cell.bytes_in)} / ${size(cell.bytes_out)}`);
	setKnown(cpu, cell.cpu === undefined ? null : `${Math.round(cell.cpu)}%`);
	setKnown(memory, cell.memory ? size(cell.memory) : null);
	setText(started, age(cell.started));
	setText(refusal.firstChild, cell.last_refusal?.what ?? "");
	setText(refusal.lastChild, cell.last_refusal?.why ?? "");
	setAttr(refusal, "title", cell.last_refusal ? cell.last_refusal.what : null);
}

function matches(cell, filter) {
	return filter.every(word => [cell.id, cell.name, cell.state, cell.agent, cell.principal, cell.machine, words(cell.command),
		cell.last_refusal?.what].some(text => text && String(text).toLowerCase().includes(word)));
}

// ---- those that have ended
const ENDED_CLASSES = ["state", "name", "command", "ended", "lasted", "requests", "refused", "bytes", "changes", "refusal"].map(name => `c-${name}`);
const ENDED = ["Result", "Cell", "Command", "Ended", "Lasted", "Requests", "Refused", "In / out", "Changes", "Last refusal"];

// How it ended, in a word or two.
function resultOf(cell) {
	if (cell.thefts > 0)
		return ["tried to steal", "bad"];
	if (cell.status === null || cell.status === undefined)
		return ["lost", "bad"];
	return cell.status === 0 ? ["done", "ok"] : [`exit ${cell.status}`, "warn"];
}

function makeEnded(cell) {
	const part = (name, ...children) => h("span", { class: `c-${name}`, role: "gridcell" }, ...children);
	return h("div", { class: "row" }, part("state", stateMark("ended")),
		part("name", h("a", { href: `#/cell/${encodeURIComponent(cell.id)}`, tabindex: "-1" }), h("small", { class: "dim" })),
		part("command", h("code", { class: "t" })), part("ended"), part("lasted"), part("requests"), part("refused"), part("bytes"),
		part("changes", h("a", { class: "chip warn", href: `#/cell/${encodeURIComponent(cell.id)}/changes`, tabindex: "-1" }, "review")),
		part("refusal", h("span", { class: "t" }), h("small", { class: "why" })));
}

function fillEnded(row, cell) {
	const [state, name, command, when, lasted, requests, refused, bytes, changes, refusal] = row.children;
	const [word, kind] = resultOf(cell);
	setAttr(state.firstChild, "data-kind", kind);
	setText(state.firstChild.lastElementChild, word);
	setAttr(state, "title", cell.cause ?? null);
	setText(name.firstChild, cell.name || cell.id);
	setText(name.lastChild, [cell.name ? cell.id : null, cell.principal].filter(Boolean).join(" · "));
	setWords(command.firstChild, cell.command ?? []);
	setText(when, cell.ended ? `${age(cell.ended)} ago` : "–");
	setText(lasted, cell.ended && cell.started ? span(seconds(cell.ended) - seconds(cell.started)) : "–");
	setText(requests, count(cell.requests));
	setText(refused, cell.refused ? count(cell.refused) : "–");
	setAttr(refused, "data-some", cell.refused ? "" : null);
	setText(bytes, `${size(cell.bytes_in)} / ${size(cell.bytes_out)}`);
	changes.firstChild.hidden = !cell.changes;
	const last = cell.last_theft ?? cell.last_refusal;
	setText(refusal.firstChild, last?.what ?? "");
	setText(refusal.lastChild, last?.why ?? "");
	setAttr(refusal, "title", last ? last.what : null);
}

class Cells {
	constructor(root, which, go) {
		this.go = go;
		this.which = which === "ended" ? "ended" : "running";
		this.sort = (localStorage.getItem(KEPT) ?? "started").split("-")[0];
		this.filter = [];
		this.sortedAt = 0;
		this.overview = new Overview(root);
		this.search = h("input", { type: "search", placeholder: "Filter cells", "aria-label": "Filter cells",
			"aria-keyshortcuts": "/", oninput: () => {
				this.filter = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
				this.resort();
				this.showEnded();
			} });
		this.none = h("div", { hidden: true });
		const open = cell => go(`#/cell/${encodeURIComponent(cell.id)}`);
		this.list = new List({ label: "Cells", columns: COLUMNS.map(column => this.header(column)), make: makeRow,
			fill: fillRow, key: cell => cell.id, open });
		this.list.element.classList.add("cells");
		this.past = new List({ label: "Cells that have ended", columns: ENDED.map((title, at) => h("span", { class: ENDED_CLASSES[at] }, title)),
			make: makeEnded, fill: fillEnded, key: cell => cell.id, open });
		this.past.element.classList.add("cells", "ended");
		this.choices = ["running", "ended"].map(name => h("button", { type: "button", "aria-pressed": String(name === this.which), onclick: () => this.choose(name) }, name === "ended" ? "Ended " : "Running ", h("b")));
		root.append(h("div", { class: "bar" }, h("div", { class: "choice", role: "group", "aria-label": "Which cells" }, this.choices),
			h("label", { class: "search" }, icon("search"), this.search)), this.list.element, this.past.element, this.none);
		this.end = follow(changes => this.changed(changes));
		this.endEnded = watchEnded(() => {
			this.showEnded();
			this.overview.show();
		});
		this.asked(new Set());
		this.tick = setInterval(() => this.age(), TICK_MS);
		this.resort();
		this.showEnded();
	}

	// Every age on the page is of the same moment.
	age() {
		if (document.hidden)
			return;
		this.list.update(this.list.rows.keys());
		this.past.update(this.past.rows.keys());
		this.overview.show();
	}

	choose(which) {
		this.which = which;
		history.replaceState(null, "", which === "ended" ? "#/cells/ended" : "#/cells");
		this.choices.forEach((button, at) => setAttr(button, "aria-pressed", String((at === 1) === (which === "ended"))));
		this.resort();
		this.showEnded();
	}

	current() {
		return this.which === "ended" ? this.past : this.list;
	}

	showEnded() {
		const items = ended.cells.filter(cell => matches({ ...cell, state: resultOf(cell)[0] }, this.filter));
		setText(this.choices[1].lastChild, ended.known ? `${ended.cells.length}${ended.more ? "+" : ""}` : "");
		this.past.element.hidden = this.which !== "ended" || items.length === 0;
		this.list.element.hidden = this.which === "ended";
		if (this.which !== "ended")
			return;
		this.past.set(items);
		this.nothing(items.length > 0 ? null : ended.cells.length > 0 ? ["No cell matches."] : ended.known ?
			["No cell has ended yet.", "A cell's timeline and changes stay here after its end."] : ["Waiting for the service."]);
	}

	// WORDS: as for empty(); null: something is there.
	nothing(words) {
		const text = JSON.stringify(words);
		this.none.hidden = words === null;
		if (this.said !== text)
			fill(this.none, words ? empty(...words) : null);
		this.said = text;
	}

	header([key, title]) {
		const button = h("button", { type: "button", class: "plain", onclick: () => {
			this.sort = key;
			localStorage.setItem(KEPT, key);
			for (const other of this.list.head.children)
				setAttr(other, "aria-sort", other === cell ? "ascending" : null);
			this.resort();
		} }, title);
		const cell = h("span", { class: `c-${key}`, "aria-sort": key === this.sort ? "ascending" : null }, button);
		return cell;
	}

	resort() {
		clearTimeout(this.later);
		this.later = 0;
		this.sortedAt = performance.now();
		const by = (COLUMNS.find(([key]) => key === this.sort) ?? COLUMNS.find(([key]) => key === "started"))[2];
		const items = [];
		for (const cell of live.cells.values())
			if (matches(cell, this.filter))
				items.push([by(cell), cell]);
		items.sort(([a, x], [b, y]) => a < b ? -1 : a > b ? 1 : x.id < y.id ? -1 : 1);
		this.list.set(items.map(([, cell]) => cell));
		setText(this.choices[0].lastChild, String(live.cells.size));
		if (this.which === "ended")
			return;
		this.list.element.hidden = live.cells.size === 0;
		this.nothing(items.length > 0 ? null : live.cells.size > 0 ? ["No cell matches."] : live.state === "live" ?
			["No cell runs.", "Start one on a terminal, in the folder of a project. It appears here by itself.", "cloister run claude", "cloister run -w . -- sh"] : ["Waiting for the service."]);
	}

	changed(changes) {
		if (changes.approvals.size > 0)
			this.asked(changes.cells);
		if (!changes.all && changes.cells.size === 0 && changes.approvals.size === 0 && !changes.state && !changes.audit)
			return;
		this.overview.show();
		if (changes.all || changes.state)
			this.resort();
		else {
			this.list.items = this.list.items.map(cell => live.cells.get(cell.id) ?? cell);
			this.list.update(changes.cells);
			if (this.later === 0 && !["started", "name", "command"].includes(this.sort))
				this.later = setTimeout(() => this.resort(), Math.max(0, this.sortedAt + SORT_MS - performance.now()));
		}
	}

	// Which cells ask, and of which that has changed.
	asked(changed) {
		const before = waiting;
		waiting = new Set(pending().map(approval => approval.cell));
		for (const id of new Set([...before, ...waiting]))
			if (before.has(id) !== waiting.has(id))
				changed.add(id);
	}

	keys() {
		return [
			["j", "next cell", () => this.current().move(1)],
			["k", "previous cell", () => this.current().move(-1)],
			["Enter", "open the cell", event => {
				const cell = this.current().current();
				if (!cell || event.target.closest("a, button"))
					return false;
				this.go(`#/cell/${encodeURIComponent(cell.id)}`);
			}],
			["e", "cells that run, or have ended", () => this.choose(this.which === "ended" ? "running" : "ended")],
			["/", "filter", () => this.search.focus()],
			["Escape", null, () => {
				if (document.activeElement !== this.search)
					return false;
				this.search.blur();
				this.current().element.focus({ preventScroll: true });
			}],
		];
	}

	close() {
		this.end();
		this.endEnded();
		this.overview.close();
		this.past.close();
		clearInterval(this.tick);
		clearTimeout(this.later);
		this.list.close();
	}
}

export function open(root, [which], go) {
	return new Cells(root, which, go);
}
