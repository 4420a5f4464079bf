// cell_changes.js - what a cell changed in its workspaces: looked at file by file, applied or discarded.

import { cellPath, get, post } from "./api.js";
import { fill, h, say, setAttr, setText } from "./dom.js";
import { size, whole } from "./format.js";
import { attempt, chip, empty, sureButton, tell } from "./ui.js";

const SHOWN_MAX = 2000;                 // files in the list
const NAMED_MAX = 1000;                 // paths that the service takes at once
const LINES_MAX = 5000;                 // of a difference, drawn
const LETTERS = { added: ["A", "ok"], modified: ["M", "warn"], deleted: ["D", "bad"] };

const many = (n, word) => `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
const fullPath = change => `${change.workspace}/${change.path}`;

// A folder that has changed files in it is shown by these.
function withoutParents(changes) {
	return changes.filter((change, at) => !(change.type === "folder" && changes[at + 1]?.workspace === change.workspace && changes[at + 1].path.startsWith(`${change.path}/`)));
}

// ---- a difference, as `cloister diff` prints it
function hunkStart(line) {
	const [, old, fresh] = line.match(/^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/) ?? [];
	return old === undefined ? null : { old: Number(old), fresh: Number(fresh) };
}

function lineOf(kind, left, right, sign, text) {
	return h("div", { class: kind }, h("span", { class: "no" }, left), h("span", { class: "no" }, right), h("span", { class: "sign" }, sign), h("span", { class: "t" }, say(text, true)));
}

function diffOf(text) {
	const out = h("div", { class: "diff review", role: "group", "aria-label": "What changed" });
	let at = null;
	const lines = text.replace(/\n$/, "").split("\n");
	for (const line of lines.slice(0, LINES_MAX)) {
		const start = hunkStart(line);
		if (start) {
			at = start;
			out.append(h("div", { class: "where" }, h("span", { class: "t" }, say(line, true))));
		} else if (at && line.startsWith("+")) {
			out.append(lineOf("add", "", String(at.fresh++), "+", line.slice(1)));
		} else if (at && line.startsWith("-")) {
			out.append(lineOf("del", String(at.old++), "", "−", line.slice(1)));
		} else if (at && line.startsWith(" ")) {
			out.append(lineOf("same", String(at.old++), String(at.fresh++), " ", line.slice(1)));
		} else if (!/^(---|\+\+\+) /.test(line)) {
			at = line.startsWith("\\") ? at : null;
			out.append(h("div", { class: "where" }, h("span", { class: "t" }, say(line, true))));
		}
	}
	if (lines.length > LINES_MAX)
		out.append(h("p", { class: "dim" }, `${whole(lines.length - LINES_MAX)} more lines: see \`cloister diff\`.`));
	return out;
}

export class Changes {
	constructor(panel, id, changed) {
		Object.assign(this, { panel, id, changed, rows: [], at: -1 });
		fill(panel, h("p", { class: "dim" }, "…"));
		this.load();
	}

	async load() {
		let said;
		try {
			said = await get(cellPath(this.id, "/changes"));
		} catch (error) {
			if (!this.closed)
				fill(this.panel, empty("There are no changes to review.", error.message));
			return;
		}
		if (this.closed)
			return;
		this.folders = said.changes.filter(change => change.type === "folder");
		this.changes = withoutParents(said.changes);
		this.isOne = new Set(said.changes.map(change => change.workspace)).size <= 1;
		if (this.changes.length === 0) {
			fill(this.panel, empty("There are no changes to review.", said.note ?? "The cell left its workspace as it was, or its changes were applied or discarded."));
			return;
		}
		this.build(said.note);
		this.show(0);
	}

	build(note) {
		const held = this.changes.filter(change => change.held).length;
		this.about = h("span", { class: "dim" });
		this.said = h("div", { role: "status" });
		this.apply = h("button", { type: "button", class: "good", onclick: () => this.put(false) });
		const all = h("input", { type: "checkbox", "aria-label": "All files that are not held back", onchange: () => this.choose(all.checked) });
		all.checked = true;
		this.all = all;
		this.diff = h("section", { class: "one", "aria-label": "Difference", tabindex: "-1" });
		this.list = h("ul", { class: "changed" });
		this.rows = this.changes.slice(0, SHOWN_MAX).map((change, at) => this.row(change, at));
		this.list.append(...this.rows.map(row => row.element));
		const folders = [...new Set(this.changes.map(change => change.workspace))];
		fill(this.panel, h("div", { class: "bar" }, h("label", { class: "check" }, all, h("b", null, many(this.changes.length, "change"))), h("span", { class: "dim t" }, `in ${folders.join(", ")}`),
			h("div", { class: "acts" }, this.about, this.apply, sureButton("Discard all", "Press again: all changes of this cell are deleted", () => this.discard(), { class: "bad" }))),
		held > 0 ? h("section", { class: "held-note", "aria-label": "Held back" }, chip(`${held} held back`, "warn"), h("p", null, `${held === 1 ? "This file" : "These files"} would run on this machine by ${held === 1 ? "itself" : "themselves"}: git hooks, settings of editors and shells, and what such files name. `,
			`Applying the rest leaves ${held === 1 ? "it" : "them"} here. Read ${held === 1 ? "it" : "each"}, then tick it to apply it too.`)) : null,
		note ? h("p", { class: "warn t" }, note) : null, this.said,
		h("div", { class: "changes" }, h("div", { class: "changed-box" }, this.list, this.changes.length > SHOWN_MAX ? h("p", { class: "dim" }, `and ${whole(this.changes.length - SHOWN_MAX)} more: see \`cloister diff ${this.id}\``) : null), this.diff));
		this.count();
	}

	row(change, at) {
		const [letter, kind] = LETTERS[change.change] ?? ["?", ""];
		const cut = change.path.lastIndexOf("/") + 1;
		const box = h("input", { type: "checkbox", "aria-label": `Apply ${change.path}`, onchange: () => this.count() });
		box.checked = !change.held;
		const name = h("button", { type: "button", class: "plain", onclick: () => this.show(at) }, h("span", { class: `letter ${kind}`, title: change.change }, letter),
			h("span", { class: "t" }, h("span", { class: "dim" }, this.isOne ? change.path.slice(0, cut) : `${change.workspace}/${change.path.slice(0, cut)}`), h("b", null, change.path.slice(cut)), change.type === "folder" ? "/" : ""));
		return { change, box, name, element: h("li", null, box, name, change.held ? chip("held back", "warn") : null, change.changed_here ? chip("changed here too", "cold") : null, h("small", { class: "dim" }, change.type === "file" && change.change !== "deleted" ? size(change.size) : change.type === "file" ? "" : change.type)) };
	}

	choose(on) {
		for (const row of this.rows)
			if (!row.change.held)
				row.box.checked = on;
		this.count();
	}

	picked() {
		return this.rows.filter(row => row.box.checked).map(row => row.change);
	}

	count() {
		const n = this.picked().length;
		this.apply.disabled = n === 0;
		setText(this.apply, n === this.rows.length ? `Apply all ${whole(n)}` : `Apply ${whole(n)}`);
		const free = this.rows.filter(row => !row.change.held);
		this.all.checked = free.length > 0 && free.every(row => row.box.checked);
		setText(this.about, n < this.rows.length ? `${many(this.rows.length - n, "change")} ${this.rows.length - n === 1 ? "stays" : "stay"} here` : "");
	}

	async show(at) {
		const row = this.rows[at];
		if (!row)
			return;
		this.at = at;
		this.rows.forEach((other, i) => setAttr(other.name, "aria-current", i === at ? "true" : null));
		const head = h("div", { class: "bar" }, h("h2", { class: "t" }, row.change.path), row.change.renamed_from ? h("span", { class: "dim t" }, `renamed from ${row.change.renamed_from}`) : null,
			row.change.held ? chip("held back: it would run on this machine", "warn") : null);
		const place = h("div", null, h("p", { class: "dim" }, "…"));
		fill(this.diff, head, place);
		const said = await get(cellPath(this.id, "/changes/diff"), { path: fullPath(row.change) }).catch(error => ({ text: "", note: error.message }));
		if (this.at !== at || this.closed)
			return;
		// The first line names the file again.
		const text = said.text.replace(/^[AMDR!] [^\n]*\n/, "");
		fill(place, text ? diffOf(text) : h("p", { class: "dim" }, row.change.type === "folder" ? "A folder." : "Nothing in it differs."), said.cut ? h("p", { class: "dim" }, "It is too long to be shown whole.") : null,
			said.note ? h("p", { class: "dim t" }, said.note) : null);
	}

	// The picked files, and the folders of which nothing was left out.
	names(picked) {
		const left = this.rows.filter(row => !row.box.checked && !row.change.held).map(row => fullPath(row.change));
		const whole = this.folders.filter(folder => !left.some(path => path.startsWith(`${fullPath(folder)}/`)) && picked.some(change => fullPath(change).startsWith(`${fullPath(folder)}/`)));
		return [...new Set([...picked, ...whole].map(fullPath))];
	}

	// Without names, all but what is held back is applied.
	async put(force) {
		const picked = this.picked(), paths = this.names(picked);
		const isAll = this.isOne && paths.length > NAMED_MAX && this.rows.every(row => row.box.checked === !row.change.held);
		if (!isAll && paths.length > NAMED_MAX) {
			tell(`At most ${whole(NAMED_MAX)} files can be named at once: use \`cloister apply\``, "bad");
			return;
		}
		this.apply.disabled = true;
		try {
			const said = await post(cellPath(this.id, "/changes/apply"), { ...(isAll ? {} : { paths }), ...(force ? { force } : {}) });
			tell(`Applied ${many(said.applied, "change")}${said.held > 0 ? `; ${said.held} held back` : ""}`, said.conflicts > 0 ? "bad" : "ok");
			await this.load();
			if (said.conflicts > 0)
				this.conflict(said.note ?? `${many(said.conflicts, "file")} changed here too (--force overwrites)`);
			this.changed?.();
		} catch (error) {
			this.conflict(error.message);
		}
		this.apply.disabled = false;
	}

	// Why something was not applied; what changed here too can be overwritten.
	conflict(message) {
		fill(this.said, h("div", { class: "conflict" }, h("p", { class: "t" }, say(message, true)), /--force/.test(message) ?
			sureButton("Overwrite them", "Press again: what was written here meanwhile is lost", () => this.put(true), { class: "bad" }) : null));
	}

	async discard() {
		const done = await attempt(post(cellPath(this.id, "/changes/discard")), "Discarded; the cell's timeline stays");
		if (done === undefined)
			return;
		fill(this.panel, empty("The changes are discarded.", "The cell's timeline stays."));
		this.changed?.();
	}

	move(by) {
		const to = Math.max(0, Math.min(this.rows.length - 1, this.at + by));
		this.show(to);
		this.rows[to]?.name.scrollIntoView({ block: "nearest" });
	}

	keys() {
		return [["j", "next file", () => this.move(1)], ["k", "previous file", () => this.move(-1)],
			["x", "apply this file, or leave it", () => {
				const row = this.rows[this.at];
				if (!row)
					return false;
				row.box.checked = !row.box.checked;
				this.count();
			}]];
	}

	close() {
		this.closed = true;
	}
}
