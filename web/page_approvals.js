// page_approvals.js - what waits for somebody's word, answered with one key.
//
// What is chosen stays chosen by its id, whatever comes and goes around it; and no key answers what
// has been under the reader's eyes for less than a moment.

import { get, post } from "./api.js";
import { fill, h, say, setAttr, setText } from "./dom.js";
import { clock, now, placeOf, seconds, size, span } from "./format.js";
import { follow, live, pending, takeApproval, takeApprovals } from "./live.js";
import { attempt, chip, empty, kindOf, tell } from "./ui.js";

const SHOWN_MAX = 40;                   // cards at a time; the oldest first
const EYE_MS = 350;
const FOR = "10m";

function fact(name, ...value) {
	return [h("dt", null, name), h("dd", null, ...value)];
}

function list(values) {
	return values.map(value => h("code", { class: "t chipped" }, value));
}

function shapeOf(text, label) {
	return h("pre", { class: "shape t", tabindex: "0", role: "region", "aria-label": label }, say(text, true));
}

function bodyOf(body) {
	if (!body || (!body.shape && !body.type && !body.size))
		return h("span", { class: "dim" }, "none");
	return [h("span", null, `${body.type || "unknown type"}, ${body.size === undefined ? "of unknown size" : `${size(body.size)} bytes`}`),
		body.shape ? shapeOf(body.shape, "Shape of the body, values masked") : null];
}

function factsOf(a) {
	const given = a.given ?? [];
	return h("dl", { class: "facts" },
		fact("Cell", h("a", { href: `#/cell/${encodeURIComponent(a.cell)}` }, a.name || a.cell),
			a.name ? h("span", { class: "dim" }, ` ${a.cell}`) : null,
			a.frozen ? chip("frozen while it waits", "cold") : null),
		fact("For", h("span", { class: "t" }, a.principal || "nobody in particular"),
			a.chain ? h("span", { class: "dim t" }, ` through ${a.chain}`) : null),
		fact("Reason", h("span", { class: "t" }, a.reason || "the rule gives none")),
		fact("Rule", h("code", { class: "t" }, a.rule || "–"), a.place ? h("span", { class: "dim" }, ` ${placeOf(a.place)}`) : null),
		fact("Body", bodyOf(a.body)),
		a.query ? fact("Query", shapeOf(a.query, "The query, values masked")) : null,
		a.headers ? fact("Headers", shapeOf(a.headers, "The headers, values masked")) : null,
		fact("Secrets", a.secrets?.length ? list(a.secrets) : h("span", { class: "dim" }, "none go with it")),
		fact("Approvers", a.approvers?.length ? list(a.approvers) : "any operator",
			(a.needs ?? 1) > 1 ? h("b", null, ` ${given.length} of ${a.needs} approved`) : null,
			given.length ? h("ul", { class: "given" }, given.map(g => h("li", null, g.by, " at ", clock(g.time)))) : null));
}

class Card {
	constructor(page, a) {
		this.page = page;
		this.id = a.id;
		this.left = h("span", { class: "left" });
		this.actions = h("div", { class: "actions" });
		this.what = h("h2", { class: "t" });
		this.facts = h("div");
		this.element = h("article", { class: "card", tabindex: "-1", "data-id": a.id, "aria-labelledby": `what-${a.id}`,
			onfocusin: () => page.choose(this.id), onclick: () => page.choose(this.id) },
		h("div", { class: "card-head" }, this.what, this.left), this.facts, this.actions);
		this.what.id = `what-${a.id}`;
		this.show(a);
	}

	show(a) {
		if (this.shown === a)
			return;
		const before = this.shown?.state;
		this.shown = a;
		fill(this.what, h("span", { class: "method" }, a.method || a.protocol || "connect"), " ",
			h("span", { class: "host" }, `${a.host}${a.port && ![80, 443].includes(a.port) ? `:${a.port}` : ""}`),
			h("span", { class: "path" }, a.path ?? ""));
		fill(this.facts, factsOf(a));
		setAttr(this.element, "data-state", a.state);
		if (before !== a.state)
			this.act(a);
		this.tick();
	}

	act(a) {
		if (a.state !== "pending") {
			fill(this.actions, chip(a.state.replace("_", " "), kindOf(a.state)),
				h("span", { class: "dim t" }, [a.answer?.by, a.answer?.why].filter(Boolean).join(": ")));
			return;
		}
		const key = (name, title, kind, then) => h("button", { type: "button", class: kind, onclick: then },
			h("kbd", null, name), ` ${title}`);
		fill(this.actions, key("a", "Approve once", "good", () => this.approve("once")),
			key("f", "For 10 minutes", "", () => this.approve("for")),
			key("r", "Refuse…", "bad", () => this.refuse()),
			h("button", { type: "button", class: "plain", onclick: () => this.approve("rule") }, "Open this rule for the cell's life"));
	}

	tick() {
		const a = this.shown, until = seconds(a.until);
		const left = a.state === "pending" && until !== null ? until - now() : null;
		setText(this.left, left === null ? "" : left > 0 ? `${span(left)} left` : "timing out");
		setAttr(this.left, "data-soon", left !== null && left < 60 ? "" : null);
	}

	async approve(how) {
		const done = { once: "Approved once", for: "Approved for 10 minutes", rule: "Opened for the cell's life" }[how];
		await this.answer("approve", how === "for" ? { how, for: FOR } : { how }, "approved", done);
	}

	refuse() {
		const reason = h("input", { type: "text", maxlength: "400", required: true, placeholder: "Why not? The agent is told.",
			"aria-label": "Reason, which the agent is told" });
		const form = h("form", { class: "reason", onsubmit: event => {
			event.preventDefault();
			this.answer("refuse", { reason: reason.value.trim() }, "refused", "Refused");
		} }, reason, h("button", { class: "bad" }, "Refuse"),
		h("button", { type: "button", onclick: () => this.cancel() }, "Cancel"));
		reason.addEventListener("keydown", event => {
			if (event.key === "Escape") {
				event.stopPropagation();
				this.cancel();
			}
		});
		fill(this.actions, form);
		reason.focus();
	}

	cancel() {
		this.act(this.shown);
		this.element.focus();
	}

	async answer(verb, body, state, done) {
		if (this.busy)
			return;
		this.busy = true;
		const said = await attempt(post(`/v1/approvals/${encodeURIComponent(this.id)}/${verb}`, body));
		this.busy = false;
		if (said === undefined) {
			this.page.load();
			return;
		}
		const now_ = said?.id ? said : { ...this.shown, state };
		const waits = now_.state === "pending";
		tell(`${waits ? "Noted; another person has to approve too" : done}: ${this.shown.method ?? ""} ${this.shown.host}${this.shown.path ?? ""}`);
		takeApproval(now_);
		this.page.next(this.id);
	}
}

class Approvals {
	constructor(root) {
		this.cards = new Map();
		this.chosen = null;
		this.count = h("span", { class: "dim" });
		this.place = h("div", { class: "cards" });
		this.more = h("p", { class: "dim" });
		this.none = empty("Nothing waits.", "A request that meets an `ask` rule is held, and shown here until somebody answers.");
		root.append(h("div", { class: "bar" }, h("h1", null, "Approvals"), this.count,
			h("span", { class: "hint" }, h("kbd", null, "j"), h("kbd", null, "k"), " move  ", h("kbd", null, "a"), " once  ",
				h("kbd", null, "f"), " 10 minutes  ", h("kbd", null, "r"), " refuse")),
		this.place, this.more, this.none);
		this.end = follow(changes => (changes.approvals.size > 0 || changes.state) && this.render());
		this.ticker = setInterval(() => this.cards.forEach(card => card.tick()), 1000);
		this.render();
		this.load();
	}

	async load() {
		const said = await attempt(get("/v1/approvals", { state: "pending" }));
		if (said)
			takeApprovals(said.approvals);
	}

	// What is pending, and what was shown before and has been answered since, in one order.
	render() {
		const waiting = pending();
		const keep = [...this.cards.keys()].map(id => live.approvals.get(id)).filter(a => a && a.state !== "pending").slice(-5);
		const show = [...keep, ...waiting.slice(0, SHOWN_MAX)].sort((a, b) => a.asked < b.asked ? -1 : a.asked > b.asked ? 1 : 0);
		const ids = new Set(show.map(a => a.id));
		for (const [id, card] of this.cards)
			if (!ids.has(id)) {
				card.element.remove();
				this.cards.delete(id);
			}
		show.forEach((a, at) => {
			let card = this.cards.get(a.id);
			if (!card)
				this.cards.set(a.id, card = new Card(this, a));
			card.show(a);
			if (this.place.children[at] !== card.element)
				this.place.insertBefore(card.element, this.place.children[at] ?? null);
		});
		setText(this.count, waiting.length ? `${waiting.length} waiting` : "");
		setText(this.more, waiting.length > SHOWN_MAX ? `${waiting.length - SHOWN_MAX} more wait behind these.` : "");
		this.none.hidden = show.length > 0;
		if (this.chosen === null || !this.cards.has(this.chosen))
			this.choose(waiting.find(a => this.cards.has(a.id))?.id ?? null);
	}

	choose(id) {
		if (this.chosen === id)
			return;
		this.chosen = id;
		this.armed = false;
		clearTimeout(this.arming);
		for (const [other, card] of this.cards) {
			card.element.classList.toggle("chosen", other === id);
			setAttr(card.element, "data-armed", null);
		}
		this.arming = setTimeout(() => {
			this.armed = true;
			const card = this.cards.get(id);
			if (card)
				setAttr(card.element, "data-armed", "");
		}, EYE_MS);
	}

	next(id) {
		const waiting = pending().filter(a => this.cards.has(a.id) && a.id !== id);
		const behind = waiting.find(a => a.asked > (live.approvals.get(id)?.asked ?? "")) ?? waiting[0];
		this.choose(behind?.id ?? null);
		this.reveal();
	}

	move(by) {
		const ids = [...this.place.children].map(element => element.dataset.id);
		const at = ids.indexOf(this.chosen);
		const to = at < 0 ? 0 : Math.max(0, Math.min(ids.length - 1, at + by));
		if (ids.length > 0) {
			this.choose(ids[to]);
			this.reveal();
		}
	}

	reveal() {
		const card = this.cards.get(this.chosen);
		card?.element.focus({ preventScroll: true });
		card?.element.scrollIntoView({ block: "nearest" });
	}

	answer(then) {
		const card = this.cards.get(this.chosen);
		if (!card || !this.armed || card.shown.state !== "pending")
			return false;
		then(card);
	}

	keys() {
		return [
			["j", "next", () => this.move(1)], ["ArrowDown", null, () => this.move(1)],
			["k", "previous", () => this.move(-1)], ["ArrowUp", null, () => this.move(-1)],
			["a", "approve once", () => this.answer(card => card.approve("once"))],
			["f", "approve for 10 minutes", () => this.answer(card => card.approve("for"))],
			["r", "refuse, with a reason", () => this.answer(card => card.refuse())],
		];
	}

	close() {
		this.end();
		clearInterval(this.ticker);
		clearTimeout(this.arming);
	}
}

export function open(root) {
	return new Approvals(root);
}
