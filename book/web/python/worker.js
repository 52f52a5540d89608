// The worker in which Python runs. It fetches nothing: all that it needs comes with the first message.
import { begin } from "./setup.js";

let running = null;
const DOORS = ["fetch", "XMLHttpRequest", "WebSocket", "EventSource", "WebTransport", "indexedDB", "caches"];

self.onmessage = async ({ data: { id, name, given } }) => {
  const post = (kind, value) => postMessage({ id, kind, value });
  try {
    if (name === "begin") post("result", await start(given));
    else post("result", JSON.parse(running.call(name, JSON.stringify(given), post)));
  } catch (error) {
    post("failed", String(error.message ?? error));
  }
};

async function start({ pyodide, asm, wasm, library, lock, files }) {
  const [{ loadPyodide }, { default: createPyodideModule }] = await Promise.all([import(pyodide), import(asm)]);
  self.fetch = async (address) =>
    String(address).endsWith(".wasm")
      ? new Response(wasm, { headers: { "Content-Type": "application/wasm" } })
      : new Response(library);
  const options = { indexURL: "https://page.invalid/", createPyodideModule, lockFileContents: lock, stdin: () => null };
  const python = await begin(loadPyodide, options, files);
  running = python.pyimport("running");
  for (const door of DOORS) Object.defineProperty(self, door, { value: undefined }); // a cell reaches no network
}
