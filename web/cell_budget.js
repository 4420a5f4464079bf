// cell_budget.js - what a cell may use, what it has used, and raising it; and its secrets.

import { cellPath, get, post } from "./api.js";
import { fill, h } from "./dom.js";
import { amount, count } from "./format.js";
import { follow } from "./live.js";
import { attempt, chip, empty, meter, setMeter, sureButton, table, tell } from "./ui.js";

const AGAIN_MS = 1500;

const HOW = { requests: "1000", hosts: "20", bytes_in: "500M", bytes_out: "500M", time: "2h", cpu: "10m", money: "7.50" };

// Looks again when the cell has changed, but not while somebody types into it.
function watch(panel, id, load) {
	let timer = 0;
	const end = follow(changes => {
		if (changes.cells.has(id) && timer === 0 && !panel.contains(document.activeElement))
			timer = setTimeout(() => {
				timer = 0;
				load();
			}, AGAIN_MS);
	});
	return () => {
		end();
		clearTimeout(timer);
	};
}

export class Budget {
	constructor(panel, id) {
		this.panel = panel;
		this.id = id;
		this.end = watch(panel, id, () => this.load());
		this.load();
	}

	async load() {
		const said = await attempt(get(cellPath(this.id, "/budget")));
		if (!said || this.panel.contains(document.activeElement))
			return;
		fill(this.panel, said.budgets.length === 0 ? empty("This cell has no budget.", "`budgets:` in its policy sets one, in requests, bytes, time or money.") :
			h("ul", { class: "budgets" }, said.budgets.map(budget => this.row(budget))));
	}

	row(budget) {
		const bar = meter();
		const fraction = budget.limit > 0 ? budget.used / budget.limit : 0;
		const kind = budget.kind.replace("_", " ");
		setMeter(bar, fraction, `${kind}: ${amount(budget.kind, budget.used)} of ${amount(budget.kind, budget.limit)}`);
		const limit = h("input", { type: "text", class: "tiny", required: true, placeholder: HOW[budget.kind] ?? "", "aria-label": `New limit for ${kind} of ${budget.name}` });
		return h("li", { "data-budget": `${budget.name} ${budget.kind}` }, h("span", { class: "what" }, h("b", null, kind),
			h("small", { class: "dim" }, [`per ${budget.per}${budget.of ? ` ${budget.of}` : ""}`, budget.name === budget.per ? null : budget.name, budget.raised ? "raised" : null].filter(Boolean).join(" · "))), bar,
		h("span", { class: "of" }, `${amount(budget.kind, budget.used)} of ${amount(budget.kind, budget.limit)}`),
		h("span", null, budget.reached ? chip(`reached: ${budget.then}`, "bad") : h("small", { class: "dim" }, `then ${budget.then}`)),
		h("form", { class: "raise", onsubmit: async event => {
			event.preventDefault();
			const done = await attempt(post(cellPath(this.id, "/budget"), { name: budget.name, kind: budget.kind, limit: limit.value.trim() }),
				`Raised ${kind} of ${budget.name} to ${limit.value.trim()}`);
			if (done !== undefined) {
				document.activeElement?.blur();
				this.load();
			}
		} }, limit, h("button", null, "Raise")));
	}

	close() {
		this.end();
	}
}

export function secretRows(secrets, { revoke, quietly, rotate }) {
	return secrets.map(secret => h("tr", { "data-secret": secret.name, class: secret.revoked ? "off" : null },
		h("th", { scope: "row" }, h("code", { class: "t" }, secret.name)), h("td", null, secret.scheme ?? "–"),
		h("td", { class: "t wrap" }, (secret.hosts ?? []).join(", ")),
		h("td", { class: "n" }, secret.used === undefined ? "–" : typeof secret.used === "number" ? count(secret.used) : String(secret.used)),
		h("td", null, secret.revoked ? chip("revoked", "bad") : chip("in use", "ok")),
		h("td", { class: "acts" }, secret.revoked ? null : [
			rotate ? sureButton("Rotate", "Press again to rotate", () => rotate(secret)) : null,
			quietly ? sureButton("Quietly", "Press again: as if the service had revoked it", () => quietly(secret), { class: "bad" }) : null,
			sureButton("Revoke", "Press again to revoke", () => revoke(secret), { class: "bad" })])));
}

export const SECRET_COLUMNS = ["Name", "Scheme", "For", "Used", "State", "Actions"];

export class Secrets {
	constructor(panel, id) {
		this.panel = panel;
		this.id = id;
		this.end = watch(panel, id, () => this.load());
		this.load();
	}

	async load() {
		const said = await attempt(get(cellPath(this.id, "/secrets")));
		if (!said)
			return;
		const act = (verb, how = {}) => async secret => {
			const done = await attempt(post(cellPath(this.id, `/secrets/${encodeURIComponent(secret.name)}/${verb}`), how));
			if (done !== undefined)
				tell(verb === "revoke" ? `${secret.name} is revoked: the next request with it is refused` : `${secret.name} is rotated`);
			this.load();
		};
		fill(this.panel, said.secrets.length === 0 ? empty("This cell holds no secret.", "A cell gets one when it starts:", "cloister run -s GITHUB_TOKEN -- CMD") :
			table("Secrets", SECRET_COLUMNS, secretRows(said.secrets, { revoke: act("revoke"), quietly: act("revoke", { quiet: true }), rotate: act("rotate") }), "stack"),
		h("p", { class: "dim" }, "The cell has placeholders. Real values never enter it, nor this page."));
	}

	close() {
		this.end();
	}
}
