// page_audit.js - whether what was recorded is as it was, and what operators did, in sentences; each with
// the record that proves it.

import { get, text } from "./api.js";
import { fill, h, say, setAttr, setText } from "./dom.js";
import { clock, short, stamp, whole } from "./format.js";
import { follow, live, takeAudit } from "./live.js";
import { attempt, command, empty, kindOf } from "./ui.js";

const RECORDS_MAX = 400;
const TEXT_MAX = 2 * 1024 * 1024;

const WORDS = {
	verified: "Every record is as it was written.",
	broken: "A record is not as it was written.",
	checking: "The timelines are being verified.",
};

const cellOf = e => h("a", { class: "t", href: `#/cell/${encodeURIComponent(e.cell)}` }, e.cell);
const word = value => h("code", { class: "t" }, value);
// "main of brain", from refs/heads/main.
const branchOf = e => [word(String(e.ref ?? "").replace(/^refs\/(heads|tags)\//, "")), " of the state ", word(e.state)];
const many = (n, one) => `${whole(n)} ${one}${Number(n) === 1 ? "" : "s"}`;

// By type: what happened, without who did it.
const SENTENCES = {
	"log.begun": () => ["began this timeline"],
	"log.repaired": e => [`cut off ${many(e.bytes, "byte")} that a crash left at the end`],
	"records.dropped": e => [`dropped the records up to ${e.through}`],
	"cell.started": e => ["started cell ", cellOf(e)],
	"cell.ended": e => ["Cell ", cellOf(e), ` ended with status ${e.status}, after ${many(e.size, "record")}`],
	"cell.lost": e => ["Cell ", cellOf(e), " was lost: its supervisor was killed"],
	"cell.pruned": e => ["removed the timeline of cell ", cellOf(e)],
	"cell.policy": e => ["set the policy of cell ", cellOf(e)],
	"cell.allow": e => ["allowed ", word(e.rule ?? "a rule"), " in cell ", cellOf(e)],
	"cell.deny": e => ["denied ", word(e.rule ?? "a rule"), " in cell ", cellOf(e)],
	"cell.revoke": e => ["revoked ", word(e.secret), " in cell ", cellOf(e)],
	"cell.rotate": e => ["rotated ", word(e.secret), " in cell ", cellOf(e)],
	"cell.ttl": e => ["changed how long cell ", cellOf(e), " lives"],
	"cell.budget": e => ["raised a budget of cell ", cellOf(e)],
	"cell.freeze": e => ["froze cell ", cellOf(e)],
	"cell.thaw": e => ["thawed cell ", cellOf(e)],
	"cell.stop": e => ["stopped cell ", cellOf(e)],
	"cell.kill": e => ["killed cell ", cellOf(e)],
	"cells.freeze": e => [`froze all cells, ${many(e.cells, "cell")}`],
	"cells.thaw": e => [`thawed all cells, ${many(e.cells, "cell")}`],
	"cells.stop": e => [`stopped all cells, ${many(e.cells, "cell")}`],
	"cells.kill": e => [`killed all cells, ${many(e.cells, "cell")}`],
	"cells.revoke": e => ["revoked ", word(e.secret), ` in ${many(e.cells, "cell")}`],
	"cells.rotate": e => ["rotated ", word(e.secret), ` in ${many(e.cells, "cell")}`],
	"approval.approve": e => ["approved a request of cell ", cellOf(e)],
	"approval.refuse": e => ["refused a request of cell ", cellOf(e)],
	"changes.apply": e => [Number(e.paths) > 0 ? `asked to apply ${many(e.paths, "path")} of cell ` : "asked to apply the changes of cell ", cellOf(e)],
	"changes.applied": e => [`applied ${many(e.applied, "change")} of cell `, cellOf(e), e.held > 0 ? `, ${e.held} held back` : "", e.force ? ", overwriting what was changed here" : ""],
	"changes.discard": e => ["asked to discard the changes of cell ", cellOf(e)],
	"changes.discarded": e => ["discarded the changes of cell ", cellOf(e)],
	"secret.added": e => ["added the secret ", word(e.secret)],
	"secret.rotated": e => ["rotated the secret ", word(e.secret)],
	"secret.removed": e => ["removed the secret ", word(e.secret)],
	"secret.lent": e => ["lent the secret ", word(e.secret), ` to dispatch ${e.dispatch} at worker ${e.worker}`],
	"state.created": e => ["made the state ", word(e.state)],
	"state.imported": e => ["imported the state ", word(e.state)],
	"state.committed": e => ["committed to ", branchOf(e), ...(e.cell ? [" what cell ", cellOf(e), " has changed"] : []), e.reason ? ` (${e.reason})` : ""],
	"state.rolled_back": e => ["rolled ", branchOf(e), " back to ", word(short(e.source))],
	"state.merged": e => ["merged ", word(short(e.source)), " into ", branchOf(e)],
	"state.branched": e => ["made ", branchOf(e), " at ", word(short(e.commit))],
	"state.tagged": e => ["tagged ", word(short(e.commit)), " as ", branchOf(e)],
	"state.unbranched": e => ["removed ", branchOf(e)],
	"state.untagged": e => ["removed ", branchOf(e)],
	"state.withheld": e => ["kept changes of ", ...(e.cell ? ["cell ", cellOf(e)] : ["a cell"]), " for a review of the state ", word(e.state)],
	"state.accepted": e => ["accepted changes of the review ", word(e.review), " of the state ", word(e.state)],
	"state.refused": e => ["refused the review ", word(e.review), " of the state ", word(e.state)],
	"state.unreviewed": e => ["ended a review of the state ", word(e.state)],
	"state.removed": e => ["removed the state ", word(e.state)],
	"volume.created": e => ["made the volume ", word(e.volume)],
	"volume.changed": e => ["changed the files of the volume ", word(e.volume)],
	"volume.cloned": e => ["made the volume ", word(e.volume), " of ", word(e.of)],
	"volume.snapshot": e => ["kept the volume ", word(e.volume), " as the snapshot ", word(e.label)],
	"volume.restored": e => ["gave the volume ", word(e.volume), " the files of its snapshot ", word(e.label)],
	"volume.refused": e => ["dropped a cell's changes of the volume ", word(e.volume)],
	"volume.removed": e => [e.label ? "removed the snapshot " : "removed the volume ", word(e.label ? `${e.volume}@${e.label}` : e.volume)],
	"plan.exported": () => ["exported a plan"],
	"plan.rebuilt": e => [`rebuilt ${many(e.changed, "item")} of a plan`],
	"folder.trusted": e => ["trusted the folder ", word(e.folder)],
	"profile.trusted": e => ["trusted the profile ", word(e.profile)],
	"dispatch.asked": e => ["dispatched ", word(e.agent), e.principal ? ` for ${e.principal}` : ""],
	"dispatch.ended": e => ["Dispatch ", h("a", { class: "t", href: `#/dispatches/${encodeURIComponent(e.dispatch)}` }, e.dispatch), ` is ${e.state ?? "over"}`],
	"dispatches.cancelled": e => [`cancelled ${many([e.dispatches].flat().length, "dispatch")}`],
};

// A type that is not known here is told by its members.
function sentence(e) {
	const known = Object.hasOwn(SENTENCES, e.type) ? SENTENCES[e.type] : null;
	if (known)
		return known(e);
	return [e.type.replaceAll(".", " "), " ", word(Object.entries(e).filter(([name]) => !["type", "peer", "uid", "by"].includes(name))
		.map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", "))];
}

// What happens by itself has nobody who did it.
const BY_ITSELF = new Set(["cell.ended", "cell.lost", "dispatch.ended"]);
const whoOf = e => e.peer ?? e.by ?? (e.uid === undefined ? "cloister" : `uid ${e.uid}`);

function proofOf(record) {
	return [h("p", { class: "dim" }, `Record ${record.n} of the operator's timeline. It contains the hash of the record before it, ${short(record.prev)}…, and a signed checkpoint covers both.`),
		h("pre", { class: "content t", tabindex: "0", role: "region", "aria-label": `Record ${record.n}` }, say(JSON.stringify(record, null, 2), true)), command("cloister audit verify")];
}

function entry(record) {
	const { n, time, event } = record;
	const proof = h("div", { class: "proof", hidden: true });
	const button = h("button", { type: "button", class: "plain", "aria-expanded": "false", onclick: () => {
		proof.hidden = !proof.hidden;
		setAttr(button, "aria-expanded", String(!proof.hidden));
		if (proof.childElementCount === 0)
			fill(proof, proofOf(record));
	} }, `Proof #${n}`);
	return h("li", null, h("span", { class: "when", title: stamp(time) }, clock(time)), h("span", { class: "said" }, BY_ITSELF.has(event.type) ? null : [h("b", { class: "t" }, whoOf(event)), " "], sentence(event), event.why ? h("q", { class: "t" }, event.why) : null), button, proof);
}

// Newest first, under their days.
function days(records) {
	const out = [];
	let day = null;
	for (const record of records) {
		const its = stamp(record.time).slice(0, 10);
		if (its !== day)
			out.push(h("h3", null, its), h("ol", { class: "acts-list" }));
		day = its;
		out.at(-1).append(entry(record));
	}
	return out;
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
		}).filter(record => record.event?.type && record.event.type !== "checkpoint").slice(-RECORDS_MAX).reverse();
		fill(place, records.length === 0 ? empty("Nothing is recorded yet.", "Each act of an operator is: a secret added, a cell frozen, changes applied.") : days(records));
	};
	const end = follow(changes => changes.audit && show());
	show();
	load();
	return { keys: () => [["l", "look again", load]], close: end };
}
