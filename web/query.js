// Queries to the lab module: by a server, or by the module itself in a worker.

const meta = /** @type {HTMLMetaElement | null} */ (document.querySelector('meta[name="lab"]'));
const byModule = meta?.content === "module";

/** @type {Map<string, Promise<any>>} */
const known = new Map();

/** A query that was refused, with the reason. */
export class Refused extends Error {}

/**
 * The reply to a query. Equal queries have equal replies, so they are kept for a while.
 * @param {Record<string, any>} query
 * @param {boolean} [kept] whether it is likely to be asked again
 * @returns {Promise<any>}
 */
export async function ask(query, kept = true) {
	const text = JSON.stringify(query);
	let reply = known.get(text);
	if (!reply) {
		reply = (byModule ? viaWorker(text) : viaServer(text)).then((answer) => JSON.parse(answer));
		if (kept) known.set(text, reply);
		reply.catch(() => known.delete(text));
		if (known.size > 200) known.delete(known.keys().next().value ?? "");
	}
	const answer = await reply;
	if (answer.reply === "refused") throw new Refused(answer.why);
	return answer;
}

/** @param {string} text */
async function viaServer(text) {
	const headers = { "Content-Type": "application/json" };
	const response = await fetch("query", { method: "POST", headers, body: text });
	const answer = await response.text();
	if (!response.ok) throw new Refused(answer.trim());
	return answer;
}

/** What may take long has a worker of its own, so that a click is answered meanwhile. */
const SLOW = /^{"query":"(risk|goals|control|simulate|compare)"/;

/** @typedef {{ good: (text: string) => void, bad: (error: Error) => void }} Asked */
/** @type {Map<boolean, { worker: Worker, waiting: Map<number, Asked> }>} */
const workers = new Map();
/** The module, once a worker has compiled it. @type {WebAssembly.Module | null} */
let module = null;
let last = 0;

/** @param {string} text @returns {Promise<string>} */
function viaWorker(text) {
	const slow = SLOW.test(text);
	const one = workers.get(slow) ?? startWorker(slow);
	last += 1;
	const number = last;
	return new Promise((good, bad) => {
		one.waiting.set(number, { good, bad });
		one.worker.postMessage({ number, text });
	});
}

/** @param {boolean} slow */
function startWorker(slow) {
	const one = { worker: new Worker("worker.js", { type: "module" }), waiting: new Map() };
	// A module that has failed cannot go on: the next query starts a new one.
	const fail = (/** @type {string} */ why) => {
		one.worker.terminate();
		workers.delete(slow);
		for (const asked of one.waiting.values()) asked.bad(new Refused(why));
	};
	one.worker.postMessage({ module });
	one.worker.onerror = (event) => fail(event.message);
	one.worker.onmessage = ({ data }) => {
		if (data.module) return void (module = data.module);
		if (data.text === undefined) return fail(data.error);
		one.waiting.get(data.number)?.good(data.text);
		one.waiting.delete(data.number);
		return undefined;
	};
	workers.set(slow, one);
	return one;
}

/** Starts the worker for what may take long, before it is needed. */
export function prepare() {
	if (byModule && !workers.has(true)) startWorker(true);
}
