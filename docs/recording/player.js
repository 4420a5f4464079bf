/* player.js - plays an asciicast in a <pre>: text, line ends, and the colours that the story uses. */
"use strict";

(function () {
	const STYLES = { 1: "bold", 2: "dim", 31: "red", 32: "green" };
	const screen = document.getElementById("cast-screen");
	const button = document.getElementById("cast-button");
	const events = JSON.parse(document.getElementById("cast-data").textContent);
	let timers = [], styles = [];

	function write(text) {
		for (const part of text.replace(/\r/g, "").split(/(\x1b\[[0-9;]*m)/)) {
			const code = /^\x1b\[([0-9;]*)m$/.exec(part);
			if (code !== null) {
				styles = code[1] === "0" ? [] : styles.concat(STYLES[code[1]] || []);
			} else if (part !== "") {
				const piece = document.createElement("span");
				piece.className = styles.map((style) => "cast-" + style).join(" ");
				piece.textContent = part;
				screen.appendChild(piece);
			}
		}
	}

	function clear() {
		timers.forEach(clearTimeout);
		timers = [];
		styles = [];
		screen.textContent = "";
	}

	function play() {
		clear();
		button.textContent = "Show all";
		timers = events.map(([time, , text]) => setTimeout(write, time * 1000, text));
		timers.push(setTimeout(showAll, events[events.length - 1][0] * 1000));
	}

	function showAll() {
		clear();
		events.forEach(([, , text]) => write(text));
		button.textContent = "Play (90 seconds)";
	}

	button.addEventListener("click", () => (timers.length > 0 ? showAll() : play()));
	showAll();
})();
