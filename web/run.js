// Run: a simulated run, with an overview, a window to pan and zoom, and figures beside theory.

import { byId, el, family, reason, table } from "./dom.js";
import { ask } from "./query.js";

/** The heights of a process's line. */
const [LOW, HIGH] = [22, 44];
const LEFT = 56;
const TOP = 22;
const TILE = 512;
/** Above so many messages in view only their density is drawn. */
const MOST_ARROWS = 1500;

/** The settings of the form, by the names of a query. */
function settings() {
	const form = byId("run-form");
	const data = new FormData(form);
	const text = (/** @type {string} */ name) => String(data.get(name) ?? "");
	const query = /** @type {Record<string, any>} */ ({
		query: "simulate",
		algorithm: text("algorithm"),
		nodes: Number(text("nodes")),
		load: text("load"),
		hold: text("hold"),
		latency: text("latency"),
		reorder: data.has("reorder"),
		entries: Number(text("entries")),
		seed: Number(text("seed")),
	});
	if (text("crash")) query.crash = text("crash");
	if (text("repair") !== "none") query.repair = text("repair");
	const structure = byId("run-structure");
	if (!structure.disabled && structure.value) {
		query[structure.dataset.kind === "tree" ? "topology" : "quorums"] = structure.value;
	}
	return query;
}

export class Run {
	/** @param {(query: Record<string, any>) => void} linked */
	constructor(linked) {
		this.linked = linked;
		/** @type {HTMLCanvasElement} */
		this.canvas = byId("run-canvas");
		/** @type {Simulated | null} */
		this.run = null;
		this.from = 0;
		this.scale = 1;
		/** @type {Map<number, HTMLCanvasElement>} */
		this.tiles = new Map();
		this.row = LOW;
		this.playing = false;
		byId("run-form").addEventListener("submit", (/** @type {Event} */ event) => {
			event.preventDefault();
			void this.start(settings());
		});
		byId("run-algorithm").addEventListener("change", () => this.structures());
		byId("run-play").addEventListener("click", () => this.toggle());
		byId("run-scrub").addEventListener("input", () => this.scrub(Number(byId("run-scrub").value) / 1000));
		byId("run-out").addEventListener("click", () => this.zoom(0.5));
		byId("run-in").addEventListener("click", () => this.zoom(2));
		this.pan();
		new ResizeObserver(() => this.redraw()).observe(/** @type {Element} */ (this.canvas.parentElement));
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
	}

	/** @param {Algorithm[]} algorithms */
	offer(algorithms) {
		this.algorithms = algorithms.filter((one) => !one.election);
		byId("run-algorithm").replaceChildren(
			...this.algorithms.map((one) => el("option", { value: one.name }, one.title)),
		);
		byId("run-algorithm").value = "ricart-agrawala";
		this.structures();
	}

	structures() {
		const chosen = this.algorithms?.find((one) => one.name === byId("run-algorithm").value);
		const kinds = { tree: ["binary", "line", "star"], quorums: ["grid", "filled-grid", "plane", "majority", "tree"] };
		const kind = chosen?.structure === "tree" || chosen?.structure === "quorums" ? chosen.structure : "";
		const select = byId("run-structure");
		select.dataset.kind = kind;
		select.disabled = kind === "";
		const names = kind === "tree" ? kinds.tree : kind === "quorums" ? kinds.quorums : ["none"];
		select.replaceChildren(...names.map((name) => el("option", {}, name)));
	}

	/** @param {Record<string, any>} query */
	fill(query) {
		const form = byId("run-form");
		form.elements.algorithm.value = query.algorithm;
		this.structures();
		for (const name of ["nodes", "load", "hold", "latency", "entries", "seed", "crash", "repair"]) {
			if (query[name] !== undefined) form.elements[name].value = query[name];
		}
		form.elements.reorder.checked = Boolean(query.reorder);
		const structure = query.topology ?? query.quorums;
		if (structure) byId("run-structure").value = structure;
	}

	/** @param {Record<string, any>} query @param {string} [hash] */
	async start(query, hash) {
		byId("run-note").textContent = "Simulating …";
		try {
			this.run = await ask(query);
		} catch (error) {
			byId("run-note").textContent = reason(error);
			return;
		}
		const run = /** @type {Simulated} */ (this.run);
		const differs = hash !== undefined && hash !== run.hash;
		this.linked({ ...query, hash: run.hash });
		this.from = 0;
		this.at = 0;
		this.scale = this.usual();
		this.figures(run, differs);
		this.redraw();
	}

	/** Nanoseconds to pixels, so that the first few entries are in view. */
	usual() {
		const run = /** @type {Simulated} */ (this.run);
		const room = this.canvas.clientWidth - LEFT || 800;
		const entry = run.entered[Math.min(6, run.entered.length - 1)];
		return room / Math.max(1.1 * (entry ? entry[0] : run.end), 1);
	}

	/** @param {Simulated} run @param {boolean} differs */
	figures(run, differs) {
		const number = (/** @type {number | null} */ value) => (value === null ? "–" : String(Number(value.toPrecision(4))));
		const rows = run.figures.map((one) => {
			const cells = [number(one.measured), number(one.theory), one.formula ?? ""];
			return el("tr", {}, el("th", { scope: "row" }, one.name), ...cells.map((text) => el("td", {}, text)));
		});
		const head = ["figure", "measured", "theory", "formula"];
		byId("run-figures").replaceChildren(...table("Figures of the run, measured beside theory", head, rows));
		const notes = [
			differs ? "This link was made with another version: the run differs from what was seen." : "",
			run.violations[0] ? `Violated: ${run.violations[0]}.` : "",
			`${run.messages.length} messages, ${run.entered.length} entries shown${run.cut ? " (the run goes on)" : ""}.`,
			run.without_theory,
		];
		byId("run-note").textContent = notes.filter(Boolean).join(" ");
		byId("run-note").classList.toggle("bad", run.violations.length > 0 || differs);
		const [messages] = run.figures;
		const theory = messages.theory === null ? "" : `; theory: ${number(messages.theory)} (${messages.formula})`;
		byId("sentence").textContent = `${run.title}: ${number(messages.measured)} messages per entry${theory}.`;
		byId("run-command").textContent = run.command;
		byId("run-legend").replaceChildren(
			...[["waits", "waiting"], ["holds", "in the critical section"], ["fails", "down"], ...run.kinds.map((kind, index) => [`${family(kind)} ink${index % 7}`, kind])].map(
				([style, name]) => el("span", { class: style }, name),
			),
		);
	}

	toggle() {
		this.playing = !this.playing;
		byId("run-play").textContent = this.playing ? "Pause" : "Play";
		if (this.playing) requestAnimationFrame((now) => this.frame(now, now));
	}

	/** @param {number} now @param {number} before */
	frame(now, before) {
		if (!this.playing || !this.run) return;
		const speed = Number(byId("run-speed").value);
		this.from += ((now - before) / 1000) * 140 * speed / this.scale;
		if (this.from * this.scale + this.canvas.clientWidth - LEFT > this.run.end * this.scale) this.toggle();
		this.draw();
		requestAnimationFrame((next) => this.frame(next, now));
	}

	/** @param {number} share */
	scrub(share) {
		if (!this.run) return;
		const seen = (this.canvas.clientWidth - LEFT) / this.scale;
		this.from = Math.max(0, share * Math.max(0, this.run.end - seen));
		this.draw();
	}

	/** @param {number} factor */
	zoom(factor) {
		if (!this.run) return;
		const room = this.canvas.clientWidth - LEFT;
		const middle = this.from + room / this.scale / 2;
		this.scale = Math.max(room / this.run.end, Math.min(this.usual() * 40, this.scale * factor));
		this.from = Math.max(0, middle - room / this.scale / 2);
		this.redraw();
	}

	pan() {
		let held = /** @type {number | null} */ (null);
		this.canvas.addEventListener("pointerdown", (event) => {
			held = event.clientX;
			this.canvas.setPointerCapture(event.pointerId);
		});
		this.canvas.addEventListener("pointerup", () => (held = null));
		this.canvas.addEventListener("pointermove", (event) => {
			if (held === null) return;
			this.from = Math.max(0, this.from - (event.clientX - held) / this.scale);
			held = event.clientX;
			this.draw();
		});
		this.canvas.addEventListener("keydown", (event) => {
			const step = (this.canvas.clientWidth - LEFT) / this.scale / 8;
			const moves = /** @type {Record<string, () => void>} */ ({
				ArrowRight: () => (this.from += step),
				ArrowLeft: () => (this.from = Math.max(0, this.from - step)),
				"+": () => this.zoom(2),
				"-": () => this.zoom(0.5),
			});
			const move = moves[event.key];
			if (!move) return;
			move();
			event.preventDefault();
			event.stopPropagation();
			this.draw();
		});
	}

	redraw() {
		this.tiles.clear();
		if (!this.run) return;
		const ratio = devicePixelRatio || 1;
		const width = /** @type {Element} */ (this.canvas.parentElement).clientWidth;
		this.row = Math.max(LOW, Math.min(HIGH, 420 / this.run.processes.length));
		const height = TOP + this.row * this.run.processes.length + 10;
		this.canvas.width = width * ratio;
		this.canvas.height = height * ratio;
		this.canvas.style.height = `${height}px`;
		this.colours = colours();
		this.draw();
	}

	/** Draws what is in view from tiles, each of which is drawn once. */
	draw() {
		const run = this.run;
		const context = this.canvas.getContext("2d");
		if (!run || !context || !this.colours) return;
		const ratio = devicePixelRatio || 1;
		const width = this.canvas.width / ratio;
		const height = this.canvas.height / ratio;
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.clearRect(0, 0, width, height);
		const offset = this.from * this.scale;
		const first = Math.floor(offset / TILE);
		for (let tile = first; tile * TILE < offset + width; tile += 1) {
			context.drawImage(this.tile(run, tile, height, ratio), LEFT + tile * TILE - offset, 0, TILE, height);
		}
		context.fillStyle = this.colours.panel;
		context.fillRect(0, 0, LEFT - 2, height);
		context.fillStyle = this.colours.ink;
		context.font = "13px system-ui, sans-serif";
		context.textAlign = "right";
		run.processes.forEach((name, who) => context.fillText(name, LEFT - 10, TOP + this.row * (who + 0.5) + 4));
		const seen = (width - LEFT) / this.scale;
		byId("run-scrub").value = String(Math.round((1000 * this.from) / Math.max(run.end - seen, 1)));
		byId("run-time").textContent = `${(this.from / 1e6).toFixed(1)} ms`;
	}

	/** @param {Simulated} run @param {number} tile @param {number} height @param {number} ratio */
	tile(run, tile, height, ratio) {
		const known = this.tiles.get(tile);
		if (known) return known;
		const canvas = document.createElement("canvas");
		canvas.width = TILE * ratio;
		canvas.height = height * ratio;
		const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.translate(-tile * TILE, 0);
		this.paint(run, context, tile * TILE, height);
		this.tiles.set(tile, canvas);
		if (this.tiles.size > 60) this.tiles.delete(/** @type {number} */ (this.tiles.keys().next().value));
		return canvas;
	}

	/** @param {Simulated} run @param {CanvasRenderingContext2D} context @param {number} left @param {number} height */
	paint(run, context, left, height) {
		const colour = /** @type {Record<string, string>} */ (this.colours);
		const [begin, end] = [left / this.scale, (left + TILE) / this.scale];
		const y = (/** @type {number} */ who) => TOP + this.row * (who + 0.5);
		context.strokeStyle = colour.line;
		context.lineWidth = 1;
		run.processes.forEach((_, who) => {
			context.beginPath();
			context.moveTo(left, y(who));
			context.lineTo(left + TILE, y(who));
			context.stroke();
		});
		for (const [who, kind, from, until] of run.spans) {
			if (until < begin || from > end) continue;
			context.fillStyle = [colour.wait, colour.cs, colour.down][kind];
			const high = kind === 1 ? 12 : 6;
			context.fillRect(from * this.scale, y(who) - high / 2, Math.max((until - from) * this.scale, 1), high);
		}
		const inView = run.messages.filter(([, , sent, got]) => sent <= end && (got === 0 ? run.end : got) >= begin);
		if (inView.length > MOST_ARROWS) {
			this.density(run, context, inView, left, height);
			return;
		}
		for (const [from, to, sent, got, kind] of inView) {
			const style = family(run.kinds[kind]);
			const ink = colour[`ink${kind % 7}`];
			context.strokeStyle = ink;
			context.lineWidth = style === "answer" || style === "token" ? 2 : 1;
			context.setLineDash(style === "release" || got === 0 ? [5, 4] : []);
			const late = got === 0 ? run.end : got;
			context.beginPath();
			context.moveTo(sent * this.scale, y(from));
			context.lineTo(late * this.scale, y(to));
			context.stroke();
			if (got > 0) head(context, sent * this.scale, y(from), got * this.scale, y(to), ink);
		}
		context.setLineDash([]);
	}

	/**
	 * How many messages are sent, where single ones could not be distinguished.
	 * @param {Simulated} run @param {CanvasRenderingContext2D} context
	 * @param {[number, number, number, number, number][]} inView @param {number} left @param {number} height
	 */
	density(run, context, inView, left, height) {
		const bins = new Array(TILE / 4).fill(0);
		for (const [, , sent] of inView) {
			const bin = Math.floor((sent * this.scale - left) / 4);
			if (bin >= 0 && bin < bins.length) bins[bin] += 1;
		}
		// A logarithm, the same for all tiles: one burst must not hide the rest.
		const most = Math.log(1 + run.messages.length);
		context.globalAlpha = 0.45;
		context.fillStyle = this.colours?.ink0 ?? "";
		bins.forEach((count, bin) => {
			const high = (Math.log(1 + count) / most) * (height - TOP - 10);
			context.fillRect(left + bin * 4, height - 8 - high, 3, high);
		});
		context.globalAlpha = 1;
	}
}

/** @param {CanvasRenderingContext2D} context @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {string} colour */
function head(context, x1, y1, x2, y2, colour) {
	const angle = Math.atan2(y2 - y1, x2 - x1);
	context.fillStyle = colour;
	context.beginPath();
	context.moveTo(x2, y2);
	for (const turn of [0.4, -0.4]) context.lineTo(x2 - 7 * Math.cos(angle + turn), y2 - 7 * Math.sin(angle + turn));
	context.fill();
}

function colours() {
	const style = getComputedStyle(document.documentElement);
	const names = ["panel", "ink", "line", "wait", "cs", "down", "ink0", "ink1", "ink2", "ink3", "ink4", "ink5", "ink6"];
	return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
