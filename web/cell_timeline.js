// cell_timeline.js - a cell's timeline: pages of it from the service, filtered there.

import { callOf } from "./acts.js";
import { cellPath, get } from "./api.js";
import { fill, h, icon, setAttr, setText } from "./dom.js";
import { clock, duration, money, size, stamp, whole, words } from "./format.js";
import { List } from "./list.js";
import { follow } from "./live.js";
import { Chart } from "./chart.js";
import { ruleForm } from "./cell_policy.js";
import { attempt } from "./ui.js";

const PAGE = 200;
const KEPT_MAX = 20000;                 // records in memory; from there on one goes on from the last
const NEW_MS = 1000;                    // what is new is asked for at most so often
const TYPES = ["refusal", "exec", "exit", "file", "net", "refused", "danger", "watch", "resources", "calls", "lost", "http", "dns", "tcp", "tls", "ssh", "webhook", "tool", "secret", "approval", "steer", "cell", "cell.state", "budget", "tripwire", "intent", "many"];

// A record is {n, time, event}; the API may have put the event's members beside them.
function eventOf(record) {
	return record.event ?? record;
}

const times = e => e.count > 1 ? ` × ${whole(e.count)}` : "";
const failed = e => e.error ? ` = ${e.error}` : "";

// Acts inside the cell, each in a line.
const ACTS = {
	exec: e => `${words(e.argv ?? [e.path])}${e.n_argv > e.argv?.length ? " …" : ""}${failed(e)}${times(e)}`,
	exit: e => [e.signal ? `killed by SIG${e.signal}` : `exit ${e.status ?? "?"}`, e.ms === undefined ? null : `after ${duration(e.ms)}`, e.cpu_ms === undefined ? null : `${duration(e.cpu_ms)} CPU`, e.peak ? `${size(e.peak)} peak` : null].filter(Boolean).join(", "),
	file: e => `${e.act} ${e.path}${e.to ? ` → ${e.to}` : ""}${failed(e)}${times(e)}`,
	net: e => `${e.act} ${e.address ?? ""}${e.port ? ` port ${e.port}` : ""}${failed(e)}${times(e)}`,
	refused: e => `${callOf(e)}${times(e)}`,
	danger: e => `${callOf(e)}${times(e)}`,
	calls: e => (e.counts ?? []).join(", "),
	lost: e => `${whole(e.count ?? 1)} ${e.what ?? "acts"}: ${e.why ?? ""}`,
	watch: e => `${e.of ?? ""}: ${e.rule}${e.then ? ` → ${e.then}` : ""}`,
	resources: e => [["cpu_ms", "CPU", duration], ["memory", "memory", size], ["processes", "processes", whole], ["disk", "disk", size], ["read", "read", size], ["written", "written", size]]
		.filter(([name]) => e[name] !== undefined).map(([name, title, how]) => `${title} ${how(e[name])}`).join(", "),
	record: e => `${e.level}, by ${e.by}${e.unseen?.length ? `; not seen: ${e.unseen.join("; ")}` : ""}`,
};

// "#tool:github.create_issue" of a request to the tools' gateway, as approvals show it.
function toolOf(e) {
	const kind = ["tool", "prompt", "resource"].find(name => typeof e[name] === "string");
	return kind ? `#${kind}:${e[kind]}` : "";
}

function summary(e) {
	if (Object.hasOwn(ACTS, e.type))
		return ACTS[e.type](e);
	if (e.type === "cell.state")
		return e.why ? `${e.state}: not committed: ${e.why}` : `committed ${e.state}, ${e.branch}: ${whole(e.added ?? 0)} added, ${whole(e.modified ?? 0)} changed, ${whole(e.removed ?? 0)} removed` +
			`${e.refused > 0 ? `, ${whole(e.refused)} refused` : ""}${e.pending > 0 ? `, ${whole(e.pending)} waiting for a person` : ""} (${e.reason})`;
	if (e.type === "checkpoint")
		return `signed, with the ${e.size} records before it`;
	if (e.host || e.method)
		return [e.method, e.host ? `${e.scheme ? `${e.scheme}://` : ""}${e.host}${e.port && ![80, 443].includes(e.port) ? `:${e.port}` : ""}${e.path ?? ""}${toolOf(e)}` : e.path]
			.filter(Boolean).join(" ");
	if (e.type === "steer" || e.did)
		return [e.did, e.by ? `by ${e.by}` : null, e.why ? `“${e.why}”` : null].filter(Boolean).join(" ");
	const rest = Object.entries(e).filter(([name]) => !["type", "n", "time", "cell", "prev", "verdict"].includes(name));
	return rest.map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ").slice(0, 300);
}

// What a model's answer cost, where that was metered.
function cost(e) {
	if (e.nano_usd === undefined)
		return null;
	return `${e.model ? `${e.model}, ` : ""}${money(e.nano_usd / 1e9)}${e.estimated ? ", estimated" : ""}`;
}

// The rule that would let it pass, as a beginning.
function ruleFor(e) {
	const port = e.port && ![80, 443].includes(e.port) ? `:${e.port}` : "";
	if (toolOf(e))
		return toolOf(e).slice(1);
	return e.type === "http" ? `${e.method} ${e.host}${port}${e.path ?? ""}` : `${e.host}${e.port ? `:${e.port}` : ""}${e.type === "dns" ? "" : `/${e.type}`}`;
}

function kindOf(e) {
	if (["danger", "watch"].includes(e.type) || (e.type === "exec" && e.from))
		return "danger";
	if (e.type === "refused")
		return "deny";
	if (e.type === "lost")
		return "ask";
	if (Object.hasOwn(ACTS, e.type))
		return "act";
	return e.verdict === "deny" ? "deny" : e.verdict === "ask" ? "ask" : e.verdict === "allow" ? "allow" : "note";
}

function makeRow() {
	const part = (name, ...children) => h("span", { class: `r-${name}`, role: "gridcell" }, ...children);
	return h("div", { class: "row" }, part("n"), part("time"), part("type"), part("verdict"), part("what", h("span", { class: "t" }), h("small", { class: "who t" })),
		part("status"), part("bytes"), part("why", h("span", { class: "t" })));
}

// Which process it was, if that is known.
function whoOf(e, n, inside) {
	if (e.pid === undefined)
		return "";
	const process = inside?.had(e.pid, n);
	return process?.path ? `${process.name} ${e.pid}` : `process ${e.pid}`;
}

function fillRow(row, record, inside) {
	const e = eventOf(record);
	const [n, time, type, verdict, what, status, bytes, why] = row.children;
	setAttr(row, "data-verdict", kindOf(e));
	setText(n, String(record.n));
	setText(time, clock(record.time, true));
	setAttr(time, "title", stamp(record.time));
	setText(type, e.type);
	setText(verdict, e.verdict ?? { danger: "danger", watch: "watch", refused: "refused", lost: "lost" }[e.type] ?? (e.from && e.type === "exec" ? e.from : ""));
	setText(what.firstChild, summary(e));
	setText(what.lastChild, whoOf(e, record.n, inside));
	setText(status, e.status === undefined ? "" : String(e.status));
	setText(bytes, e.sent === undefined && e.received === undefined ? "" : `${size(e.received ?? 0)} / ${size(e.sent ?? 0)}`);
	setText(why.firstChild, [e.why, e.reason, cost(e)].filter(Boolean).join(": "));
}

export class Timeline {
	// INSIDE knows the processes; PID: only this one's records.
	constructor(panel, id, inside, pid) {
		this.id = id;
		this.inside = inside;
		this.pid = pid;
		this.records = [];
		this.more = true;
		this.asked = new AbortController();
		this.chart = new Chart();
		this.search = h("input", { type: "search", placeholder: "Search the timeline", "aria-label": "Search the timeline",
			"aria-keyshortcuts": "/", oninput: () => this.later() });
		this.type = h("select", { "aria-label": "Type", onchange: () => this.restart() }, h("option", { value: "" }, "all types"),
			TYPES.map(type => h("option", { value: type }, type)));
		this.from = h("input", { type: "text", inputmode: "numeric", class: "short", placeholder: "from #", "aria-label": "Begin at record number",
			onchange: () => this.restart() });
		this.state = h("span", { class: "dim", role: "status" });
		this.only = h("button", { type: "button", class: "chip cold", hidden: pid === undefined, title: "Show all records again", onclick: () => {
			this.pid = undefined;
			this.only.hidden = true;
			this.restart();
		} }, `process ${pid} ×`);
		this.on = h("button", { type: "button", hidden: true, onclick: () => this.goOn() }, "Go on with older records");
		this.detail = h("aside", { class: "detail", hidden: true, "aria-label": "One record" });
		this.list = new List({ label: "Timeline, the newest first", columns: ["#", "Time", "Type", "Verdict", "What", "Status", "In / out", "Why"],
			make: makeRow, fill: (row, record) => fillRow(row, record, this.inside), key: record => String(record.n), open: record => this.show(record), nearEnd: () => this.older() });
		this.list.element.classList.add("timeline");
		panel.append(this.chart.element, h("div", { class: "bar" }, h("label", { class: "search" }, icon("search"), this.search), this.type, this.only, this.from, this.state),
			this.list.element, this.on, this.detail);
		this.end = follow(changes => changes.cells.has(id) && this.newer());
		this.restart();
		this.draw();
	}

	query(rest) {
		return { type: this.type.value, pid: this.pid, search: this.search.value.trim(), limit: PAGE, ...rest };
	}

	later() {
		clearTimeout(this.typing);
		this.typing = setTimeout(() => this.restart(), 250);
	}

	async ask(rest) {
		return get(cellPath(this.id, "/timeline"), this.query(rest), this.asked.signal);
	}

	async restart(before) {
		this.asked.abort();
		this.asked = new AbortController();
		this.loading = true;
		const from = before ?? (/^\d+$/.test(this.from.value) ? Number(this.from.value) + 1 : undefined);
		this.follows = from === undefined;
		setText(this.state, "loading");
		const said = await attempt(this.ask({ before: from }));
		if (!said)
			return;
		this.loading = false;
		this.next = said.next;
		this.take(said.records, said.more, true);
		this.newest = this.records[0]?.n ?? 0;
	}

	take(records, more, anew) {
		const known = anew ? [] : this.records;
		const sorted = [...records].sort((a, b) => b.n - a.n);
		this.records = anew || known.length === 0 || sorted.length === 0 || sorted[0].n < known.at(-1).n ?
			[...known, ...sorted] : [...sorted, ...known];
		this.more = more ?? this.more;
		this.nameProcesses(records);
		this.list.set(this.records);
		this.on.hidden = !(this.more && this.records.length >= KEPT_MAX);
		setText(this.state, this.records.length === 0 ? "nothing found" :
			`${this.records.length.toLocaleString("en")} ${this.records.length === 1 ? "record" : "records"}${this.more ? ", and more below" : ""}`);
	}

	// The names of processes are in records of their own, which are read once one is asked for.
	nameProcesses(records) {
		if (!this.named && records.some(record => eventOf(record).pid !== undefined))
			this.named = this.inside.follow(() => this.list.render(true));
	}

	async older() {
		if (this.loading || !this.more || !this.next || this.records.length >= KEPT_MAX)
			return;
		this.loading = true;
		const said = await attempt(this.ask({ before: this.next }));
		this.loading = false;
		if (!said)
			return;
		// A search may come back with nothing yet, having looked at much.
		const last = this.records.at(-1)?.n ?? Infinity;
		this.next = said.next;
		this.take(said.records.filter(record => record.n < last), said.more, false);
	}

	goOn() {
		this.restart(this.next ?? this.records.at(-1).n);
		scrollTo(0, 0);
	}

	newer() {
		if (this.waiting)
			return;
		this.waiting = setTimeout(async () => {
			this.draw();
			if (this.follows && !this.loading) {
				const said = await this.ask({ after: this.newest }).catch(() => null);
				// So many at once that the newest page is all there is to see.
				if (said?.more)
					await this.restart();
				else if (said?.records.length > 0) {
					const fresh = said.records.filter(record => record.n > this.newest);
					this.newest = Math.max(this.newest, ...fresh.map(record => record.n));
					if (this.records.length + fresh.length > KEPT_MAX)
						this.records.length = KEPT_MAX - PAGE;
					this.take(fresh, undefined, false);
				}
			}
			this.waiting = 0;
		}, NEW_MS);
	}

	async draw() {
		const data = await get(cellPath(this.id, "/traffic"), { buckets: 60 }).catch(() => null);
		if (data)
			this.chart.show({ ...data, since: typeof data.since === "number" ? data.since : Date.parse(data.since) / 1000 });
	}

	show(record) {
		const e = eventOf(record);
		const rows = Object.entries(e).filter(([name]) => name !== "prev").map(([name, value]) =>
			[h("dt", null, name), h("dd", { class: "t" }, typeof value === "object" ? JSON.stringify(value) : String(value))]);
		fill(this.detail, h("div", { class: "bar" }, h("h2", null, `Record ${record.n}`), h("span", { class: "dim" }, stamp(record.time)),
			h("button", { type: "button", class: "push", onclick: () => this.hide() }, "Close")), h("dl", { class: "facts" }, rows),
			e.verdict === "deny" && e.host ? ruleForm(this.id, () => this.hide(), ruleFor(e)) : null);
		this.detail.hidden = false;
	}

	hide() {
		if (this.detail.hidden)
			return false;
		this.detail.hidden = true;
		this.list.element.focus({ preventScroll: true });
	}

	keys() {
		return [
			["j", "next record", () => this.list.move(1)], ["k", "previous record", () => this.list.move(-1)],
			["Enter", "show the record", event => this.list.current() && !event.target.closest("a, button") ? this.show(this.list.current()) : false],
			["/", "search the timeline", () => this.search.focus()],
			["Escape", null, () => {
				if (document.activeElement === this.search)
					this.list.element.focus({ preventScroll: true });
				else
					return this.hide();
			}],
		];
	}

	close() {
		this.end();
		this.named?.();
		this.asked.abort();
		this.chart.close();
		clearTimeout(this.waiting);
		clearTimeout(this.typing);
		this.list.close();
	}
}
