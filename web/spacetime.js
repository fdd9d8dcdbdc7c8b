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
	return document.importNode(new DOMParser().parseFromString(plain, "image/svg+xml").documentElement, true);
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
		this.picture = null;
		this.size = { width: 600, height: 300 };
		new ResizeObserver(() => this.fit()).observe(host);
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
		this.drawn = played;
		const picture = /** @type {any} */ (parse(played.diagram.svg));
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
		for (const one of picture.querySelectorAll("[data-m]")) {
			const key = one.dataset.m.replace(/[^-]*$/, "");
			one.addEventListener("pointerenter", () => this.on.lit(key));
			one.addEventListener("pointerleave", () => this.on.lit(null));
		}
		picture.addEventListener("click", (/** @type {MouseEvent} */ event) => this.click(event));
		this.host.replaceChildren(picture);
		this.picture = picture;
		this.fit();
	}

	/** The size on the page: as wide as the panel if that is readable, else with a scroll bar. */
	fit() {
		if (!this.picture) return;
		const { width, height } = this.size;
		const room = this.host.clientWidth;
		const tall = Math.max(this.host.clientHeight, 240);
		const scale = Math.max(0.72, Math.min(room / width, tall / height, 1.9));
		this.picture.setAttribute("width", String(Math.floor(width * scale)));
		this.picture.setAttribute("height", String(Math.floor(height * scale)));
	}

	/** @param {Played} played @param {number} at */
	column(played, at) {
		const { columns } = played.diagram;
		let x = (columns[0]?.[1] ?? 60) - 22;
		for (const [time, place] of columns) if (time > 0 && time <= at) x = place;
		return x;
	}

	/** @param {number} x */
	follow(x) {
		const scale = (this.picture.clientWidth || this.size.width) / this.size.width;
		const seen = this.host.clientWidth;
		const place = x * scale;
		if (place < this.host.scrollLeft + 40 || place > this.host.scrollLeft + seen - 60) {
			this.host.scrollLeft = Math.max(0, place - seen * 0.6);
		}
	}

	/** Fades what is not in the causal past of a clicked event. @param {View} view */
	fade(view) {
		const { past } = view;
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
		if (!this.picture) return;
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
