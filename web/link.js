// Links that reproduce what is seen: everything is in the part after `#`.

/** @param {Uint8Array} bytes */
function base64url(bytes) {
	let text = "";
	for (const byte of bytes) text += String.fromCharCode(byte);
	return btoa(text).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** @param {string} text */
function bytesOf(text) {
	const plain = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
	return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
}

/** @param {BodyInit} body @param {any} through */
async function through(body, through) {
	const stream = /** @type {ReadableStream} */ (new Response(body).body);
	return new Uint8Array(await new Response(stream.pipeThrough(through)).arrayBuffer());
}

/** A text for a link: deflated, in letters that a link may contain. @param {string} text */
export async function pack(text) {
	return base64url(await through(text, new CompressionStream("deflate-raw")));
}

/** @param {string} packed */
export async function unpack(packed) {
	const bytes = await through(bytesOf(packed), new DecompressionStream("deflate-raw"));
	return new TextDecoder().decode(bytes);
}

/** The settings in the address. @returns {Record<string, string>} */
export function read() {
	return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

/**
 * Puts settings into the address, without a new entry in the history.
 * @param {Record<string, string | number | null | undefined>} settings
 */
export function write(settings) {
	const given = Object.entries(settings).filter(([, value]) => value !== null && value !== undefined);
	const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
	history.replaceState(null, "", `${location.pathname}${location.search}#${text.replace(/%2F/g, "/")}`);
}
