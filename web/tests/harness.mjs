// What all browser tests share: the program, the browser, and the rules for every page.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createReadStream, existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { chromium } from "playwright-core";

/** The `mutua` to test. */
export const BINARY = process.env.MUTUA ?? path.resolve(import.meta.dirname, "../../target/debug/mutua");
/** The static site, if it was built. */
export const SITE = process.env.MUTUA_SITE ?? "";

/** Starts `mutua lab` on a free port. */
export async function startLab(options = []) {
  const child = spawn(BINARY, ["lab", "--no-open", ...options], { stdio: ["ignore", "pipe", "inherit"] });
  const address = await new Promise((good, bad) => {
    child.once("error", bad);
    child.once("exit", (code) => bad(new Error(`mutua lab ended with ${code}`)));
    child.stdout.once("data", (line) => good(String(line).trim()));
  });
  const [base, token] = address.split("#token=");
  return { address: base, token, stop: () => child.kill() };
}

/** Three real nodes, and commands that use a lock of theirs. */
export function startCluster() {
  const directory = path.join(mkdtempSync(path.join(tmpdir(), "mutua-")), "cluster");
  const config = (node) => ["--config", path.join(directory, `${node}.toml`)];
  const children = [];
  execFileSync(BINARY, ["cluster", "up", "3", "--directory", directory], { stdio: "ignore" });
  return {
    config,
    /** Waits for the lock at a node, and holds it for so many seconds or until the process is ended. */
    hold(node, owner, seconds = 600) {
      const command = ["lock", "demo", "--owner", owner, ...config(node), "--", "sleep", String(seconds)];
      const child = spawn(BINARY, command, { stdio: "ignore" });
      children.push(child);
      return child;
    },
    kill(node) {
      const { pid } = JSON.parse(execFileSync(BINARY, ["status", "--json", ...config(node)]).toString());
      process.kill(pid, "SIGKILL");
    },
    stop() {
      for (const child of children) if (child.exitCode === null) child.kill();
      execFileSync(BINARY, ["cluster", "down", "--directory", directory], { stdio: "ignore" });
      rmSync(path.dirname(directory), { recursive: true, force: true });
    },
  };
}

const KINDS = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

/** A plain file server for the static site. */
export async function startFiles(directory) {
  const server = http.createServer((request, response) => {
    const name = new URL(request.url ?? "/", "http://x").pathname;
    const file = path.join(directory, name === "/" ? "index.html" : path.normalize(name));
    if (!existsSync(file) || !statSync(file).isFile()) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "Content-Type": KINDS[path.extname(file)] ?? "text/plain" });
    createReadStream(file).pipe(response);
  });
  await new Promise((good) => server.listen(0, "127.0.0.1", good));
  return { address: `http://127.0.0.1:${server.address().port}/`, stop: () => server.close() };
}

/** Debian's Chromium, or the one that CHROMIUM names. */
export function startBrowser() {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  return chromium.launch({ executablePath, args: ["--no-sandbox"] });
}

/**
 * A page that must log no error and must not leave its origin.
 * @returns the page, and `done`, which checks that and closes it
 */
export async function openPage(browser, address, options = {}) {
  const { where = "", ...context } = options;
  const opened = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
    ...context,
  });
  const page = await opened.newPage();
  const faults = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(address) && !/^(data|blob):/.test(url)) faults.push(`leaves the origin: ${url}`);
  });
  await page.goto(address + where);
  await page.waitForSelector("body[data-ready]");
  const done = async () => {
    await opened.close();
    assert.deepEqual(faults, []);
  };
  return { page, done };
}

/** Waits until the page shows the last step. */
export async function toEnd(page) {
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("End");
  await page.waitForFunction(() => document.body.dataset.at === document.body.dataset.end);
}

/** Shows an example. */
export async function watch(page, name) {
  await page.evaluate((wanted) => {
    document.body.dataset.at = "";
    location.hash = `m=watch&n=${wanted}&t=0`;
  }, name);
  await page.waitForFunction(() => document.body.dataset.at === "0");
}

/** What the three views show, to be compared. */
export function seen(page) {
  return page.evaluate(() => ({
    sentence: document.getElementById("sentence")?.textContent,
    words: document.getElementById("words")?.textContent,
    table: document.getElementById("table")?.innerHTML,
    nodes: document.querySelector("#network .nodes")?.innerHTML,
    messages: [...document.querySelectorAll("#network .pill:not(.arrived)")]
      .map((pill) => pill.getAttribute("data-key"))
      .sort(),
    diagram: document.querySelector("#spacetime svg")?.innerHTML,
  }));
}
