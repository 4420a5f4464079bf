// page_audit.js - whether what was recorded is as it was, and what operators did.

import { get, text } from "./api.js";
import { fill, h, setAttr, setText } from "./dom.js";
import { stamp, whole } from "./format.js";
import { follow, live, takeAudit } from "./live.js";
import { attempt, empty, kindOf, table } from "./ui.js";

const RECORDS_MAX = 200;
const TEXT_MAX = 2 * 1024 * 1024;

const WORDS = {
	verified: "Every record is as it was written.",
	broken: "A record is not as it was written.",
	checking: "The timelines are being verified.",
};

function summary(event) {
	return Object.entries(event).filter(([name]) => name !== "type" && name !== "peer" && name !== "uid")
		.map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
}

export function open(root) {
	const words = h("h2"), detail = h("p", { class: "t wrap" }), facts = h("p", { class: "dim" });
	const seal = h("section", { class: "seal", "aria-label": "Verification", role: "status" }, h("i", { class: "dot big" }), h("div", null, words, detail, facts));
	const place = h("div");
	root.append(h("div", { class: "bar" }, h("h1", null, "Audit"), h("span", { class: "dim" }, "hash-chained, signed, verified all the time")), seal,
		h("h2", null, "What operators did"), place);

	const show = () => {
		const audit = live.audit ?? { state: "checking" };
		setAttr(seal, "data-kind", kindOf(audit.state));
		setText(words, WORDS[audit.state] ?? audit.state);
		setText(detail, audit.detail ?? "");
		setText(facts, [audit.records === undefined ? null : `${whole(audit.records)} records`, audit.timelines ? `${whole(audit.timelines)} timelines` : null, audit.at ? `looked at ${stamp(audit.at)}` : null].filter(Boolean).join(" · "));
	};
	const load = async () => {
		const audit = await attempt(get("/v1/audit/state"));
		if (audit)
			takeAudit(audit);
		const said = await text("/v1/audit/operator?follow=false", TEXT_MAX).catch(() => ({ text: "" }));
		const records = said.text.split("\n").filter(Boolean).flatMap(line => {
			try {
				return [JSON.parse(line)];
			} catch {
				return [];
			}
		}).filter(record => record.event?.type !== "checkpoint").slice(-RECORDS_MAX).reverse();
		fill(place, records.length === 0 ? empty("Nothing is recorded yet.") : table("Operator's timeline", ["#", "Time", "What", "By", "Details"],
			records.map(({ n, time, event }) => h("tr", null, h("th", { scope: "row" }, String(n)), h("td", null, stamp(time)), h("td", null, event.type),
				h("td", { class: "t" }, event.peer ?? (event.uid === undefined ? "–" : `uid ${event.uid}`)), h("td", { class: "t wrap" }, summary(event))))));
	};
	const end = follow(changes => changes.audit && show());
	show();
	load();
	return { keys: () => [["l", "look again", load]], close: end };
}
