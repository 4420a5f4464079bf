// editor.js - a text that is checked as it is typed, with what is wrong shown at its place.

import { fill, h, oddities, setText } from "./dom.js";

const CHECK_MS = 250;

export class Editor {
	// CHECK(text, signal) gives {ok, faults: [{line, column, message}]}; CHANGED(text, answer) is told.
	constructor({ label, text, check, changed }) {
		Object.assign(this, { check, changed, faults: [] });
		this.gutter = h("div", { class: "gutter", "aria-hidden": "true" });
		this.under = h("pre", { class: "under", "aria-hidden": "true" });
		this.list = h("ul", { class: "faults", "aria-live": "polite", id: `faults-${Math.random().toString(36).slice(2)}` });
		this.input = h("textarea", { "aria-label": label, spellcheck: "false", autocomplete: "off", autocapitalize: "off", wrap: "off",
			"aria-describedby": this.list.id, value: text,
			oninput: () => this.typed(), onscroll: () => this.scrolled(), onkeydown: event => this.key(event) });
		this.state = h("span", { class: "dim", role: "status" });
		this.element = h("div", { class: "editor" }, h("div", { class: "paper" }, this.gutter, this.under, this.input), this.list);
		this.number();
		this.typed();
	}

	get text() {
		return this.input.value;
	}

	set text(text) {
		this.input.value = text;
		this.typed();
	}

	// Tab leaves the editor, as everywhere; Enter keeps the indentation.
	key(event) {
		if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.isComposing)
			return;
		const line = this.text.slice(0, this.input.selectionStart).split("\n").at(-1);
		const indent = line.match(/^ */)[0];
		if (indent === "")
			return;
		event.preventDefault();
		this.input.setRangeText(`\n${indent}`, this.input.selectionStart, this.input.selectionEnd, "end");
		this.typed();
	}

	typed() {
		this.number();
		this.answer = null;
		setText(this.state, "checking");
		clearTimeout(this.soon);
		this.asked?.abort();
		this.soon = setTimeout(() => this.ask(), CHECK_MS);
		this.changed?.(this.text, null);
	}

	async ask() {
		const text = this.text;
		this.asked = new AbortController();
		try {
			const answer = await this.check(text, this.asked.signal);
			this.show(answer);
			this.changed?.(text, answer);
		} catch (error) {
			if (error.name !== "AbortError")
				setText(this.state, error.message);
		}
	}

	show(answer) {
		this.answer = answer;
		const odd = oddities(this.text).map(({ line, column, name }) => ({ line, column, message: `an invisible character, ${name}`, mild: true }));
		this.faults = [...(answer.faults ?? []), ...odd];
		const n = answer.faults?.length ?? 0;
		setText(this.state, answer.ok ? "no faults" : `${n} fault${n === 1 ? "" : "s"}`);
		fill(this.list, this.faults.map(fault => h("li", { class: fault.mild ? "mild" : null },
			h("button", { type: "button", class: "plain", onclick: () => this.goTo(fault) },
				fault.line > 0 ? h("span", { class: "place" }, `${fault.line}:${fault.column}`) : null, " ", fault.message))));
		this.number();
	}

	goTo(fault) {
		const lines = this.text.split("\n");
		const at = lines.slice(0, Math.max(0, fault.line - 1)).reduce((sum, line) => sum + line.length + 1, 0) + Math.max(0, fault.column - 1);
		this.input.focus();
		this.input.setSelectionRange(at, at);
	}

	number() {
		const lines = this.text.split("\n");
		const at = new Map();
		for (const fault of this.faults)
			if (!at.has(fault.line))
				at.set(fault.line, fault);
		fill(this.gutter, lines.map((_, i) => {
			const fault = at.get(i + 1);
			return h("span", { class: fault ? fault.mild ? "mild" : "fault" : null, title: fault?.message ?? null }, String(i + 1));
		}));
		// Under the text, the same text without colour: only its marks are seen.
		fill(this.under, lines.map((line, i) => {
			const fault = at.get(i + 1);
			const from = fault ? Math.min(line.length, Math.max(0, fault.column - 1)) : 0;
			const end = fault ? Math.max(from + 1, line.length) : 0;
			const row = h("span");
			row.textContent = fault ? "" : line;
			if (fault) {
				const mark = h("mark", { class: fault.mild ? "mild" : null });
				mark.textContent = line.slice(from, end) || " ";
				row.append(document.createTextNode(line.slice(0, from)), mark);
			}
			row.append(document.createTextNode("\n"));
			return row;
		}));
		this.input.rows = Math.min(40, Math.max(12, lines.length + 1));
		this.scrolled();
	}

	scrolled() {
		this.gutter.style.transform = `translateY(${-this.input.scrollTop}px)`;
		this.under.style.transform = `translate(${-this.input.scrollLeft}px, ${-this.input.scrollTop}px)`;
	}

	close() {
		clearTimeout(this.soon);
		this.asked?.abort();
	}
}
