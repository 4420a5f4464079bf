// resources.js - what cells used over time: processors, memory, processes, disks; and the same as a table.

import { fill, h, s, setText } from "./dom.js";
import { BOTTOM, LEFT, WIDTH_MIN, ceiling, grid, times } from "./chart.js";
import { clock, size, whole } from "./format.js";
import { table } from "./ui.js";

const HEIGHT = 120;

const percent = n => `${n < 10 && n > 0 ? n.toFixed(1) : Math.round(n)}%`;
const perSecond = n => `${size(Math.round(n))}/s`;

// What is drawn: [title, words for a value, whether it counts bytes, [[name in the legend, values of the data], ...]].
const PLOTS = [
	["Processors", percent, false, [["of one processor", data => whenKnown(data, data.cpu_ms).map(ms => ms === null ? null : ms / data.step_s / 10)]]],
	["Memory", size, true, [["in use", data => data.memory]]],
	["Processes", n => whole(n), false, [["at once", data => data.processes]]],
	["Disk space", size, true, [["in use", data => data.disk]]],
	["Disk traffic", perSecond, true, [["read", data => whenKnown(data, data.read).map(n => n === null ? null : n / data.step_s)], ["written", data => whenKnown(data, data.written).map(n => n === null ? null : n / data.step_s)]]],
	["Network", perSecond, true, [["in", data => data.bytes_in?.map(n => n / data.net_step_s)], ["out", data => data.bytes_out?.map(n => n / data.net_step_s)]]],
];

// A sum of nothing, in a time of which nothing was measured, is not known.
const whenKnown = (data, values) => values.map((n, at) => n === 0 && data.memory[at] === null && data.processes[at] === null ? null : n);

const known = values => (values ?? []).filter(n => n !== null);

export class Resources {
	constructor(names = PLOTS.map(([title]) => title)) {
		this.names = names;
		this.plots = h("div", { class: "uses" });
		this.numbers = h("details", { ontoggle: () => this.data && this.tabulate() }, h("summary", null, "As a table"), h("div"));
		this.element = h("section", { class: "chart resources", "aria-label": "Resources over time" }, this.plots, this.numbers);
		this.sizes = new ResizeObserver(() => this.data && this.draw());
		this.sizes.observe(this.plots);
		this.plots.addEventListener("pointermove", event => this.pointed(event));
		this.plots.addEventListener("pointerleave", () => this.read(null));
	}

	close() {
		this.sizes.disconnect();
	}

	show(data) {
		this.data = data;
		this.n = data.cpu_ms.length;
		this.draw();
		if (this.numbers.open)
			this.tabulate();
	}

	// Those of which anything is known.
	wanted() {
		return PLOTS.filter(([title, , , lines]) => this.names.includes(title) && lines.some(([, values]) => known(values(this.data)).length > 0));
	}

	draw() {
		const { clientWidth } = this.plots;
		const columns = Math.max(1, Math.min(3, Math.floor((clientWidth + 24) / 344)));
		this.width = Math.max(WIDTH_MIN, (clientWidth - 24 * (columns - 1)) / columns);
		this.plots.style.setProperty("--columns", columns);
		this.said = [];
		fill(this.plots, this.wanted().map(plot => this.figure(plot)));
		this.read(null);
	}

	x(at) {
		return LEFT + (this.width - LEFT) * at / Math.max(1, this.n);
	}

	// Where nothing is known the line has a gap.
	path(values, y) {
		let isOn = false;
		return values.map((n, at) => {
			const step = n === null ? "" : `${isOn ? "L" : "M"}${this.x(at + 0.5).toFixed(1)} ${y(n)}`;
			isOn = n !== null;
			return step;
		}).join("");
	}

	figure([title, words, isBytes, lines]) {
		const all = lines.map(([name, values]) => [name, values(this.data) ?? []]);
		const most = Math.max(0, ...all.flatMap(([, values]) => known(values)));
		const top = ceiling(Math.max(most, isBytes ? 1024 : 1), isBytes), room = HEIGHT - BOTTOM - 1;
		const y = n => (HEIGHT - BOTTOM - room * n / top).toFixed(1);
		const [, first] = all[0];
		const from = first.findIndex(n => n !== null), to = first.findLastIndex(n => n !== null);
		const svg = s("svg", { viewBox: `0 0 ${this.width} ${HEIGHT}`, role: "img", tabindex: "0", "aria-label": `${title}: at most ${words(most)} since ${clock(this.data.since)}` },
			grid(this.width, HEIGHT, top, words), from >= 0 && s("path", { class: "in area", d: `${this.path(first.map((n, at) => at < from || at > to ? null : n ?? 0), y)}L${this.x(to + 0.5).toFixed(1)} ${HEIGHT - BOTTOM}L${this.x(from + 0.5).toFixed(1)} ${HEIGHT - BOTTOM}Z` }),
			all.map(([, values], at) => s("path", { class: `${at === 0 ? "in" : "out"} line`, d: this.path(values, y) })),
			times(this.width, HEIGHT, this.data, this.n), s("line", { class: "cursor", y1: 0, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 }));
		svg.addEventListener("keydown", event => this.typed(event));
		svg.addEventListener("blur", () => this.read(null));
		const said = h("output");
		this.said.push([said, words, all]);
		return h("figure", null, h("figcaption", null, h("b", null, title), lines.length > 1 ? lines.map(([name], at) => h("span", { class: `key ${at === 0 ? "in" : "out"}` }, name)) : null, said), svg);
	}

	pointed(event) {
		const box = event.target.closest("svg")?.getBoundingClientRect();
		if (box)
			this.read(Math.floor(((event.clientX - box.left) / box.width * this.width - LEFT) / (this.width - LEFT) * this.n));
	}

	typed(event) {
		const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
		if (!step)
			return;
		this.read(Math.max(0, Math.min(this.n - 1, (this.at ?? this.n) + step)));
		event.preventDefault();
	}

	// The values at a moment; without one, the last that are known.
	read(at) {
		this.at = at !== null && at >= 0 && at < this.n ? at : null;
		const x = this.at === null ? -9 : this.x(this.at + 0.5);
		for (const cursor of this.plots.querySelectorAll(".cursor")) {
			cursor.setAttribute("x1", x);
			cursor.setAttribute("x2", x);
		}
		for (const [said, words, all] of this.said ?? []) {
			const values = all.map(([, list]) => this.at === null ? list.findLast(n => n !== null) : list[this.at]).map(n => n === null || n === undefined ? "–" : words(n));
			setText(said, `${this.at === null ? "" : `${clock(this.data.since + this.at * this.data.step_s)}  `}${values.join(" / ")}`);
		}
	}

	tabulate() {
		const columns = this.wanted().flatMap(([title, words, , lines]) => lines.map(([name, values]) => [lines.length > 1 ? `${title}, ${name}` : title, words, values(this.data) ?? []]));
		const rows = this.data.cpu_ms.map((_, at) => h("tr", null, h("th", { scope: "row" }, clock(this.data.since + at * this.data.step_s)),
			columns.map(([, words, values]) => h("td", { class: "n" }, values[at] === null || values[at] === undefined ? "–" : words(values[at])))));
		fill(this.numbers.lastChild, table("Resources over time", ["From", ...columns.map(([title]) => title)], rows.reverse()));
	}
}
