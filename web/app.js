// app.js - the frame: who is logged in, which page is in view, what is always in reach.

import { get, login, logout, session, whenLoggedOut } from "./api.js";
import { fill, h, setAttr, setText } from "./dom.js";
import { follow, live, pending, start, stop as stopLive, takeApprovals, takeAudit } from "./live.js";
import * as keys from "./keys.js";
import * as cells from "./page_cells.js";
import * as cell from "./page_cell.js";
import * as approvals from "./page_approvals.js";
import * as registry from "./page_registry.js";
import * as dispatches from "./page_dispatches.js";
import * as secrets from "./page_secrets.js";
import * as states from "./page_states.js";
import * as audit from "./page_audit.js";
import { close as closeStop, label as labelStop, press } from "./stop.js";
import { kindOf, tell } from "./ui.js";

const PAGES = { cells, cell, approvals, registry, dispatches, secrets, states, audit };
const TITLES = { cells: "Overview", cell: "Cell", approvals: "Approvals", registry: "Registry", dispatches: "Dispatches", secrets: "Secrets", states: "States", audit: "Audit" };
const NAV = ["cells", "approvals", "dispatches", "registry", "secrets", "states"];
const THEMES = ["auto", "light", "dark"];
const AUDIT = { verified: "verified", broken: "broken", checking: "checking" };

const at = id => document.getElementById(id);
let page = null, shown = "cells";

const go = hash => {
	location.hash = hash;
};

// ---- pages
function route() {
	const [name, ...words] = location.hash.replace(/^#\/?/, "").split("/").map(word => {
		try {
			return decodeURIComponent(word);
		} catch {
			return word;
		}
	});
	const next = Object.hasOwn(PAGES, name) ? name : "cells";
	page?.close();
	shown = next;
	const main = at("main");
	fill(main);
	main.className = `page-${next}`;
	page = PAGES[next].open(main, words, go);
	keys.onThisPage(page.keys());
	for (const link of at("nav").children)
		setAttr(link, "aria-current", link.dataset.page === next || (next === "cell" && link.dataset.page === "cells") ? "page" : null);
	setAttr(at("audit"), "aria-current", next === "audit" ? "page" : null);
	scrollTo(0, 0);
	title();
}

function title() {
	const n = pending().length;
	document.title = `${n > 0 ? `(${n}) ` : ""}${TITLES[shown]} · cloister`;
}

// ---- what the header tells
function head(changes) {
	if (changes.approvals.size > 0 || changes.all) {
		const n = pending().length;
		const badge = at("nav").querySelector("[data-page=approvals] .badge");
		setText(badge, n > 0 ? String(n) : "");
		badge.hidden = n === 0;
		title();
		for (const id of changes.approvals) {
			const a = live.approvals.get(id);
			if (a?.state === "pending" && shown !== "approvals")
				setText(at("news"), `Waiting for approval: ${a.method ?? ""} ${a.host}${a.path ?? ""}`);
		}
	}
	if (changes.all || changes.cells.size > 0)
		labelStop();
	if (changes.audit && live.audit) {
		setAttr(at("audit"), "data-kind", kindOf(live.audit.state));
		setText(at("audit").lastElementChild, AUDIT[live.audit.state] ?? live.audit.state);
		setAttr(at("audit"), "aria-label", `Audit: ${live.audit.state}`);
	}
	if (changes.state) {
		setAttr(at("live"), "data-kind", { live: "ok", lost: "bad" }[live.state] ?? "dim");
		setText(at("live").lastElementChild, { live: "live", lost: "no connection", connecting: "connecting" }[live.state]);
		if (live.state === "live")
			catchUp();
	}
}

// What the stream need not tell again: what already waits, and how the audit stands.
async function catchUp() {
	const [waiting, state] = await Promise.all([get("/v1/approvals", { state: "pending" }).catch(() => null), get("/v1/audit/state").catch(() => null)]);
	if (waiting)
		takeApprovals(waiting.approvals);
	if (state)
		takeAudit(state);
}

// ---- light and dark
function theme(next) {
	localStorage.setItem("cloister.theme", next);
	document.documentElement.dataset.theme = next;
	setAttr(at("theme"), "aria-label", `Theme: ${next}`);
	setAttr(at("theme"), "title", `Theme: ${next}`);
}

// ---- help
function help() {
	const dialog = at("help");
	if (dialog.open) {
		dialog.close();
		return;
	}
	const { page: here, common } = keys.all();
	const list = rows => h("dl", { class: "keys" }, rows.map(([key, what]) => [h("dt", null, h("kbd", null, key)), h("dd", null, what)]));
	const box = h("input", { type: "checkbox", onchange: () => keys.turn(box.checked) });
	box.checked = keys.isOn();
	fill(dialog, h("h2", null, "Keys"), h("div", { class: "columns" }, h("div", null, h("h3", null, TITLES[shown]), list(here)), h("div", null, h("h3", null, "Everywhere"), list(common))),
		h("label", { class: "check" }, box, " single keys work"), h("button", { type: "button", onclick: () => dialog.close() }, "Close ", h("kbd", null, "Esc")));
	dialog.showModal();
}

// ---- who
function enter(who) {
	at("login").hidden = true;
	at("frame").hidden = false;
	setText(at("who"), who.who ?? who.name ?? "");
	start();
	route();
}

function leave() {
	stopLive();
	page?.close();
	page = null;
	fill(at("main"));
	at("frame").hidden = true;
	at("login").hidden = false;
	at("token").focus();
}

async function tryLogin(how) {
	try {
		const who = await login(how);
		if (who)
			enter(who);
	} catch (error) {
		if (page) {
			tell(error.message, "bad");
			return;
		}
		setText(at("login-said"), error.message);
		leave();
	}
}

// A code from `cloister dashboard`, which works once and should not stay in the history.  False: there is none.
async function useCode() {
	const code = location.hash.match(/^#code=(.+)$/)?.[1];
	if (!code)
		return false;
	history.replaceState(null, "", "#/cells");
	await tryLogin({ code: decodeURIComponent(code) });
	return true;
}

async function begin() {
	theme(THEMES.includes(localStorage.getItem("cloister.theme")) ? localStorage.getItem("cloister.theme") : "auto");
	at("theme").addEventListener("click", () => theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]));
	at("keys").addEventListener("click", help);
	// The address tells the page, so that this cannot be an ordinary link.
	document.querySelector("a.skip").addEventListener("click", event => {
		event.preventDefault();
		at("main").focus();
	});
	at("stop").addEventListener("click", press);
	at("logout").addEventListener("click", async () => {
		await logout().catch(error => tell(error.message, "bad"));
		leave();
	});
	at("login-form").addEventListener("submit", event => {
		event.preventDefault();
		const token = at("token").value.trim();
		at("token").value = "";
		tryLogin({ token });
	});
	keys.everywhere([
		...[...NAV.slice(0, 5), "audit", ...NAV.slice(5)].map((name, i) => [String(i + 1), TITLES[name].toLowerCase(), () => go(`#/${name}`)]),
		["?", "these keys", help], ["d", "light, dark, or as the system", () => at("theme").click()],
		["Ctrl+.", "twice: freeze every cell; where that cannot be, three times: kill them", press],
		["Escape", null, closeStop],
	]);
	follow(head);
	addEventListener("hashchange", async () => {
		// The link of `cloister dashboard` may be pasted into a tab that is open already.
		if (!await useCode() && page)
			route();
	});
	whenLoggedOut(() => page && leave());
	if (await useCode())
		return;
	const who = await session().catch(error => {
		setText(at("login-said"), error.message);
		return null;
	});
	if (who)
		enter(who);
	else
		leave();
}

begin();
