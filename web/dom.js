// Small helpers for elements.

const SVG = "http://www.w3.org/2000/svg";

/** The element of this id. @param {string} id @returns {any} */
export function byId(id) {
	const found = document.getElementById(id);
	if (!found) throw new Error(`no element ${id}`);
	return found;
}

/** @param {Element} made @param {Record<string, any>} attributes @param {(Node | string | null)[]} children */
function fill(made, attributes, children) {
	for (const [name, value] of Object.entries(attributes)) {
		if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
		else if (value !== null && value !== undefined && value !== false) {
			made.setAttribute(name, value === true ? "" : String(value));
		}
	}
	for (const child of children) if (child !== null) made.append(child);
}

/**
 * An HTML element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {(Node | string | null)[]} children
 * @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
	const made = document.createElement(tag);
	fill(made, attributes, children);
	return made;
}

/**
 * An SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {(Node | string | null)[]} children
 * @returns {any}
 */
export function svg(tag, attributes = {}, ...children) {
	const made = document.createElementNS(SVG, tag);
	fill(made, attributes, children);
	return made;
}

/**
 * The parts of a table: a caption for those who cannot see it, a head, and rows.
 * @param {string} caption
 * @param {string[]} head
 * @param {Element[]} rows
 */
export function table(caption, head, rows) {
	return [
		el("caption", { class: "hidden" }, caption),
		el("thead", {}, el("tr", {}, ...head.map((one) => el("th", { scope: "col" }, one)))),
		el("tbody", {}, ...rows),
	];
}

/**
 * Makes anew only the children whose sign has changed: a large picture is laid out in part.
 * @param {Element} parent
 * @param {string[]} signs
 * @param {(index: number) => Element} make
 */
export function patch(parent, signs, make) {
	signs.forEach((sign, index) => {
		const old = /** @type {any} */ (parent.children[index]);
		if (old?.sign === sign) return;
		const made = Object.assign(make(index), { sign });
		if (old) old.replaceWith(made);
		else parent.append(made);
	});
	while (parent.children.length > signs.length) parent.lastElementChild?.remove();
}

/** Why something failed. @param {unknown} error */
export function reason(error) {
	return error instanceof Error ? error.message : String(error);
}

/** Whether the visitor wants little motion. */
export function isStill() {
	return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** A class by the meaning of a message: its colour and its line. @param {string} kind */
export function family(kind) {
	if (/token|privilege/.test(kind)) return "token";
	if (/grant|reply|ok|answer|ack|locked|vote|number$/.test(kind)) return "answer";
	if (/release|free|exit/.test(kind)) return "release";
	if (/inquire|relinquish|fail|reject|yield|deny/.test(kind)) return "resolve";
	return "ask";
}

/** Offers a text as a file. @param {string} name @param {Blob} blob */
export function download(name, blob) {
	const address = URL.createObjectURL(blob);
	el("a", { href: address, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(address), 1000);
}
