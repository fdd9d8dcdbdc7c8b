// You decide: what can happen next, undo with branches, goals with par, and the light.

import { el } from "./dom.js";

const FAULTS = new Set(["lose", "duplicate", "crash", "restart"]);

/** The steps of a session as a tree: undo goes up, and what was tried stays below. */
export class Branches {
	/** @param {string[]} lines */
	constructor(lines) {
		this.root = { line: "", up: /** @type {any} */ (null), down: /** @type {any[]} */ ([]) };
		this.here = this.root;
		for (const line of lines) this.take(line);
	}

	/** @param {string} line */
	take(line) {
		let next = this.here.down.find((one) => one.line === line);
		if (!next) {
			next = { line, up: this.here, down: [] };
			this.here.down.push(next);
		}
		this.here = next;
	}

	/** Goes one step back; false at the start. */
	undo() {
		if (!this.here.up) return false;
		this.here = this.here.up;
		return true;
	}

	lines() {
		const lines = [];
		for (let one = this.here; one.up; one = one.up) lines.unshift(one.line);
		return lines;
	}
}

/** A choice in words. @param {Played} played @param {Choice} choice */
export function words(played, choice) {
	const name = (/** @type {number | undefined} */ who) => played.processes[who ?? 0];
	if (!/^(deliver|lose|duplicate)$/.test(choice.act)) return choice.line;
	const what = choice.act === "deliver" ? "" : `${choice.act} `;
	return `${what}${choice.text}: ${name(choice.from)} → ${name(choice.to)}`;
}

/**
 * The list of choices: what can happen as buttons 1 to 9, what is held back in grey with the
 * reason.
 * @param {HTMLElement} host
 * @param {Played} played
 * @param {boolean} faults
 * @param {(line: string) => void} choose
 * @returns {string[]} the lines of the keys 1 to 9
 */
export function showChoices(host, played, faults, choose) {
	const shown = played.choices.filter((choice) => faults || !FAULTS.has(choice.act));
	const free = shown.filter((choice) => !choice.refusal);
	const held = shown.filter((choice) => choice.refusal && choice.act === "deliver");
	const button = (/** @type {Choice} */ choice, /** @type {number} */ index) =>
		el(
			"button",
			{ class: `choice ${choice.act}`, "data-line": choice.line, onclick: () => choose(choice.line) },
			index < 9 ? el("kbd", {}, String(index + 1)) : null,
			words(played, choice),
		);
	const grey = (/** @type {Choice} */ choice) =>
		el(
			"span",
			{ class: "choice held" },
			el("s", {}, words(played, choice)),
			` ${choice.refusal}`,
		);
	host.replaceChildren(...free.map(button), ...held.map(grey));
	if (free.length === 0) host.append(el("p", {}, "Nothing can happen any more."));
	return free.slice(0, 9).map((choice) => choice.line);
}

/**
 * Branches that were tried from here.
 * @param {HTMLElement} host
 * @param {Branches} branches
 * @param {(line: string) => void} choose
 */
export function showBranches(host, branches, choose) {
	const tried = branches.here.down;
	host.hidden = tried.length === 0;
	host.replaceChildren(
		"Tried from here: ",
		...tried.map((one) =>
			el("button", { class: "branch", onclick: () => choose(one.line) }, `${one.line}${one.down.length > 0 ? " …" : ""}`),
		),
	);
}

const GOALS = /** @type {Record<string, string>} */ ({
	"mutual-exclusion": "two in the critical section at once",
	"deadlock-free": "a deadlock",
});

/**
 * The goals, with the length of the checker's shortest counterexample as par.
 * @param {HTMLElement} host
 * @param {Goal[]} goals
 * @param {Played} played
 */
export function showGoals(host, goals, played) {
	const last = played.steps.length - 1;
	const found = played.steps[last].finding?.problem;
	const item = (/** @type {Goal} */ goal) => {
		const name = GOALS[goal.property] ?? goal.property;
		if (goal.steps === null) {
			const why = goal.decided
				? `impossible: the checker looked at ${goal.states.toLocaleString("en")} states`
				: `none found in ${goal.states.toLocaleString("en")} states`;
			return el("li", {}, `${name}: ${why}`);
		}
		const done = (found === "deadlock" ? "deadlock-free" : found) === goal.property;
		const par = last === goal.steps ? ", which is par" : ` (par: ${goal.steps})`;
		const result = done ? `reached in ${last} steps${par}` : `par ${goal.steps} steps`;
		return el("li", { class: done ? "done" : "" }, `${name}: ${result}`);
	};
	host.replaceChildren(...goals.map(item));
}

/**
 * The light: can it still go wrong from here?
 * @param {HTMLElement} host
 * @param {Risk | null} risk
 * @param {string} [why]
 */
export function showRisk(host, risk, why = "") {
	host.className = `light ${risk?.level ?? "unknown"}`;
	host.replaceChildren(
		el("span", { class: "lamp", "aria-hidden": "true" }),
		el("span", {}, el("b", {}, "Can it still go wrong from here? "), risk?.sentence ?? why),
	);
}
