// api.js - asks the service.  What it refuses is thrown as an Error with its sentence.

// The session's word, which goes with each change.  The browser sends the cookie to every port of this host,
// and keeps this for the pages of this port.
const WORD = "cloister.csrf";
let onLoggedOut = () => {};

export class Refused extends Error {
	constructor(status, error) {
		super(error?.message ?? `the service answered ${status}`);
		this.status = status;
		this.code = error?.code;
	}
}

export function whenLoggedOut(then) {
	onLoggedOut = then;
}

async function send(method, path, body, signal) {
	const headers = { accept: "application/json" };
	if (body !== undefined)
		headers["content-type"] = "application/json";
	const word = localStorage.getItem(WORD);
	if (method !== "GET" && word !== null)
		headers["x-cloister-csrf"] = word;
	let response;
	try {
		response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body),
			credentials: "same-origin", cache: "no-store", redirect: "error", signal });
	} catch (error) {
		if (error.name === "AbortError")
			throw error;
		throw new Refused(0, { message: "the service does not answer" });
	}
	if (!response.ok) {
		const said = await response.json().catch(() => null);
		if (response.status === 401 && path !== "/login")
			onLoggedOut();
		throw new Refused(response.status, said?.error);
	}
	return response;
}

export async function get(path, query, signal) {
	const words = new URLSearchParams();
	for (const [name, value] of Object.entries(query ?? {}))
		if (value !== null && value !== undefined && value !== "")
			words.set(name, value);
	const text = words.toString();
	return (await send("GET", text ? `${path}?${text}` : path, undefined, signal)).json();
}

async function answer(response) {
	const text = await response.text();
	return text === "" ? null : JSON.parse(text);
}

export async function post(path, body, signal) {
	return answer(await send("POST", path, body, signal));
}

export async function putTo(path, body) {
	return answer(await send("PUT", path, body));
}

// At most MAX characters of what is not JSON, and whether there is more.
export async function text(path, max) {
	const response = await send("GET", path);
	const reader = response.body.getReader(), decoder = new TextDecoder();
	let got = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done)
			return { text: got + decoder.decode(), cut: false };
		got += decoder.decode(value, { stream: true });
		if (got.length > max) {
			reader.cancel();
			return { text: got.slice(0, max), cut: true };
		}
	}
}

// Who is logged in, or null.
export async function session() {
	try {
		const said = await get("/v1/session");
		return localStorage.getItem(WORD) === null ? null : said;
	} catch (error) {
		if (error.status === 401)
			return null;
		throw error;
	}
}

export async function login(how) {
	const said = await (await send("POST", "/login", how)).json();
	localStorage.setItem(WORD, said.csrf);
	return session();
}

export async function logout() {
	await send("POST", "/logout", {});
	localStorage.removeItem(WORD);
}

export const cellPath = (id, rest = "") => `/v1/cells/${encodeURIComponent(id)}${rest}`;
