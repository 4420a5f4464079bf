// page_secrets.js - the vault's secrets, by name: what they are for, and revoking one everywhere.

import { get, post } from "./api.js";
import { fill, h } from "./dom.js";
import { attempt, empty, sureButton, table } from "./ui.js";

// What every cell that has it loses, or gets anew.
function act(secret, verb, label, again, kind) {
	return sureButton(label, again, () => attempt(post(`/v1/secrets/${encodeURIComponent(secret.name)}/${verb}`, {}), said =>
		`${secret.name} is ${verb === "revoke" ? "revoked" : "rotated"} in ${said.cells} cell${said.cells === 1 ? "" : "s"}` +
		`${said.failed.length > 0 ? `; not so: ${said.failed.join("; ")}` : ""}`), { class: kind });
}

export function open(root) {
	const place = h("div");
	root.append(h("div", { class: "bar" }, h("h1", null, "Secrets"), h("span", { class: "dim" }, "names and scopes; values never leave the vault")), place);
	const load = async () => {
		const said = await attempt(get("/v1/secrets"));
		if (!said)
			return;
		const rows = said.secrets.map(secret => h("tr", { "data-secret": secret.name }, h("th", { scope: "row" }, h("code", { class: "t" }, secret.name)),
			h("td", null, secret.scheme ?? "–"), h("td", { class: "t wrap" }, (secret.hosts ?? secret.scope ?? []).toString().replaceAll(",", ", ")),
			h("td", { class: "acts" }, act(secret, "rotate", "Rotate everywhere", "Press again: all cells get the vault's value"),
				act(secret, "revoke", "Revoke everywhere", "Press again: all cells lose it", "bad"))));
		fill(place, rows.length === 0 ? empty("The vault is empty.", "An agent gets a placeholder of a secret; the real value is put in on the way to the hosts that it is for.", "cloister secret add GITHUB_TOKEN") :
			table("Secrets", ["Name", "Scheme", "For", "Actions"], rows, "stack"));
	};
	load();
	return { keys: () => [], close() {} };
}
