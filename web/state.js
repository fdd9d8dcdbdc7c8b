// The states of a script that was played, derived from its reply.

/** The rows of all processes after each step. @param {Played} played @returns {Row[][]} */
export function allRows(played) {
	/** @type {Row[][]} */
	const all = [];
	let rows = /** @type {Row[]} */ ([]);
	for (const step of played.steps) {
		rows = rows.slice();
		for (const [who, row] of Object.entries(step.rows)) rows[Number(who)] = row;
		all.push(rows);
	}
	return all;
}

/**
 * The steps that happened before a step: those of its process, and those of the senders of what
 * was received.
 * @param {Played} played
 * @param {number} step
 * @returns {Set<number>}
 */
export function causalPast(played, step) {
	/** @type {Map<string, number>} */
	const sent = new Map();
	played.steps.forEach((one, number) => {
		for (const message of one.in_flight) {
			if (message.sent === number) sent.set(`${message.from}:${message.id}`, number);
		}
	});
	const past = new Set([step]);
	const open = [step];
	while (open.length > 0) {
		const number = /** @type {number} */ (open.pop());
		const { who, received } = played.steps[number];
		const before = [];
		for (let earlier = number - 1; earlier > 0; earlier -= 1) {
			if (played.steps[earlier].who === who) {
				before.push(earlier);
				break;
			}
		}
		const cause = received && sent.get(`${received[0]}:${received[1]}`);
		if (cause) before.push(cause);
		for (const one of before) {
			if (!past.has(one)) {
				past.add(one);
				open.push(one);
			}
		}
	}
	return past;
}

/** The sentence above the views. @param {Played} played @param {number} at */
export function sentence(played, at) {
	const step = played.steps[at];
	if (step.finding) return step.finding.sentence;
	if (at === played.steps.length - 1 && played.after.length > 0) return played.after.join(" ");
	for (let number = at; number > 0; number -= 1) {
		const { comments } = played.steps[number];
		if (comments.length > 0) return comments.join(" ");
	}
	// A visitor's own script has no comments: the step itself is the sentence.
	const isSilent = played.steps.every((one) => one.comments.length === 0);
	if (at > 0 && isSilent) return step.words;
	const first = played.steps[1]?.comments ?? played.after;
	const shows = played.shows.charAt(0).toUpperCase() + played.shows.slice(1);
	return first.join(" ") || (shows ? `${shows}.` : `${played.title || played.algorithm}.`);
}

/** What a process does about a step, without the step itself. @param {Played} played @param {number} at */
export function outcome(played, at) {
	const { words } = played.steps[at];
	const comma = words.indexOf(", ");
	return comma < 0 ? "does nothing yet" : words.slice(comma + 2).replace(/\.$/, "");
}

/** The script up to a step, as `mutua replay` plays it. @param {Played} played @param {number} at */
export function scriptTo(played, at) {
	return scriptOf(played.head, played.steps.slice(1, at + 1).map((step) => step.line));
}

/** @param {string} head @param {string[]} lines */
export function scriptOf(head, lines) {
	return head + lines.map((line) => `${line}\n`).join("");
}
