// stop.js - freezing every cell: Ctrl+. or the button opens it, the same again does it.
// Freezing can be taken back; killing, the emergency stop, is a button of its own, which comes first where
// nothing can be frozen.

import { post } from "./api.js";
import { fill, h, setAttr, setText } from "./dom.js";
import { live } from "./live.js";
import { sureButton } from "./ui.js";

let panel = null;

const button = () => document.getElementById("stop");

function many(n, word = "cell") {
	return `${n} ${word}${n === 1 ? "" : "s"}`;
}

async function act(verb, word) {
	const say = (kind, ...lines) => fill(panel.querySelector(".said"), h("p", { class: kind }, ...lines));
	panel.setAttribute("aria-busy", "true");
	say("dim", "…");
	try {
		const { cells, failed } = await post(`/v1/cells/${verb}`, {});
		say(failed.length ? "bad" : "ok", `${word} ${many(cells)}.`, failed.length ? ` Not so: ${failed.join("; ")}.` : "");
	} catch (error) {
		say("bad", error.message);
	}
	panel.removeAttribute("aria-busy");
}

function buildPanel() {
	const freeze = h("button", { type: "button", class: "cold", onclick: () => act("freeze", "Froze") }, "Freeze every cell ", h("kbd", null, "Ctrl+."));
	const thaw = h("button", { type: "button", onclick: () => act("thaw", "Thawed") }, "Thaw all");
	const kill = sureButton("Kill every cell", "Press again to kill them all", () => act("kill", "Killed"), { class: "bad" });
	panel = h("dialog", { class: "stop", "aria-labelledby": "stop-title" },
		h("h2", { id: "stop-title" }, "All cells at once"), h("p", { class: "about" }),
		h("div", { class: "choices" }, freeze, kill, thaw),
		h("div", { class: "said", role: "status", "aria-live": "assertive" }),
		h("button", { type: "button", class: "plain", onclick: () => panel.close() }, "Close ", h("kbd", null, "Esc")));
	panel.addEventListener("close", () => {
		button().classList.remove("armed");
		label();
	});
	document.body.append(panel);
	Object.assign(panel, { freeze, kill, thaw });
}

// What the button does: nothing can be frozen where no cell runs, nor where none has cgroups.
export function label() {
	if (panel?.open)
		return;
	const cells = [...live.cells.values()];
	const freezes = cells.some(cell => cell.can_freeze !== false);
	button().hidden = cells.length === 0;
	setText(button(), freezes ? "Freeze all" : "Kill all");
	setAttr(button(), "title", `${freezes ? "Freeze" : "Kill"} every cell (Ctrl+.)`);
}

// How many run, and of how many of them it is known that they cannot be frozen.
function about() {
	const n = live.cells.size;
	if (n === 0)
		return "No cell runs.";
	const stuck = [...live.cells.values()].filter(cell => cell.can_freeze === false).length;
	panel.kills = n > 0 && stuck === n;
	panel.freeze.hidden = panel.thaw.hidden = panel.kills;
	if (panel.kills)
		return `${many(n)} run${n === 1 ? "s" : ""}. They have no cgroups to be frozen by: they can only be killed, and killed ones are gone.`;
	return `${many(n)} run${n === 1 ? "s" : ""}. Frozen ones keep what they have and go on when they are thawed; killed ones are gone.` +
		(stuck > 0 ? ` ${many(stuck)} of them cannot be frozen, only killed.` : "");
}

// False: it was not open.
export function close() {
	if (!panel?.open)
		return false;
	panel.close();
	button().focus();
}

// First press: the panel.  Second press: they are frozen; to kill them all takes a third, since
// nothing brings them back.
export function press() {
	if (panel === null)
		buildPanel();
	if (panel.open) {
		if (panel.kills)
			panel.kill.click();
		else
			act("freeze", "Froze");
		return;
	}
	fill(panel.querySelector(".about"), about());
	fill(panel.querySelector(".said"));
	// Not modal: the button in the header stays under the pointer that pressed it.
	panel.show();
	setText(button(), "Press again");
	button().classList.add("armed");
	(panel.kills ? panel.kill : panel.freeze).focus();
}
