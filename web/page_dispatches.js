// page_dispatches.js - what was dispatched, how it stands, and what came of it.

import { get, post, text } from "./api.js";
import { fill, h, say, setText } from "./dom.js";
import { age, seconds, short, size, span, stamp } from "./format.js";
import { pages } from "./page_registry.js";
import { attempt, empty, setState, stateMark, sureButton, table } from "./ui.js";

const PAGE = 100;
const AGAIN_MS = 2000;
const OUTPUT_MAX = 256 * 1024;
const STATES = ["queued", "starting", "running", "finished", "failed", "cancelled", "timed_out"];
const isOver = state => ["finished", "failed", "cancelled", "timed_out"].includes(state);

const path = (id, rest = "") => `/v1/dispatches/${encodeURIComponent(id)}${rest}`;

function took(item) {
	const from = seconds(item.started), to = seconds(item.ended);
	return from === null ? "–" : to === null ? age(item.started) : span(to - from);
}

function row(item) {
	return h("tr", { "data-id": item.id }, h("td", null, stateMark(item.state)),
		h("th", { scope: "row" }, h("a", { href: `#/dispatches/${encodeURIComponent(item.id)}` }, item.id)),
		h("td", { class: "t" }, item.agent.name), h("td", { class: "t" }, item.principal ?? "–"), h("td", null, stamp(item.created)),
		h("td", { class: "n" }, took(item)), h("td", { class: "n" }, item.exit_code ?? "–"), h("td", { class: "t wrap" }, item.reason ?? ""));
}

function all(root, go) {
	const state = h("select", { "aria-label": "State", onchange: () => load() }, h("option", { value: "" }, "all states"),
		STATES.map(name => h("option", { value: name }, name.replace("_", " "))));
	const place = h("div");
	const load = () => {
		const body = h("tbody");
		const none = empty("Nothing was dispatched.", "A dispatch runs a registered agent, and keeps its output and files.", "cloister dispatch AGENT");
		none.hidden = true;
		const more = pages(after => get("/v1/dispatches", { state: state.value, limit: PAGE, after }), items => {
			none.hidden = items.length > 0 || body.childElementCount > 0;
			body.append(...items.map(row));
		});
		const whole = table("Dispatches", ["State", "Id", "Agent", "For", "Created", "Took", "Exit", "Reason"], []);
		whole.querySelector("tbody").replaceWith(body);
		fill(place, whole, more, none);
	};
	root.append(h("div", { class: "bar" }, h("h1", null, "Dispatches"), state, h("button", { type: "button", class: "push", onclick: load }, "Look again")), place);
	load();
	return { keys: () => [["l", "look again", load]], close() {} };
}

class Dispatch {
	constructor(root, id, go) {
		this.id = id;
		this.go = go;
		this.state = stateMark("queued");
		this.facts = h("dl", { class: "facts" });
		this.acts = h("div", { class: "acts" });
		this.out = h("pre", { class: "output t", tabindex: "0", role: "region", "aria-label": "Standard output" });
		this.err = h("pre", { class: "output t", tabindex: "0", role: "region", "aria-label": "Standard error" });
		this.errHead = h("h2", { hidden: true }, "Standard error");
		this.err.hidden = true;
		this.files = h("div");
		root.append(h("div", { class: "bar" }, h("a", { class: "back", href: "#/dispatches", "aria-label": "All dispatches" }, "‹"), h("h1", { class: "t" }, id), this.state, this.acts),
			h("div", { class: "columns" }, h("div", null, h("h2", null, "Output"), this.out, this.errHead, this.err),
				h("div", null, this.facts, h("h2", null, "Files"), this.files)));
		this.load();
	}

	async load() {
		const item = await attempt(get(path(this.id)));
		if (!item || this.closed)
			return;
		setState(this.state, item.state);
		const fact = (name, ...said) => [h("dt", null, name), h("dd", { class: "t" }, ...said)];
		fill(this.facts, fact("Agent", h("a", { href: `#/registry/agents/${encodeURIComponent(item.agent.name)}/${item.agent.hash}` }, item.agent.name),
			h("code", { class: "dim" }, ` ${short(item.agent.hash)}`)), fact("For", item.principal ?? "nobody in particular"),
		item.chain ? fact("Chain", item.chain) : null, item.parent ? fact("Parent", h("a", { href: `#/dispatches/${encodeURIComponent(item.parent)}` }, item.parent)) : null,
		item.cell ? fact("Cell", h("a", { href: `#/cell/${encodeURIComponent(item.cell)}` }, item.cell)) : null,
		fact("Created", stamp(item.created)), fact("Took", took(item)), fact("Attempts", String(item.attempts ?? "–")),
		fact("Exit", item.exit_code ?? "–"), item.reason ? fact("Reason", item.reason) : null);
		fill(this.acts, isOver(item.state) ? null : sureButton("Cancel", "Press again to cancel", async () => {
			await attempt(post(path(this.id, "/cancel"), {}), "It is being cancelled");
			this.load();
		}, { class: "bad" }));
		await this.output(item);
		if (!isOver(item.state) && !this.closed)
			this.timer = setTimeout(() => this.load(), AGAIN_MS);
	}

	async output(item) {
		for (const [element, stream] of [[this.out, "stdout"], [this.err, "stderr"]]) {
			const said = await text(path(this.id, `/output?stream=${stream}`), OUTPUT_MAX).catch(() => null);
			const shown = said === null ? "" : said.text + (said.cut ? "\n(there is more: `cloister dispatches output`)" : "");
			if (this[stream] !== shown)
				element.replaceChildren(say(shown, true));
			this[stream] = shown;
			if (stream === "stderr")
				this.err.hidden = this.errHead.hidden = shown === "";
		}
		if (!isOver(item.state)) {
			setText(this.files, "when it is over");
			return;
		}
		const said = await get(path(this.id, "/files")).catch(() => ({ files: [] }));
		fill(this.files, said.files.length === 0 ? h("p", { class: "dim" }, "none") : h("ul", { class: "files" }, said.files.map(file =>
			h("li", null, h("a", { class: "t", download: file.path.split("/").at(-1),
				href: path(this.id, `/files/${file.path.split("/").map(encodeURIComponent).join("/")}`) }, file.path), h("span", { class: "dim" }, ` ${size(file.size)}`)))));
	}

	keys() {
		return [["u", "all dispatches", () => this.go("#/dispatches")]];
	}

	close() {
		this.closed = true;
		clearTimeout(this.timer);
	}
}

export function open(root, [id], go) {
	return id ? new Dispatch(root, id, go) : all(root, go);
}
