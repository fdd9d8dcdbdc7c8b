// The lab module in a worker: the page stays responsive, and a failed module can be replaced.

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const exports = load();

/** @returns {Promise<any>} */
async function load() {
	const response = await fetch("lab.wasm");
	if (!response.ok) throw new Error(`lab.wasm: ${response.status}`);
	const { instance } = await WebAssembly.instantiate(await response.arrayBuffer(), {});
	return instance.exports;
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
	try {
		postMessage({ number: data.number, text: await reply(data.text) });
	} catch (error) {
		postMessage({ number: data.number, error: `The lab module failed: ${error}` });
	}
});
