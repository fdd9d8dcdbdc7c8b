// Writes the pictures of the page for the documents: node screenshots.mjs DIRECTORY

import path from "node:path";
import { openPage, startBrowser, startLab, toEnd } from "./harness.mjs";

const directory = process.argv[2];
if (!directory) throw new Error("usage: node screenshots.mjs DIRECTORY");
const [lab, browser] = await Promise.all([startLab(), startBrowser()]);
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
} finally {
  await browser.close();
  lab.stop();
}
