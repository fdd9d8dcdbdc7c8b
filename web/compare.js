// Compare: figures over the number of processes, theory dashed, one cursor over all plots.

import { byId, el, reason, svg, table } from "./dom.js";
import * as link from "./link.js";
import { ask } from "./query.js";

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#7a5195"];
const DASHES = ["", "8 3", "2 3", "10 3 2 3", "5 2"];
const FIRST = ["ricart-agrawala", "maekawa", "naimi-trehel", "raymond", "central"];

/** @type {{ key: keyof Point, theory: keyof Point | null, title: string }[]} */
const PLOTS = [
	{ key: "messages", theory: "messages_theory", title: "messages per entry" },
	{ key: "sync_delay", theory: "sync_theory", title: "sync delay, in latencies" },
	{ key: "client_delay", theory: null, title: "client delay, in latencies" },
	{ key: "throughput", theory: null, title: "entries per second" },
];
const [W, H, LEFT, BOTTOM] = [420, 280, 52, 34];

const page = {
	algorithms: /** @type {Algorithm[]} */ ([]),
	chosen: new Set(FIRST),
	results: /** @type {Map<string, Point[]>} */ (new Map()),
	cursor: /** @type {number | null} */ (null),
	turn: 0,
};

/** The place of an algorithm among those that are shown. @param {string} name */
function place(name) {
	return [...page.chosen].indexOf(name);
}

/** @param {string} name */
function colour(name) {
	return place(name) < 0 ? "transparent" : COLOURS[place(name) % COLOURS.length];
}

/** @param {string} name */
function dash(name) {
	return DASHES[place(name) % DASHES.length];
}

function form() {
	const data = new FormData(byId("form"));
	const text = (/** @type {string} */ name) => String(data.get(name));
	const most = Math.max(2, Math.min(128, Number(text("most"))));
	const sizes = [2, 4, 8, 16, 24, 32, 48, 64, 96, 128].filter((size) => size <= most);
	const isLoad = text("over") === "load";
	return {
		load: data.has("load") ? text("load") : "light",
		hold: text("hold"),
		latency: text("latency"),
		seed: Number(text("seed")),
		sizes: isLoad ? [most] : sizes,
		/** The loads of the axis, if it has loads. */
		loads: isLoad ? [0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9] : null,
		isLog: text("axes") === "logarithmic",
		most,
	};
}

/** The points of an algorithm: over the processes, or over the load. @param {string} algorithm @returns {Promise<Point[]>} */
async function measured(algorithm) {
	const { load, hold, latency, seed, sizes, loads } = form();
	const query = { query: "compare", algorithm, hold, latency, seed, sizes };
	if (!loads) {
		const { points } = await ask({ ...query, load });
		return points.map((/** @type {Point} */ point) => ({ ...point, x: point.nodes }));
	}
	const all = [];
	for (const share of loads) {
		const { points } = await ask({ ...query, load: `offered:${share}` });
		all.push({ ...points[0], x: share });
	}
	return all;
}

async function measure() {
	page.turn += 1;
	const turn = page.turn;
	page.results.clear();
	labels();
	const { load, hold, latency, seed, most, loads, isLog } = form();
	const axes = { over: loads ? "load" : "processes", axes: isLog ? "logarithmic" : "linear" };
	link.write({ load, hold, latency, seed, most, ...axes, a: [...page.chosen].join(",") });
	const note = byId("note");
	note.classList.remove("bad");
	for (const name of page.chosen) {
		note.textContent = `Measuring ${name} …`;
		try {
			const points = await measured(name);
			if (turn !== page.turn) return;
			page.results.set(name, points);
		} catch (error) {
			note.textContent = reason(error);
			note.classList.add("bad");
			return;
		}
		show();
	}
	note.textContent = loads
		? "Formulas are known for light and saturated load only, so there is none here. Click a point to watch that run."
		: "Thin and dashed: the formula. Click a point to watch that run.";
	document.body.dataset.ready = "yes";
}

function show() {
	const all = [...page.results.values()].flat();
	const drawn = PLOTS.filter((one) => all.some((point) => point[one.key] !== null));
	byId("plots").replaceChildren(...drawn.map(plot));
	figures();
}

/** Round numbers between two, at most about five. @param {number} low @param {number} high @param {boolean} isLog */
function ticks(low, high, isLog) {
	const round = [];
	for (let power = -3; power <= 6; power += 1) for (const digit of [1, 2, 5]) round.push(Number(`${digit}e${power}`));
	if (!isLog) {
		const step = round.find((one) => high / one <= 5) ?? high;
		return Array.from({ length: Math.floor(high / step) + 1 }, (_, index) => Number((index * step).toPrecision(6)));
	}
	const inside = round.filter((one) => one >= low && one <= high);
	const every = Math.ceil(inside.length / 6);
	// Between two powers there may be none.
	return inside.length > 1 ? inside.filter((_, index) => index % every === 0) : [low, high].map((one) => Number(one.toPrecision(3)));
}

/** @param {typeof PLOTS[number]} one */
function plot(one) {
	const { sizes, loads, isLog } = form();
	const stops = loads ?? sizes;
	const all = [...page.results.values()].flat();
	const values = all.flatMap((point) => [point[one.key], one.theory ? point[one.theory] : null]);
	const known = values.filter((value) => value !== null).map(Number);
	const most = Math.max(loads ? 0 : 1, ...known);
	const least = Math.min(most / 2, ...known.filter((value) => value > 0));
	/** The share of an axis. @type {(value: number, low: number, high: number) => number} */
	const share = (value, low, high) => (isLog ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : value / high);
	const last = stops[stops.length - 1];
	const x = (/** @type {number} */ at) => LEFT + 9 + (W - LEFT - 21) * share(at, stops[0], last > stops[0] ? last : 2 * last);
	const y = (/** @type {number} */ value) => H - BOTTOM - (H - BOTTOM - 26) * share(value, least, most);
	const over = loads ? "offered load" : "processes";
	const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${one.title} over ${over}; the table below has the figures` });
	picture.append(
		svg("text", { x: 8, y: 16, "font-weight": 700 }, one.title),
		svg("path", { class: "axis", fill: "none", d: `M${LEFT} 24V${H - BOTTOM}H${W - 8}` }),
		svg("text", { x: W - 10, y: H - 6, "text-anchor": "end" }, over),
	);
	for (const value of ticks(isLog ? least : 0, most, isLog)) {
		picture.append(
			svg("path", { class: "tick", d: `M${LEFT} ${y(value)}H${W - 8}` }),
			svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, value.toLocaleString("en")),
		);
	}
	let drawn = -99;
	for (const size of stops) {
		if (x(size) - drawn < 26) continue;
		drawn = x(size);
		picture.append(svg("text", { x: x(size), y: H - BOTTOM + 15, "text-anchor": "middle" }, String(size)));
	}
	const hair = svg("line", { class: "hair", y1: 24, y2: H - BOTTOM, x1: -9, x2: -9 });
	picture.append(hair);
	for (const [name, points] of page.results) curve(picture, one, name, points, x, y);
	picture.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
		const box = picture.getBoundingClientRect();
		const at = ((event.clientX - box.left) / box.width) * W;
		const nearest = stops.reduce((best, size) => (Math.abs(x(size) - at) < Math.abs(x(best) - at) ? size : best), stops[0]);
		cursor(nearest, x(nearest));
	});
	return el("div", { class: "plot" }, picture);
}

/**
 * @param {any} picture @param {typeof PLOTS[number]} one @param {string} name @param {Point[]} points
 * @param {(nodes: number) => number} x @param {(value: number) => number} y
 */
function curve(picture, one, name, points, x, y) {
	const path = (/** @type {keyof Point} */ key) =>
		points
			.filter((point) => point[key] !== null)
			.map((point, index) => `${index === 0 ? "M" : "L"}${x(point.x).toFixed(1)} ${y(Number(point[key])).toFixed(1)}`)
			.join("");
	picture.append(svg("path", { class: "curve", d: path(one.key), stroke: colour(name), "stroke-dasharray": dash(name) }));
	if (one.theory) picture.append(svg("path", { class: "theory", d: path(one.theory), stroke: colour(name) }));
	for (const point of points) {
		const value = point[one.key];
		if (value === null) continue;
		// Points that coincide are rings round each other.
		const dot = svg("circle", { cx: x(point.x), cy: y(Number(value)), r: Math.max(2.5, 6.5 - place(name)), fill: colour(name) });
		const load = point.x === point.nodes ? "" : `, load ${point.x}`;
		dot.append(svg("title", {}, `${name}, ${point.nodes} processes${load}: ${Number(Number(value).toPrecision(4))}`));
		dot.addEventListener("click", () => void watch(name, point));
		picture.append(dot);
	}
}

/** Opens the run behind a point. @param {string} algorithm @param {Point} point */
async function watch(algorithm, { nodes, x }) {
	const { load: given, loads, hold, latency, seed } = form();
	// As the lab module has it: hold times add up to this share of the time.
	const mean = (parseFloat(hold.replace(/^.*:/, "")) * nodes) / x;
	const load = loads ? `think:exp:${mean}${hold.match(/[a-z]+$/)?.[0] ?? ""}` : given;
	const query = { query: "simulate", algorithm, nodes, load, hold, latency, reorder: false, entries: 100, seed };
	location.href = `index.html#m=run&q=${await link.pack(JSON.stringify(query))}`;
}

/** The same size in all plots. @param {number} size @param {number} x */
function cursor(size, x) {
	for (const hair of document.querySelectorAll(".hair")) {
		hair.setAttribute("x1", String(x));
		hair.setAttribute("x2", String(x));
	}
	for (const row of document.querySelectorAll("#figures tr[data-size]")) {
		row.classList.toggle("lit", /** @type {HTMLElement} */ (row).dataset.size === String(size));
	}
}

function figures() {
	const number = (/** @type {any} */ value) => (value === null ? "–" : String(Number(Number(value).toPrecision(4))));
	const { loads } = form();
	const head = ["algorithm", "N", ...(loads ? ["load"] : []), "messages", "formula", "theory", "sync delay", "theory", "client delay", "entries/s"];
	const rows = [...page.results].flatMap(([name, points]) =>
		points.map((one) =>
			el(
				"tr",
				{ "data-size": one.x },
				el("th", { scope: "row" }, el("span", { class: "swatch" }), name),
				el("td", {}, el("button", { "aria-label": `Watch ${name} with ${one.nodes} processes`, onclick: () => void watch(name, one) }, String(one.nodes))),
				...[...(loads ? [String(one.x)] : []), number(one.messages), one.formula ?? "–", number(one.messages_theory), number(one.sync_delay), number(one.sync_theory), number(one.client_delay), number(one.throughput)].map((text) => el("td", {}, text)),
			),
		),
	);
	byId("figures").replaceChildren(...table("Figures of all plots", head, rows));
	const swatches = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#figures .swatch"));
	const names = [...page.results].flatMap(([name, points]) => points.map(() => name));
	swatches.forEach((swatch, index) => (swatch.style.background = colour(names[index])));
}

/** What the form and the heading say depends on the axis. */
function labels() {
	const { loads } = form();
	byId("title").textContent = `Compare: what an entry costs as the ${loads ? "load" : "system"} grows`;
	byId("form").elements.load.disabled = Boolean(loads);
	byId("most-label").textContent = loads ? "Processes" : "Largest N";
}

function toggles() {
	const toggle = (/** @type {Algorithm} */ one) => {
		const swatch = el("span", { class: "swatch" });
		swatch.style.background = colour(one.name);
		const box = el("input", { type: "checkbox", id: `use-${one.name}`, checked: page.chosen.has(one.name) });
		box.addEventListener("change", () => {
			if (box.checked) page.chosen.add(one.name);
			else page.chosen.delete(one.name);
			toggles();
			byId(`use-${one.name}`).focus();
			void measure();
		});
		return el("label", {}, box, swatch, one.name);
	};
	byId("algorithms").replaceChildren(...page.algorithms.map(toggle));
}

async function main() {
	const { a, ...given } = link.read();
	if (a) page.chosen = new Set(a.split(","));
	const fields = byId("form").elements;
	for (const [name, value] of Object.entries(given)) if (fields[name]) fields[name].value = value;
	const catalogue = await ask({ query: "catalogue" });
	page.algorithms = catalogue.algorithms.filter((/** @type {any} */ one) => !one.election && !one.control);
	toggles();
	byId("form").addEventListener("submit", (/** @type {Event} */ event) => {
		event.preventDefault();
		void measure();
	});
	await measure();
}

void main();
