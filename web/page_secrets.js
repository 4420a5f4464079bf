// page_secrets.js - the vault's secrets, by name: what they are for, and revoking one everywhere.

import { get, post } from "./api.js";
import { fill, h } from "./dom.js";
import { attempt, chip, empty, sureButton, table } from "./ui.js";

export function open(root) {
	const place = h("div");
	root.append(h("div", { class: "bar" }, h("h1", null, "Secrets"), h("span", { class: "dim" }, "names and scopes; values never leave the vault")), place);
	const load = async () => {
		const said = await attempt(get("/v1/secrets"));
		if (!said)
			return;
		const rows = said.secrets.map(secret => h("tr", { "data-secret": secret.name }, h("th", { scope: "row" }, h("code", { class: "t" }, secret.name)),
			h("td", null, secret.scheme ?? "–"), h("td", { class: "t wrap" }, (secret.hosts ?? secret.scope ?? []).toString().replaceAll(",", ", ")),
			h("td", { class: "n" }, secret.cells === undefined ? "–" : String(Array.isArray(secret.cells) ? secret.cells.length : secret.cells)),
			h("td", { class: "acts" }, secret.revoked ? chip("revoked", "bad") : sureButton("Revoke everywhere", "Press again: all cells lose it",
				async () => {
					await attempt(post(`/v1/secrets/${encodeURIComponent(secret.name)}/revoke`, {}), `${secret.name} is revoked in every cell`);
					load();
				}, { class: "bad" }))));
		fill(place, rows.length === 0 ? empty("The vault is empty.", "`cloister secret add NAME` puts one in.") :
			table("Secrets", ["Name", "Scheme", "For", "Cells", "Actions"], rows));
	};
	load();
	return { keys: () => [], close() {} };
}
