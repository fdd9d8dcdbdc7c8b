// The static site: the same replies byte for byte, and the page from a plain file server.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { openPage, SITE, startBrowser, startFiles, startLab, toEnd } from "./harness.mjs";

let lab;
let files;
let browser;

before(async () => {
  assert.ok(SITE, "MUTUA_SITE names the directory of `cargo xtask site`");
  [lab, files, browser] = await Promise.all([startLab(), startFiles(SITE), startBrowser()]);
});
after(async () => {
  await browser?.close();
  files?.stop();
  lab?.stop();
});

async function viaServer(text) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`${lab.address}query`, { method: "POST", headers, body: text });
  return response.text();
}

async function module() {
  const bytes = readFileSync(path.join(SITE, "lab.wasm"));
  assert.deepEqual(WebAssembly.Module.imports(new WebAssembly.Module(bytes)), []);
  const { instance } = await WebAssembly.instantiate(bytes, {});
  const { memory, room, reply, reply_length } = instance.exports;
  return (text) => {
    const query = new TextEncoder().encode(text);
    const place = room(query.length);
    new Uint8Array(memory.buffer).set(query, place);
    const start = reply();
    return new TextDecoder().decode(new Uint8Array(memory.buffer, start, reply_length()));
  };
}

const TRACE = `{"mutua-trace":1,"algorithm":"central","processes":["A","B"],"unit":"ns"}
{"at":0,"who":"A","what":"start","clock":0,"state":{"Q":"[]"}}
{"at":1,"who":"B","what":"request","clock":1}
{"at":1,"who":"B","what":"send","to":"A","id":1,"kind":"request","clock":1}
{"at":2,"who":"A","what":"receive","from":"B","id":1,"kind":"request","clock":2}
`;

/** Where two texts differ first. */
function firstDifference(one, other) {
  let at = 0;
  while (one[at] === other[at]) at += 1;
  return `${one.slice(Math.max(0, at - 60), at + 60)} instead of ${other.slice(Math.max(0, at - 60), at + 60)}`;
}

test("server and module give the same bytes", async () => {
  const viaModule = await module();
  const catalogue = JSON.parse(await viaServer('{"query":"catalogue"}'));
  const script = "algorithm lamport\nprocesses P0 P1\nlinks any\nP0 requests\n";
  const run = { nodes: 6, load: "saturated", hold: "exp:1ms", latency: "exp:1ms", seed: 7 };
  const queries = [
    { query: "catalogue" },
    ...catalogue.scenes.map(({ name }) => ({ query: "example", name })),
    ...catalogue.examples.map(({ name }) => ({ query: "example", name })),
    ...catalogue.controls.slice(0, 8).map(({ name }) => ({ query: "control", name })),
    { query: "risk", script },
    { query: "goals", script },
    // The module has one type for all algorithms, the program one for each.
    ...catalogue.algorithms.filter((one) => !one.election).flatMap(({ name: algorithm }) => [
      { query: "simulate", algorithm, entries: 60, ...run },
      { query: "simulate", algorithm, entries: 20, crash: "2@20ms", repair: "special", ...run, load: "think:5ms" },
      { query: "compare", algorithm, load: "light", hold: "1ms", latency: "exp:1ms", seed: 3, sizes: [2, 5] },
      { query: "goals", script: `algorithm ${algorithm}\nprocesses P0 P1 P2\n` },
      { query: "under", script, algorithm },
    ]),
    { query: "simulate", algorithm: "naimi-trehel", entries: 60, crash: "2@20ms", repair: "generic", ...run, load: "think:5ms" },
    { query: "compare", algorithm: "maekawa", load: "offered:0.5", hold: "1ms", latency: "1ms", seed: 3, sizes: [9] },
    { query: "trace", parts: [TRACE] },
    { query: "play", script: `${script}P1 exits\n` },
    { query: "nonsense" },
  ];
  for (const query of queries) {
    const text = JSON.stringify(query);
    const [here, there] = [viaModule(text), await viaServer(text)];
    if (here !== there) assert.fail(`${text}: ${firstDifference(here, there)}`);
  }
});

const open = (options) => openPage(browser, files.address, options);

test("from a file server, the opening scene comes to its deadlock", async () => {
  const { page, done } = await open();
  await toEnd(page);
  assert.match(await page.textContent("#sentence"), /^Deadlock: P0 needs P2's vote/);
  await done();
});

test("from a file server, a visitor breaks Lamport", async () => {
  const { page, done } = await open();
  await page.selectOption("#examples", "scenes/reordering");
  for (const line of ["P0 requests", "P1 requests", "deliver request P1 -> P0", "deliver reply P0 -> P1"]) {
    await page.click(`#choices [data-line="${line}"]`);
  }
  await page.waitForFunction(() => /is violated/.test(document.getElementById("sentence")?.textContent ?? ""));
  await page.waitForSelector("#goals .done");
  await done();
});

test("from a file server, a run has its figures", async () => {
  const { page, done } = await open();
  await page.click("#mode-run");
  await page.waitForSelector("#run-figures td");
  assert.match(await page.textContent("#run-figures"), /messages per entry14142\(N-1\)/);
  await done();
});
