// The network: processes on their structure, messages on their way, who waits for whom.

import { family, isStill, patch, svg } from "./dom.js";

/** @typedef {{ x: number, y: number }} Spot */

const WIDTH = 640;
const HEIGHT = 520;

/** Where each process stands. @param {Played} played @returns {{ spots: Spot[], radius: number }} */
function layout(played) {
	const count = played.processes.length;
	const { structure } = played;
	if (structure.kind === "quorums" && structure.columns) return grid(count, structure.columns);
	if (structure.kind === "tree") return tree(count, structure.edges ?? []);
	const radius = Math.max(14, Math.min(36, 420 / (count + 4)));
	const spots = [];
	for (let who = 0; who < count; who += 1) {
		const turn = (2 * Math.PI * who) / count - (count === 2 ? Math.PI : Math.PI / 2);
		spots.push({
			x: WIDTH / 2 + (WIDTH / 2 - 70) * Math.cos(turn),
			y: HEIGHT / 2 - 8 + (HEIGHT / 2 - 66) * Math.sin(turn),
		});
	}
	return { spots, radius };
}

/** @param {number} count @param {number} columns */
function grid(count, columns) {
	const rows = Math.ceil(count / columns);
	const gap = { x: WIDTH / columns, y: HEIGHT / rows };
	const spots = [];
	for (let who = 0; who < count; who += 1) {
		spots.push({
			x: gap.x * ((who % columns) + 0.5),
			y: gap.y * (Math.floor(who / columns) + 0.5) - (columns < 4 ? 14 : 2),
		});
	}
	return { spots, radius: Math.max(12, Math.min(38, gap.y / 3.4)) };
}

/** @param {number} count @param {[number, number][]} edges */
function tree(count, edges) {
	/** @type {number[][]} */
	const near = Array.from({ length: count }, () => []);
	for (const [a, b] of edges) {
		near[a].push(b);
		near[b].push(a);
	}
	/** @type {Spot[]} */
	const spots = [];
	let leaf = 0;
	let deepest = 0;
	/** @type {(who: number, from: number, depth: number) => number} */
	const place = (who, from, depth) => {
		deepest = Math.max(deepest, depth);
		const below = near[who].filter((other) => other !== from);
		const xs = below.map((other) => place(other, who, depth + 1));
		const x = xs.length === 0 ? leaf++ : (xs[0] + xs[xs.length - 1]) / 2;
		spots[who] = { x, y: depth };
		return x;
	};
	if (count > 0) place(0, -1, 0);
	const isLine = leaf <= 1;
	for (const spot of spots) {
		const across = isLine ? (spot.y + 0.5) / (deepest + 1) : (spot.x + 0.5) / Math.max(leaf, 1);
		const down = isLine ? 0.5 : (spot.y + 0.5) / (deepest + 1);
		spot.x = WIDTH * across;
		spot.y = HEIGHT * down - 10;
	}
	return { spots, radius: Math.max(13, Math.min(34, 300 / (deepest + Math.max(leaf, 2)))) };
}

const PHASES = /** @type {Record<string, string>} */ ({
	idle: "idle",
	requesting: "waits",
	in_cs: "IN THE CS",
	down: "down",
});

export class Network {
	/** @param {HTMLElement} host @param {{ lit: (key: string | null) => void, choose: (line: string) => void }} on */
	constructor(host, on) {
		this.on = on;
		/** The process whose quorum alone is lit. @type {number | undefined} */
		this.quorum = undefined;
		this.root = svg("svg", {
			viewBox: `0 -22 ${WIDTH} ${HEIGHT + 30}`,
			role: "group",
			"aria-label": "Network: processes, messages in flight, and who waits for whom",
		});
		const marker = (/** @type {string} */ id) =>
			svg(
				"marker",
				{ id, viewBox: "0 0 10 10", refX: 9, refY: 5, markerWidth: 5, markerHeight: 5, orient: "auto-start-reverse" },
				svg("path", { d: "M0 0L10 5L0 10z", class: id }),
			);
		this.root.append(svg("defs", {}, marker("tip-wait"), marker("tip-bad"), marker("tip-point")));
		this.layers = ["bands", "edges", "points", "waits", "nodes", "bad", "pills"].map((name) => {
			const layer = svg("g", { class: name });
			this.root.append(layer);
			return layer;
		});
		this.root.append(fonts());
		/** @type {{ spots: Spot[], radius: number }} */
		this.place = { spots: [], radius: 30 };
		/** @type {Map<string, any>} */
		this.pills = new Map();
		/** The structure on show. */
		this.drawn = "";
		this.turn = 0;
		/** @type {View | null} */
		this.view = null;
		host.replaceChildren(this.root);
	}

	/** @param {View} view */
	show(view) {
		this.view = view;
		const [bands, edges, points, waits, nodes, bad] = this.layers;
		const drawn = JSON.stringify([view.played.structure, view.played.processes]);
		if (this.drawn !== drawn) {
			this.place = layout(view.played);
			this.drawn = drawn;
			this.turn += 1;
			edges.replaceChildren(...this.edges(view.played));
		}
		const finding = view.played.steps[view.at].finding;
		const cycle = finding?.cycle ?? [];
		bands.replaceChildren(...this.bands(view));
		points.replaceChildren(...this.pointers(view));
		waits.replaceChildren(...(cycle.length > 0 ? [] : this.waits(view)));
		const together = view.rows.filter((row) => row.phase === "in_cs").length > 1;
		const signs = view.rows.map(({ phase, points: to, waits_for }) => JSON.stringify([this.turn, phase, to, waits_for, together, cycle]));
		patch(nodes, signs, (who) => this.node(view, view.rows[who], who, cycle));
		bad.replaceChildren(...cycle.map((edge) => this.cycleEdge(edge)));
		this.messages(view);
	}

	/** The quorums of the processes that wait or are in the critical section: rows and columns. @param {View} view */
	bands(view) {
		const { structure } = view.played;
		if (structure.kind !== "quorums" || !structure.of) return [];
		const { spots, radius } = this.place;
		const asking = view.rows.flatMap((row, who) => (row.phase === "idle" || row.phase === "down" ? [] : [who]));
		const shown = this.quorum === undefined ? asking.slice(0, 3) : [this.quorum];
		return shown.flatMap((who, index) => {
			const members = structure.of?.[who] ?? [];
			const style = `band band${index}`;
			if (!structure.columns) {
				return members.filter((other) => other !== who).map((other) => this.line(who, other, style));
			}
			const columns = structure.columns;
			const inRow = members.filter((other) => Math.floor(other / columns) === Math.floor(who / columns));
			const inColumn = members.filter((other) => other % columns === who % columns);
			const pad = radius * 1.35 - index * 5;
			return [inRow, inColumn].map((group) => {
				const xs = group.map((other) => spots[other].x);
				const ys = group.map((other) => spots[other].y);
				const [left, top] = [Math.min(...xs) - pad, Math.min(...ys) - pad];
				return svg("rect", {
					class: style,
					x: left,
					y: top,
					width: Math.max(...xs) + pad - left,
					height: Math.max(...ys) + pad - top,
					rx: pad,
				});
			});
		});
	}

	/** @param {Played} played */
	edges(played) {
		const { structure, processes } = played;
		if (structure.kind === "tree") {
			return (structure.edges ?? []).map(([a, b]) => this.line(a, b, "edge"));
		}
		if (structure.kind === "ring") {
			return processes.map((_, who) => this.line(who, (who + 1) % processes.length, "edge"));
		}
		const columns = structure.columns ?? 0;
		if (columns > 0) {
			const near = (/** @type {number} */ who) => [(who + 1) % columns > 0 ? who + 1 : -1, who + columns];
			const pairs = processes.flatMap((_, a) => near(a).map((b) => [a, b]));
			return pairs.filter(([, b]) => b > 0 && b < processes.length).map(([a, b]) => this.line(a, b, "edge faint"));
		}
		if (structure.kind === "complete" && processes.length <= 12) {
			return processes.flatMap((_, a) =>
				processes.slice(a + 1).map((_, more) => this.line(a, a + 1 + more, "edge faint")),
			);
		}
		return [];
	}

	/**
	 * Variables that name a process, as arrows: HOLDER, FATHER, NEXT. Votes are written at the voter.
	 * @param {View} view
	 */
	pointers(view) {
		return view.rows.flatMap((row, who) =>
			row.points
				.filter(([name, to]) => name !== "candidate" && to !== who && view.rows.length <= 40)
				.map(([name, to], index) => {
					const path = this.arrow(who, to, `point ${index > 0 ? "second" : ""}`, "tip-point", 14 + 12 * index);
					path.append(svg("title", {}, `${name} of ${view.played.processes[who]}: ${view.played.processes[to]}`));
					return path;
				}),
		);
	}

	/** @param {View} view */
	waits(view) {
		if (view.rows.length > 40) return [];
		return view.rows.flatMap((row, who) =>
			row.waits_for
				.filter((to) => to !== who)
				.slice(0, 12)
				.map((to) => this.arrow(who, to, "wait", "tip-wait", -16)),
		);
	}

	/** @param {View} view @param {Row} row @param {number} who @param {Wait[]} cycle */
	node(view, row, who, cycle) {
		const { spots, radius } = this.place;
		const { x, y } = spots[who];
		const name = view.played.processes[who];
		const inCs = view.rows.filter((other) => other.phase === "in_cs").length;
		const clash = inCs > 1 && row.phase === "in_cs";
		const vote = row.points.find(([point]) => point === "candidate");
		const isIdle = row.phase === "idle" && (view.played.structure.columns ?? 0) > 3;
		const words = [isIdle ? "" : PHASES[row.phase] ?? ""];
		if (vote) words.push(`vote: ${view.played.processes[vote[1]]}`);
		const small = radius < 20;
		const text = small ? [] : words.filter((word) => word !== "");
		const involved = cycle.some((edge) => edge.from === who || edge.to === who);
		const waits = row.waits_for.map((to) => view.played.processes[to]);
		const label = [name, ...words, waits.length > 0 ? `waits for ${waits.join(", ")}` : ""];
		return svg(
			"g",
			{
				class: `node ${row.phase} ${clash ? "clash" : ""} ${involved ? "involved" : ""}`,
				role: "img",
				"aria-label": label.filter((word) => word !== "").join(", "),
				"data-who": who,
				onpointerenter: () => this.hover(who),
				onpointerleave: () => this.hover(undefined),
			},
			svg("circle", { cx: x, cy: y, r: radius }),
			svg("text", { x, y: y + 6, class: small ? "name small" : "name" }, name),
			...(view.played.structure.columns === 2
				? // Beside the grid, where no arrow passes.
					text.map((word, line) =>
						svg("text", { x: x < WIDTH / 2 ? x - radius - 10 : x + radius + 10, y: y + 19 * line, class: `state ${x < WIDTH / 2 ? "left" : "right"}` }, word),
					)
				: [svg("text", { x, y: y + radius + 19, class: "state" }, text.join(" · "))]),
		);
	}

	/** @param {number | undefined} who */
	hover(who) {
		this.quorum = who;
		if (this.view) this.layers[0].replaceChildren(...this.bands(this.view));
	}

	/** @param {Wait} edge */
	cycleEdge(edge) {
		const words = { "needs-vote-of": "needs the vote of", "has-voted-for": "has voted for", "waits-for": "waits for" };
		const bend = edge.why === "has-voted-for" ? 26 : -26;
		const { path, middle, angle } = this.curve(edge.from, edge.to, bend);
		const { radius } = this.place;
		const flat = Math.abs(angle) > 90 ? angle + 180 : angle;
		const label = radius < 20 ? "" : words[edge.why];
		return svg(
			"g",
			{ class: `cycle ${edge.why}` },
			svg("path", { d: path, "marker-end": "url(#tip-bad)" }),
			svg("text", { transform: `translate(${middle.x} ${middle.y}) rotate(${flat})`, y: -7 }, label),
		);
	}

	/** @param {number} a @param {number} b @param {string} style */
	line(a, b, style) {
		const { spots } = this.place;
		return svg("line", { class: style, x1: spots[a].x, y1: spots[a].y, x2: spots[b].x, y2: spots[b].y });
	}

	/** @param {number} a @param {number} b @param {string} style @param {string} tip @param {number} bend */
	arrow(a, b, style, tip, bend) {
		return svg("path", { class: style, d: this.curve(a, b, bend).path, "marker-end": `url(#${tip})` });
	}

	/** A bent line between the rims of two processes. @param {number} a @param {number} b @param {number} bend */
	curve(a, b, bend) {
		const { spots, radius } = this.place;
		const [from, to] = [spots[a], spots[b]];
		const [dx, dy] = [to.x - from.x, to.y - from.y];
		const length = Math.hypot(dx, dy) || 1;
		const [ux, uy] = [dx / length, dy / length];
		const over = { x: (from.x + to.x) / 2 - uy * bend * 2, y: (from.y + to.y) / 2 + ux * bend * 2 };
		const rim = (/** @type {Spot} */ spot) => {
			const away = Math.hypot(over.x - spot.x, over.y - spot.y) || 1;
			const reach = radius + 5;
			return { x: spot.x + ((over.x - spot.x) / away) * reach, y: spot.y + ((over.y - spot.y) / away) * reach };
		};
		const [start, end] = [rim(from), rim(to)];
		const middle = { x: (start.x + 2 * over.x + end.x) / 4, y: (start.y + 2 * over.y + end.y) / 4 };
		const path = `M${start.x} ${start.y}Q${over.x} ${over.y} ${end.x} ${end.y}`;
		return { path, middle, angle: (Math.atan2(dy, dx) * 180) / Math.PI };
	}

	/** The messages in flight, as pills on their way; in You decide each is a button. @param {View} view */
	messages(view) {
		const layer = this.layers[6];
		const { spots } = this.place;
		/** @type {Map<string, number>} */
		const onLink = new Map();
		const shown = new Set();
		const { kinds } = view.played.diagram;
		for (const message of view.played.steps[view.at].in_flight.slice(0, 60)) {
			const key = `${message.from}-${message.to}-${message.sent}-${message.id}`;
			shown.add(key);
			const link = `${message.from}-${message.to}`;
			const [from, to] = [spots[message.from], spots[message.to]];
			const [dx, dy] = [to.x - from.x, to.y - from.y];
			const length = Math.hypot(dx, dy) || 1;
			// The oldest is the farthest; the next follow without covering it.
			const behind = onLink.get(link) ?? 0;
			const room = Math.min(width(message) / Math.abs(dx / length), 27 / Math.abs(dy / length)) + 3;
			onLink.set(link, behind + room);
			const share = Math.max(0.2, 0.62 - behind / length);
			const spot = { x: from.x + dx * share, y: from.y + dy * share };
			let pill = this.pills.get(key);
			if (!pill) {
				pill = this.pill(message, kinds.indexOf(message.kind));
				this.pills.set(key, pill);
				layer.append(pill);
				// Starts at its sender, without a layout of the page for each message.
				if (!isStill()) pill.animate({ transform: [at(from), at(spot)] }, { duration: 450, easing: "ease-in-out" });
			}
			this.arm(view, pill, message);
			pill.style.transform = at(spot);
		}
		for (const [key, pill] of this.pills) {
			if (!shown.has(key)) {
				this.pills.delete(key);
				const to = spots[Number(key.split("-")[1])];
				if (to && !isStill() && pill.isConnected) {
					pill.style.transform = at(to);
					pill.classList.add("arrived");
					setTimeout(() => pill.remove(), 420);
				} else pill.remove();
			}
		}
	}

	/** A message, in the colour that the diagram has for its kind. @param {Sent} message @param {number} ink */
	pill(message, ink) {
		const wide = width(message);
		const key = `${message.from}-${message.to}-${message.sent}-`;
		const pill = svg(
			"g",
			{
				class: `pill ${family(message.kind)} ink${ink % 7} ${message.lazy ? "lazy" : ""}`,
				"data-key": key,
				onpointerenter: () => this.on.lit(key),
				onpointerleave: () => this.on.lit(null),
				onfocus: () => this.on.lit(key),
				onblur: () => this.on.lit(null),
			},
			svg("rect", { x: -wide / 2, y: -12, width: wide, height: 24, rx: 12 }),
			svg("text", { y: 5 }, message.kind),
		);
		pill.addEventListener("click", () => pill.choice && this.on.choose(pill.choice));
		pill.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
			if (event.key === "Enter" && pill.choice) this.on.choose(pill.choice);
		});
		return pill;
	}

	/** @param {View} view @param {any} pill @param {Sent} message */
	arm(view, pill, message) {
		const choice = view.choices?.find(
			(one) => one.act === "deliver" && one.from === message.from && one.to === message.to && one.id === message.id,
		);
		const [from, to] = [view.played.processes[message.from], view.played.processes[message.to]];
		const free = choice && !choice.refusal;
		pill.choice = free ? choice.line : null;
		pill.classList.toggle("free", Boolean(free));
		pill.classList.toggle("held", Boolean(choice?.refusal));
		const name = `${message.text} from ${from} to ${to}`;
		const label = choice ? `${free ? "Deliver" : "Held back:"} ${name}${free ? "" : `; ${choice.refusal}`}` : name;
		pill.setAttribute("role", choice ? "button" : "img");
		pill.setAttribute("aria-label", label);
		if (choice) pill.setAttribute("tabindex", "0");
		else pill.removeAttribute("tabindex");
		if (choice && !free) pill.setAttribute("aria-disabled", "true");
		else pill.removeAttribute("aria-disabled");
	}

	/** Lights the messages of this key. @param {string | null} key */
	light(key) {
		for (const pill of this.pills.values()) {
			pill.classList.toggle("lit", key !== null && pill.dataset.key === key);
		}
		for (const node of this.layers[4].children) {
			const who = node.dataset.who;
			const ends = key?.split("-") ?? [];
			node.classList.toggle("lit", key !== null && (ends[0] === who || ends[1] === who));
		}
	}
}

/**
 * A hidden text in each font of the network. A browser forgets a font that nothing is written in, and
 * needs as long to find it again as for the rest of a step.
 */
function fonts() {
	const used = ["", "font1", "font1 font2", "font3", "font3 font4", "font5", "font6"];
	return svg("g", { visibility: "hidden", "aria-hidden": "true" }, ...used.map((style) => svg("text", { class: style }, "P0")));
}

/** @param {Sent} message */
function width({ kind }) {
	return 14 + 7.2 * kind.length;
}

/** @param {Spot} spot */
function at(spot) {
	return `translate(${spot.x}px, ${spot.y}px)`;
}
