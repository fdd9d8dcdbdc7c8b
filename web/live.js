// Live: a real cluster's members and locks, and what its nodes sent, with rewind.

import { byId, el, reason } from "./dom.js";
import { ask } from "./query.js";

/** @typedef {{ at: number, who: string, text: string, event: Record<string, any> }} Line */

/** Milliseconds between two readings. */
const PAUSE = 600;
/** Events are kept for so many nanoseconds, and so many are in view. */
const KEPT = 600e9;
const SHOWN = 80;

/** @param {number} ms */
function time(ms) {
	const seconds = Math.floor(ms / 1000);
	return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** @param {LiveLock["holder"]} one */
function client(one) {
	return one ? `${one.owner} (pid ${one.pid} on ${one.host}${one.node ? `, node ${one.node}` : ""})` : "–";
}

export class Live {
	/** @param {string} token @param {(played: Played | null) => void} show */
	constructor(token, show) {
		this.token = token;
		/** Shows what is drawn; null: only the heading has changed. */
		this.show = show;
		this.timer = 0;
		this.on = false;
		/** The lock that is followed, by its number in hexadecimal digits. */
		this.lock = "";
		/** The end of what is shown, in the node's nanoseconds; null: now. @type {number | null} */
		this.until = null;
		/** @type {LiveReply | null} */
		this.last = null;
		/** @type {Map<string, HTMLElement>} */
		this.rows = new Map();
		/** The first line of the traces. */
		this.header = "";
		/** What was drawn last. */
		this.drawn = "";
		/** The node's clock at the last reading. */
		this.now = 0;
		/** @type {Line[]} */
		this.lines = [];
		/** @type {Record<string, number>} */
		this.after = {};
		/** @type {Map<string, { grants: number, messages: number }>} */
		this.counts = new Map();
		/** Which members were up at the last reading. @type {Map<string, boolean>} */
		this.up = new Map();
		byId("live-rewind").oninput = () => this.rewind(Number(byId("live-rewind").value));
		byId("live-follow").onclick = () => this.follow();
		byId("revoke-form").onsubmit = (/** @type {Event} */ event) => {
			event.preventDefault();
			void this.revoke();
		};
		byId("revoke-cancel").onclick = () => byId("revoke").close();
		byId("revoke-name").oninput = () => this.typed();
	}

	/** Drops what is known of a lock's messages. */
	forget() {
		this.header = this.drawn = "";
		this.lines = [];
		this.after = {};
		this.counts.clear();
		this.up.clear();
	}

	start() {
		if (this.on) return;
		this.on = true;
		void this.read();
	}

	stop() {
		this.on = false;
		clearTimeout(this.timer);
	}

	/** @param {string} path @param {Record<string, any>} body */
	async post(path, body) {
		const headers = { "Content-Type": "application/json", Authorization: `Bearer ${this.token}` };
		const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
		if (!response.ok) throw new Error((await response.text()).trim());
		return response.json();
	}

	async read() {
		let failure = "";
		try {
			const lock = this.lock;
			const reply = await this.post("live", { lock: lock || null, after: this.after });
			if (lock === this.lock) this.take(reply);
		} catch (error) {
			failure = reason(error);
		}
		if (!this.on) return;
		this.note(failure);
		this.show(null);
		if (this.until === null) await this.draw();
		this.timer = window.setTimeout(() => void this.read(), PAUSE);
	}

	/** @param {string} failure */
	note(failure) {
		const { last } = this;
		const silent = last?.unanswered ?? [];
		const notes = [
			failure && `No reading: ${failure}.`,
			last?.suspended && `Grants are suspended: ${last.suspended}.`,
			silent.length > 0 && `Did not answer: ${silent.join(", ")}.`,
			last?.locks.length === 0 && "No lock is in use; `mutua lock demo -- sleep 60` uses one.",
		];
		const text = notes.filter(Boolean).join(" ");
		if (byId("live-note").textContent !== text) byId("live-note").textContent = text;
	}

	/** @param {LiveReply} reply */
	take(reply) {
		this.last = reply;
		if (reply.trace) this.events(reply, reply.trace);
		const known = reply.locks.some((one) => one.id === this.lock);
		if (!known && !this.header && reply.locks[0]) this.choose(reply.locks[0].id);
		this.members(reply);
		this.table(reply);
	}

	/** @param {LiveReply} reply @param {NonNullable<LiveReply["trace"]>} trace */
	events(reply, trace) {
		this.now = trace.now;
		/** @type {Line[]} */
		const more = [];
		for (const one of trace.members) {
			if (one.header && one.header !== this.header) {
				if (this.header) this.lines = [];
				this.header = one.header;
			}
			this.after[one.node] = one.next;
			this.counts.set(one.node, one);
			for (const text of one.events) {
				const event = JSON.parse(text);
				more.push({ at: event.at, who: one.node, text, event });
			}
		}
		// The others see that a member is gone; it cannot say so itself.
		for (const one of reply.members) {
			const before = this.up.get(one.name);
			this.up.set(one.name, one.up);
			if (before === undefined ? !one.up : before !== one.up) {
				const event = { at: trace.now - 1e6 * one.for_ms, who: one.name, what: one.up ? "restart" : "crash" };
				more.push({ at: event.at, who: one.name, text: JSON.stringify(event), event });
			}
		}
		if (more.length === 0) return;
		const old = this.now - KEPT;
		this.lines = [...this.lines.filter((line) => line.at > old), ...more].sort((a, b) => a.at - b.at);
	}

	/** @param {string} id */
	choose(id) {
		if (id === this.lock) return;
		this.lock = id;
		this.forget();
		this.follow();
		if (this.last) this.table(this.last);
	}

	follow() {
		this.until = null;
		byId("live-follow").setAttribute("aria-pressed", "true");
		byId("live-rewind").value = "0";
	}

	/** Stops at what is seen. */
	pause() {
		if (this.until !== null) return;
		this.until = this.now;
		byId("live-follow").setAttribute("aria-pressed", "false");
	}

	/** @param {number} seconds */
	rewind(seconds) {
		this.pause();
		this.until = this.now + seconds * 1e9;
		void this.draw();
	}

	/** Draws the last events before the end of what is shown. */
	async draw() {
		const rewind = byId("live-rewind");
		const kept = this.lines.length > 0 ? (this.now - this.lines[0].at) / 1e9 : 0;
		rewind.min = String(-Math.ceil(kept));
		rewind.setAttribute("aria-valuetext", `${-Number(rewind.value)} seconds ago`);
		byId("live-ago").textContent = this.until === null ? "now" : `${((this.now - this.until) / 1e9).toFixed(1)} s ago`;
		if (!this.header) return;
		const until = this.until ?? Infinity;
		const past = this.lines.filter((line) => line.at <= until);
		const parts = this.parts(past.slice(0, -SHOWN), past.slice(-SHOWN));
		const drawn = parts.join();
		if (drawn === this.drawn) return;
		this.drawn = drawn;
		const played = await ask({ query: "trace", parts }, false);
		if (this.on && drawn === this.drawn) this.show(played);
	}

	/**
	 * The trace from the first shown event on, begun by the state that those before it lead to.
	 * @param {Line[]} before @param {Line[]} shown
	 */
	parts(before, shown) {
		const { processes } = JSON.parse(this.header);
		/** @type {Record<string, { what: string, state: Record<string, string> }>} */
		const states = {};
		for (const { event } of before) {
			const known = (states[event.who] ??= { what: "exit", state: {} });
			if (event.what === "start") known.state = {};
			if (event.what === "start" && event.in_cs) known.what = "enter";
			else if (/^(start|request|enter|exit|crash|restart)$/.test(event.what)) known.what = event.what;
			Object.assign(known.state, event.state);
		}
		const at = Math.floor(shown[0]?.at ?? 0);
		const part = (/** @type {string[]} */ lines) => [this.header, ...lines].join("\n");
		const all = Object.entries(states).filter(([who]) => processes.includes(who));
		const begun = all.map(([who, { what, state }]) =>
			JSON.stringify({ at, who, what: "start", in_cs: what === "enter", state }),
		);
		const then = all
			.filter(([, { what }]) => what === "request" || what === "crash")
			.map(([who, { what }]) => JSON.stringify({ at, who, what }));
		const own = processes.map((/** @type {string} */ name) =>
			part(shown.filter((line) => line.who === name).map((line) => line.text)),
		);
		return [part(begun), part(then), ...own];
	}

	/** What is held now, as the heading. */
	sentence() {
		const { last } = this;
		if (!last) return "Asking the node …";
		const lock = last.locks.find((one) => one.id === this.lock);
		if (!lock) return `Cluster ${last.cluster || last.node}: ${last.locks.length} locks in use.`;
		const waiting = lock.waiting.length + lock.waiting_left_out;
		const held = lock.holder ? `held by ${client(lock.holder)}` : "not held";
		return `${lock.name}: ${held}; ${waiting} waiting.`;
	}

	/** When a step was, by this machine's clock. @param {Played} played @param {number} at */
	when(played, at) {
		const ns = played.times?.[at];
		if (ns === undefined) return "";
		return new Date(Date.now() - (this.now - ns) / 1e6).toISOString().slice(11, 23);
	}

	/** @param {LiveReply} reply */
	members(reply) {
		const chip = (/** @type {LiveReply["members"][number]} */ one) => {
			const marks = [one.up ? "up" : `down for ${time(one.for_ms)}`, one.in_view ? "in view" : "not in view"];
			if (one.name === reply.leader) marks.push("leader");
			return el("span", { class: `member ${one.up ? "up" : "down"}`, "data-member": one.name }, el("b", {}, one.name), ` ${marks.join(", ")}`);
		};
		const total = [...this.counts.values()].reduce((sum, one) => [sum[0] + one.messages, sum[1] + one.grants], [0, 0]);
		const rate = total[1] > 0 ? `${(total[0] / total[1]).toFixed(2)} (${total[0]} messages, ${total[1]} grants)` : "–";
		byId("live-members").replaceChildren(
			el("span", {}, `Cluster ${reply.cluster || "of one node"}, seen from ${reply.node}: `, el("b", { id: "live-view" }, `view ${reply.view ?? reply.epoch ?? "none"}`)),
			...reply.members.map(chip),
			el("span", {}, "Messages per grant: ", el("b", { id: "live-cost" }, rate)),
		);
	}

	/** The locks. Rows stay the same elements, so that the focus stays. @param {LiveReply} reply */
	table(reply) {
		const known = this.rows;
		this.rows = new Map();
		for (const lock of reply.locks) {
			const row = known.get(lock.id) ?? this.row(lock);
			this.rows.set(lock.id, row);
			const queue = lock.waiting.slice(0, 4).map(client);
			const more = lock.waiting.length + lock.waiting_left_out - queue.length;
			if (more > 0) queue.push(`${more} more`);
			const texts = [lock.algorithm, client(lock.holder), lock.holder ? time(lock.holder.for_ms) : "–", queue.join(", ") || "–"];
			texts.forEach((text, index) => (row.children[index + 1].textContent = text));
			const [follow, revoke] = row.querySelectorAll("button");
			follow.setAttribute("aria-pressed", String(lock.id === this.lock));
			revoke.disabled = !lock.holder;
		}
		const body = byId("live-locks");
		const rows = [...this.rows.values()];
		if (rows.length !== body.children.length || rows.some((row, index) => row !== body.children[index])) body.replaceChildren(...rows);
	}

	/** @param {LiveLock} lock */
	row(lock) {
		return el(
			"tr",
			{ "data-lock": lock.name },
			el("th", { scope: "row" }, el("button", { onclick: () => this.choose(lock.id) }, lock.name)),
			...Array.from({ length: 4 }, () => el("td")),
			el("td", {}, el("button", { onclick: () => this.confirm(lock.id), "aria-label": `Revoke ${lock.name}` }, "Revoke …")),
		);
	}

	/** @param {string} id */
	confirm(id) {
		const lock = this.last?.locks.find((one) => one.id === id);
		if (!lock?.holder) return;
		this.doomed = { lock: id, name: lock.name, fencing_token: lock.holder.fencing_token };
		byId("revoke-what").textContent =
			`${client(lock.holder)} holds ${lock.name} with fencing token ${lock.holder.fencing_token}. ` +
			"Revoked, another client may get it while this one still works: only what checks the fencing token is safe.";
		byId("revoke-name").value = byId("revoke-reason").value = byId("revoke-note").textContent = "";
		this.typed();
		byId("revoke").showModal();
	}

	typed() {
		byId("revoke-go").disabled = byId("revoke-name").value !== this.doomed?.name;
	}

	async revoke() {
		if (!this.doomed) return;
		const { lock, fencing_token } = this.doomed;
		try {
			const body = { lock, typed: byId("revoke-name").value, fencing_token, reason: byId("revoke-reason").value };
			const { broken } = await this.post("live/revoke", body);
			if (!broken) throw new Error("it is not held by that client any more");
			byId("revoke").close();
		} catch (error) {
			byId("revoke-note").textContent = `Nothing was revoked: ${reason(error)}.`;
		}
	}
}
