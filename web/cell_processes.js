// cell_processes.js - the processes of a cell as a tree, with what each did.

import { progress } from "./acts.js";
import { fill, h, icon, setAttr, setText } from "./dom.js";
import { clock, count, duration, seconds, size, stamp } from "./format.js";
import { List } from "./list.js";
import { empty } from "./ui.js";

const DEPTH_MAX = 16;                   // deeper ones are not indented further
const SHOWN = [["", "all processes"], ["bad", "refused or dangerous calls"], ["running", "that run"], ["failed", "that failed"], ["net", "with requests or connections"]];

const isBad = process => process.refused + process.danger + process.watches > 0 || Boolean(process.from);
const WANTED = { "": () => true, bad: isBad, running: process => !process.ended, failed: process => process.ended ? Boolean(process.ended.signal || process.ended.status) : false,
	net: process => process.requests + process.connections > 0 };

function makeRow() {
	const part = (name, ...children) => h("span", { class: `p-${name}`, role: "gridcell" }, ...children);
	return h("div", { class: "row" }, part("name", h("button", { type: "button", class: "fold", tabindex: "-1" }), h("b", { class: "t" }), h("small", { class: "dim" })),
		part("command", h("code", { class: "t" }), h("span", { class: "p-bad" })), part("files"), part("requests"), part("cpu"), part("peak"), part("started"), part("state"));
}

// What is wrong with a process, each as a mark of its own: [words, kind, why].
function marks(process) {
	return [[process.watches, `watch${process.watches > 1 ? ` × ${count(process.watches)}` : ""}`, "stop", "a rule over behaviour fired"], [process.danger, `${count(process.danger)} dangerous`, "stop", "calls that attacks are made of"],
		[process.from, process.from, "stop", process.from === "memory" ? "its program is in memory only" : "its program is in a place that it can write to"], [process.refused, `${count(process.refused)} refused`, "bad", "calls that a wall refused"]]
		.filter(([is]) => is).map(([, ...mark]) => mark);
}

export class Processes {
	constructor(panel, id, acts, toTimeline) {
		this.acts = acts;
		this.toTimeline = toTimeline;
		this.folded = new Set();
		this.search = h("input", { type: "search", placeholder: "Search the processes", "aria-label": "Search the processes", "aria-keyshortcuts": "/", oninput: () => this.show() });
		this.which = h("select", { "aria-label": "Which processes", onchange: () => this.show() }, SHOWN.map(([value, title]) => h("option", { value }, title)));
		this.state = h("span", { class: "dim", role: "status" });
		this.about = h("p", { class: "dim seen", hidden: true });
		this.lost = h("p", { class: "lost", role: "alert", hidden: true });
		this.none = h("div", { hidden: true });
		this.detail = h("aside", { class: "detail", hidden: true, "aria-label": "One process" });
		this.list = new List({ label: "Processes", columns: ["Process", "Command", "Files", "Requests", "CPU", "Peak", "Started", "State"], make: makeRow, fill: (row, item) => this.fillRow(row, item),
			key: item => item.process.key, open: item => this.open(item.process) });
		this.list.element.classList.add("processes");
		this.list.element.setAttribute("role", "treegrid");
		this.list.body.addEventListener("click", event => event.target.closest(".fold") && this.fold(event.target.closest(".row").dataset.key));
		panel.append(this.lost, h("div", { class: "bar" }, h("label", { class: "search" }, icon("search"), this.search), this.which, this.state), this.list.element, this.none, this.about, this.detail);
		this.end = acts.follow(() => this.show());
		this.show();
	}

	// The rows: each process below its parent.  If some are left out, the parents of those that are not stay.
	rows() {
		const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
		const wanted = WANTED[this.which.value];
		const filters = words.length > 0 || this.which.value !== "";
		const stay = new Set();
		this.found = this.acts.processes.length;
		if (filters) {
			this.found = 0;
			for (const process of this.acts.processes)
				if (wanted(process) && words.every(word => process.text.includes(word))) {
					this.found++;
					for (let above = process; above && !stay.has(above); above = above.up)
						stay.add(above);
				}
		}
		const rows = [], open = this.acts.processes.filter(process => !process.up).reverse().map(process => [process, 0]);
		while (open.length > 0) {
			const [process, depth] = open.pop();
			if (filters && !stay.has(process))
				continue;
			rows.push({ process, depth });
			if (filters || !this.folded.has(process.key))
				for (let i = process.kids.length - 1; i >= 0; i--)
					open.push([process.kids[i], depth + 1]);
		}
		return rows;
	}

	show() {
		const { acts } = this;
		const rows = this.rows();
		this.list.set(rows);
		setText(this.state, progress(acts, `${this.found.toLocaleString("en")} ${this.found === 1 ? "process" : "processes"}`));
		this.lost.hidden = acts.lost === 0;
		setText(this.lost, `${acts.lost.toLocaleString("en")} acts could not be recorded, so this is not all that happened.`);
		const unseen = acts.record?.unseen ?? [];
		this.about.hidden = unseen.length === 0 && acts.record?.by !== "notify";
		setText(this.about, `Recorded by ${acts.record?.by === "notify" ? "notifications of the filter" : acts.record?.by ?? "nobody"}.${unseen.length > 0 ? ` Not seen: ${unseen.join("; ")}.` : ""}`);
		this.list.element.hidden = rows.length === 0;
		this.none.hidden = rows.length > 0;
		const none = rows.length > 0 || acts.state === "reading" ? "" : acts.processes.length > 0 ? "No process matches." : "No process is recorded.";
		if (this.said !== none)
			fill(this.none, none ? empty(none, acts.processes.length > 0 ? null : acts.record?.level === "off" ? "This cell was started with --record off." : "What a cell does inside is recorded from its start, if this machine can see it: cloister doctor tells.") : null);
		this.said = none;
		if (!this.detail.hidden && this.opened)
			this.fillDetail(this.opened);
	}

	fillRow(row, { process, depth }) {
		const [name, command, files, requests, cpu, peak, started, state] = row.children;
		const [fold, title, pid] = name.children;
		row.style.setProperty("--depth", Math.min(depth, DEPTH_MAX));
		setAttr(row, "aria-level", String(depth + 1));
		setAttr(row, "data-bad", isBad(process) ? "" : null);
		setAttr(row, "data-over", process.ended ? "" : null);
		fold.hidden = process.kids.length === 0;
		const folded = this.folded.has(process.key);
		setText(fold, folded ? "▸" : "▾");
		setAttr(fold, "aria-label", folded ? `Show the ${process.kids.length} children` : "Hide the children");
		setAttr(fold, "aria-expanded", String(!folded));
		setText(title, process.name);
		setText(pid, String(process.pid));
		setText(command.firstChild, process.command);
		setAttr(command, "title", process.command.slice(0, 1000));
		const found = marks(process), bad = command.lastChild;
		const text = JSON.stringify(found);
		if (bad.dataset.marks !== text)
			fill(bad, found.map(([words, kind, why]) => h("span", { class: `chip ${kind}`, title: why }, words)));
		bad.dataset.marks = text;
		setText(files, process.files ? count(process.files) : "");
		setText(requests, process.requests ? count(process.requests) : "");
		setAttr(requests, "title", process.connections ? `${count(process.connections)} ${process.connections === 1 ? "connection" : "connections"}` : null);
		setText(cpu, duration(process.ended?.cpu_ms));
		setText(peak, process.ended?.peak ? size(process.ended.peak) : "");
		setText(started, clock(process.time));
		setAttr(started, "title", stamp(process.time));
		setText(state, process.state);
		setAttr(state, "data-kind", process.ended?.signal || process.ended?.status ? "bad" : process.ended ? null : "ok");
	}

	fold(key) {
		if (this.folded.has(key))
			this.folded.delete(key);
		else
			this.folded.add(key);
		this.show();
	}

	open(process) {
		this.opened = process;
		this.fillDetail(process);
		this.detail.hidden = false;
	}

	fillDetail(process) {
		const text = JSON.stringify([process.key, process.state, process.files, process.requests, process.refused, process.danger, process.notes.length, process.kids.length, process.path, process.searched]);
		if (this.detailed === text)
			return;
		this.detailed = text;
		const facts = [["Command", process.command], ["Program", process.path], ["Script", process.script], ["Folder", process.cwd], ["SHA-256", process.sha256], ["Of the script", process.script_sha256],
			["Looked for", process.searched ? `in ${count(process.searched)} ${process.searched === 1 ? "other place" : "other places"} of PATH first` : null],
			["Before that", process.before.length > 0 ? process.before.join("\n") : null], ["Parent", process.up ? `${process.up.name} ${process.up.pid}` : null], ["Children", process.kids.length || null],
			["Started", stamp(process.time)], ["Ended", process.ended ? `${stamp(process.ended.time)}, ${process.state}` : null], ["Ran for", duration(process.ended?.ms ?? (process.ended ? (seconds(process.ended.time) - seconds(process.time)) * 1000 : undefined))],
			["Processor time", duration(process.ended?.cpu_ms)], ["Peak memory", process.ended?.peak ? size(process.ended.peak) : null], ["Acts on files", process.files || null],
			["Connections", process.connections || null], ["Requests", process.requests || null]].filter(([, value]) => value !== null && value !== undefined && value !== "");
		fill(this.detail, h("div", { class: "bar" }, h("h2", { class: "t" }, `${process.name} `, h("span", { class: "dim" }, String(process.pid))), h("button", { type: "button", class: "push", onclick: () => this.hide() }, "Close")),
			process.notes.length > 0 ? h("ul", { class: "notes" }, process.notes.map(note => h("li", { "data-kind": note.kind }, h("span", { class: `chip ${["danger", "watch"].includes(note.kind) ? "stop" : "bad"}` }, note.kind === "danger" ? "dangerous" : note.kind),
				h("code", { class: "t" }, note.text), note.count > 1 ? h("small", { class: "dim" }, `${count(note.count)} times`) : null))) : null,
			h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", null, name), h("dd", { class: "t" }, String(value))])),
			h("p", { class: "as-command" }, h("button", { type: "button", onclick: () => this.toTimeline(process) }, "Its records in the timeline")));
	}

	hide() {
		if (this.detail.hidden)
			return false;
		this.detail.hidden = true;
		this.opened = null;
		this.detailed = null;
		this.list.element.focus({ preventScroll: true });
	}

	keys() {
		return [["j", "next process", () => this.list.move(1)], ["k", "previous process", () => this.list.move(-1)],
			["Enter", "show the process", event => this.list.current() && !event.target.closest("a, button") ? this.open(this.list.current().process) : false],
			["x", "hide or show its children", () => this.list.current() ? this.fold(this.list.current().process.key) : false],
			["/", "search the processes", () => this.search.focus()],
			["Escape", null, () => {
				if (document.activeElement === this.search)
					this.list.element.focus({ preventScroll: true });
				else
					return this.hide();
			}]];
	}

	close() {
		this.end();
		this.list.close();
	}
}
