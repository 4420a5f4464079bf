// stop.js - the emergency stop: Ctrl+. or the button opens it, the same again freezes every cell.
// Freezing can be taken back; killing is a button of its own.

import { post } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { live } from "./live.js";
import { sureButton } from "./ui.js";

let panel = null;

const button = () => document.getElementById("stop");

function many(n, word = "cell") {
	return `${n} ${word}${n === 1 ? "" : "s"}`;
}

// How many cells it was done to, and which it could not be done to.
function outcome(said) {
	const length = value => Array.isArray(value) ? value.length : typeof value === "number" ? value : 0;
	return { done: length(said?.cells ?? said?.done ?? said?.count), failed: Array.isArray(said?.failed) ? said.failed : [] };
}

async function act(verb, word) {
	const say = (kind, ...lines) => fill(panel.querySelector(".said"), h("p", { class: kind }, ...lines));
	panel.setAttribute("aria-busy", "true");
	say("dim", "…");
	try {
		const { done, failed } = outcome(await post(`/v1/cells/${verb}`, {}));
		say(failed.length ? "bad" : "ok", `${word} ${many(done)}.`, failed.length ? ` Not so: ${failed.map(f => f.cell ?? f.id ?? f).join(", ")}.` : "");
	} catch (error) {
		say("bad", error.message);
	}
	panel.removeAttribute("aria-busy");
}

function buildPanel() {
	const freeze = h("button", { type: "button", class: "cold", onclick: () => act("freeze", "Froze") }, "Freeze every cell ", h("kbd", null, "Ctrl+."));
	panel = h("dialog", { class: "stop", "aria-labelledby": "stop-title" },
		h("h2", { id: "stop-title" }, "Emergency stop"), h("p", { class: "about" }),
		h("div", { class: "choices" }, freeze,
			sureButton("Kill every cell", "Press again to kill them all", () => act("kill", "Killed"), { class: "bad" }),
			h("button", { type: "button", onclick: () => act("thaw", "Thawed") }, "Thaw all")),
		h("div", { class: "said", role: "status", "aria-live": "assertive" }),
		h("button", { type: "button", class: "plain", onclick: () => panel.close() }, "Close ", h("kbd", null, "Esc")));
	panel.addEventListener("close", () => {
		setText(button(), "Stop");
		button().classList.remove("armed");
	});
	panel.addEventListener("keydown", event => {
		if (event.key === "Escape") {
			panel.close();
			button().focus();
			event.preventDefault();
		}
	});
	document.body.append(panel);
	panel.freeze = freeze;
}

// First press: the panel.  Second press: it is done.
export function press() {
	if (panel === null)
		buildPanel();
	if (panel.open) {
		act("freeze", "Froze");
		return;
	}
	fill(panel.querySelector(".about"), `${many(live.cells.size)} run. Frozen ones keep what they have and go on when they are thawed; killed ones are gone.`);
	fill(panel.querySelector(".said"));
	// Not modal: the button in the header stays under the pointer that pressed it.
	panel.show();
	setText(button(), "Press again");
	button().classList.add("armed");
	panel.freeze.focus();
}
