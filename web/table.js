// The state table: the variables under the paper's names, with what the step changed in bold.

import { el, patch, table } from "./dom.js";

export class Table {
	/** @param {HTMLElement} host */
	constructor(host) {
		/** @type {any} */
		this.host = host;
		this.sign = "";
	}

	/** @param {View} view */
	show(view) {
		const names = new Set(view.rows.flatMap((row) => Object.keys(row.variables)));
		const columns = [...names];
		const phases = view.rows.some((row) => row.phase !== "");
		const head = ["process", ...(phases ? ["phase"] : []), ...columns, ...(phases ? ["waits for"] : [])];
		const sign = head.join() + view.played.processes.join();
		if (this.sign !== sign) {
			this.sign = sign;
			this.host.replaceChildren(...table("State of every process after this step; what changed is bold", head, []));
		}
		const signs = view.rows.map((row, who) => JSON.stringify([sign, row, view.before[who], view.at === 0]));
		patch(this.host.lastElementChild, signs, (who) => this.row(view, view.rows[who], who, columns, phases));
	}

	/** @param {View} view @param {Row} row @param {number} who @param {string[]} columns @param {boolean} phases */
	row(view, row, who, columns, phases) {
		const before = view.before[who];
		const name = (/** @type {number} */ other) => view.played.processes[other];
		const cell = (/** @type {string} */ now, /** @type {string | undefined} */ then) =>
			el("td", {}, then === undefined || then === now || view.at === 0 ? now : el("b", {}, now));
		const waits = row.waits_for.map(name).join(", ");
		return el(
			"tr",
			{ "data-who": who, class: row.phase },
			el("th", { scope: "row" }, name(who)),
			...(phases ? [cell(row.phase, before?.phase)] : []),
			...columns.map((key) => cell(row.variables[key] ?? "", before?.variables[key] ?? "")),
			...(phases ? [cell(waits, before?.waits_for.map(name).join(", "))] : []),
		);
	}

	/** Lights the sender and the receiver of a message. @param {string | null} key */
	light(key) {
		const ends = key?.split("-") ?? [];
		for (const row of this.host.querySelectorAll("tr[data-who]")) {
			const who = /** @type {HTMLElement} */ (row).dataset.who;
			row.classList.toggle("lit", key !== null && (ends[0] === who || ends[1] === who));
		}
	}
}
