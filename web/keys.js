// keys.js - the keyboard: what is at hand everywhere, and what the page in view adds.

import { isTyping } from "./dom.js";

const KEPT = "cloister.keys";

const common = new Map();
let ofPage = new Map();

export function isOn() {
	return localStorage.getItem(KEPT) !== "off";
}

export function turn(on) {
	localStorage.setItem(KEPT, on ? "on" : "off");
}

// KEYS: [[key, what it does, function], ...].  A function that returns false did nothing.
export function everywhere(keys) {
	for (const [key, what, then] of keys)
		common.set(key, { what, then });
}

export function onThisPage(keys) {
	ofPage = new Map(keys.map(([key, what, then]) => [key, { what, then }]));
}

export function all() {
	const list = keys => [...keys].filter(([, { what }]) => what).map(([key, { what }]) => [key, what]);
	return { page: list(ofPage), common: list(common) };
}

function nameOf(event) {
	const held = event.ctrlKey || event.metaKey ? "Ctrl+" : event.altKey ? "Alt+" : "";
	return held + event.key;
}

document.addEventListener("keydown", event => {
	// A key that is held down must not answer one approval after the other.
	if (event.defaultPrevented || event.repeat)
		return;
	const key = nameOf(event);
	const isHeld = key.startsWith("Ctrl+");
	if (!isHeld && key !== "Escape" && (isTyping(event) || !isOn() || document.querySelector("dialog[open]")))
		return;
	for (const found of [ofPage.get(key), common.get(key)])
		if (found && found.then(event) !== false) {
			event.preventDefault();
			return;
		}
});
