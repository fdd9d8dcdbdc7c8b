// Writes the pictures of the page: node screenshots.mjs DIRECTORY [OPENING]
//
// Those of the documents go to DIRECTORY; the opening scene as it plays, on a screen, a phone and
// in the dark, to OPENING.

import { mkdirSync } from "node:fs";
import path from "node:path";
import { openPage, startBrowser, startCluster, startLab, toEnd } from "./harness.mjs";

const [directory, opening] = process.argv.slice(2);
if (!directory) throw new Error("usage: node screenshots.mjs DIRECTORY [OPENING]");
const cluster = startCluster();
const [lab, browser] = await Promise.all([startLab(cluster.config("a")), startBrowser()]);
const wide = { viewport: { width: 1280, height: 760 } };

async function picture(name, options, prepare) {
  const { page, done } = await openPage(browser, lab.address, { ...wide, ...options });
  await prepare(page);
  // The last pills have left.
  await page.waitForTimeout(600);
  await page.screenshot({ path: path.join(directory, `lab-${name}.png`) });
  await done();
  console.log(`lab-${name}.png is written`);
}

try {
  await picture("deadlock", {}, toEnd);
  await picture("phone", { viewport: { width: 390, height: 844 }, colorScheme: "dark" }, toEnd);
  await picture("decide", {}, async (page) => {
    await page.selectOption("#examples", "scenes/reordering");
    for (const line of ["P0 requests", "P1 requests", "deliver request P1 -> P0"]) {
      await page.click(`#choices [data-line="${line}"]`);
    }
    await page.waitForSelector("#goals li");
    await page.waitForSelector("#light.yes");
  });
  await picture("run", {}, async (page) => {
    await page.click("#mode-run");
    await page.waitForSelector("#run-figures td");
  });
  await picture("live", { where: `#token=${lab.token}`, viewport: { width: 1280, height: 960 } }, async (page) => {
    await page.click("#mode-live");
    cluster.hold("c", "ann", 2);
    await page.waitForSelector('#live-locks tr:has-text("ann")');
    cluster.hold("b", "bob", 1);
    await page.waitForSelector('#live-locks tr:has-text("bob")');
    cluster.hold("a", "cy");
    await page.waitForFunction(() => /held by cy/.test(document.getElementById("sentence")?.textContent ?? ""));
    cluster.hold("b", "dan");
    await page.waitForSelector('#live-locks tr:has-text("dan")');
    cluster.kill("c");
    await page.waitForSelector("#network .node.down");
    await page.waitForTimeout(2500);
  });
  if (opening) {
    mkdirSync(opening, { recursive: true });
    const screens = { screen: { width: 1920, height: 1080 }, phone: { width: 390, height: 844 } };
    for (const colorScheme of ["light", "dark"]) {
      for (const [name, viewport] of Object.entries(screens)) {
        const { page, done } = await openPage(browser, lab.address, { viewport, colorScheme, reducedMotion: "no-preference" });
        let passed = 0;
        for (const seconds of [0, 5, 12]) {
          await page.waitForTimeout(1000 * (seconds - passed));
          passed = seconds;
          await page.screenshot({ path: path.join(opening, `${name}-${colorScheme}-${seconds}s.png`) });
        }
        await done();
      }
    }
    console.log(`the opening scene is in ${opening}`);
  }
} finally {
  await browser.close();
  cluster.stop();
  lab.stop();
}
