// cell_files.js - the files that the processes of a cell changed, or read in its grants.

import { progress } from "./acts.js";
import { fill, h, icon, setAttr, setText } from "./dom.js";
import { clock, count, stamp } from "./format.js";
import { List } from "./list.js";
import { chip, empty } from "./ui.js";

const ACTS = { create: "created", write: "written", remove: "removed", rename: "renamed", link: "linked", mode: "mode", owner: "owner", times: "times", read: "read" };
const KINDS = { create: "ok", write: "cold", remove: "warn", rename: "warn" };
const SHOWN = [["", "all files"], ["change", "changed"], ...Object.entries(ACTS), ["errors", "refused"]];
const ORDERS = [["path", "by path"], ["time", "the newest first"], ["count", "the most used first"]];
const SORTS = { path: (a, b) => a.path < b.path ? -1 : 1, time: (a, b) => b.n - a.n, count: (a, b) => b.count - a.count || (a.path < b.path ? -1 : 1) };
const SORT_MS = 1000;                   // rows change places at most so often

function isWanted(file, which) {
	if (which === "")
		return true;
	if (which === "errors")
		return file.errors > 0;
	return which === "change" ? [...file.acts.keys()].some(act => act !== "read") : file.acts.has(which);
}

function makeRow() {
	const part = (name, ...children) => h("span", { class: `f-${name}`, role: "gridcell" }, ...children);
	return h("div", { class: "row" }, part("path", h("span", { class: "dim t" }), h("b", { class: "t" })), part("acts"), part("count"), part("who", h("span", { class: "t" })), part("grant", h("span", { class: "t" })), part("time"));
}

function fillRow(row, file) {
	const [path, acts, times, who, grant, time] = row.children;
	const cut = file.path.lastIndexOf("/", file.path.length - 2) + 1;
	setText(path.firstChild, file.path.slice(0, cut));
	setText(path.lastChild, file.path.slice(cut));
	setAttr(path, "title", file.path);
	setAttr(row, "data-bad", file.errors > 0 ? "" : null);
	const text = `${[...file.acts.keys()].join()} ${file.errors}`;
	if (acts.dataset.marks !== text)
		fill(acts, file.errors > 0 ? chip(`${count(file.errors)} refused`, "bad") : null, [...file.acts.keys()].map(act => chip(ACTS[act] ?? act, KINDS[act])));
	acts.dataset.marks = text;
	setText(times, count(file.count));
	setText(who.firstChild, `${file.last.name} ${file.last.pid}${file.processes.size > 1 ? ` and ${count(file.processes.size - 1)} more` : ""}`);
	setText(grant.firstChild, file.grant ?? "");
	setText(time, clock(file.time));
	setAttr(time, "title", stamp(file.time));
}

export class Files {
	constructor(panel, id, acts) {
		this.acts = acts;
		this.search = h("input", { type: "search", placeholder: "Search the files", "aria-label": "Search the files", "aria-keyshortcuts": "/", oninput: () => this.show() });
		this.which = h("select", { "aria-label": "Which files", onchange: () => this.show() }, SHOWN.map(([value, title]) => h("option", { value }, title)));
		this.order = h("select", { "aria-label": "Order", onchange: () => this.show() }, ORDERS.map(([value, title]) => h("option", { value }, title)));
		this.state = h("span", { class: "dim", role: "status" });
		this.none = h("div", { hidden: true });
		this.detail = h("aside", { class: "detail", hidden: true, "aria-label": "One file" });
		this.list = new List({ label: "Files", columns: ["File", "What was done", "Times", "Process", "Grant", "Last"], make: makeRow, fill: fillRow, key: file => file.key, open: file => this.open(file) });
		this.list.element.classList.add("files-list");
		panel.append(h("div", { class: "bar" }, h("label", { class: "search" }, icon("search"), this.search), this.which, this.order, this.state), this.list.element, this.none, this.detail);
		this.end = acts.follow(() => this.later());
		this.show();
	}

	// While the timeline is read, or grows, all that is known is sorted again and again.
	later() {
		this.soon ||= setTimeout(() => this.show(), Math.max(0, (this.shown ?? 0) + SORT_MS - performance.now()));
	}

	show() {
		clearTimeout(this.soon);
		this.soon = 0;
		const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean), which = this.which.value;
		const files = [];
		for (const file of this.acts.files.values())
			if (isWanted(file, which) && words.every(word => file.low.includes(word) || file.last.name.toLowerCase().includes(word)))
				files.push(file);
		files.sort(SORTS[this.order.value]);
		this.list.set(files);
		setText(this.state, progress(this.acts, `${files.length.toLocaleString("en")} ${files.length === 1 ? "file" : "files"}`));
		this.list.element.hidden = files.length === 0;
		this.none.hidden = files.length > 0;
		const none = files.length > 0 || this.acts.state === "reading" ? "" : this.acts.files.size > 0 ? "No file matches." : "No act on a file is recorded.";
		if (this.said !== none)
			fill(this.none, none ? empty(none) : null);
		this.said = none;
		this.shown = performance.now();
	}

	open(file) {
		const who = [...file.processes].slice(0, 100);
		fill(this.detail, h("div", { class: "bar" }, h("h2", { class: "t" }, file.path), h("button", { type: "button", class: "push", onclick: () => this.hide() }, "Close")),
			h("dl", { class: "facts" }, [...[...file.acts].map(([act, n]) => [ACTS[act] ?? act, n === 1 ? "once" : `${count(n)} times`]), ["Refused", file.errors || null], ["Grant", file.grant], ["Last", stamp(file.time)],
				["As", file.asked ? "the process named it: it may have opened another" : null], [who.length === 1 ? "Process" : "Processes", who.map(process => `${process.name} ${process.pid}`).join(", ") + (file.processes.size > who.length ? " …" : "")]]
				.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => [h("dt", null, name), h("dd", { class: "t" }, String(value))])));
		this.detail.hidden = false;
	}

	hide() {
		if (this.detail.hidden)
			return false;
		this.detail.hidden = true;
		this.list.element.focus({ preventScroll: true });
	}

	keys() {
		return [["j", "next file", () => this.list.move(1)], ["k", "previous file", () => this.list.move(-1)],
			["Enter", "show the file", event => this.list.current() && !event.target.closest("a, button") ? this.open(this.list.current()) : false],
			["/", "search the files", () => this.search.focus()],
			["Escape", null, () => {
				if (document.activeElement === this.search)
					this.list.element.focus({ preventScroll: true });
				else
					return this.hide();
			}]];
	}

	close() {
		this.end();
		clearTimeout(this.soon);
		this.list.close();
	}
}
