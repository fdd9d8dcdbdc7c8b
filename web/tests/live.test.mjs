// Live: the page follows a real cluster of three nodes through a kill.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { openPage, startBrowser, startCluster, startLab } from "./harness.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let cluster;
let lab;
let browser;

before(async () => {
  cluster = startCluster();
  [lab, browser] = await Promise.all([startLab(cluster.config("a")), startBrowser()]);
});
after(async () => {
  await browser?.close();
  lab?.stop();
  cluster?.stop();
});

const heading = (page, pattern) =>
  page.waitForFunction((text) => new RegExp(text).test(document.getElementById("sentence")?.textContent ?? ""), pattern, {
    timeout: 60_000,
  });

/** The phase of a process in the state table. */
const phase = (page, node) => page.textContent(`#table tr:has(th:text-is("${node}")) td >> nth=0`);

test("Live follows a real cluster through a kill, and a revoked lock goes to the next", async () => {
  const { page, done } = await openPage(browser, lab.address, { where: `#token=${lab.token}`, bypassCSP: true });
  assert.ok(!page.url().includes(lab.token), "the token is in no link");
  await page.click("#mode-live");
  await page.waitForFunction(() => document.querySelectorAll(".member.up").length === 3);
  const view = Number((await page.textContent("#live-view")).replace("view ", ""));

  const first = cluster.hold("c", "ann");
  await heading(page, "^demo: held by ann .*node c.* 0 waiting");
  cluster.hold("b", "bob");
  await heading(page, "^demo: held by ann .*node c.* 1 waiting");
  cluster.hold("a", "cy");
  await heading(page, "^demo: held by ann .*node c.* 2 waiting");
  assert.match(await page.textContent('#live-locks tr[data-lock="demo"]'), /ann .*bob|ann .*cy/);
  await page.waitForSelector("#spacetime [data-m]");
  await page.waitForFunction(() => /messages/.test(document.getElementById("live-cost")?.textContent ?? ""));
  assert.equal(await phase(page, "c"), "in_cs");
  assert.equal(await phase(page, "b"), "requesting");
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  assert.deepEqual(violations.map((one) => `${one.id}: ${one.nodes[0].html}`), []);

  // The node of the holder is killed: another member serves its client, and a new view begins.
  cluster.kill("c");
  await page.waitForSelector('.member.down[data-member="c"]', { timeout: 60_000 });
  await page.waitForFunction((before) => Number(document.getElementById("live-view")?.textContent?.replace("view ", "")) > before, view, {
    timeout: 60_000,
  });
  await page.waitForSelector("#network .node.down");
  assert.equal(await phase(page, "c"), "down");
  await heading(page, "^demo: held by ann .*node [ab].* 2 waiting");

  // Rewound to before the kill, the views show it as it was.
  await page.locator("#live-rewind").focus();
  for (let step = 0; step < 600 && (await phase(page, "c")) !== "in_cs"; step += 1) {
    await page.keyboard.press("ArrowLeft");
    if (step % 10 === 0) await page.waitForTimeout(60);
  }
  assert.equal(await phase(page, "c"), "in_cs");
  assert.equal(await page.getAttribute("#live-follow", "aria-pressed"), "false");
  await page.click("#live-follow");
  await page.waitForSelector("#network .node.down");

  // Revoking asks for the name.
  await page.click('button[aria-label="Revoke demo"]');
  await page.fill("#revoke-reason", "the test is over");
  await page.fill("#revoke-name", "dem");
  assert.ok(await page.isDisabled("#revoke-go"));
  await page.fill("#revoke-name", "demo");
  await page.click("#revoke-go");
  await heading(page, "^demo: held by (bob|cy) .* 1 waiting");
  first.kill();
  await done();
});

test("without the token there is no Live", async () => {
  const { page, done } = await openPage(browser, lab.address);
  assert.ok(!(await page.isVisible("#mode-live")));
  await done();
  const headers = { "Content-Type": "application/json" };
  for (const [where, body] of [
    ["live", { lock: null }],
    ["live/revoke", { lock: "64656d6f", typed: "demo", fencing_token: "1", reason: "none" }],
  ]) {
    for (const token of ["", lab.token.replace(/.$/, "x")]) {
      const given = token ? { ...headers, Authorization: `Bearer ${token}` } : headers;
      const response = await fetch(lab.address + where, { method: "POST", headers: given, body: JSON.stringify(body) });
      assert.equal(response.status, 403);
    }
  }
});
