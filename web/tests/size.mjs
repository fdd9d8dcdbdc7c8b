// Fails if the module of an optimized site is too large: node size.mjs SITE

import { readFileSync } from "node:fs";
import path from "node:path";
import { brotliCompressSync } from "node:zlib";

const MOST = 450;
const module = readFileSync(path.join(process.argv[2], "lab.wasm"));
const size = brotliCompressSync(module).length / 1024;
console.log(`lab.wasm: ${Math.round(module.length / 1024)} KiB, ${size.toFixed(1)} KiB with brotli`);
if (size > MOST) throw new Error(`at most ${MOST} KiB with brotli`);
