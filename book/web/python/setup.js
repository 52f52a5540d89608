// One Python: Pyodide with the page's small torch, the files of a chapter, and the folder in which chapters run.
// For a worker of the page, and for tests under Node.
import { Tokenizer } from "../model/tokenization.js";
import * as kernels from "./kernels.js";

const HOME = "/book/book"; // so that ../data and ../annotated are where a chapter looks for them
const PATHS = ["/lib/python314.zip/stand_ins", "/book", HOME, "/book/python"];

/** A Python in which a chapter's cells can run, once it has its files. `loadPyodide` and its `options` are Pyodide's. */
export async function begin(loadPyodide, options) {
  const python = await loadPyodide(options);
  python.registerJsModule("kernels", kernels);
  python.registerJsModule("page", { Tokenizer });
  return python;
}

/** Files for its file system: { "/book/annotated/plain.py": text or Uint8Array }. */
export function take(python, files) {
  python.FS.mkdirTree(HOME);
  for (const [path, content] of Object.entries(files)) {
    python.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    python.FS.writeFile(path, content);
  }
  python.runPython(`import os, sys\nsys.path[:0] = ${JSON.stringify(PATHS)}\nos.chdir("${HOME}")`);
}
