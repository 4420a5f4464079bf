// cell_resources.js - what one cell used over its life, and what it does to those who wait.

import { cellPath, get } from "./api.js";
import { h, setText } from "./dom.js";
import { duration, size } from "./format.js";
import { follow, live } from "./live.js";
import { Resources } from "./resources.js";
import { empty } from "./ui.js";

const BUCKETS = 120;
const AGAIN_MS = 2000;

const pressure = value => value === undefined ? null : `${(value / 100).toFixed(1)}%`;

// What is known of it now, or at its end.
const FIGURES = [["CPU time", cell => duration(cell.cpu_ms)], ["peak memory", cell => cell.peak ? size(cell.peak) : null], ["read", cell => cell.read === undefined ? null : size(cell.read)],
	["written", cell => cell.written === undefined ? null : size(cell.written)], ["waits for a processor", cell => pressure(cell.pressure_cpu)], ["for disks", cell => pressure(cell.pressure_io)], ["for memory", cell => pressure(cell.pressure_memory)]];

export class CellResources {
	constructor(panel, id, known) {
		this.id = id;
		this.known = known;
		this.charts = new Resources();
		this.figures = h("div", { class: "figures" }, FIGURES.map(([label]) => h("span", { hidden: true }, h("b"), h("small", null, label))));
		this.none = h("div", { hidden: true }, empty("Nothing is measured of this cell.", "Its use of processors, memory and disks is recorded while it runs, if it has a cgroup that counts it."));
		panel.append(h("div", { class: "bar" }, this.figures), this.charts.element, this.none);
		this.end = follow(changes => changes.cells.has(id) && this.later());
		this.timer = setInterval(() => !document.hidden && live.cells.has(id) && this.later(), AGAIN_MS);
		this.draw();
	}

	later() {
		this.figure();
		this.soon ||= setTimeout(() => {
			this.soon = 0;
			this.draw();
		}, AGAIN_MS);
	}

	figure() {
		const cell = this.known() ?? {};
		FIGURES.forEach(([, value], at) => {
			const text = value(cell);
			this.figures.children[at].hidden = !text;
			setText(this.figures.children[at].firstChild, text ?? "");
		});
	}

	async draw() {
		const [used, net] = await Promise.all([get(cellPath(this.id, "/resources"), { buckets: BUCKETS }).catch(() => null), get(cellPath(this.id, "/traffic"), { buckets: BUCKETS }).catch(() => null)]);
		if (this.closed || !used)
			return;
		const isAny = used.cpu_ms.some(Boolean) || used.memory.some(n => n !== null);
		this.charts.element.hidden = !isAny;
		this.none.hidden = isAny;
		this.figure();
		// Both have the same beginning and the same steps, unless a bucket began between the two answers.
		const isSame = net?.since === used.since && net.step_s === used.step_s;
		if (isAny)
			this.charts.show({ ...used, ...(isSame ? { bytes_in: net.bytes_in, bytes_out: net.bytes_out, net_step_s: net.step_s } : {}) });
	}

	close() {
		this.closed = true;
		this.end();
		clearInterval(this.timer);
		clearTimeout(this.soon);
		this.charts.close();
	}
}
