// A Python as the page has it, under node. The first line of standard input holds the library and the files, each further
// line a question {name, given}; each answer is a line [what was sent meanwhile, the result].
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { begin, take } from "../../book/web/python/setup.js";
import { loadPyodide } from "../../node_modules/pyodide/pyodide.mjs";

let running = null;
for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  if (!running) {
    const model = task.model.map(([place, path]) => [place, new Uint8Array(readFileSync(path))]);
    const python = await begin(loadPyodide, { stdLibURL: task.library });
    take(python, { ...task.files, ...Object.fromEntries(model) });
    running = python.pyimport("running");
    continue;
  }
  const sent = [];
  const result = running.call(task.name, JSON.stringify(task.given), (kind, value) => sent.push([kind, value]));
  process.stdout.write(`${JSON.stringify([sent, JSON.parse(result)])}\n`);
}
