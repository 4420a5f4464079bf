// dom.js - makes elements.  All text goes in as text, with what is invisible in it made visible:
// hosts, paths and commands are an agent's words.

// Controls, what turns the direction of text around, what has no width, and lone halves of pairs.
const ODD = /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|[\u{e0000}-\u{e0fff}\u{1d173}-\u{1d17a}]/u;
const ODDS = new RegExp(ODD.source, "gu");
const ODDS_IN_LINES = new RegExp(`(?![\\n\\t])(?:${ODD.source})`, "gu");

const NAMES = { 0: "NUL", 8: "BS", 9: "TAB", 10: "LF", 13: "CR", 27: "ESC", 127: "DEL" };

function nameOf(character) {
	const code = character.codePointAt(0);
	return NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

// A string in which nothing is invisible, for attributes.
export function visible(text) {
	return String(text).replace(ODDS, character => `⟨${nameOf(character)}⟩`);
}

// What is odd in a text of several lines: [{line, column, name}], at most MAX of them.
export function oddities(text, max = 20) {
	const found = [];
	String(text).split("\n").forEach((line, at) => {
		for (const match of line.matchAll(ODDS_IN_LINES))
			if (found.length < max)
				found.push({ line: at + 1, column: match.index + 1, name: nameOf(match[0]) });
	});
	return found;
}

// Nodes for TEXT.  LINES: line ends and tabs may stay what they are.
export function say(text, lines = false) {
	const string = String(text);
	if (!ODD.test(string))
		return document.createTextNode(string);
	const out = document.createDocumentFragment();
	let at = 0;
	for (const match of string.matchAll(lines ? ODDS_IN_LINES : ODDS)) {
		if (match.index > at)
			out.append(string.slice(at, match.index));
		const mark = document.createElement("span");
		mark.className = "odd";
		mark.textContent = nameOf(match[0]);
		out.append(mark);
		at = match.index + match[0].length;
	}
	if (at < string.length)
		out.append(string.slice(at));
	return out;
}

function put(element, children) {
	for (const child of children.flat(Infinity)) {
		if (child === null || child === undefined || child === false)
			continue;
		element.append(child instanceof Node ? child : say(child));
	}
	return element;
}

function apply(element, props) {
	for (const [name, value] of Object.entries(props ?? {})) {
		if (value === null || value === undefined || value === false)
			continue;
		if (name.startsWith("on"))
			element.addEventListener(name.slice(2), value);
		else if (name === "value")
			element.value = value;
		else if (value === true)
			element.setAttribute(name, "");
		else
			element.setAttribute(name, visible(value));
	}
	return element;
}

export function h(tag, props, ...children) {
	return put(apply(document.createElement(tag), props), children);
}

export function s(tag, props, ...children) {
	return put(apply(document.createElementNS("http://www.w3.org/2000/svg", tag), props), children);
}

export function fill(element, ...children) {
	element.replaceChildren();
	return put(element, children);
}

const shown = new WeakMap();

// Only what differs touches the document.
export function setText(element, text) {
	const string = text ?? "";
	if (shown.get(element) === string)
		return;
	shown.set(element, string);
	element.replaceChildren(say(string));
}

export function setAttr(element, name, value) {
	if (value === null || value === undefined) {
		if (element.hasAttribute(name))
			element.removeAttribute(name);
		return;
	}
	const string = visible(value);
	if (element.getAttribute(name) !== string)
		element.setAttribute(name, string);
}

// An icon of icons.svg's sprite, drawn here so that nothing more is asked for.
const PATHS = {
	freeze: "M8 1.5v13M2.4 4.75l11.2 6.5M13.6 4.75l-11.2 6.5M6 2.5l2 2 2-2M6 13.5l2-2 2 2",
	thaw: "M5 3v10l7-5z",
	kill: "M4 4l8 8M12 4l-8 8",
	theme: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
	help: "M5.8 6a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.6M8 12.2v.1",
	back: "M10 3L5 8l5 5",
	key: "M10.5 5.5a3 3 0 1 0-2.6 3l1.1 1h1.5v1.5H12V13h2v-2.2L10.3 7",
	check: "M3 8.5l3.2 3.2L13 5",
	alert: "M8 2l6.5 11.5h-13zM8 6.5v3.2M8 11.6v.1",
	hand: "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11zM8 5v3.3l2.2 1.4",
	gauge: "M2.5 12a5.8 5.8 0 1 1 11 0M8 10.5l2.6-3.6",
	file: "M4 1.5h5l3 3v10H4zM9 1.5v3h3M6 8h4M6 10.5h4",
	dots: "M3.5 8h.1M8 8h.1M12.5 8h.1",
	copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
	eye: "M1.5 8s2.4-4.5 6.5-4.5S14.5 8 14.5 8s-2.4 4.5-6.5 4.5S1.5 8 1.5 8zM8 6a2 2 0 1 0 0 4a2 2 0 0 0 0-4z",
	search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.8 10.8L14 14",
};

export function icon(name) {
	return s("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, s("path", { d: PATHS[name] }));
}

// Whether a key is being typed into something.
export function isTyping(event) {
	const target = event.target;
	return target instanceof HTMLElement &&
		(target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}
