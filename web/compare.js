// Compare: figures over the number of processes, theory dashed, one cursor over all plots.

import { byId, el, svg } from "./dom.js";
import * as link from "./link.js";
import { ask } from "./query.js";

/** @typedef {import("./types").Point} Point */

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#7a5195"];
const DASHES = ["", "8 3", "2 3", "10 3 2 3", "5 2"];
const FIRST = ["ricart-agrawala", "maekawa", "naimi-trehel", "raymond", "central"];

/** @type {{ key: keyof Point, theory: keyof Point | null, title: string }[]} */
const PLOTS = [
  { key: "messages", theory: "messages_theory", title: "messages per entry" },
  { key: "sync_delay", theory: "sync_theory", title: "sync delay, in latencies" },
  { key: "client_delay", theory: null, title: "client delay, in latencies" },
  { key: "throughput", theory: null, title: "entries per second" },
];
const [W, H, LEFT, BOTTOM] = [420, 280, 52, 34];

const page = {
  algorithms: /** @type {import("./types").Algorithm[]} */ ([]),
  chosen: new Set(FIRST),
  results: /** @type {Map<string, Point[]>} */ (new Map()),
  cursor: /** @type {number | null} */ (null),
  turn: 0,
};

/** The place of an algorithm among those that are shown. @param {string} name */
function place(name) {
  return [...page.chosen].indexOf(name);
}

/** @param {string} name */
function colour(name) {
  return place(name) < 0 ? "transparent" : COLOURS[place(name) % COLOURS.length];
}

/** @param {string} name */
function dash(name) {
  return DASHES[place(name) % DASHES.length];
}

function form() {
  const data = new FormData(byId("form"));
  const text = (/** @type {string} */ name) => String(data.get(name));
  const most = Math.max(2, Math.min(128, Number(text("most"))));
  const sizes = [2, 4, 8, 16, 24, 32, 48, 64, 96, 128].filter((size) => size <= most);
  return { load: text("load"), hold: text("hold"), latency: text("latency"), seed: Number(text("seed")), sizes };
}

async function measure() {
  page.turn += 1;
  const turn = page.turn;
  page.results.clear();
  const settings = form();
  link.write({ ...settings, sizes: null, most: settings.sizes[settings.sizes.length - 1], a: [...page.chosen].join(",") });
  const note = byId("note");
  note.classList.remove("bad");
  for (const name of page.chosen) {
    note.textContent = `Measuring ${name} …`;
    try {
      const { points } = await ask({ query: "compare", algorithm: name, ...settings });
      if (turn !== page.turn) return;
      page.results.set(name, points);
    } catch (error) {
      note.textContent = error instanceof Error ? error.message : String(error);
      note.classList.add("bad");
      return;
    }
    show();
  }
  note.textContent = "Solid: measured. Dashed and thin: the formula. Click a point to watch that run.";
  document.body.dataset.ready = "yes";
}

function show() {
  const all = [...page.results.values()].flat();
  const drawn = PLOTS.filter((one) => all.some((point) => point[one.key] !== null));
  byId("plots").replaceChildren(...drawn.map(plot));
  figures();
}

/** @param {typeof PLOTS[number]} one */
function plot(one) {
  const { sizes } = form();
  const all = [...page.results.values()].flat();
  const values = all.flatMap((point) => [point[one.key], one.theory ? point[one.theory] : null]);
  const most = Math.max(1, ...values.filter((value) => value !== null).map(Number));
  const x = (/** @type {number} */ nodes) => LEFT + ((W - LEFT - 12) * nodes) / sizes[sizes.length - 1];
  const y = (/** @type {number} */ value) => H - BOTTOM - ((H - BOTTOM - 26) * value) / most;
  const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${one.title} over the number of processes; the table below has the figures` });
  picture.append(
    svg("text", { x: 8, y: 16, "font-weight": 700 }, one.title),
    svg("path", { class: "axis", fill: "none", d: `M${LEFT} 24V${H - BOTTOM}H${W - 8}` }),
    svg("text", { x: W - 10, y: H - 6, "text-anchor": "end" }, "processes"),
  );
  for (const share of [0, 0.5, 1]) {
    picture.append(svg("text", { x: LEFT - 6, y: y(most * share) + 4, "text-anchor": "end" }, String(Number((most * share).toPrecision(3)))));
  }
  for (const size of sizes) {
    if (size >= 8 || size === sizes[0]) picture.append(svg("text", { x: x(size), y: H - BOTTOM + 15, "text-anchor": "middle" }, String(size)));
  }
  const hair = svg("line", { class: "hair", y1: 24, y2: H - BOTTOM, x1: -9, x2: -9 });
  picture.append(hair);
  for (const [name, points] of page.results) curve(picture, one, name, points, x, y);
  picture.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const box = picture.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * W;
    const nearest = sizes.reduce((best, size) => (Math.abs(x(size) - at) < Math.abs(x(best) - at) ? size : best), sizes[0]);
    cursor(nearest, x(nearest));
  });
  return el("div", { class: "plot" }, picture);
}

/**
 * @param {any} picture @param {typeof PLOTS[number]} one @param {string} name @param {Point[]} points
 * @param {(nodes: number) => number} x @param {(value: number) => number} y
 */
function curve(picture, one, name, points, x, y) {
  const path = (/** @type {keyof Point} */ key) =>
    points
      .filter((point) => point[key] !== null)
      .map((point, index) => `${index === 0 ? "M" : "L"}${x(point.nodes).toFixed(1)} ${y(Number(point[key])).toFixed(1)}`)
      .join("");
  picture.append(svg("path", { class: "curve", d: path(one.key), stroke: colour(name), "stroke-dasharray": dash(name) }));
  if (one.theory) picture.append(svg("path", { class: "theory", d: path(one.theory), stroke: colour(name) }));
  for (const point of points) {
    const value = point[one.key];
    if (value === null) continue;
    const dot = svg("circle", { cx: x(point.nodes), cy: y(Number(value)), r: 4.5, fill: colour(name) });
    dot.append(svg("title", {}, `${name}, ${point.nodes} processes: ${Number(Number(value).toPrecision(4))}`));
    dot.addEventListener("click", () => void watch(name, point.nodes));
    picture.append(dot);
  }
}

/** Opens the run behind a point. @param {string} algorithm @param {number} nodes */
async function watch(algorithm, nodes) {
  const { load, hold, latency, seed } = form();
  const query = { query: "simulate", algorithm, nodes, load, hold, latency, reorder: false, entries: 100, seed };
  location.href = `index.html#m=run&q=${await link.pack(JSON.stringify(query))}`;
}

/** The same size in all plots. @param {number} size @param {number} x */
function cursor(size, x) {
  for (const hair of document.querySelectorAll(".hair")) {
    hair.setAttribute("x1", String(x));
    hair.setAttribute("x2", String(x));
  }
  for (const row of document.querySelectorAll("#figures tr[data-size]")) {
    row.classList.toggle("lit", /** @type {HTMLElement} */ (row).dataset.size === String(size));
  }
}

function figures() {
  const number = (/** @type {any} */ value) => (value === null ? "–" : String(Number(Number(value).toPrecision(4))));
  const head = ["algorithm", "N", "messages", "formula", "theory", "sync delay", "theory", "client delay", "entries/s"];
  const rows = [...page.results].flatMap(([name, points]) =>
    points.map((one) =>
      el(
        "tr",
        { "data-size": one.nodes },
        el("th", { scope: "row" }, el("span", { class: "swatch" }), name),
        ...[String(one.nodes), number(one.messages), one.formula ?? "–", number(one.messages_theory), number(one.sync_delay), number(one.sync_theory), number(one.client_delay), number(one.throughput)].map((text) => el("td", {}, text)),
      ),
    ),
  );
  byId("figures").replaceChildren(
    el("caption", { class: "hidden" }, "Figures of all plots"),
    el("thead", {}, el("tr", {}, ...head.map((one) => el("th", { scope: "col" }, one)))),
    el("tbody", {}, ...rows),
  );
  const swatches = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#figures .swatch"));
  const names = [...page.results].flatMap(([name, points]) => points.map(() => name));
  swatches.forEach((swatch, index) => (swatch.style.background = colour(names[index])));
}

function toggles() {
  const toggle = (/** @type {import("./types").Algorithm} */ one) => {
    const swatch = el("span", { class: "swatch" });
    swatch.style.background = colour(one.name);
    const box = el("input", { type: "checkbox", id: `use-${one.name}`, checked: page.chosen.has(one.name) });
    box.addEventListener("change", () => {
      if (box.checked) page.chosen.add(one.name);
      else page.chosen.delete(one.name);
      toggles();
      byId(`use-${one.name}`).focus();
      void measure();
    });
    return el("label", {}, box, swatch, one.name);
  };
  byId("algorithms").replaceChildren(...page.algorithms.map(toggle));
}

async function main() {
  const { a, ...given } = link.read();
  if (a) page.chosen = new Set(a.split(","));
  const fields = byId("form").elements;
  for (const [name, value] of Object.entries(given)) if (fields[name]) fields[name].value = value;
  const catalogue = await ask({ query: "catalogue" });
  page.algorithms = catalogue.algorithms.filter((/** @type {any} */ one) => !one.election && !one.control);
  toggles();
  byId("form").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    void measure();
  });
  await measure();
}

void main();
