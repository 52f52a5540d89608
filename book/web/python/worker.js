// The worker in which Python runs. It fetches nothing: all that it needs comes with the first two messages.
import { begin, take } from "./setup.js";

let [python, running] = [null, null];
const DOORS = ["fetch", "XMLHttpRequest", "WebSocket", "EventSource", "WebTransport", "indexedDB", "caches", "Worker"];

self.onmessage = async ({ data: { id, name, given } }) => {
  const post = (kind, value) => postMessage({ id, kind, value });
  try {
    if (name === "begin") post("result", await start(given));
    else if (name === "take") post("result", ready(given));
    else post("result", JSON.parse(running.call(name, JSON.stringify(given), post)));
  } catch (error) {
    post("failed", String(error.message ?? error));
  }
};

async function start({ pyodide, asm, wasm, library, lock }) {
  const [{ loadPyodide }, { default: createPyodideModule }] = await Promise.all([import(pyodide), import(asm)]);
  self.fetch = async (address) =>
    String(address).endsWith(".wasm")
      ? new Response(wasm, { headers: { "Content-Type": "application/wasm" } })
      : new Response(library);
  const options = { indexURL: "https://page.invalid/", createPyodideModule, lockFileContents: lock, stdin: () => null };
  python = await begin(loadPyodide, options);
  for (const door of DOORS) Object.defineProperty(self, door, { value: undefined }); // a cell reaches no network
}

function ready(files) {
  take(python, files);
  running = python.pyimport("running");
}
