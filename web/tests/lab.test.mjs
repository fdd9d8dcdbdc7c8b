// The page over the server.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { BINARY, openPage, seen, startBrowser, startLab, toEnd, watch } from "./harness.mjs";

let lab;
let browser;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  lab?.stop();
});

const open = (options) => openPage(browser, lab.address, options);
const DEADLOCK =
  "Deadlock: P0 needs P2's vote, which P3 has; P3 needs P1's vote, which P0 has. " +
  "Nothing is in flight, so nothing will ever change.";

test("the opening scene plays by itself to its deadlock, and two buttons go on", async () => {
  const { page, done } = await open({ reducedMotion: "no-preference" });
  await page.waitForFunction((text) => document.getElementById("sentence")?.textContent === text, DEADLOCK, {
    timeout: 25_000,
  });
  assert.equal(await page.locator("#network .cycle").count(), 4);
  assert.match(await page.getAttribute("#network .node >> nth=0", "aria-label"), /P0, waits.*waits for P2/);
  await page.click("#way-out");
  await page.waitForSelector("#choices button");
  assert.equal(await page.textContent("#count"), "3 of 3, 0 entries");
  await page.waitForSelector("#light.yes");
  await page.click("#mode-watch");
  await page.waitForFunction(() => document.body.dataset.at === "0");
  await toEnd(page);
  await page.click("#way-solved");
  await page.waitForFunction(() => Number(document.body.dataset.end) > 12);
  await toEnd(page);
  assert.equal(await page.getAttribute("body", "data-entries"), "2");
  await done();
});

test("with reduced motion nothing moves by itself", async () => {
  const { page, done } = await open();
  await page.waitForTimeout(1800);
  assert.equal(await page.getAttribute("body", "data-at"), "0");
  assert.match(await page.textContent("#sentence"), /^P0 and P3 want to enter/);
  await done();
});

test("every example plays to its end with the entries of `mutua replay`", async () => {
  const { page, done } = await open();
  const names = await page.locator('#examples option:not([value*=": "])').evaluateAll((all) => all.map((one) => one.value));
  assert.ok(names.length > 60, `${names.length} examples`);
  for (const name of names.filter((one) => !one.startsWith("scenes/"))) {
    await watch(page, name);
    await toEnd(page);
    if (name.startsWith("dijkstra")) continue;
    const file = path.join(mkdtempSync(path.join(tmpdir(), "mutua-")), "trace");
    execFileSync(BINARY, ["replay", name, "--trace", file]);
    const entries = readFileSync(file, "utf8").split("\n").filter((line) => line.includes('"what":"enter"'));
    assert.equal(await page.getAttribute("body", "data-entries"), String(entries.length), name);
  }
  await done();
});

test("a step back gives the state as it was", async () => {
  const { page, done } = await open();
  for (const name of ["ricart-agrawala/chain-of-three", "raymond/five-nodes"]) {
    await watch(page, name);
    const states = [await seen(page)];
    const end = Number(await page.getAttribute("body", "data-end"));
    for (let at = 1; at <= end; at += 1) {
      await page.keyboard.press("PageDown");
      states.push(await seen(page));
    }
    for (let at = end - 1; at >= 0; at -= 1) {
      await page.keyboard.press("PageUp");
      assert.deepEqual(await seen(page), states[at], `${name}, step ${at}`);
    }
  }
  await done();
});

test("a visitor breaks Lamport on reordering links by four clicks, and reads it", async () => {
  const { page, done } = await open();
  await page.selectOption("#examples", "scenes/reordering");
  const lines = ["P0 requests", "P1 requests", "deliver request P1 -> P0", "deliver reply P0 -> P1"];
  for (const [index, line] of lines.entries()) {
    await page.click(`#choices [data-line="${line}"]`);
    await page.waitForFunction((steps) => document.body.dataset.steps === steps, String(index + 1));
  }
  assert.equal(
    await page.textContent("#sentence"),
    "Mutual exclusion is violated: P1 enters, and P0 is in the critical section too.",
  );
  await page.waitForSelector("#goals .done");
  assert.match(await page.textContent("#goals .done"), /reached in 4 steps, which is par/);
  await page.click("#undo");
  await page.waitForSelector("#light.yes");
  assert.match(await page.textContent("#branches"), /deliver reply P0 -> P1/);
  await done();
});

test("a link reproduces what is seen, and one of another version is reported", async () => {
  const { page, done } = await open();
  await page.selectOption("#examples", "scenes/reordering");
  await page.click('#choices [data-line="P0 requests"]');
  await page.click('#choices [data-line="deliver request P0 -> P1"]');
  await page.waitForFunction(() => document.body.dataset.steps === "2");
  await page.click("#copy-link");
  await page.waitForFunction(() => document.getElementById("copy-link")?.textContent === "Copied");
  const link = await page.evaluate(() => navigator.clipboard.readText());
  const state = await seen(page);
  await done();
  const where = link.slice(lab.address.length);
  const again = await open({ where });
  assert.deepEqual(await seen(again.page), state);
  await again.done();
  const other = await open({ where: where.replace(/h=[0-9a-f]+/, "h=0") });
  assert.match(await other.page.textContent("#notice"), /made with version .* shows something else/);
  await other.done();
});

test("copied as a script, a run is played by `mutua replay`", async () => {
  const { page, done } = await open();
  await toEnd(page);
  await page.click("#copy-script");
  await page.waitForFunction(() => document.getElementById("copy-script")?.textContent === "Copied");
  const script = await page.evaluate(() => navigator.clipboard.readText());
  const file = path.join(mkdtempSync(path.join(tmpdir(), "mutua-")), "run.script");
  writeFileSync(file, script);
  assert.match(execFileSync(BINARY, ["replay", file]).toString(), /P3 gets grant from P2/);
  await done();
});

test("the deadlock on the 6 x 6 grid names the two voters", async () => {
  const { page, done } = await open({ where: "#m=watch&n=maekawa-basic/grid-deadlock&t=40" });
  assert.match(await page.textContent("#sentence"), /3 needs 21's vote, which 23 has; 23 needs 5's vote, which 3 has/);
  assert.equal(await page.locator("#network .node").count(), 36);
  assert.equal(await page.locator("#network .node.involved").count(), 4);
  await done();
});

test("a message is lit in all views, and a click leaves its causal past", async () => {
  const { page, done } = await open({ where: "#m=watch&n=scenes/opening&t=4" });
  await page.hover('#network .pill[data-key="0-2-1-"]');
  assert.equal(await page.locator('#spacetime .message.lit[data-m^="0-2-1-"]').count(), 1);
  assert.equal(await page.locator("#table tr.lit").count(), 2);
  await page.locator('#spacetime [data-e="0-7"]').click();
  assert.equal(await page.locator("#spacetime svg.why").count(), 1);
  const past = await page.locator("#spacetime [data-e].past").evaluateAll((all) => all.map((one) => one.dataset.e));
  assert.deepEqual(past.sort(), ["0-1", "0-7", "1-3"]);
  await done();
});

test("what a FIFO link holds back is grey, with the reason", async () => {
  const { page, done } = await open({ where: "#m=watch&n=lamport/replies-counted&t=0" });
  await page.click("#mode-decide");
  for (const line of ["P1 requests", "P2 requests", "deliver request P2 -> P1"]) {
    await page.click(`#choices [data-line="${line}"]`);
  }
  await page.waitForSelector("#choices .held");
  assert.match(await page.textContent("#choices .held"), /the link P1 -> P2 is FIFO and `request` comes first/);
  await done();
});

test("the keyboard alone suffices", async () => {
  const { page, done } = await open();
  await page.keyboard.press("End");
  await page.focus("#way-out");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#choices button");
  const steps = () => page.getAttribute("body", "data-steps");
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("1");
  await page.waitForFunction(() => document.body.dataset.steps === "4");
  await page.keyboard.press("u");
  await page.waitForFunction(() => document.body.dataset.steps === "3");
  await page.locator("#network .pill.free").first().focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.body.dataset.steps === "4");
  await page.keyboard.press("p");
  assert.equal(await page.getAttribute("#projector", "aria-pressed"), "true");
  assert.equal(await steps(), "4");
  await done();
});

test("a clicker steps wherever the focus is, and the projector key works in every mode", async () => {
  const { page, done } = await open();
  const at = () => page.getAttribute("body", "data-at");
  for (const [index, field] of ["#examples", "#slider", "#predict", "#speed"].entries()) {
    await page.focus(field);
    await page.keyboard.press("PageDown");
    assert.equal(await at(), String(index + 1), field);
  }
  await page.keyboard.press("PageUp");
  assert.equal(await at(), "3");
  await page.click("#mode-run");
  await page.waitForSelector("#run-figures td");
  await page.focus("#run-canvas");
  await page.keyboard.press("p");
  assert.equal(await page.getAttribute("#projector", "aria-pressed"), "true");
  await page.focus("#run-form [name=load]");
  await page.keyboard.press("p");
  assert.equal(await page.getAttribute("#projector", "aria-pressed"), "true", "typed into a field");
  await done();
});

test("a kind of message has one colour in the network and in the diagram's legend", async () => {
  const { page, done } = await open({ where: "#m=watch&n=raymond/five-nodes&t=9" });
  const inks = await page.locator("#network .pill").evaluateAll((all) => all.map((pill) => [pill.textContent, pill.getAttribute("class").match(/ink\d/)[0]]));
  assert.deepEqual([...new Map(inks)].sort(), [["request", "ink0"], ["token", "ink1"]]);
  const strokes = await page.locator("#spacetime .message").evaluateAll((all) => all.map((one) => one.getAttribute("stroke")));
  assert.deepEqual([...new Set(strokes)], ["#004488", "#d98200"], "in the order of the inks");
  await done();
});

test("a run shows its figures beside theory, and a link repeats it", async () => {
  const { page, done } = await open();
  await page.click("#mode-run");
  await page.waitForSelector("#run-figures td");
  await page.fill("#run-form [name=nodes]", "5");
  await page.click("#run-start");
  await page.waitForFunction(() => document.querySelector("#run-figures td")?.textContent === "8");
  assert.match(await page.textContent("#run-figures"), /messages per entry882\(N-1\)/);
  await page.waitForFunction(() => location.hash.includes("m=run"));
  await page.waitForTimeout(200);
  const where = (await page.evaluate(() => location.href)).slice(lab.address.length);
  const note = await page.textContent("#run-note");
  await done();
  const again = await open({ where });
  await again.page.waitForFunction((text) => document.getElementById("run-note")?.textContent === text, note);
  await again.page.fill("#run-form [name=nodes]", "999999");
  await again.page.evaluate(() => document.getElementById("run-form")?.setAttribute("novalidate", ""));
  await again.page.click("#run-start");
  await again.page.waitForFunction(() => /invalid number of processes/.test(document.getElementById("run-note")?.textContent ?? ""));
  await again.done();
});

test("every algorithm runs to its end with the figures of `mutua simulate`", async () => {
  const { page, done } = await open();
  await page.click("#mode-run");
  await page.waitForSelector("#run-figures td");
  await page.fill("#run-form [name=nodes]", "4");
  await page.fill("#run-form [name=entries]", "40");
  const names = await page.locator("#run-algorithm option").evaluateAll((all) => all.map((one) => one.value));
  assert.ok(names.length >= 17, `${names.length} algorithms`);
  for (const name of names) {
    await page.selectOption("#run-algorithm", name);
    await page.click("#run-start");
    await page.waitForFunction((wanted) => document.getElementById("run-command")?.textContent?.includes(` ${wanted} `), name);
    const command = (await page.textContent("#run-command")).split(" ").slice(1);
    const { stdout } = spawnSync(BINARY, [...command, "--json"]);
    const report = JSON.parse(stdout.toString());
    const rows = await page.locator("#run-figures tbody tr").evaluateAll((all) => all.map((row) => [row.children[0].textContent, row.children[1].textContent]));
    const shown = Object.fromEntries(rows);
    assert.equal(shown["entries measured"], String(report.entries), name);
    // Without the resolution of deadlocks, a run may come to a halt before its first entry.
    const messages = report.messages_per_entry;
    assert.equal(shown["messages per entry"], messages === null ? "–" : String(Number(messages.toPrecision(4))), name);
  }
  await done();
});

test("the compare page measures beside the formula, and a point opens its run", async () => {
  const { page, done } = await open({ where: "compare.html#most=8&load=saturated&a=ricart-agrawala" });
  assert.match(await page.textContent("#figures"), /ricart-agrawala8142\(N-1\)14/);
  assert.ok((await page.locator(".plot").count()) >= 3);
  await page.locator(".plot circle").first().click();
  await page.waitForSelector("#run-figures td");
  await done();
  const over = await open({ where: "compare.html#most=4&over=load&axes=logarithmic&a=central,maekawa" });
  assert.match(await over.page.textContent("#title"), /as the load grows/);
  assert.ok(await over.page.isDisabled("#form [name=load]"));
  // From the keyboard, by the table.
  await over.page.getByRole("button", { name: "Watch maekawa with 4 processes" }).first().focus();
  await over.page.keyboard.press("Enter");
  await over.page.waitForSelector("#run-figures td");
  assert.match(await over.page.textContent("#run-command"), /simulate maekawa --nodes 4/);
  await over.done();
});

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

test("axe finds nothing in any mode, light or dark, on a desk or a phone", async () => {
  const phone = { viewport: { width: 390, height: 844 } };
  for (const options of [{}, { colorScheme: "dark" }, phone, { colorScheme: "dark", ...phone }]) {
    for (const where of ["#m=watch&n=scenes/opening&t=8", "#decide", "#run", "compare.html#most=4&a=central"]) {
      const address = where.startsWith("#d") || where.startsWith("#r") ? "" : where;
      const { page, done } = await open({ ...options, where: address, bypassCSP: true });
      if (where === "#decide") {
        await page.click("#mode-decide");
        await page.click("#choices button >> nth=0");
        await page.waitForSelector("#light.yes, #light.no, #light.certainly");
      }
      if (where === "#run") {
        await page.click("#mode-run");
        await page.waitForSelector("#run-figures td");
      }
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      const found = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ").slice(0, 300)}`);
      assert.deepEqual(found, [], `${where} ${JSON.stringify(options)}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${where} ${JSON.stringify(options)}: ${wide} px too wide`);
      await done();
    }
  }
});

test("the embedded view shows the network alone", async () => {
  const { page, done } = await open({ where: "?view=net#m=watch&n=scenes/opening&t=8" });
  assert.ok(await page.isVisible("#network"));
  assert.ok(!(await page.isVisible("#spacetime")));
  await page.keyboard.press("PageUp");
  assert.equal(await page.getAttribute("body", "data-at"), "7");
  await done();
});

test("a lecturer asks for a prediction, shows the schedule elsewhere, and saves the moment", async () => {
  const { page, done } = await open({ where: "#m=watch&n=ricart-agrawala/chain-of-three&t=2" });
  await page.check("#predict");
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("PageDown");
  assert.match(await page.textContent("#question b"), /what does P1 do\?$/);
  assert.equal(await page.getAttribute("body", "data-at"), "2", "it waits for the answer");
  await page.click('#question button:text-is("sends reply to P2")');
  assert.match(await page.textContent("#question"), /^Right\. P1 sends reply to P2\.$/);
  assert.equal(await page.getAttribute("body", "data-at"), "3");
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("PageDown");
  assert.match(await page.textContent("#question b"), /what does P\d do\?$/, "the next one is asked at once");
  await page.keyboard.press("PageDown");
  assert.equal(await page.getAttribute("body", "data-at"), "4", "a second time it goes on without an answer");
  await page.waitForFunction(() => location.hash.includes("p=1"), null, { timeout: 3000 });
  await page.uncheck("#predict");
  for (const [button, ending] of [["#save-svg", ".svg"], ["#save-png", ".png"]]) {
    const [file] = await Promise.all([page.waitForEvent("download"), page.click(button)]);
    assert.ok(file.suggestedFilename().endsWith(ending));
    const bytes = readFileSync(await file.path());
    assert.ok(ending === ".svg" ? /^<svg.*class="veil".*<\/svg>$/s.test(bytes.toString()) : bytes.subarray(1, 4).toString() === "PNG");
  }
  await page.selectOption("#examples", "scenes/reordering");
  await page.click('#choices [data-line="P0 requests"]');
  await page.click('#choices [data-line="deliver request P0 -> P1"]');
  await page.selectOption("#under", "ricart-agrawala");
  await page.waitForFunction(() => document.getElementById("about")?.textContent?.startsWith("Ricart-Agrawala"));
  await toEnd(page);
  assert.match(await page.textContent("#words"), /P1 gets request|^ $/);
  await done();
});
