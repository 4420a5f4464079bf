// page_cells.js - all cells: how they are, what they used, what they were refused.

import { h, icon, setAttr, setText } from "./dom.js";
import { age, count, size, words } from "./format.js";
import { List } from "./list.js";
import { follow, live, pending } from "./live.js";
import { meter, setMeter, setState, stateMark } from "./ui.js";

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
		part("requests"), part("refused"), part("bytes"), part("memory"), part("started"),
		part("refusal", h("span", { class: "t" }), h("small", { class: "why" })));
}

function fillRow(row, cell) {
	const [state, name, command, budget, requests, refused, bytes, memory, started, refusal] = row.children;
	setState(state.firstChild, cell.state === "running" && waiting.has(cell.id) ? "waiting" : cell.state);
	setText(name.firstChild, cell.name || cell.id);
	setText(name.lastChild, [cell.name ? cell.id : null, cell.agent, cell.principal].filter(Boolean).join(" · "));
	setText(command.firstChild, words(cell.command));
	setAttr(budget, "data-none", cell.budget ? null : "");
	if (cell.budget)
		setMeter(budget.firstChild, cell.budget.fraction, `${cell.budget.name ?? ""} ${cell.budget.kind ?? ""}`.trim());
	setText(requests, count(cell.requests));
	setText(refused, cell.refused ? count(cell.refused) : "–");
	setAttr(refused, "data-some", cell.refused ? "" : null);
	setText(bytes, `${size(cell.bytes_in)} / ${size(cell.bytes_out)}`);
	setText(memory, size(cell.memory || null));
	setText(started, age(cell.started));
	setText(refusal.firstChild, cell.last_refusal?.what ?? "");
	setText(refusal.lastChild, cell.last_refusal?.why ?? "");
	setAttr(refusal, "title", cell.last_refusal ? cell.last_refusal.what : null);
}

function matches(cell, filter) {
	return filter.every(word => [cell.id, cell.name, cell.state, cell.agent, cell.principal, words(cell.command),
		cell.last_refusal?.what].some(text => text && String(text).toLowerCase().includes(word)));
}

class Cells {
	constructor(root, go) {
		this.go = go;
		this.sort = (localStorage.getItem(KEPT) ?? "started").split("-")[0];
		this.filter = [];
		this.sortedAt = 0;
		this.figures = h("div", { class: "figures", role: "group", "aria-label": "All cells" });
		this.search = h("input", { type: "search", placeholder: "Filter cells", "aria-label": "Filter cells",
			"aria-keyshortcuts": "/", oninput: () => {
				this.filter = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
				this.resort();
			} });
		this.none = h("p", { class: "empty", hidden: true });
		this.list = new List({ label: "Cells", columns: COLUMNS.map(column => this.header(column)), make: makeRow,
			fill: fillRow, key: cell => cell.id, open: cell => go(`#/cell/${encodeURIComponent(cell.id)}`) });
		this.list.element.classList.add("cells");
		root.append(h("div", { class: "bar" }, h("h1", null, "Cells"), this.figures,
			h("label", { class: "search" }, icon("search"), this.search)), this.list.element, this.none);
		this.end = follow(changes => this.changed(changes));
		this.asked(new Set());
		this.tick = setInterval(() => this.list.update(this.list.rows.keys()), 10000);
		this.resort();
		this.count();
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
		const by = (COLUMNS.find(([key]) => key === this.sort) ?? COLUMNS[8])[2];
		const items = [];
		for (const cell of live.cells.values())
			if (matches(cell, this.filter))
				items.push([by(cell), cell]);
		items.sort(([a, x], [b, y]) => a < b ? -1 : a > b ? 1 : x.id < y.id ? -1 : 1);
		this.list.set(items.map(([, cell]) => cell));
		this.none.hidden = items.length > 0;
		setText(this.none, live.cells.size > 0 ? "No cell matches." : live.state === "live" ?
			"No cell runs. `cloister run` starts one." : "Waiting for the service.");
	}

	changed(changes) {
		if (changes.approvals.size > 0)
			this.asked(changes.cells);
		if (!changes.all && changes.cells.size === 0 && changes.approvals.size === 0 && !changes.state)
			return;
		this.count();
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

	count() {
		let frozen = 0, requests = 0, refused = 0, over = 0;
		for (const cell of live.cells.values()) {
			frozen += cell.state === "frozen";
			requests += cell.requests ?? 0;
			refused += cell.refused ?? 0;
			over += (cell.budget?.fraction ?? 0) >= 0.8;
		}
		const figures = [["cells", live.cells.size, ""], ["frozen", frozen, frozen ? "cold" : ""],
			["waiting", pending().length, pending().length ? "warn" : ""], ["near budget", over, over ? "warn" : ""],
			["requests", count(requests), ""], ["refused", count(refused), refused ? "bad" : ""]];
		if (this.figures.childElementCount === 0)
			for (const [label] of figures)
				this.figures.append(h("span", null, h("b"), h("small", null, label)));
		figures.forEach(([, value, kind], at) => {
			setText(this.figures.children[at].firstChild, String(value));
			setAttr(this.figures.children[at], "data-kind", kind || null);
		});
	}

	keys() {
		return [
			["j", "next cell", () => this.list.move(1)],
			["k", "previous cell", () => this.list.move(-1)],
			["Enter", "open the cell", event => {
				const cell = this.list.current();
				if (!cell || event.target.closest("a, button"))
					return false;
				this.go(`#/cell/${encodeURIComponent(cell.id)}`);
			}],
			["/", "filter", () => this.search.focus()],
			["Escape", null, () => {
				if (document.activeElement !== this.search)
					return false;
				this.search.blur();
				this.list.element.focus({ preventScroll: true });
			}],
		];
	}

	close() {
		this.end();
		clearInterval(this.tick);
		clearTimeout(this.later);
		this.list.close();
	}
}

export function open(root, words, go) {
	return new Cells(root, go);
}
