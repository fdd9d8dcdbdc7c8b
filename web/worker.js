// The lab module in a worker: the page stays responsive, and a failed module can be replaced.

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** @type {Promise<any>} */
let exports;

/** Runs the module that another worker has compiled, or loads it. @param {WebAssembly.Module | null} known */
async function load(known) {
	const module = known ?? (await compiled());
	return (await WebAssembly.instantiate(module, {})).exports;
}

async function compiled() {
	const response = await fetch("lab.wasm");
	if (!response.ok) throw new Error(`lab.wasm: ${response.status}`);
	const module = await WebAssembly.compile(await response.arrayBuffer());
	postMessage({ module });
	return module;
}

/** @param {string} text */
async function reply(text) {
	const { memory, room, reply, reply_length } = await exports;
	const query = encoder.encode(text);
	const place = room(query.length);
	new Uint8Array(memory.buffer).set(query, place);
	const start = reply();
	return decoder.decode(new Uint8Array(memory.buffer, start, reply_length()));
}

addEventListener("message", async ({ data }) => {
	if (data.text === undefined) {
		exports = load(data.module);
		return;
	}
	try {
		postMessage({ number: data.number, text: await reply(data.text) });
	} catch (error) {
		postMessage({ number: data.number, error: `The lab module failed: ${error}` });
	}
});
