// page_approvals.js - what waits for somebody's word, answered with one key.
//
// Requests that are alike share a card and an answer.  What is chosen stays chosen, whatever comes and goes
// around it; and no key answers what has been under the reader's eyes for less than a moment.

import { get, post } from "./api.js";
import { fill, h, say, setAttr, setText } from "./dom.js";
import { clock, now, placeOf, seconds, size, span } from "./format.js";
import { groupsOf, nameOf, placeOfRequest } from "./groups.js";
import { follow, live, pending, takeApproval, takeApprovals } from "./live.js";
import { attempt, chip, empty, kindOf, tell } from "./ui.js";

const SHOWN_MAX = 40;                   // cards at a time; the oldest first
const ANSWERED_MAX = 5;                 // cards that stay after they were answered
const EACH_MAX = 100;                   // requests of a group that are listed one by one
const AT_ONCE = 6;                      // answers under way
const EYE_MS = 350;
const FOR = "10m";

function fact(name, ...value) {
	return [h("dt", null, name), h("dd", null, ...value)];
}

function chips(values) {
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

const cellLink = a => h("a", { class: "t", href: `#/cell/${encodeURIComponent(a.cell)}` }, a.name || a.cell);
const same = (list, of) => list.every(a => JSON.stringify(of(a)) === JSON.stringify(of(list[0])));

function cellsOf(list) {
	const cells = [...new Map(list.map(a => [a.cell, a])).values()];
	if (cells.length === 1)
		return fact("Cell", cellLink(cells[0]), cells[0].name ? h("span", { class: "dim" }, ` ${cells[0].cell}`) : null, list.some(a => a.frozen) ? chip("frozen while it waits", "cold") : null);
	return fact("Cells", `${cells.length}: `, cells.slice(0, 8).map((a, at) => [at > 0 ? ", " : "", cellLink(a)]), cells.length > 8 ? " …" : "");
}

// What is the same for all of LIST.
function factsOf(list) {
	const a = list[0], given = a.given ?? [];
	return h("dl", { class: "facts" },
		cellsOf(list),
		!same(list, one => [one.principal, one.chain]) ? fact("For", "several: see each") : fact("For", h("span", { class: "t" }, a.principal || "nobody in particular"),
			a.chain ? h("span", { class: "dim t" }, ` through ${a.chain}`) : null),
		fact("Reason", h("span", { class: "t" }, a.reason || "the rule gives none")),
		fact("Rule", h("code", { class: "t" }, a.rule || "–"), a.place ? h("span", { class: "dim" }, ` ${placeOf(a.place)}`) : null),
		fact("Body", same(list, one => one.body) ? bodyOf(a.body) : h("b", null, "they differ: see each")),
		!same(list, one => one.query) ? fact("Query", h("b", null, "they differ: see each")) : a.query ? fact("Query", shapeOf(a.query, "The query, values masked")) : null,
		a.headers ? fact("Headers", shapeOf(a.headers, "The headers, values masked")) : null,
		fact("Secrets", a.secrets?.length ? chips(a.secrets) : h("span", { class: "dim" }, "none go with it")),
		fact("Approvers", a.approvers?.length ? chips(a.approvers) : "any operator",
			(a.needs ?? 1) > 1 ? h("b", null, ` ${given.length} of ${a.needs} approved`) : null,
			given.length ? h("ul", { class: "given" }, given.map(g => h("li", null, g.by, " at ", clock(g.time)))) : null));
}

class Card {
	constructor(page, group) {
		this.page = page;
		this.key = group.key;
		this.seen = new Map();          // by id: since when it is in view
		this.left = h("span", { class: "left" });
		this.actions = h("div", { class: "actions" });
		this.what = h("h2", { class: "t", id: `what-${++Card.made}` });
		this.facts = h("div");
		this.each = h("details", { class: "each", hidden: true, ontoggle: () => this.list && this.listEach() }, h("summary"), h("ul"));
		this.element = h("article", { class: "card", tabindex: "-1", "aria-labelledby": this.what.id,
			onfocusin: () => page.choose(this.key), onclick: () => page.choose(this.key) },
		h("div", { class: "card-head" }, this.what, this.left), this.facts, this.each, this.actions);
		this.show(group.list);
	}

	static made = 0;

	get asked() {
		return this.list[0].asked;
	}

	get isPending() {
		return this.list.some(a => a.state === "pending");
	}

	show(list) {
		if (this.list?.length === list.length && this.list.every((a, at) => a === list[at]))
			return;
		const before = this.list ? `${this.list.length} ${this.list[0].state}` : null;
		const a = list[0];
		this.list = list;
		for (const { id } of list)
			if (!this.seen.has(id))
				this.seen.set(id, performance.now());
		setAttr(this.element, "data-id", a.id);
		fill(this.what, list.length > 1 ? [h("span", { class: "times" }, `${list.length} times`), " "] : null, h("span", { class: "method" }, a.method || a.protocol || "connect"), " ",
			h("span", { class: "host" }, placeOfRequest(a)), h("span", { class: "path" }, a.path ?? ""));
		fill(this.facts, factsOf(list));
		this.each.hidden = list.length === 1;
		setText(this.each.firstChild, `Each of the ${list.length}`);
		if (this.each.open)
			this.listEach();
		setAttr(this.element, "data-state", a.state);
		if (before !== `${list.length} ${a.state}` && !this.actions.querySelector("form"))
			this.act();
		this.tick();
	}

	listEach() {
		fill(this.each.lastChild, this.list.slice(0, EACH_MAX).map(a => h("li", null, h("div", null, cellLink(a), h("span", { class: "dim t" }, ` ${a.principal ?? ""} · asked at ${clock(a.asked)}`)),
			h("div", null, bodyOf(a.body), a.query ? shapeOf(a.query, "The query, values masked") : null), a.state !== "pending" ? chip(a.state, kindOf(a.state)) : h("div", { class: "acts" },
				h("button", { type: "button", onclick: () => this.answer("approve", { how: "once" }, "approved", "Approved once", [a]) }, "Approve"),
				h("button", { type: "button", class: "bad", onclick: () => this.refuse([a]) }, "Refuse…")))),
		this.list.length > EACH_MAX ? h("li", { class: "dim" }, `and ${this.list.length - EACH_MAX} more`) : null);
	}

	act() {
		const a = this.list[0], n = this.list.length;
		if (a.state !== "pending") {
			fill(this.actions, chip(a.state.replace("_", " "), kindOf(a.state)),
				h("span", { class: "dim t" }, [a.answer?.by, a.answer?.why].filter(Boolean).join(": ")));
			return;
		}
		const key = (name, title, kind, then) => h("button", { type: "button", class: kind, onclick: then },
			h("kbd", null, name), ` ${title}`);
		fill(this.actions, key("a", n > 1 ? `Approve these ${n}, once` : "Approve once", "good", () => this.approve("once")),
			key("f", "For 10 minutes", "", () => this.approve("for")),
			key("r", n > 1 ? `Refuse these ${n}…` : "Refuse…", "bad", () => this.refuse()),
			h("button", { type: "button", class: "plain", onclick: () => this.approve("rule") }, n > 1 ? "Open this rule for the cells' life" : "Open this rule for the cell's life"));
	}

	tick() {
		const until = Math.min(...this.list.map(a => seconds(a.until) ?? Infinity));
		const left = this.isPending && Number.isFinite(until) ? until - now() : null;
		setText(this.left, left === null ? "" : left > 0 ? `${span(left)} left` : "timing out");
		setAttr(this.left, "data-soon", left !== null && left < 60 ? "" : null);
	}

	async approve(how) {
		const done = { once: "Approved once", for: "Approved for 10 minutes", rule: "Opened for the cell's life" }[how];
		await this.answer("approve", how === "for" ? { how, for: FOR } : { how }, "approved", done);
	}

	refuse(list) {
		const reason = h("input", { type: "text", maxlength: "400", required: true, placeholder: "Why not? The agent is told.",
			"aria-label": "Reason, which the agent is told" });
		const form = h("form", { class: "reason", onsubmit: event => {
			event.preventDefault();
			this.answer("refuse", { reason: reason.value.trim() }, "refused", "Refused", list);
		} }, reason, h("button", { class: "bad" }, list ? "Refuse this one" : "Refuse"),
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
		this.act();
		this.element.focus();
	}

	// Those that have been in view for a moment: one that came just now is not answered with the others, nor in
	// the place of one that is gone.
	ripe() {
		const waiting = this.list.filter(a => a.state === "pending");
		return this.seen.size === 1 ? waiting : waiting.filter(a => performance.now() - this.seen.get(a.id) >= EYE_MS);
	}

	async answer(verb, body, state, done, only) {
		const list = only ?? this.ripe();
		if (this.busy || list.length === 0)
			return;
		this.busy = true;
		setAttr(this.element, "aria-busy", "true");
		const rest = [...list], failed = [];
		let held = 0, answered = 0;
		const work = async () => {
			for (let a = rest.shift(); a; a = rest.shift()) {
				try {
					const said = await post(`/v1/approvals/${encodeURIComponent(a.id)}/${verb}`, body);
					const next = said?.id ? said : { ...a, state };
					held += next.state === "pending";
					answered++;
					takeApproval(next);
				} catch (error) {
					failed.push(error.message);
				}
			}
		};
		await Promise.all(Array.from({ length: Math.min(AT_ONCE, list.length) }, work));
		this.busy = false;
		setAttr(this.element, "aria-busy", null);
		this.report(list, { answered, held, failed, done });
	}

	report(list, { answered, held, failed, done }) {
		const what = `${list.length > 1 ? `${answered} times ` : ""}${nameOf(list[0])}`;
		if (failed.length > 0) {
			// What was opened for a while may have answered the others by itself.
			tell(list.length === 1 ? failed[0] : `${failed.length} of ${list.length} could not be answered: ${failed[0]}`, "bad");
			this.page.load();
		}
		if (answered === 0)
			return;
		tell(`${held > 0 ? "Noted; another person has to approve too" : done}: ${what}`);
		this.act();
		this.page.next(this.key);
	}
}

class Approvals {
	constructor(root) {
		this.cards = new Map();
		this.chosen = null;
		this.count = h("span", { class: "dim" });
		this.place = h("div", { class: "cards" });
		this.more = h("p", { class: "dim" });
		this.none = empty("Nothing waits.", "A request that meets a rule with `ask` is held, and shown here until somebody answers. Give a cell such a rule:", "cloister policy edit CELL");
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
		const waiting = pending(), groups = groupsOf(waiting), wanted = new Map();
		for (const group of groups.slice(0, SHOWN_MAX))
			wanted.set(group.key, group.list);
		const past = [...this.cards.values()].filter(card => !wanted.has(card.key))
			.map(card => [card, card.list.map(a => live.approvals.get(a.id)).filter(a => a && a.state !== "pending")]).filter(([, list]) => list.length > 0);
		for (const [card, list] of past.slice(-ANSWERED_MAX))
			wanted.set(card.key, list);
		for (const [key, card] of this.cards)
			if (!wanted.has(key)) {
				card.element.remove();
				this.cards.delete(key);
			}
		for (const [key, list] of wanted) {
			if (this.cards.has(key))
				this.cards.get(key).show(list);
			else
				this.cards.set(key, new Card(this, { key, list }));
		}
		[...this.cards.values()].sort((a, b) => a.asked < b.asked ? -1 : a.asked > b.asked ? 1 : 0).forEach((card, at) => {
			if (this.place.children[at] !== card.element)
				this.place.insertBefore(card.element, this.place.children[at] ?? null);
		});
		setText(this.count, waiting.length ? `${waiting.length} waiting${groups.length < waiting.length ? `, of ${groups.length} ${groups.length === 1 ? "kind" : "kinds"}` : ""}` : "");
		setText(this.more, groups.length > SHOWN_MAX ? `${groups.length - SHOWN_MAX} more wait behind these.` : "");
		this.none.hidden = this.cards.size > 0;
		if (this.chosen === null || !this.cards.has(this.chosen))
			this.choose(groups.find(group => this.cards.has(group.key))?.key ?? null);
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

	// The one behind, or this one again, if some of it still wait.
	next(key) {
		const now_ = groupsOf(pending()).filter(group => this.cards.has(group.key));
		const here = now_.find(group => group.key === key && group.list.length > 1);
		const others = now_.filter(group => group.key !== key);
		const asked = this.cards.get(key)?.asked ?? "";
		this.choose((here ?? others.find(group => group.list[0].asked > asked) ?? others[0])?.key ?? null);
		this.reveal();
	}

	move(by) {
		const order = new Map([...this.cards.values()].map(card => [card.element, card.key]));
		const ids = [...this.place.children].map(element => order.get(element));
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
		if (!card || !this.armed || !card.isPending)
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
