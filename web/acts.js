// acts.js - what the processes of a cell did: its timeline read from the beginning, page after page, and then as it
// grows, and summed up by process and by file.

import { cellPath, get } from "./api.js";
import { words } from "./format.js";
import { follow, live } from "./live.js";

const TYPES = "exec,exit,file,net,refused,danger,watch,lost,record,http,tcp,tls,ssh";
const PAGE = 1000;
const RECORDS_MAX = 300000;             // of a longer timeline the newest are read
const TOLD_MS = 250;                    // followers are told at most so often
const LOOK_MS = 2000;                   // a cell that runs is looked at so often, whatever the stream says
const NOTES_MAX = 50;                   // refused and dangerous calls that are kept of a process

const REQUESTS = new Set(["http", "tcp", "tls", "ssh"]);

export const baseName = path => String(path ?? "").split("/").filter(Boolean).pop() ?? "";

export class Process {
	constructor(key, pid, record) {
		Object.assign(this, { key, pid, n: record.n, time: record.time, up: null, kids: [], before: [], path: null, argv: [], files: 0, requests: 0,
			connections: 0, refused: 0, danger: 0, watches: 0, failed: 0, notes: [], ended: null, folded: false });
	}

	// The program, or the script that it runs.
	get name() {
		return baseName(this.script ?? this.path) || (this.pid === 1 ? "first process" : "process");
	}

	get command() {
		return this.argv.length > 0 ? `${words(this.argv)}${this.n_argv > this.argv.length ? " …" : ""}` : this.path ?? "";
	}

	// "running", "exit 1", "SIGKILL".
	get state() {
		if (!this.ended)
			return "running";
		return this.ended.signal ? `SIG${this.ended.signal}` : `exit ${this.ended.status ?? "?"}`;
	}

	get text() {
		this.low ??= `${this.pid} ${this.path ?? ""} ${this.script ?? ""} ${this.argv.join(" ")} ${this.cwd ?? ""} ${this.sha256 ?? ""} ${this.notes.map(note => note.text).join(" ")}`.toLowerCase();
		return this.low;
	}

	note(record, kind, text, count = 1) {
		this.low = null;
		if (this.notes.length < NOTES_MAX)
			this.notes.push({ n: record.n, time: record.time, kind, text, count });
	}
}

// A call as it was made, and how it failed.
export function callOf(event) {
	return `${event.call}(${event.args ?? ""})${event.error ? ` = ${event.error}` : ""}`;
}

export class Acts {
	constructor(id) {
		this.id = id;
		this.processes = [];
		this.now = new Map();           // by pid: the process that has it now
		this.byPid = new Map();         // by pid: all that had it
		this.files = new Map();
		this.record = null;             // how the cell is recorded
		this.lost = 0;
		this.read = 0;
		this.followers = new Set();
		this.asked = new AbortController();
	}

	// Begins to read, once.
	start() {
		if (this.begun)
			return;
		this.begun = true;
		this.state = "reading";
		this.end = follow(changes => changes.cells.has(this.id) && this.more());
		this.timer = setInterval(() => !document.hidden && live.cells.has(this.id) && this.more(), LOOK_MS);
		this.first();
	}

	follow(then) {
		this.followers.add(then);
		this.start();
		return () => this.followers.delete(then);
	}

	async first() {
		const newest = await get(cellPath(this.id, "/timeline"), { limit: 1 }, this.asked.signal).catch(() => null);
		const last = newest?.records[0]?.n ?? 0;
		this.at = Math.max(0, last - RECORDS_MAX);
		this.leftOut = this.at;
		this.last = last;
		this.state = newest ? "reading" : "failed";
		if (newest)
			await this.more();
		this.tell();
	}

	async more() {
		if (this.busy || this.at === undefined || this.closed)
			return;
		this.busy = true;
		for (let isMore = true; isMore && !this.closed;) {
			const page = await get(cellPath(this.id, "/timeline"), { after: this.at, limit: PAGE, type: TYPES }, this.asked.signal).catch(() => null);
			if (!page)
				break;
			for (const record of page.records)
				this.take(record);
			this.at = page.next ?? page.records.at(-1)?.n ?? this.at;
			isMore = page.more;
			if (page.records.length > 0 || isMore)
				this.soon();
		}
		this.busy = false;
		if (this.state === "reading") {
			this.state = "read";
			this.soon();
		}
	}

	soon() {
		this.telling ||= setTimeout(() => this.tell(), TOLD_MS);
	}

	tell() {
		clearTimeout(this.telling);
		this.telling = 0;
		for (const then of this.followers)
			then();
	}

	// ---- processes
	add(pid, record) {
		const process = new Process(String(this.processes.length), pid, record);
		this.processes.push(process);
		this.now.set(pid, process);
		if (this.byPid.has(pid))
			this.byPid.get(pid).push(process);
		else
			this.byPid.set(pid, [process]);
		return process;
	}

	// The last process with PID: a request may be recorded after its process has ended.  One that did not run a program
	// of its own is known by what it does.
	of(pid, record) {
		return this.now.get(pid) ?? this.add(pid, record);
	}

	// The process that has PID now.
	alive(pid, record) {
		const known = this.now.get(pid);
		return known && !known.ended ? known : this.add(pid, record);
	}

	// The one that had PID when record N was written.
	had(pid, n) {
		return this.byPid.get(pid)?.findLast(process => process.n <= n) ?? null;
	}

	attach(process, pid, record) {
		if (process.up || !pid || pid === process.pid)
			return;
		const up = this.of(pid, record);
		// What a hostile timeline says may be a circle.
		for (let above = up; process.kids.length > 0 && above; above = above.up)
			if (above === process)
				return;
		process.up = up;
		up.kids.push(process);
	}

	takeExec(record, event) {
		const process = this.alive(event.pid, record);
		this.attach(process, event.parent, record);
		if (event.error) {
			process.failed += event.count ?? 1;
			process.note(record, "failed", `${words(event.argv ?? [event.path])} = ${event.error}`, event.count ?? 1);
			return;
		}
		if (process.path !== null)
			process.before.push(process.command);
		Object.assign(process, { path: event.path, argv: event.argv ?? [], n_argv: event.n_argv, cwd: event.cwd, sha256: event.sha256, script: event.script, script_sha256: event.script_sha256,
			searched: event.searched, from: event.from, low: null });
		if (event.from)
			process.note(record, "danger", `runs from ${event.from === "memory" ? "memory" : "a writable place"}: ${event.path}`);
	}

	takeExit(record, event) {
		const process = this.alive(event.pid, record);
		this.attach(process, event.parent, record);
		process.ended = { time: record.time, status: event.status, signal: event.signal, ms: event.ms, cpu_ms: event.cpu_ms, peak: event.peak };
	}

	takeCall(record, event) {
		const process = this.of(event.pid, record);
		process[event.type] += event.count ?? 1;
		process.note(record, event.type, callOf(event), event.count ?? 1);
	}

	takeWatch(record, event) {
		if (event.pid === undefined)
			return;
		const process = this.of(event.pid, record);
		process.watches++;
		process.note(record, "watch", `${event.rule}${event.then ? ` → ${event.then}` : ""}: ${event.of ?? ""}`);
	}

	// ---- files
	takeFile(record, event) {
		const process = this.of(event.pid, record);
		process.files += event.count ?? 1;
		this.touch(record, event, event.path, process);
		if (event.to)
			this.touch(record, { ...event, act: event.act === "rename" ? "create" : event.act }, event.to, process);
	}

	touch(record, event, path, process) {
		let file = this.files.get(path);
		if (!file) {
			file = { key: String(this.files.size), path, low: String(path).toLowerCase(), acts: new Map(), count: 0, errors: 0, grant: null, processes: new Set() };
			this.files.set(path, file);
		}
		const times = event.count ?? 1;
		file.count += times;
		if (event.error)
			file.errors += times;
		else
			file.acts.set(event.act, (file.acts.get(event.act) ?? 0) + times);
		file.grant = event.grant ?? file.grant;
		file.asked = event.asked;
		file.processes.add(process);
		file.last = process;
		file.n = record.n;
		file.time = record.time;
	}

	take(record) {
		const event = record.event ?? record;
		this.read++;
		if (event.type === "exec")
			this.takeExec(record, event);
		else if (event.type === "exit")
			this.takeExit(record, event);
		else if (event.type === "file")
			this.takeFile(record, event);
		else if (event.type === "net")
			this.of(event.pid, record).connections += event.count ?? 1;
		else if (event.type === "refused" || event.type === "danger")
			this.takeCall(record, event);
		else if (event.type === "watch")
			this.takeWatch(record, event);
		else if (event.type === "lost")
			this.lost += event.count ?? 1;
		else if (event.type === "record")
			this.record = event;
		else if (REQUESTS.has(event.type) && event.pid !== undefined)
			this.of(event.pid, record).requests += event.count ?? 1;
	}

	close() {
		this.closed = true;
		this.asked.abort();
		this.end?.();
		clearInterval(this.timer);
		clearTimeout(this.telling);
	}
}

// How far the reading is, and what is missing, for people.
export function progress(acts, found) {
	if (acts.state === "failed")
		return "the timeline cannot be read";
	const parts = [acts.state === "reading" ? `${acts.at?.toLocaleString("en") ?? 0} of ${acts.last?.toLocaleString("en") ?? "…"} records read` : found];
	if (acts.leftOut > 0)
		parts.push(`the first ${acts.leftOut.toLocaleString("en")} records are left out`);
	return parts.join(" · ");
}
