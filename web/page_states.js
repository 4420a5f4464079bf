// page_states.js - versioned states: how far each is from the commit that a person has tagged.

import { get } from "./api.js";
import { BOTTOM, LEFT, WIDTH_MIN, ceiling, grid } from "./chart.js";
import { fill, h, s } from "./dom.js";
import { short, size, stamp, whole } from "./format.js";
import { attempt, command, empty, table } from "./ui.js";

const TAG = "known-good";
const HEIGHT = 110;
const WIDTH = 640;
const DRAWN_MAX = 20;

// One step for each commit, so that a busy hour does not hide a quiet week.
function line(name, points) {
	const width = Math.max(WIDTH_MIN, WIDTH), top = ceiling(Math.max(1, ...points.map(p => p.bytes)), true);
	const x = at => LEFT + (width - LEFT) * (at + 0.5) / points.length;
	const y = n => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 1) * n / top;
	const path = points.map((p, at) => `${at === 0 ? "M" : "L"}${x(at).toFixed(1)} ${y(p.bytes).toFixed(1)}`).join("");
	return s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `How far ${name} was from ${TAG} at each commit` },
		grid(width, HEIGHT, top, size), s("path", { class: "out line", d: path }),
		points.map((p, at) => s("circle", { class: "drift", cx: x(at).toFixed(1), cy: y(p.bytes).toFixed(1), r: 3 }, s("title", null, `${stamp(p.time)}: ${whole(p.files)} files, ${size(p.bytes)}`))),
		s("text", { x: LEFT, y: HEIGHT - 2, class: "tick" }, stamp(points[0].time)),
		s("text", { x: width, y: HEIGHT - 2, class: "tick end" }, stamp(points.at(-1).time)));
}

function rows(points, from) {
	return points.map(p => h("tr", null, h("th", { scope: "row" }, stamp(p.time)), h("td", null, h("code", { class: "t" }, short(p.commit))),
		h("td", { class: "n" }, whole(p.files)), h("td", { class: "n" }, size(p.bytes)), h("td", null, p.commit === from ? "tagged" : ""))).reverse();
}

function drawn(state, said) {
	const points = said.history.toReversed(), now = points.at(-1);
	const plots = h("div", { class: "plots one" }, line(state.state, points));
	plots.style.setProperty("--height", `${HEIGHT}px`);
	return h("section", { class: "chart", "data-state": state.state, "aria-label": `Drift of ${state.state}` },
		h("div", { class: "legend" }, h("b", { class: "t" }, state.state), h("span", { class: "key out" }, `bytes of files that differ from ${TAG}`),
			h("output", { class: "reading" }, now.files === 0 ? `as it was at ${TAG}` : `${whole(now.files)} ${now.files === 1 ? "file differs" : "files differ"} now, ${size(now.bytes)}`)),
		plots, h("details", null, h("summary", null, "As a table"), table(`Drift of ${state.state}`, ["Commit of", "Commit", "Files", "Bytes", ""], rows(points, said.from))));
}

function untagged(state) {
	return h("section", { class: "chart", "data-state": state.state, "aria-label": `Drift of ${state.state}` },
		h("div", { class: "legend" }, h("b", { class: "t" }, state.state), h("output", { class: "reading" }, "nobody has tagged a commit of it as known-good")),
		command(`cloister state tag ${state.state} ${TAG}`));
}

export function open(root) {
	const place = h("div");
	let closed = false;
	root.append(h("div", { class: "bar" }, h("h1", null, "States"), h("span", { class: "dim" }, `what agents keep, and how far it is from ${TAG}`)), place);
	const load = async () => {
		const said = await attempt(get("/v1/states"));
		if (!said || closed)
			return;
		if (said.states.length === 0) {
			fill(place, empty("There are no states.", "A state is a folder that an agent keeps from cell to cell, with its history.", "cloister run --state brain -- my-agent"));
			return;
		}
		const parts = [];
		for (const state of said.states.slice(0, DRAWN_MAX)) {
			const drift = state.tags.includes(TAG) ? await attempt(get(`/v1/states/${encodeURIComponent(state.state)}/drift`)) : null;
			parts.push(drift && drift.history.length > 0 ? drawn(state, drift) : untagged(state));
		}
		if (!closed)
			fill(place, parts, said.states.length > DRAWN_MAX && h("p", { class: "dim" }, `and ${whole(said.states.length - DRAWN_MAX)} more: see \`cloister state list\``));
	};
	load();
	return { keys: () => [["l", "look again", load]], close: () => {
		closed = true;
	} };
}
