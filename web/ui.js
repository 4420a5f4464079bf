// ui.js - the small parts that pages are made of.

import { fill, h, icon, setAttr, setText } from "./dom.js";
import { words } from "./format.js";

const TOLD_MS = 8000;
const SURE_MS = 5000;

// What was done, or why not, for eyes and for screen readers.
export function tell(text, kind = "ok") {
	const place = document.getElementById("told");
	const note = h("p", { class: `note ${kind}` }, text,
		h("button", { type: "button", class: "plain", "aria-label": "Dismiss", onclick: () => note.remove() }, "×"));
	place.append(note);
	while (place.childElementCount > 4)
		place.firstElementChild.remove();
	setTimeout(() => note.remove(), TOLD_MS);
}

export async function attempt(promise, done) {
	try {
		const result = await promise;
		if (done)
			tell(typeof done === "function" ? done(result) : done);
		return result;
	} catch (error) {
		if (error.name !== "AbortError")
			tell(error.message, "bad");
		return undefined;
	}
}

// A button that does what it says when it is pressed a second time.
export function sureButton(label, again, then, props) {
	let timer = 0;
	const calm = () => {
		clearTimeout(timer);
		timer = 0;
		button.classList.remove("armed");
		setText(button, label);
	};
	const button = h("button", { type: "button", ...props, onclick: async () => {
		if (timer === 0) {
			button.classList.add("armed");
			setText(button, again);
			timer = setTimeout(calm, SURE_MS);
			return;
		}
		calm();
		button.disabled = true;
		await then();
		button.disabled = false;
	}, onblur: () => timer !== 0 && calm() });
	setText(button, label);
	return button;
}

export function chip(text, kind = "") {
	return h("span", { class: `chip ${kind}` }, text);
}

// A command in a few lines, of which none ends within a word.
export function setWords(element, command) {
	const text = words(command);
	if (element.said === text)
		return;
	element.said = text;
	setAttr(element, "title", text);
	fill(element, text.split(" ").flatMap(word => [h("span", { class: "w" }, word), " "]));
}

// A number that is not known; WHY is shown when one points at it.
export function setKnown(element, text, why = "Not measured here: `cloister doctor` explains what this machine can measure.") {
	setText(element, text ?? "–");
	setAttr(element, "title", text === null || text === undefined ? why : null);
}

const STATES = { running: "ok", silent: "bad", frozen: "cold", ending: "dim", ended: "dim", waiting: "warn", approved: "ok",
	finished: "ok", failed: "bad", cancelled: "dim", timed_out: "bad", queued: "dim", starting: "dim",
	pending: "warn", refused: "bad", gone: "dim", verified: "ok", broken: "bad", checking: "dim" };

export const kindOf = state => STATES[state] ?? "dim";

export function stateMark(state) {
	const mark = h("span", { class: "state" }, h("i", { class: "dot" }), h("span"));
	setState(mark, state);
	return mark;
}

export function setState(mark, state) {
	setAttr(mark, "data-kind", kindOf(state));
	setText(mark.lastElementChild, String(state).replace("_", " "));
}

// How much of a budget is used; the fraction is told in words too.
export function meter() {
	return h("span", { class: "meter", role: "meter", "aria-valuemin": "0", "aria-valuemax": "100" }, h("span", { class: "track" }, h("i")), h("b"));
}

export function setMeter(element, fraction, label) {
	const part = Math.max(0, Math.min(1, fraction ?? 0));
	const percent = Math.round((fraction ?? 0) * 100);
	const [track, text] = element.children;
	const bar = track.firstChild;
	const width = `${Math.round(part * 100)}%`;
	if (bar.style.width !== width)
		bar.style.width = width;
	setAttr(element, "aria-valuenow", Math.min(100, percent));
	setAttr(element, "aria-label", label);
	setAttr(element, "title", label);
	setAttr(element, "data-level", percent >= 100 ? "full" : percent >= 80 ? "high" : "low");
	setText(text, `${percent}%`);
}

// A command to be pasted into a terminal.
export function command(line) {
	const done = h("span", { class: "unseen", role: "status" });
	return h("span", { class: "command-line" }, h("code", { class: "t" }, line), h("button", { type: "button", class: "plain", "aria-label": `Copy: ${line}`, title: "Copy", onclick: async () => {
		await navigator.clipboard?.writeText(line).catch(() => null);
		setText(done, "copied");
	} }, icon("copy")), done);
}

// Nothing is here.  MORE explains what would be, and COMMANDS bring it about.
export function empty(text, more, ...commands) {
	return h("div", { class: "empty" }, h("p", null, text), more ? h("p", { class: "dim" }, more) : null, commands.map(line => h("p", null, command(line))));
}

// KIND "stack": on a narrow page its cells stand below each other, so that what can be done is in view.
export function table(label, columns, rows, kind = "") {
	return h("div", { class: `scroll ${kind}`, tabindex: "0", role: "region", "aria-label": label },
		h("table", null, h("thead", null, h("tr", null, columns.map(column => h("th", { scope: "col" }, column)))),
			h("tbody", null, rows)));
}

// Tabs whose panels are made when they are first looked at.
export function tabs(label, parts, chosen, onChoose) {
	const list = h("div", { class: "tabs", role: "tablist", "aria-label": label });
	const panel = h("div", { class: "panel", role: "tabpanel", tabindex: "-1" });
	let close = null;
	const show = key => {
		close?.();
		for (const tab of list.children) {
			const isIt = tab.dataset.tab === key;
			tab.setAttribute("aria-selected", String(isIt));
			tab.tabIndex = isIt ? 0 : -1;
		}
		panel.setAttribute("aria-labelledby", `tab-${key}`);
		fill(panel);
		close = parts.find(part => part.key === key).open(panel) ?? null;
		onChoose?.(key);
	};
	for (const part of parts)
		list.append(h("button", { type: "button", role: "tab", id: `tab-${part.key}`, "data-tab": part.key,
			onclick: () => show(part.key) }, part.title, part.badge));
	list.addEventListener("keydown", event => {
		const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
		if (!step)
			return;
		const all = [...list.children];
		const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
		next.focus();
		next.click();
		event.preventDefault();
	});
	return { list, panel, show, close: () => {
		close?.();
		close = null;
	} };
}

// What differs between two texts, by lines: [" " | "+" | "-", line].
const DIFF_LINES_MAX = 4000;

export function diffLines(before, after) {
	const a = before.split("\n"), b = after.split("\n");
	let start = 0, endA = a.length, endB = b.length;
	while (start < endA && start < endB && a[start] === b[start])
		start++;
	while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) {
		endA--;
		endB--;
	}
	const middle = walk(a.slice(start, endA), b.slice(start, endB));
	return [...a.slice(0, start).map(line => [" ", line]), ...middle, ...a.slice(endA).map(line => [" ", line])];
}

function walk(a, b) {
	if (a.length * b.length > DIFF_LINES_MAX * 250)
		return [...a.map(line => ["-", line]), ...b.map(line => ["+", line])];
	const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
	for (let i = a.length - 1; i >= 0; i--)
		for (let j = b.length - 1; j >= 0; j--)
			common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
	const out = [];
	let i = 0, j = 0;
	while (i < a.length || j < b.length) {
		if (i < a.length && j < b.length && a[i] === b[j]) {
			out.push([" ", a[i++]]);
			j++;
		} else if (i < a.length && (j >= b.length || common[i + 1][j] >= common[i][j + 1])) {
			out.push(["-", a[i++]]);
		} else {
			out.push(["+", b[j++]]);
		}
	}
	return out;
}

const AROUND = 2;                       // unchanged lines that are shown beside a change

export function diffView(lines) {
	const near = new Set();
	lines.forEach(([sign], at) => {
		if (sign !== " ")
			for (let i = at - AROUND; i <= at + AROUND; i++)
				near.add(i);
	});
	const out = h("div", { class: "diff", role: "group", "aria-label": "What changes" });
	let skipped = false;
	lines.forEach(([sign, line], at) => {
		if (!near.has(at)) {
			skipped = true;
			return;
		}
		if (skipped)
			out.append(h("div", { class: "skip" }, "⋯"));
		skipped = false;
		out.append(h("div", { class: sign === "+" ? "add" : sign === "-" ? "del" : "same" },
			h("span", { class: "sign" }, sign === "+" ? "+" : sign === "-" ? "−" : " "), h("span", { class: "t" }, line)));
	});
	if (near.size === 0)
		out.append(h("p", { class: "dim" }, "Nothing changes."));
	return out;
}
