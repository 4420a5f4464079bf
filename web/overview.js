// overview.js - the top of the first page: whether anything is wrong, what needs a person, and how much was
// requested and refused lately.

import { get, post, cellPath } from "./api.js";
import { fill, h, icon, setAttr, setText } from "./dom.js";
import { ended } from "./ended.js";
import { age, count, now, processors, seconds, size, span, whole } from "./format.js";
import { groupsOf, nameOf } from "./groups.js";
import { live, pending } from "./live.js";
import { Chart } from "./chart.js";
import { Resources } from "./resources.js";
import { seenMisplaced, seenThefts, seenWatches } from "./seen.js";
import { attempt, setKnown, sureButton } from "./ui.js";

const RECENT_S = 7 * 86400;             // an ended cell's attempts and changes are news for so long
const SHOWN_MAX = 4;
const TOGETHER_MAX = 3;
const CHART_HEIGHT = 176;
const AGAIN_MS = 10000;
const RANGES = [["60", "1 hour"], ["360", "6 hours"], ["1440", "1 day"], ["10080", "7 days"]];
const KEPT = "cloister.range";
const WHAT = [["requests", "Requests"], ["resources", "Resources"]];
const KEPT_WHAT = "cloister.chart";

const called = cell => cell.name || cell.id;
const cellHref = (id, part = "") => `#/cell/${encodeURIComponent(id)}${part}`;
const isRecent = time => time && now() - seconds(time) < RECENT_S;
const many = (n, word, words = `${word}s`) => `${whole(n)} ${n === 1 ? word : words}`;

// Cells with NEWS ("thefts", of which the last is LAST) that nobody has looked at, the latest first.
function unseen(news, last, seen) {
	const known = seen.all();
	return [...live.cells.values(), ...ended.cells].filter(cell => cell[news] > (known[cell.id] ?? 0) && isRecent(cell[last]?.time))
		.sort((a, b) => seconds(b[last].time) - seconds(a[last].time));
}

const thefts = () => unseen("thefts", "last_theft", seenThefts);

// What needs a person, the most urgent first: {kind, icon, what, more, href, seen}; SEEN is called when somebody has seen it.
function needs() {
	const list = [];
	if (live.audit?.state === "broken")
		list.push({ kind: "bad", icon: "alert", what: "A recorded timeline was changed afterwards", more: live.audit.detail, href: "#/audit" });
	for (const cell of unseen("watches", "last_watch", seenWatches))
		list.push({ kind: "bad", icon: "eye", what: `${called(cell)}: ${cell.last_watch.what || "a watch rule fired"}`, more: `watch ${cell.last_watch.why}${cell.watches > 1 ? ` · ${whole(cell.watches)} times` : ""} · ${age(cell.last_watch.time)} ago`,
			href: cellHref(cell.id, "/processes"), seen: () => seenWatches.saw(cell.id, cell.watches) });
	for (const { list: alike } of groupsOf(pending())) {
		const cells = new Set(alike.map(a => a.cell));
		const left = Math.min(...alike.map(a => seconds(a.until) ?? Infinity)) - now();
		list.push({ kind: "warn", icon: "hand", what: `${alike.length > 1 ? `${alike.length} times ` : ""}${nameOf(alike[0])}`,
			more: `${cells.size === 1 ? alike[0].name || alike[0].cell : `${cells.size} cells`} · waits for your answer${Number.isFinite(left) ? `, ${left > 0 ? `${span(left)} left` : "timing out"}` : ""}`, href: "#/approvals" });
	}
	for (const cell of unseen("misplaced", "last_misplaced", seenMisplaced))
		list.push({ kind: "warn", icon: "key", what: `${called(cell)}: placeholder in the wrong place`, more: `${cell.last_misplaced.what} · ${cell.last_misplaced.why} · refused${cell.misplaced > 1 ? ` ${whole(cell.misplaced)} times` : ""}`,
			href: cellHref(cell.id), seen: () => seenMisplaced.saw(cell.id, cell.misplaced) });
	const cells = [...live.cells.values()];
	list.push(...together(cells.filter(cell => cell.state === "silent"), "bad", "alert", ["does not answer", "do not answer"], () => "its supervisor is stopped or busy", "", "#/cells"),
		...together(cells.filter(cell => cell.state !== "silent" && (cell.budget?.fraction ?? 0) >= 1), "warn", "gauge", ["has used up a budget", "have used up a budget"],
			cell => `${cell.budget.name ?? ""} ${cell.budget.kind ?? ""}`.trim().replace("_", " "), "/budget", "#/cells"),
		...together(ended.cells.filter(cell => cell.changes), "info", "file", ["changed files", "changed files"], cell => `ended ${age(cell.ended ?? cell.started)} ago · review, then apply or discard`, "/changes", "#/cells/ended"));
	return list;
}

// One row for each of a few CELLS, one for all of many.
function together(cells, kind, name, [one, all], more, part, href) {
	if (cells.length <= TOGETHER_MAX)
		return cells.map(cell => ({ kind, icon: name, what: `${called(cell)} ${one}`, more: more(cell), href: cellHref(cell.id, part) }));
	return [{ kind, icon: name, what: `${whole(cells.length)} cells ${all}`, more: `${cells.slice(0, 3).map(called).join(", ")} and ${cells.length - 3} more`, href }];
}

function needRow(need, again) {
	return h("li", { "data-kind": need.kind }, h("a", { href: need.href }, icon(need.icon), h("span", null, h("b", { class: "t", title: need.what }, need.what.split(/(?<=[/])(?=[^/])/).flatMap((part, at) => at > 0 ? [h("wbr"), part] : part)), h("small", { class: "dim t", title: need.more }, need.more))),
		need.seen ? h("button", { type: "button", onclick: () => {
			need.seen();
			again();
		} }, "I have seen it") : null);
}

export class Overview {
	constructor(root) {
		this.alarm = h("section", { class: "alarm", role: "alert", hidden: true });
		this.mark = h("span", { class: "mark" }, icon("check"));
		this.title = h("h1", null, "Overview");
		this.about = h("p", { class: "dim" });
		this.figures = h("div", { class: "figures", role: "group", "aria-label": "All cells" });
		this.glance = h("section", { class: "glance", "aria-label": "State" }, this.mark, h("div", { role: "status" }, this.title, this.about), this.figures);
		this.list = h("ul", { class: "need-list" });
		this.more = h("button", { type: "button", class: "plain more", hidden: true, "aria-expanded": "false", onclick: () => {
			this.all = !this.all;
			this.show();
		} });
		this.needs = h("section", { class: "needs", "aria-label": "Needs you" }, h("h2", null, "Needs you"), this.list, this.more);
		this.chart = new Chart(CHART_HEIGHT);
		this.range = h("select", { "aria-label": "Time that is shown", onchange: () => {
			localStorage.setItem(KEPT, this.range.value);
			this.draw();
		} }, RANGES.map(([value, title]) => h("option", { value }, title)));
		this.range.value = RANGES.some(([value]) => value === localStorage.getItem(KEPT)) ? localStorage.getItem(KEPT) : "60";
		this.resources = new Resources(["Processors", "Memory", "Processes", "Disk traffic"]);
		this.what = h("div", { class: "choice small", role: "group", "aria-label": "What is shown" }, WHAT.map(([value, title]) => h("button", { type: "button", "data-what": value, onclick: () => this.choose(value) }, title)));
		this.charts = h("div", { class: "charts" }, h("div", { class: "bar" }, this.what, this.range), this.chart.element, this.resources.element);
		root.append(this.alarm, this.glance, h("div", { class: "overview" }, this.charts, this.needs));
		this.choose(localStorage.getItem(KEPT_WHAT) === "resources" ? "resources" : "requests");
		this.timer = setInterval(() => document.hidden || this.draw(), AGAIN_MS);
		this.show();
	}

	choose(what) {
		localStorage.setItem(KEPT_WHAT, what);
		this.chosen = what;
		for (const button of this.what.children)
			setAttr(button, "aria-pressed", String(button.dataset.what === what));
		this.chart.element.hidden = what !== "requests";
		this.resources.element.hidden = what === "requests";
		this.draw();
	}

	async draw() {
		const what = this.chosen;
		const data = await get(what === "requests" ? "/v1/traffic" : "/v1/resources", { minutes: this.range.value, buckets: 60 }).catch(() => null);
		if (data && !this.closed && what === this.chosen)
			(what === "requests" ? this.chart : this.resources).show(data);
	}

	show() {
		const stolen = thefts(), list = needs();
		this.showAlarm(stolen);
		this.showVerdict(stolen, list);
		this.needs.hidden = list.length === 0;
		const shown = this.all ? list : list.slice(0, SHOWN_MAX), text = JSON.stringify(shown);
		if (this.shown !== text)
			fill(this.list, shown.map(need => needRow(need, () => this.show())));
		this.shown = text;
		setText(this.needs.firstChild, stolen.length > 0 ? `${many(list.length, "more needs", "more need")} you` : "Needs you");
		this.more.hidden = list.length <= SHOWN_MAX;
		setAttr(this.more, "aria-expanded", String(Boolean(this.all)));
		setText(this.more, this.all ? "Show fewer" : `Show ${list.length - SHOWN_MAX} more`);
		// Before the first cell there is nothing to draw; the command that starts one is in view.
		this.charts.hidden = live.state === "live" && live.cells.size === 0 && ended.known && ended.cells.length === 0;
		this.count();
	}

	showAlarm(stolen) {
		const key = stolen.map(cell => `${cell.id} ${cell.thefts} ${cell.state}`).join();
		this.alarm.hidden = stolen.length === 0;
		if (this.alarmed === key)
			return;
		this.alarmed = key;
		fill(this.alarm, icon("key"), h("div", null, h("h2", null, stolen.length === 1 ? "An agent tried to send a secret where it may not go" : `${stolen.length} agents tried to send secrets where they may not go`),
			h("p", null, "The requests were refused, and carried a placeholder: no real value has left this machine."),
			h("ul", null, stolen.slice(0, 3).map(cell => this.theft(cell))), stolen.length > 3 ? h("p", null, `and ${stolen.length - 3} more`) : null));
	}

	theft(cell) {
		const runs = live.cells.has(cell.id);
		const act = (verb, done) => attempt(post(cellPath(cell.id, `/${verb}`)), `${done}: ${called(cell)}`);
		return h("li", null, h("span", null, h("a", { class: "t", href: cellHref(cell.id) }, called(cell)), ` ${many(cell.thefts, "attempt")}, the last ${age(cell.last_theft.time)} ago: `, h("code", { class: "t" }, cell.last_theft.what)),
			h("small", { class: "t" }, cell.last_theft.why), h("span", { class: "acts" },
				runs && cell.state !== "frozen" && cell.can_freeze !== false ? h("button", { type: "button", onclick: () => act("freeze", "Frozen") }, icon("freeze"), " Freeze") : null,
				runs ? sureButton("Kill", "Press again to kill", () => act("kill", "Killed"), { class: "bad" }) : null,
				h("button", { type: "button", onclick: () => {
					seenThefts.saw(cell.id, cell.thefts);
					this.show();
				} }, "I have seen it")));
	}

	showVerdict(stolen, list) {
		const urgent = list.filter(need => need.kind !== "info");
		const kind = stolen.length > 0 || urgent.some(need => need.kind === "bad") || live.state === "lost" ? "bad" : list.length > 0 ? "warn" : live.state === "live" ? "ok" : "dim";
		setAttr(this.glance, "data-kind", kind);
		if (this.kind !== kind)
			fill(this.mark, icon({ ok: "check", warn: "hand", bad: "alert" }[kind] ?? "dots"));
		this.kind = kind;
		const n = list.length + stolen.length;
		setText(this.title, live.state === "lost" ? "The service does not answer" : live.state === "connecting" && live.cells.size === 0 ? "Connecting" : n === 0 ? "Nothing needs you" : `${many(n, "thing needs", "things need")} you`);
		const hour = ended.cells.filter(cell => cell.ended && now() - seconds(cell.ended) < 3600).length;
		const frozen = [...live.cells.values()].filter(cell => cell.state === "frozen").length;
		setText(this.about, [live.cells.size === 0 ? "No cell runs" : `${many(live.cells.size, "cell runs", "cells run")}${frozen > 0 ? `, ${whole(frozen)} of them frozen` : ""}`,
			ended.known ? `${whole(hour)} ended in the last hour` : null, live.audit ? { verified: "every record is verified", broken: "the audit is broken" }[live.audit.state] ?? "the audit is being checked" : null].filter(Boolean).join(" · "));
	}

	count() {
		let frozen = 0, requests = 0, refused = 0, over = 0, bytes = 0, cpu = null, memory = 0, processes = 0, bad = 0;
		for (const cell of live.cells.values()) {
			frozen += cell.state === "frozen";
			requests += cell.requests ?? 0;
			refused += cell.refused ?? 0;
			bytes += (cell.bytes_in ?? 0) + (cell.bytes_out ?? 0);
			over += (cell.budget?.fraction ?? 0) >= 0.8;
			cpu = cell.cpu === undefined ? cpu : (cpu ?? 0) + cell.cpu;
			memory += cell.memory ?? 0;
			processes += cell.pids ?? 0;
			bad += (cell.calls_refused ?? 0) + (cell.calls_dangerous ?? 0);
		}
		const figures = [["cells", whole(live.cells.size), ""], ["frozen", whole(frozen), frozen ? "cold" : ""],
			["waiting", whole(pending().length), pending().length ? "warn" : ""], ["near budget", whole(over), over ? "warn" : ""],
			["requests", count(requests), ""], ["refused", count(refused), refused ? "bad" : ""], ["bytes", size(bytes), ""],
			["refused calls", count(bad), bad ? "bad" : ""], ["CPU", cpu === null ? null : processors(cpu), ""], ["memory", memory ? size(memory) : null, ""], ["processes", processes ? count(processes) : null, ""]];
		if (this.figures.childElementCount === 0)
			for (const [label] of figures)
				this.figures.append(h("span", null, h("b"), h("small", null, label)));
		figures.forEach(([, value, kind], at) => {
			setKnown(this.figures.children[at].firstChild, value, live.cells.size === 0 ? "No cell runs." : undefined);
			setAttr(this.figures.children[at], "data-kind", kind || null);
		});
	}

	close() {
		this.closed = true;
		clearInterval(this.timer);
		this.chart.close();
		this.resources.close();
	}
}
