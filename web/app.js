// The page: modes, time, keys, and what joins the views.

import { byId, download, el, isStill, reason } from "./dom.js";
import { Branches, showBranches, showChoices, showGoals, showRisk } from "./choose.js";
import * as link from "./link.js";
import { Network } from "./network.js";
import { ask, prepare } from "./query.js";
import { Run } from "./run.js";
import { SpaceTime } from "./spacetime.js";
import { allRows, causalPast, outcome, scriptOf, scriptTo, sentence } from "./state.js";
import { Table } from "./table.js";

/** @typedef {"watch" | "decide" | "run" | "live"} Mode */

/** The time of a step at speed 1, in milliseconds. */
const STEP = 1150;

const page = {
	mode: /** @type {Mode} */ ("watch"),
	/** The example or control on show; empty for a script of the visitor. */
	source: "scenes/opening",
	played: /** @type {Played | null} */ (null),
	rows: /** @type {Row[][]} */ ([]),
	at: 0,
	why: /** @type {number | null} */ (null),
	timer: 0,
	/** The step before which a prediction was asked for, and the time to hide its judgement. */
	asked: -1,
	hiding: 0,
	keys: /** @type {string[]} */ ([]),
	branches: new Branches([]),
	goals: /** @type {Goal[]} */ ([]),
	head: "",
	run: /** @type {Record<string, any> | null} */ (null),
	live: /** @type {import("./live.js").Live | null} */ (null),
};

const light = (/** @type {string | null} */ key) => {
	network.light(key);
	spacetime.light(key);
	table.light(key);
};
const network = new Network(byId("network"), { lit: light, choose: (line) => void choose(line) });
const spacetime = new SpaceTime(byId("spacetime"), { lit: light, go: (at) => go(at), why: (step) => explain(step) });
const table = new Table(byId("table"));
const run = new Run((query) => {
	page.run = query;
	remember();
});

// Showing.

/** @param {Played} played @param {number} at */
function take(played, at) {
	page.played = played;
	page.rows = allRows(played);
	byId("stage").hidden = false;
	page.why = null;
	byId("slider").max = String(played.steps.length - 1);
	byId("about").textContent = [played.title, played.source, played.fifo ? "links keep order" : "links may reorder"]
		.filter(Boolean)
		.join(" · ");
	show(Math.max(0, Math.min(at, played.steps.length - 1)));
}

/** @param {number} at */
function show(at) {
	const played = page.played;
	if (!played) return;
	page.at = at;
	const step = played.steps[at];
	const end = played.steps.length - 1;
	const view = {
		played,
		at,
		rows: page.rows[at],
		before: page.rows[Math.max(0, at - 1)],
		past: page.why === null ? null : causalPast(played, page.why),
		choices: page.mode === "decide" ? played.choices : null,
	};
	network.show(view);
	spacetime.show(view);
	table.show(view);
	const heading = byId("sentence");
	const live = page.mode === "live" ? page.live : null;
	const text = live ? step.finding?.sentence ?? live.sentence() : sentence(played, at);
	if (heading.textContent !== text) heading.textContent = text;
	heading.classList.toggle("bad", Boolean(step.finding));
	const words = live ? `${live.when(played, at)} ${step.words}` : step.words;
	byId("words").textContent = words === text ? " " : words || " ";
	byId("slider").value = String(at);
	byId("slider").setAttribute("aria-valuetext", `step ${at} of ${end}`);
	byId("count").textContent = `${at} of ${end}, ${step.entries} ${step.entries === 1 ? "entry" : "entries"}`;
	byId("first").disabled = byId("back").disabled = at === 0;
	byId("next").disabled = at === end;
	byId("why").setAttribute("aria-pressed", String(page.why !== null));
	byId("ways").hidden = !(page.mode === "watch" && page.source === "scenes/opening" && at === end);
	document.body.dataset.at = String(at);
	document.body.dataset.end = String(end);
	document.body.dataset.entries = String(step.entries);
	remember();
}

/** @param {number} at */
function go(at) {
	stop();
	byId("question").hidden = true;
	page.asked = -1;
	if (page.mode === "decide") return goInBranches(at);
	if (page.mode === "live") page.live?.pause();
	return show(Math.max(0, Math.min(at, Number(byId("slider").max))));
}

/** @param {number | null} step */
function explain(step) {
	page.why = step;
	show(page.at);
}

// Time.

function stop() {
	clearTimeout(page.timer);
	page.timer = 0;
	byId("play").textContent = "Play";
}

function play() {
	if (page.timer) return stop();
	if (page.at === Number(byId("slider").max)) show(0);
	byId("play").textContent = "Pause";
	tick();
	return undefined;
}

function tick() {
	const speed = Number(byId("speed").value);
	page.timer = window.setTimeout(() => {
		if (page.at >= Number(byId("slider").max)) return stop();
		show(page.at + 1);
		if (page.at >= Number(byId("slider").max)) return stop();
		return tick();
	}, STEP / speed);
}

function next() {
	if (!page.played) return;
	if (page.mode === "watch" && byId("predict").checked && predict()) return;
	go(page.at + 1);
}

/** Asks what the next step does, if it is a delivery; false if that is not so, or was asked. */
function predict() {
	const played = /** @type {Played} */ (page.played);
	const upcoming = played.steps[page.at + 1];
	if (!upcoming?.received || page.asked === page.at) return false;
	page.asked = page.at;
	clearTimeout(page.hiding);
	const right = outcome(played, page.at + 1);
	const seen = played.steps.map((_, at) => (at > 0 ? outcome(played, at) : ""));
	const others = [...new Set(["does nothing yet", ...seen])].filter((one) => one && one !== right);
	const answers = [right, ...others.slice(0, 2)].sort();
	const name = played.processes[upcoming.who ?? 0];
	const answer = (/** @type {string} */ text) =>
		el("button", { onclick: () => judge(text === right, `${name} ${right}.`) }, text);
	byId("question").replaceChildren(el("b", {}, `${upcoming.line}: what does ${name} do?`), ...answers.map(answer));
	byId("question").hidden = false;
	return true;
}

/** @param {boolean} good @param {string} text */
function judge(good, text) {
	const at = page.at + 1;
	show(at);
	byId("question").replaceChildren(el("b", {}, good ? "Right. " : "Not so. "), text);
	byId("question").hidden = false;
	page.hiding = window.setTimeout(() => (byId("question").hidden = true), 2500);
}

// Modes.

/** @param {Mode} mode */
function setMode(mode) {
	stop();
	page.mode = mode;
	for (const one of ["watch", "decide", "run", "live"]) {
		byId(`mode-${one}`).setAttribute("aria-pressed", String(one === mode));
	}
	document.body.classList.toggle("decides", mode === "decide");
	const isLive = mode === "live";
	document.body.classList.toggle("lives", isLive);
	if (isLive) page.live?.start();
	else page.live?.stop();
	byId("live").hidden = !isLive;
	byId("pick").hidden = isLive || mode === "run";
	for (const id of ["copy-link", "play"]) byId(id).hidden = isLive;
	// A run is no script, and a canvas no SVG.
	byId("copy-script").hidden = isLive || mode === "run";
	byId("save-svg").hidden = mode === "run";
	// What another mode shows is not of this cluster.
	byId("stage").hidden = mode === "run" || (isLive && !page.played?.times);
	byId("run").hidden = mode !== "run";
	byId("decide").hidden = mode !== "decide";
	byId("predict-label").hidden = mode !== "watch";
	byId("play").hidden ||= mode === "decide";
	byId("words").hidden = mode === "run";
	byId("question").hidden = true;
	if (mode === "run") {
		byId("sentence").textContent = "Run an algorithm and compare its costs with theory.";
		byId("sentence").classList.remove("bad");
		byId("ways").hidden = true;
	}
}

/** @param {string} name @param {number} at @param {boolean} [playing] */
async function watch(name, at, playing = false) {
	setMode("watch");
	page.source = name;
	byId("examples").value = name;
	const query = name.includes(": ") ? { query: "control", name } : { query: "example", name };
	const played = await asked(query);
	if (!played) return;
	take(played, at);
	if (playing && !isStill()) play();
}

/** The visitor decides from a script on. @param {string} head @param {string[]} lines */
async function decide(head, lines) {
	setMode("decide");
	page.head = head;
	page.branches = new Branches(lines);
	page.goals = [];
	byId("goals").replaceChildren();
	await decided();
	try {
		const { goals } = await ask({ query: "goals", script: head });
		page.goals = goals;
		if (page.played) showGoals(byId("goals"), goals, page.played);
	} catch (error) {
		byId("goals").replaceChildren(el("li", {}, reason(error)));
	}
}

/** Shows the state after a decision. */
async function decided() {
	const script = scriptOf(page.head, page.branches.lines());
	const played = await asked({ query: "play", script });
	if (!played) {
		page.branches.undo();
		return;
	}
	page.keys = showChoices(byId("choices"), played, byId("faults").checked, (line) => void choose(line));
	showBranches(byId("branches"), page.branches, (line) => void choose(line));
	take(played, played.steps.length - 1);
	if (page.goals.length > 0) showGoals(byId("goals"), page.goals, played);
	byId("undo").disabled = page.branches.lines().length === 0;
	document.body.dataset.steps = String(played.steps.length - 1);
	void foresee(script, page.keys);
	try {
		showRisk(byId("light"), await ask({ query: "risk", script }));
	} catch (error) {
		showRisk(byId("light"), null, reason(error));
	}
}

/**
 * Asks what the next click would show, so that it is known when that comes.
 * @param {string} script
 * @param {string[]} lines
 */
async function foresee(script, lines) {
	for (const line of lines) {
		if (page.keys !== lines || page.branches.lines().length > 200) return;
		await ask({ query: "play", script: `${script}${line}\n` }).catch(() => null);
	}
}

/** @param {string} line */
async function choose(line) {
	page.branches.take(line);
	await decided();
}

async function undo() {
	if (page.branches.undo()) await decided();
}

/** In You decide a time is a place in the branches. @param {number} at */
function goInBranches(at) {
	const steps = page.branches.lines().length;
	if (at === steps + 1 && page.branches.here.down.length > 0) {
		void choose(page.branches.here.down[page.branches.here.down.length - 1].line);
		return;
	}
	let left = steps - at;
	while (left > 0 && page.branches.undo()) left -= 1;
	if (left !== steps - at || at !== steps) void decided();
}

/** From what is on show: its script up to the present step. */
function decideFromHere() {
	const played = page.played;
	if (!played) return;
	// What nodes did is not a script.
	if (!played.head) return void watch("scenes/opening", 0).then(decideFromHere);
	void decide(played.head, played.steps.slice(1, page.at + 1).map((step) => step.line));
}

/** @param {string} algorithm */
async function under(algorithm) {
	const played = page.played;
	if (!played || !algorithm) return;
	const other = await asked({ query: "under", script: scriptTo(played, page.at), algorithm });
	byId("under").value = "";
	if (!other) return;
	setMode("watch");
	page.source = "";
	take(other, 0);
	const left = other.left_out.length;
	if (left > 0) notice(`Left out, since ${algorithm} cannot take them: ${other.left_out.join("; ")}.`);
	if (!isStill()) play();
}

/** @param {Record<string, any>} query @returns {Promise<Played | null>} */
async function asked(query) {
	try {
		const played = await ask(query);
		notice("");
		return played;
	} catch (error) {
		notice(reason(error));
		return null;
	}
}

/** @param {string} text */
function notice(text) {
	byId("notice").textContent = text;
	byId("notice").hidden = text === "";
}

// Links and files.

let linking = 0;

/** Puts what is seen into the address. */
function remember() {
	clearTimeout(linking);
	linking = window.setTimeout(() => void write(), 120);
}

async function write() {
	const played = page.played;
	const version = played?.version;
	if (page.mode === "live") link.write({ m: "live" });
	else if (page.mode === "run") {
		if (page.run) link.write({ m: "run", q: await link.pack(JSON.stringify(page.run)) });
	} else if (page.mode === "watch" && page.source && played) {
		link.write({ m: "watch", n: page.source, t: page.at, p: byId("predict").checked ? 1 : null, h: played.hash, v: version });
	} else if (played) {
		const whole = scriptTo(played, played.steps.length - 1);
		link.write({ m: page.mode, s: await link.pack(whole), t: page.at, h: played.hash, v: version });
	}
}

/** Shows what the address describes; true if it describes something. */
async function restore() {
	const { m, n, s, q, t, p, h, v } = link.read();
	if (!m) return false;
	byId("predict").checked = p === "1";
	if (m === "live") {
		if (page.live) setMode("live");
		return Boolean(page.live);
	}
	try {
		if (m === "run" && q) {
			const { hash, ...query } = JSON.parse(await link.unpack(q));
			setMode("run");
			run.fill(query);
			await run.start(query, hash);
			return true;
		}
		if (m === "watch" && n) await watch(n, Number(t ?? 0));
		else if (s) {
			const played = await asked({ query: "play", script: await link.unpack(s) });
			if (!played) return true;
			const lines = played.steps.slice(1).map((step) => step.line);
			if (m === "decide") await decide(played.head, lines);
			else {
				setMode("watch");
				page.source = "";
				take(played, Number(t ?? 0));
			}
		} else return false;
		if (h && page.played && page.played.hash !== h) {
			notice(`This link was made with version ${v ?? "?"} and shows something else in ${page.played.version}.`);
		}
	} catch {
		notice("This link cannot be read: it was cut off, or is not one of this page.");
	}
	return true;
}

/** @param {string} text @param {HTMLElement} button */
async function copy(text, button) {
	const name = button.textContent;
	try {
		await navigator.clipboard.writeText(text);
		button.textContent = "Copied";
	} catch {
		prompt("Copy this:", text);
	}
	setTimeout(() => (button.textContent = name), 1200);
}

function saveSvg() {
	download(`${fileName()}.svg`, new Blob([spacetime.file()], { type: "image/svg+xml" }));
}

async function savePng() {
	if (page.mode === "run") return run.canvas.toBlob((blob) => blob && download(`${fileName()}.png`, blob));
	const image = new Image();
	const address = URL.createObjectURL(new Blob([spacetime.file()], { type: "image/svg+xml" }));
	image.src = address;
	await image.decode();
	const canvas = document.createElement("canvas");
	canvas.width = image.naturalWidth * 2;
	canvas.height = image.naturalHeight * 2;
	canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
	URL.revokeObjectURL(address);
	return canvas.toBlob((blob) => blob && download(`${fileName()}.png`, blob));
}

function fileName() {
	return ((page.mode === "run" && page.run?.algorithm) || page.source || page.played?.algorithm || "mutua").replace(/[^a-z0-9-]+/gi, "-");
}

// Keys.

/** @param {KeyboardEvent} event */
function key(event) {
	const target = /** @type {HTMLElement} */ (event.target);
	if (event.ctrlKey || event.altKey || event.metaKey) return;
	const isTyping = target.matches("input:not([type]), input[type=number], textarea");
	if (event.key === "p" && !isTyping && target.tagName !== "SELECT") return projector();
	// A clicker's keys step wherever the focus is; other keys belong to the field that has it.
	const isClicker = /^Page(Up|Down)$/.test(event.key) && !isTyping;
	if (/^(INPUT|SELECT|TEXTAREA|CANVAS)$/.test(target.tagName) && !isClicker) return;
	const digit = Number(event.key);
	const isButton = target.tagName === "BUTTON" || target.getAttribute("role") === "button";
	if (page.mode === "run") return;
	if (page.mode === "decide" && digit >= 1 && page.keys[digit - 1]) void choose(page.keys[digit - 1]);
	else if (event.key === "ArrowRight" || event.key === "PageDown") next();
	else if (event.key === "ArrowLeft" || event.key === "PageUp") go(page.at - 1);
	else if (event.key === "Home") go(0);
	else if (event.key === "End") go(Number(byId("slider").max));
	else if (event.key === " " && !isButton && page.mode === "watch") play();
	else if (event.key === "u" && page.mode === "decide") void undo();
	else return;
	event.preventDefault();
}

function projector() {
	const on = document.documentElement.classList.toggle("projector");
	byId("projector").setAttribute("aria-pressed", String(on));
}

// The beginning.

/** @param {Catalogue} catalogue */
function offer(catalogue) {
	const option = (/** @type {string} */ name, /** @type {string} */ text) => el("option", { value: name }, text);
	const scenes = catalogue.scenes.map((one) => option(one.name, one.title));
	const groups = catalogue.algorithms
		.map((algorithm) => {
			const examples = catalogue.examples.filter((one) => one.algorithm === algorithm.name);
			const controls = catalogue.controls.filter((one) => one.algorithm === algorithm.name);
			return el(
				"optgroup",
				{ label: algorithm.title },
				...examples.map((one) => option(one.name, `${one.name.split("/")[1]}: ${one.shows}`)),
				...controls.map((one) => option(one.name, `control: ${one.name}`)),
			);
		})
		.filter((group) => group.children.length > 0);
	byId("examples").replaceChildren(el("optgroup", { label: "Scenes" }, ...scenes), ...groups);
	const names = catalogue.algorithms.filter((one) => !one.election).map((one) => option(one.name, one.name));
	byId("under").replaceChildren(option("", "another algorithm"), ...names);
	run.offer(catalogue.algorithms);
	byId("examples").value = page.source;
}

function wire() {
	/** @type {[string, () => void][]} */
	const clicks = [
		["mode-watch", () => (page.source ? void watch(page.source, 0) : (setMode("watch"), show(page.at)))],
		["mode-decide", () => decideFromHere()],
		["mode-run", () => (setMode("run"), run.run ? run.redraw() : byId("run-form").requestSubmit())],
		["mode-live", () => setMode("live")],
		["first", () => go(0)],
		["back", () => go(page.at - 1)],
		["play", () => void play()],
		["next", () => next()],
		["undo", () => void undo()],
		["restart", () => void decide(page.head, [])],
		["why", () => explain(page.why === null && page.at > 0 ? page.at : null)],
		["projector", () => projector()],
		["copy-link", () => void write().then(() => copy(location.href, byId("copy-link")))],
		["copy-script", () => page.played && void copy(scriptTo(page.played, page.at), byId("copy-script"))],
		["save-svg", () => saveSvg()],
		["save-png", () => void savePng()],
		["way-out", () => void watch("scenes/decisive", 99).then(() => ((page.source = "scenes/opening"), decideFromHere()))],
		["way-solved", () => void watch("scenes/solved", 0, true)],
	];
	for (const [id, act] of clicks) byId(id).addEventListener("click", act);
	byId("slider").addEventListener("input", () => go(Number(byId("slider").value)));
	byId("examples").addEventListener("change", () => {
		const name = byId("examples").value;
		void watch(name, 0, true).then(() => name === "scenes/reordering" || name === "scenes/decisive" ? (go(99), decideFromHere()) : undefined);
	});
	byId("faults").addEventListener("change", () => void decided());
	byId("predict").addEventListener("change", () => remember());
	byId("under").addEventListener("change", () => void under(byId("under").value));
	addEventListener("keydown", key);
	addEventListener("hashchange", () => void restore());
}

/** The token of the address that `mutua lab` prints: it is kept for this tab, and in no link. */
function token() {
	const { token, ...rest } = link.read();
	if (!token) return sessionStorage.getItem("token");
	sessionStorage.setItem("token", token);
	link.write(rest);
	return token;
}

async function main() {
	const given = token();
	if (given) {
		const { Live } = await import("./live.js");
		page.live = new Live(given, (played) => {
			if (played) take(played, played.steps.length - 1);
			else if (page.played?.times) show(page.at);
			else byId("sentence").textContent = page.live?.sentence();
		});
		byId("mode-live").hidden = false;
	}
	wire();
	const view = new URLSearchParams(location.search).get("view");
	document.body.classList.toggle("only-network", view === "net");
	const restored = restore();
	if (!(await restored)) await watch("scenes/opening", 0, true);
	offer(await ask({ query: "catalogue" }));
	document.body.dataset.ready = "yes";
	prepare();
}

void main();
