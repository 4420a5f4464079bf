// chart.js - requests and bytes over time: two charts over one axis, and the same as a table.

import { fill, h, s, setText } from "./dom.js";
import { clock, size, stamp, whole } from "./format.js";
import { table } from "./ui.js";

export const LEFT = 44, BOTTOM = 18;
export const WIDTH_MIN = 240;
const DAY_S = 86400;

// 1, 2 or 5 times a power of ten (of two, for BYTES) that VALUE fits under.
export function ceiling(value, bytes) {
	if (value <= 0)
		return 1;
	const base = bytes ? 1024 ** Math.floor(Math.log2(value) / 10) : 1;
	const power = 10 ** Math.floor(Math.log10(value / base));
	const step = [1, 2, 5, 10].find(n => n * power * base >= value);
	return step * power * base;
}

const total = list => list.reduce((sum, n) => sum + n, 0);

export function grid(width, height, top, format) {
	const middle = (height - BOTTOM) / 2;
	return [s("line", { class: "axis", x1: LEFT, x2: width, y1: height - BOTTOM, y2: height - BOTTOM }),
		s("line", { class: "grid", x1: LEFT, x2: width, y1: 1, y2: 1 }),
		s("line", { class: "grid", x1: LEFT, x2: width, y1: middle, y2: middle }),
		s("text", { x: LEFT - 6, y: 10, class: "tick end" }, format(top)),
		s("text", { x: LEFT - 6, y: height - BOTTOM, class: "tick end" }, "0")];
}

export function times(width, height, data, n) {
	const last = data.since + data.step_s * n;
	const words = last - data.since > DAY_S ? stamp : clock;
	return [s("text", { x: LEFT, y: height - 2, class: "tick" }, words(data.since)),
		s("text", { x: width, y: height - 2, class: "tick end" }, words(last))];
}

export class Chart {
	constructor(height = 110) {
		this.height = height;
		this.plots = h("div", { class: "plots" });
		this.said = h("output", { class: "reading" });
		this.numbers = h("details", { ontoggle: () => this.data && this.tabulate() }, h("summary", null, "As a table"), h("div"));
		this.element = h("section", { class: "chart", "aria-label": "Requests and bytes over time" },
			h("div", { class: "legend" }, h("span", { class: "key asked" }, "requests"), h("span", { class: "key refused", title: "requests and names" }, "refused"),
				this.theft = h("span", { class: "key theft", hidden: true }, "attempts to steal a secret"),
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
		this.theft.hidden = !data.thefts?.some(n => n > 0);
		this.draw();
		if (this.numbers.open)
			this.tabulate();
	}

	// One unit is one pixel, so that text is not stretched.
	draw() {
		const { clientWidth } = this.plots;
		const isNarrow = clientWidth < 560;
		this.width = Math.max(WIDTH_MIN, isNarrow ? clientWidth : (clientWidth - 24) / 2);
		this.plots.style.setProperty("--height", `${this.height}px`);
		fill(this.plots, this.bars(), this.lines());
		this.read(null);
	}

	x(at) {
		return LEFT + (this.width - LEFT) * at / this.data.requests.length;
	}

	frame(label, ...children) {
		const svg = s("svg", { viewBox: `0 0 ${this.width} ${this.height}`, role: "img", "aria-label": label, tabindex: "0" }, ...children, s("line", { class: "cursor", y1: 0, y2: this.height - BOTTOM, x1: -9, x2: -9 }));
		svg.addEventListener("keydown", event => this.typed(event));
		svg.addEventListener("blur", () => this.read(null));
		return svg;
	}

	bars() {
		const { requests, refused } = this.data;
		// Names that were refused are no requests, so that either may be more than the other.
		const top = ceiling(Math.max(1, ...requests, ...refused), false);
		const room = this.height - BOTTOM - 1;
		const width = Math.max(1, (this.width - LEFT) / requests.length - 1.5);
		const bar = (kind, at, n, part) => n > 0 && s("rect", { class: kind, x: (this.x(at) + 0.75 + width * (1 - part) / 2).toFixed(1),
			width: (width * part).toFixed(1), y: (this.height - BOTTOM - room * n / top).toFixed(1), height: (room * n / top).toFixed(1) });
		return this.frame(`${whole(total(requests))} requests since ${clock(this.data.since)}, ${whole(total(refused))} refused`,
			grid(this.width, this.height, top, whole), this.data.thefts?.map((n, at) => n > 0 && [s("line", { class: "theft", x1: this.x(at + 0.5), x2: this.x(at + 0.5), y1: 8, y2: this.height - BOTTOM }),
				s("path", { class: "theft", d: `M${this.x(at + 0.5)} -1l6 6l-6 6l-6 -6z` })]), requests.map((n, at) => [bar("asked", at, n, 1), bar("refused", at, refused[at], 0.5)]),
			this.nothing(requests, refused), times(this.width, this.height, this.data, this.data.requests.length));
	}

	nothing(...lists) {
		return lists.every(list => total(list) === 0) && s("text", { class: "tick none", x: (LEFT + this.width) / 2, y: (this.height - BOTTOM) / 2 + 16 }, "none in this time");
	}

	lines() {
		const { bytes_in: got, bytes_out: sent } = this.data;
		const top = ceiling(Math.max(1, ...got, ...sent), true);
		const room = this.height - BOTTOM - 1;
		const y = n => (this.height - BOTTOM - room * n / top).toFixed(1);
		const path = list => list.map((n, at) => `${at === 0 ? "M" : "L"}${this.x(at + 0.5).toFixed(1)} ${y(n)}`).join("");
		const area = list => `${path(list)}L${this.x(list.length - 0.5).toFixed(1)} ${this.height - BOTTOM}L${this.x(0.5).toFixed(1)} ${this.height - BOTTOM}Z`;
		return this.frame(`${size(total(got))} bytes received and ${size(total(sent))} sent`, grid(this.width, this.height, top, size),
			total(got) + total(sent) > 0 && [s("path", { class: "in area", d: area(got) }), s("path", { class: "in line", d: path(got) }),
				s("path", { class: "out line", d: path(sent) })], this.nothing(got, sent), times(this.width, this.height, this.data, this.data.requests.length));
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
			`${whole(data.refused[this.at])} refused, ${data.thefts?.[this.at] ? `${whole(data.thefts[this.at])} to steal a secret, ` : ""}${size(data.bytes_in[this.at])} in, ${size(data.bytes_out[this.at])} out`);
	}

	tabulate() {
		const { data } = this;
		const rows = data.requests.map((n, at) => h("tr", null, h("th", { scope: "row" }, clock(data.since + at * data.step_s)),
			[n, data.refused[at]].map(value => h("td", { class: "n" }, whole(value))),
			[data.bytes_in[at], data.bytes_out[at]].map(value => h("td", { class: "n" }, size(value)))));
		fill(this.numbers.lastChild, table("Requests and bytes over time", ["From", "Requests", "Refused", "In", "Out"], rows.reverse()));
	}
}
