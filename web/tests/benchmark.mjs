// Measures the page in Chromium and prints one line for each figure: node benchmark.mjs
//
// MUTUA names the program, best a release build. With MUTUA_SITE, the directory of `cargo xtask
// site`, the page asks its module instead of a server. Nothing is asserted, since a busy machine is
// slower; docs/lab.md has figures.

import { openPage, SITE, startBrowser, startFiles, startLab } from "./harness.mjs";

const [lab, browser] = await Promise.all([SITE ? startFiles(SITE) : startLab(), startBrowser()]);
console.log(SITE ? "the static site" : "over the server");

/** @param {number[]} values @param {number} share */
function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

function report(name, values, unit = "ms") {
  const [least, median, p95] = [0, 0.5, 0.95].map((share) => percentile(values, share).toFixed(1));
  console.log(`${name}: least ${least}, median ${median}, p95 ${p95} ${unit} (${values.length})`);
}

/** The first paint, several times anew. */
async function firstPaint() {
  const times = [];
  for (let round = 0; round < 5; round += 1) {
    const { page, done } = await openPage(browser, lab.address);
    times.push(
      await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN),
    );
    await done();
  }
  report("first contentful paint", times);
}

/** From a click in You decide until the three views show its result. */
async function clicks() {
  const times = [];
  for (const name of ["scenes/opening", "lamport/replies-counted", "raymond/five-nodes", "maekawa/plane-of-seven"]) {
    const { page, done } = await openPage(browser, lab.address, { where: `#m=watch&n=${name}&t=0` });
    await page.click("#mode-decide");
    await page.waitForSelector("#goals li");
    const taken = await page.evaluate(async () => {
      const times = [];
      for (let step = 1; step <= 20; step += 1) {
        const button = document.querySelector("#choices button");
        if (!(button instanceof HTMLElement)) break;
        const shown = new Promise((good) => {
          const observer = new MutationObserver(() => {
            if (document.body.dataset.steps !== String(step)) return;
            observer.disconnect();
            good(undefined);
          });
          observer.observe(document.body, { attributes: true, attributeFilter: ["data-steps"] });
        });
        const begun = performance.now();
        button.click();
        await shown;
        // The layout belongs to it.
        void document.body.offsetHeight;
        times.push(performance.now() - begun);
        // The search for the light has its own time, and no visitor clicks faster.
        await new Promise((good) => setTimeout(good, 150));
      }
      return times;
    });
    times.push(...taken);
    await done();
  }
  report("a click answered in You decide", times);
}

/** Frames while a run of 10,000 messages is panned: the time between two, and that of drawing. */
async function frames() {
  const { page, done } = await openPage(browser, lab.address, { viewport: { width: 1600, height: 1300 } });
  await page.click("#mode-run");
  await page.waitForSelector("#run-figures td");
  await page.fill("#run-form [name=nodes]", "50");
  await page.fill("#run-form [name=entries]", "100");
  await page.click("#run-start");
  await page.waitForFunction(() => /\b(9|1\d)\d{3} messages/.test(document.getElementById("run-note")?.textContent ?? ""), null, { timeout: 60_000 });
  console.log(await page.textContent("#run-note"));
  await page.selectOption("#run-speed", "6");
  const pan = () =>
    page.evaluate(
      () =>
        new Promise((good) => {
          const times = [];
          let last = 0;
          const frame = (/** @type {number} */ now) => {
            if (last > 0) times.push(now - last);
            last = now;
            if (times.length < 240) requestAnimationFrame(frame);
            else good(times);
          };
          document.getElementById("run-play")?.click();
          requestAnimationFrame(frame);
        }),
    );
  report("a frame while panning, single messages", await pan());
  await page.click("#run-play");
  for (let step = 0; step < 12; step += 1) await page.click("#run-out");
  await page.click("#run-in");
  report("a frame while panning, overview", await pan());
  await done();
}

try {
  await firstPaint();
  await clicks();
  await frames();
} finally {
  await browser.close();
  lab.stop();
}
