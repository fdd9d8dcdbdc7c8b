// The space-time diagram: drawn by the lab module, with a time cursor and links to the other views.

import { svg } from "./dom.js";

/**
 * The picture as an element. Its style is that of the page, since the page forbids styles in
 * markup.
 * @param {string} text
 */
function parse(text) {
	const plain = text
		.replace(/<style>[\s\S]*?<\/style>/, "")
		.replace(/ style="font-size:([\d.]+)px"/g, ' font-size="$1"');
	return document.adoptNode(new DOMParser().parseFromString(plain, "image/svg+xml").documentElement);
}

/**
 * Makes a picture that is shown equal to a new one. What both have stays as it is: only the rest is
 * laid out.
 * @param {Element} shown
 * @param {Element} fresh
 */
function merge(shown, fresh) {
	for (const { name, value } of fresh.attributes) if (name !== "xmlns") shown.setAttribute(name, value);
	const children = /** @type {any[]} */ ([...fresh.children]);
	const signs = new Set(children.map((child) => (child.sign = child.outerHTML)));
	let old = /** @type {any} */ (shown.firstElementChild);
	const drop = () => {
		const gone = old;
		old = old.nextElementSibling;
		gone.remove();
	};
	for (const child of children) {
		while (old && !signs.has(old.sign)) drop();
		if (old?.sign === child.sign) old = old.nextElementSibling;
		else shown.insertBefore(child, old);
	}
	while (old) drop();
}

export class SpaceTime {
	/**
	 * @param {HTMLElement} host
	 * @param {{ lit: (key: string | null) => void, go: (at: number) => void, why: (step: number | null) => void }} on
	 */
	constructor(host, on) {
		this.host = host;
		this.on = on;
		/** @type {Played | null} */
		this.drawn = null;
		/** @type {any} */
		this.picture = svg("svg");
		this.picture.addEventListener("click", (/** @type {MouseEvent} */ event) => this.click(event));
		const lit = (/** @type {any} */ target) => on.lit(target?.closest?.("[data-m]")?.dataset.m.replace(/[^-]*$/, "") ?? null);
		this.picture.addEventListener("pointerover", (/** @type {PointerEvent} */ event) => lit(event.target));
		this.picture.addEventListener("pointerleave", () => lit(null));
		/** @type {any} */
		this.names = null;
		this.left = 0;
		this.size = { width: 600, height: 300 };
		// Measured when they change: to ask for them after a step would cost a layout of the page.
		this.room = { width: host.clientWidth, height: host.clientHeight };
		this.scale = 1;
		this.scrolled = 0;
		this.faded = false;
		new ResizeObserver(() => {
			this.room = { width: host.clientWidth, height: host.clientHeight };
			this.fit();
		}).observe(host);
		host.addEventListener("scroll", () => this.follow(null), { passive: true });
	}

	/** @param {View} view */
	show(view) {
		if (this.drawn !== view.played) this.draw(view.played);
		const x = this.column(view.played, view.at);
		const width = this.size.width;
		const isEnd = view.at >= view.played.steps.length - 1;
		this.veil.setAttribute("x", String(x + 14));
		this.veil.setAttribute("width", String(isEnd ? 0 : Math.max(0, width - x - 14)));
		this.cursor.setAttribute("x1", String(x));
		this.cursor.setAttribute("x2", String(x));
		this.fade(view);
		this.follow(x);
	}

	/** @param {Played} played */
	draw(played) {
		// A script that goes on: its picture grows.
		const grows = this.drawn !== null && this.drawn.head === played.head;
		this.drawn = played;
		const { picture } = this;
		merge(picture, parse(played.diagram.svg));
		const [, , width, height] = (picture.getAttribute("viewBox") ?? "0 0 600 300").split(" ").map(Number);
		this.size = { width, height };
		picture.setAttribute("aria-label", "Space-time diagram");
		// Down to the last line: the legend holds at all times.
		const lines = [...picture.querySelectorAll(".process")].map((line) => Number(line.getAttribute("d").match(/ ([\d.]+)H/)?.[1] ?? 0));
		const bottom = Math.max(...lines, 0) + 24;
		this.veil = svg("rect", { class: "veil", fill: "#fff", opacity: 0.78, y: 52, height: Math.max(0, bottom - 52), width: 0 });
		// Below the numbers of the steps.
		const numbers = Number(picture.querySelector(".time")?.getAttribute("y") ?? 46);
		this.cursor = svg("line", { class: "cursor", stroke: "#00599e", y1: numbers + 6, y2: bottom });
		picture.append(this.veil, this.cursor);
		this.name();
		this.fit(grows);
	}

	/** The names stay in view when the picture is scrolled. */
	name() {
		const names = [...this.picture.querySelectorAll(".name")];
		const sign = names.map((name) => name.outerHTML).join();
		if (this.names?.sign === sign) return;
		this.left = Math.max(0, ...names.map((name) => Number(name.getAttribute("x")))) + 8;
		this.names = svg("svg", { class: "names", "aria-hidden": "true" });
		this.names.sign = sign;
		const rows = names.map((name) => Number(name.getAttribute("y")));
		const top = Math.min(...rows) - 16;
		const ground = svg("rect", { class: "ground", width: this.left, y: top, height: Math.max(0, Math.max(...rows) + 10 - top) });
		this.names.append(ground, ...names.map((name) => name.cloneNode(true)));
		this.host.replaceChildren(this.picture, this.names);
	}

	/**
	 * The size on the page: as wide as the panel if that is readable, else with a scroll bar. A
	 * picture that grows keeps its scale while it fits, and then gets one with room for more steps:
	 * another scale is a layout of everything in it.
	 * @param {boolean} [grows]
	 */
	fit(grows = false) {
		if (!this.names) return;
		const { width, height } = this.size;
		const tall = Math.max(this.room.height, 240);
		const least = this.room.width < 500 ? 0.58 : 0.72;
		const most = Math.max(least, Math.min(this.room.width / width, tall / height, 1.9));
		if (!grows) this.scale = most;
		else if (this.scale > most || this.scale < most * 0.6) this.scale = Math.max(least, most * 0.85);
		// A scale that is a sum of powers of two has exact products, so that it is the same for every
		// size: a font of a slightly other size would be looked for again.
		this.scale = Math.floor(this.scale * 64) / 64;
		this.picture.setAttribute("width", String(width * this.scale));
		for (const one of [this.picture, this.names]) one.setAttribute("height", String(height * this.scale));
		this.names.setAttribute("width", String(this.left * this.scale));
		this.names.setAttribute("viewBox", `0 0 ${this.left} ${height}`);
	}

	/** @param {Played} played @param {number} at */
	column(played, at) {
		const { columns } = played.diagram;
		let x = (columns[0]?.[1] ?? 60) - 22;
		for (const [time, place] of columns) if (time > 0 && time <= at) x = place;
		return x;
	}

	/** Keeps a place in view; with none, notices that the visitor has scrolled. @param {number | null} x */
	follow(x) {
		if (x === null) this.scrolled = this.host.scrollLeft;
		this.names?.classList.toggle("hidden", this.scrolled < 20);
		if (x === null) return;
		const seen = this.room.width;
		const place = x * this.scale;
		if (place >= this.scrolled + 40 && place <= this.scrolled + seen - 60) return;
		const most = Math.max(0, this.size.width * this.scale - seen);
		const to = Math.max(0, Math.min(most, place - seen * 0.6));
		if (to === this.scrolled) return;
		this.scrolled = to;
		this.names.classList.toggle("hidden", to < 20);
		requestAnimationFrame(() => (this.host.scrollLeft = this.scrolled));
	}

	/** Fades what is not in the causal past of a clicked event. @param {View} view */
	fade(view) {
		const { past } = view;
		if (past === null && !this.faded) return;
		this.faded = past !== null;
		this.picture.classList.toggle("why", past !== null);
		for (const one of this.picture.querySelectorAll("[data-m]")) {
			const [, , sent, end] = one.dataset.m.split("-").map(Number);
			const isPast = past !== null && past.has(sent) && past.has(end);
			one.classList.toggle("past", isPast);
			const head = one.nextElementSibling;
			if (head?.classList.contains("head")) head.classList.toggle("past", isPast);
		}
		for (const one of this.picture.querySelectorAll("[data-e]")) {
			one.classList.toggle("past", past !== null && past.has(Number(one.dataset.e.split("-")[1])));
		}
	}

	/** @param {MouseEvent} event */
	click(event) {
		const target = /** @type {any} */ (event.target);
		const mark = target.closest("[data-e]");
		if (mark) return this.on.why(Number(mark.dataset.e.split("-")[1]));
		const message = target.closest("[data-m]");
		if (message) {
			const [, , sent, end] = message.dataset.m.split("-");
			return this.on.why(Number(end || sent));
		}
		const box = this.picture.getBoundingClientRect();
		const x = ((event.clientX - box.left) / box.width) * this.size.width;
		const columns = /** @type {[number, number][]} */ (this.drawn?.diagram.columns ?? []);
		const nearest = columns.reduce((best, one) => (Math.abs(one[1] - x) < Math.abs(best[1] - x) ? one : best), [0, 0]);
		this.on.why(null);
		this.on.go(nearest[0]);
		return undefined;
	}

	/** Lights the messages of this key. @param {string | null} key */
	light(key) {
		for (const one of this.picture.querySelectorAll("[data-m]")) {
			one.classList.toggle("lit", key !== null && one.dataset.m.startsWith(key));
		}
	}

	/** The picture at this moment as a file, with its own style. */
	file() {
		const now = this.veil.outerHTML + this.cursor.outerHTML;
		return (this.drawn?.diagram.svg ?? "").replace(/<\/svg>\s*$/, `${now}</svg>`);
	}
}
