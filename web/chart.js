// chart.js - requests and bytes over time: two charts over one axis, and the same as a table.

import { fill, h, s, setText } from "./dom.js";
import { clock, size, whole } from "./format.js";
import { table } from "./ui.js";

const HEIGHT = 110, LEFT = 44, BOTTOM = 18;
const WIDTH_MIN = 240;

// 1, 2 or 5 times a power of ten (of two, for BYTES) that VALUE fits under.
function ceiling(value, bytes) {
	if (value <= 0)
		return 1;
	const base = bytes ? 1024 ** Math.floor(Math.log2(value) / 10) : 1;
	const power = 10 ** Math.floor(Math.log10(value / base));
	const step = [1, 2, 5, 10].find(n => n * power * base >= value);
	return step * power * base;
}

const total = list => list.reduce((sum, n) => sum + n, 0);

function grid(width, top, format) {
	const middle = (HEIGHT - BOTTOM) / 2;
	return [s("line", { class: "axis", x1: LEFT, x2: width, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
		s("line", { class: "grid", x1: LEFT, x2: width, y1: 1, y2: 1 }),
		s("line", { class: "grid", x1: LEFT, x2: width, y1: middle, y2: middle }),
		s("text", { x: LEFT - 6, y: 10, class: "tick end" }, format(top)),
		s("text", { x: LEFT - 6, y: HEIGHT - BOTTOM, class: "tick end" }, "0")];
}

function times(width, data) {
	const last = data.since + data.step_s * data.requests.length;
	return [s("text", { x: LEFT, y: HEIGHT - 2, class: "tick" }, clock(data.since)),
		s("text", { x: width, y: HEIGHT - 2, class: "tick end" }, clock(last))];
}

export class Chart {
	constructor() {
		this.plots = h("div", { class: "plots" });
		this.said = h("output", { class: "reading" });
		this.numbers = h("details", { ontoggle: () => this.data && this.tabulate() }, h("summary", null, "As a table"), h("div"));
		this.element = h("section", { class: "chart", "aria-label": "Requests and bytes over time" },
			h("div", { class: "legend" }, h("span", { class: "key asked" }, "requests"), h("span", { class: "key refused", title: "requests and names" }, "refused"),
				h("span", { class: "key in" }, "bytes in"), h("span", { class: "key out" }, "bytes out"), this.said),
			this.plots, this.numbers);
		this.plots.addEventListener("pointermove", event => this.pointed(event));
		this.plots.addEventListener("pointerleave", () => this.read(null));
		this.width = 640;
		this.sizes = new ResizeObserver(() => this.data && this.draw());
		this.sizes.observe(this.plots);
	}

	close() {
		this.sizes.disconnect();
	}

	show(data) {
		this.data = data;
		this.draw();
		if (this.numbers.open)
			this.tabulate();
	}

	// One unit is one pixel, so that text is not stretched.
	draw() {
		const { clientWidth } = this.plots;
		const isNarrow = clientWidth < 560;
		this.width = Math.max(WIDTH_MIN, isNarrow ? clientWidth : (clientWidth - 24) / 2);
		fill(this.plots, this.bars(), this.lines());
		this.read(null);
	}

	x(at) {
		return LEFT + (this.width - LEFT) * at / this.data.requests.length;
	}

	frame(label, ...children) {
		const svg = s("svg", { viewBox: `0 0 ${this.width} ${HEIGHT}`, role: "img", "aria-label": label, tabindex: "0" }, ...children, s("line", { class: "cursor", y1: 0, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 }));
		svg.addEventListener("keydown", event => this.typed(event));
		svg.addEventListener("blur", () => this.read(null));
		return svg;
	}

	bars() {
		const { requests, refused } = this.data;
		// Names that were refused are no requests, so that either may be more than the other.
		const top = ceiling(Math.max(1, ...requests, ...refused), false);
		const room = HEIGHT - BOTTOM - 1;
		const width = Math.max(1, (this.width - LEFT) / requests.length - 1.5);
		const bar = (kind, at, n, part) => n > 0 && s("rect", { class: kind, x: (this.x(at) + 0.75 + width * (1 - part) / 2).toFixed(1),
			width: (width * part).toFixed(1), y: (HEIGHT - BOTTOM - room * n / top).toFixed(1), height: (room * n / top).toFixed(1) });
		return this.frame(`${whole(total(requests))} requests since ${clock(this.data.since)}, ${whole(total(refused))} refused`,
			grid(this.width, top, whole), requests.map((n, at) => [bar("asked", at, n, 1), bar("refused", at, refused[at], 0.5)]),
			times(this.width, this.data));
	}

	lines() {
		const { bytes_in: got, bytes_out: sent } = this.data;
		const top = ceiling(Math.max(1, ...got, ...sent), true);
		const room = HEIGHT - BOTTOM - 1;
		const y = n => (HEIGHT - BOTTOM - room * n / top).toFixed(1);
		const path = list => list.map((n, at) => `${at === 0 ? "M" : "L"}${this.x(at + 0.5).toFixed(1)} ${y(n)}`).join("");
		const area = list => `${path(list)}L${this.x(list.length - 0.5).toFixed(1)} ${HEIGHT - BOTTOM}L${this.x(0.5).toFixed(1)} ${HEIGHT - BOTTOM}Z`;
		return this.frame(`${size(total(got))} bytes received and ${size(total(sent))} sent`, grid(this.width, top, size),
			s("path", { class: "in area", d: area(got) }), s("path", { class: "in line", d: path(got) }),
			s("path", { class: "out line", d: path(sent) }), times(this.width, this.data));
	}

	pointed(event) {
		const box = event.target.closest("svg")?.getBoundingClientRect();
		if (box)
			this.read(Math.floor(((event.clientX - box.left) / box.width * this.width - LEFT) / (this.width - LEFT) * this.data.requests.length));
	}

	typed(event) {
		const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
		if (!step)
			return;
		this.read(Math.max(0, Math.min(this.data.requests.length - 1, (this.at ?? this.data.requests.length) + step)));
		event.preventDefault();
	}

	read(at) {
		const { data } = this;
		this.at = at !== null && at >= 0 && at < data.requests.length ? at : null;
		const x = this.at === null ? -9 : this.x(this.at + 0.5);
		for (const cursor of this.plots.querySelectorAll(".cursor")) {
			cursor.setAttribute("x1", x);
			cursor.setAttribute("x2", x);
		}
		setText(this.said, this.at === null ? "" : `${clock(data.since + this.at * data.step_s)}  ${whole(data.requests[this.at])} requests, ` +
			`${whole(data.refused[this.at])} refused, ${size(data.bytes_in[this.at])} in, ${size(data.bytes_out[this.at])} out`);
	}

	tabulate() {
		const { data } = this;
		const rows = data.requests.map((n, at) => h("tr", null, h("th", { scope: "row" }, clock(data.since + at * data.step_s)),
			[n, data.refused[at]].map(value => h("td", { class: "n" }, whole(value))),
			[data.bytes_in[at], data.bytes_out[at]].map(value => h("td", { class: "n" }, size(value)))));
		fill(this.numbers.lastChild, table("Requests and bytes over time", ["From", "Requests", "Refused", "In", "Out"], rows.reverse()));
	}
}
