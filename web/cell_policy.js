// cell_policy.js - a cell's policy: what each rule has decided on, and an editor that checks.

import { cellPath, get, post, putTo } from "./api.js";
import { fill, h, setText } from "./dom.js";
import { placeOf, short, whole } from "./format.js";
import { draftOf, dropDraft, keepDraft } from "./drafts.js";
import { Editor } from "./editor.js";
import { attempt, chip, diffLines, diffView, empty, tell } from "./ui.js";

const VERBS = { allow: "ok", deny: "bad", ask: "warn" };

function ruleRow(rule, number, most) {
	const bar = h("i", { class: "hits" });
	bar.style.width = `${most > 0 ? Math.max(rule.hits > 0 ? 2 : 0, Math.round(100 * rule.hits / most)) : 0}%`;
	return h("li", { class: rule.hits > 0 ? null : "unused" },
		h("span", { class: "rule-n" }, String(number)), chip(rule.verb, VERBS[rule.verb]),
		h("span", { class: "rule-text" }, h("code", { class: "t" }, rule.text.startsWith(`${rule.verb} `) ? rule.text.slice(rule.verb.length + 1) : rule.text), rule.reason ? h("small", { class: "dim t" }, rule.reason) : null,
			h("small", { class: "dim" }, [rule.layer ? `layer ${rule.layer}` : null, placeOf(rule.place)].filter(Boolean).join(" · "))),
		h("span", { class: "rule-hits", title: "how many requests it decided" }, h("b", null, whole(rule.hits ?? 0)), bar));
}

export class Policy {
	// UNSAVED(whether) is told when there is something that is not set yet.
	constructor(panel, id, unsaved) {
		Object.assign(this, { panel, id, unsaved });
		this.load();
	}

	async load() {
		const policy = await attempt(get(cellPath(this.id, "/policy")));
		if (!policy) {
			fill(this.panel, empty("This cell has no policy that can be shown.", "Without one it has no network."));
			return;
		}
		const draft = draftOf(this.id);
		this.policy = policy;
		this.form = null;
		this.edit?.close();
		const rules = policy.rules ?? [];
		const most = Math.max(0, ...rules.map(rule => rule.hits ?? 0));
		this.why = h("input", { type: "text", maxlength: "400", required: true, placeholder: "Why? It is recorded with your name.", "aria-label": "Why it is changed",
			value: draft?.why ?? "", oninput: () => this.keep() });
		this.now = h("input", { type: "checkbox", onchange: () => this.keep() });
		this.now.checked = draft?.now ?? false;
		this.set = h("button", { type: "submit", class: "good", disabled: true }, "Set this policy");
		this.diff = h("div");
		this.begun = draft?.hash ?? policy.hash;
		this.mark = h("span", { class: "chip warn", hidden: true }, "not set yet");
		this.edit = new Editor({ label: "Policy", text: draft?.text ?? policy.text ?? "", check: (text, signal) => post(cellPath(this.id, "/policy/check"), { text }, signal),
			changed: (text, answer) => this.changed(text, answer) });
		this.form = h("form", { class: "set", hidden: true, onsubmit: event => {
			event.preventDefault();
			this.put();
		} }, h("h3", null, "What changes"), this.begun === policy.hash ? null :
			h("p", { class: "warn" }, "The policy has changed since you began to write. What is set takes the place of what holds now."), this.diff, h("div", { class: "bar" }, this.why,
			h("label", { class: "check" }, this.now, " also cut requests in flight that it would refuse"),
			h("button", { type: "button", onclick: () => {
				this.edit.text = policy.text ?? "";
			} }, "Undo"), this.set));
		fill(this.panel, h("section", { "aria-label": "Rules" }, h("div", { class: "bar" }, h("h2", null, "Rules"),
			h("span", { class: "dim" }, `first match wins, what none matches is refused`), h("code", { class: "dim push" }, short(policy.hash ?? ""))),
		h("ol", { class: "rules" }, rules.map((rule, at) => ruleRow(rule, at + 1, most)))),
		h("section", { "aria-label": "Edit" }, h("div", { class: "bar" }, h("h2", null, "Edit"), this.mark, this.edit.state), this.edit.element, this.form));
		this.changed(this.edit.text, this.edit.answer);
	}

	// What is written is not lost with its tab.
	keep() {
		const isSame = this.edit.text === (this.policy.text ?? "");
		if (isSame)
			dropDraft(this.id);
		else
			keepDraft(this.id, { text: this.edit.text, why: this.why.value, now: this.now.checked, hash: this.begun });
		this.mark.hidden = isSame;
		this.unsaved?.(!isSame);
	}

	changed(text, answer) {
		const isSame = text === (this.policy.text ?? "");
		if (!this.form)
			return;
		this.form.hidden = isSame;
		this.set.disabled = isSame || !answer?.ok;
		this.keep();
		if (!isSame)
			fill(this.diff, diffView(diffLines(this.policy.text ?? "", text)));
	}

	async put() {
		if (this.set.disabled)
			return;
		const said = await attempt(putTo(cellPath(this.id, "/policy"), { text: this.edit.text, why: this.why.value.trim(), now: this.now.checked, hash: this.policy.hash }));
		if (said === undefined)
			return;
		dropDraft(this.id);
		tell(`The policy is in force: ${short(said?.hash ?? "")}`);
		this.load();
	}

	keys() {
		return [["e", "edit the policy", () => this.edit?.input.focus()],
			["Escape", null, () => {
				if (document.activeElement !== this.edit?.input)
					return false;
				this.edit.input.blur();
			}]];
	}

	close() {
		this.edit?.close();
	}
}

// Put a rule in front of a cell's policy: a word for the timeline's refusals, and for anything else.
export function ruleForm(id, done, text = "") {
	const rule = h("input", { type: "text", class: "mono", required: true, value: text, placeholder: "GET api.example.org/repos/**, or {allow: api.example.org, …}", "aria-label": "Rule" });
	const why = h("input", { type: "text", maxlength: "400", placeholder: "Why?", "aria-label": "Why" });
	const state = h("span", { class: "dim" });
	const act = async verb => {
		if (rule.value.trim() === "") {
			setText(state, "say which host, or a whole rule");
			rule.focus();
			return;
		}
		setText(state, "");
		const said = await attempt(post(cellPath(id, `/${verb}`), { rule: rule.value.trim(), why: why.value.trim(), now: verb === "deny" }),
			answer => answer?.diff === "" ? `That rule stands in front already: ${rule.value.trim()}` :
				`${verb === "allow" ? "Allowed" : "Denied"} from now on: ${rule.value.trim()}`);
		if (said !== undefined) {
			rule.value = why.value = "";
			done?.();
		}
	};
	return h("div", { class: "bar quick", role: "group", "aria-label": "Put a rule in front" }, h("b", null, "Put in front"), rule, why,
		h("button", { type: "button", class: "good", onclick: () => act("allow") }, "Allow"),
		h("button", { type: "button", class: "bad", onclick: () => act("deny") }, "Deny"), state);
}
