// format.js - numbers and times as people read them.

const UNITS = ["B", "K", "M", "G", "T", "P"];

// 1536 -> "1.5K", as the other commands have it.
export function size(bytes) {
	if (bytes === null || bytes === undefined)
		return "–";
	let value = Number(bytes), unit = 0;
	while (value >= 1000 && unit < UNITS.length - 1) {
		value /= 1024;
		unit++;
	}
	return unit === 0 ? `${value}` : `${value < 10 ? value.toFixed(1) : Math.round(value)}${UNITS[unit]}`;
}

export function count(n) {
	if (n === null || n === undefined)
		return "–";
	const value = Number(n);
	if (value < 10000)
		return String(value);
	if (value < 1e6)
		return `${(value / 1e3).toFixed(value < 1e5 ? 1 : 0)}k`;
	return `${(value / 1e6).toFixed(value < 1e7 ? 1 : 0)}m`;
}

// Percent of one processor; of many, how many.
export function processors(percent) {
	return percent < 1000 ? `${Math.round(percent)}%` : `${Math.round(percent / 100)} cores`;
}

export function whole(n) {
	return Number(n).toLocaleString("en");
}

export function span(seconds) {
	const value = Math.max(0, Math.floor(seconds));
	if (value < 60)
		return `${value}s`;
	if (value < 3600)
		return `${Math.floor(value / 60)}m ${String(value % 60).padStart(2, "0")}s`;
	if (value < 86400)
		return `${Math.floor(value / 3600)}h ${String(Math.floor(value / 60) % 60).padStart(2, "0")}m`;
	return `${Math.floor(value / 86400)}d ${Math.floor(value / 3600) % 24}h`;
}

// Of milliseconds: "300ms", "1.2s", "3m 04s".
export function duration(ms) {
	if (ms === undefined || ms === null)
		return "";
	return ms < 1000 ? `${ms}ms` : ms < 10000 ? `${(ms / 1000).toFixed(1)}s` : span(ms / 1000);
}

// Seconds since 1970 of what the API tells: a number of them, or RFC 3339.
export function seconds(time) {
	if (time === null || time === undefined || time === "")
		return null;
	return typeof time === "number" ? time : Date.parse(time) / 1000;
}

export function now() {
	return Date.now() / 1000;
}

export function age(time) {
	const at = seconds(time);
	return at === null ? "–" : span(now() - at);
}

export function clock(time, withMillis = false) {
	const at = seconds(time);
	if (at === null || Number.isNaN(at))
		return "–";
	const date = new Date(at * 1000);
	const text = [date.getHours(), date.getMinutes(), date.getSeconds()].map(n => String(n).padStart(2, "0")).join(":");
	return withMillis ? `${text}.${String(date.getMilliseconds()).padStart(3, "0")}` : text;
}

export function stamp(time) {
	const at = seconds(time);
	if (at === null || Number.isNaN(at))
		return "–";
	const date = new Date(at * 1000);
	const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map(n => String(n).padStart(2, "0")).join("-");
	return `${day} ${clock(at)}`;
}

// A budget's amount, in the unit of its kind.
export function amount(kind, value) {
	if (value === null || value === undefined)
		return "–";
	if (kind === "money")
		return money(value);
	if (kind === "bytes_in" || kind === "bytes_out")
		return size(value);
	if (kind === "time" || kind === "cpu")
		return span(Number(value));
	return whole(value);
}

export function money(dollars) {
	const value = Number(dollars);
	return `$${value.toFixed(value !== 0 && Math.abs(value) < 1 ? 4 : 2)}`;
}

export function short(hash) {
	return String(hash).replace(/^sha256:/, "").slice(0, 12);
}

export function words(command) {
	if (!Array.isArray(command))
		return String(command ?? "");
	return command.map(word => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`).join(" ");
}

// Where a rule stands; of a policy that was changed while its cell runs, which is no file.
export function placeOf(place) {
	const [, line] = String(place ?? "").match(/^live policy:(\d+):\d+$/) ?? [];
	return line ? `live policy, line ${line}` : place;
}
