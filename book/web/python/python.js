// One Python of the page: a worker that is begun when it is needed, asked, and ended.
import { fetchParts, link } from "./fetching.js";

/** Python was ended while it ran. */
export class Ended extends Error {}

export class Python {
  constructor(parts) {
    Object.assign(this, { parts, worker: null, ready: null, asked: new Map(), count: 0, modules: null });
  }

  /** Begin, where it has not begun; `progress` hears how many bytes of the parts have come. */
  start(progress) {
    this.ready ??= this.begin(progress).catch((error) => {
      this.end(error);
      throw error;
    });
    return this.ready;
  }

  async begin(progress) {
    const { signal } = (this.coming = new AbortController());
    const found = await fetchParts(this.parts, progress, signal);
    signal.throwIfAborted();
    const of = (kind) => this.parts.filter((part) => part.kind === kind).map(({ name }) => [name, found[name]]);
    this.modules ??= link(of("script"));
    const texts = of("texts").map(([, bytes]) => JSON.parse(new TextDecoder().decode(bytes)));
    this.worker = new Worker(this.modules["python/worker.js"], { type: "module" });
    this.worker.onmessage = ({ data }) => this.hear(data);
    this.worker.onerror = (event) => this.end(new Ended(event.message || "Python could not begin here"));
    const [[, wasm], [, library]] = [of("wasm")[0], of("library")[0]];
    const lock = JSON.parse(new TextDecoder().decode(of("lock")[0][1]));
    const files = Object.assign({}, ...texts, Object.fromEntries(of("file")));
    const [pyodide, asm] = [this.modules["pyodide/pyodide.mjs"], this.modules["pyodide/pyodide.asm.mjs"]];
    await this.ask("begin", { pyodide, asm, wasm, library, lock, files });
  }

  /** Call a function of running.py; `listen(kind, value)` hears what it sends meanwhile. */
  ask(name, given, listen = () => {}) {
    return new Promise((resolve, reject) => {
      const id = ++this.count;
      this.asked.set(id, { resolve, reject, listen });
      this.worker.postMessage({ id, name, given });
    });
  }

  hear({ id, kind, value }) {
    const question = this.asked.get(id);
    if (!question) return; // of a time before the end
    if (kind !== "result" && kind !== "failed") return question.listen(kind, value);
    this.asked.delete(id);
    if (kind === "result") return question.resolve(value);
    question.reject(new Error(value));
    this.end(); // what fails here is Python itself
  }

  /** End it, whatever it does; the next question needs a new start. */
  end(error = new Ended("stopped")) {
    this.coming?.abort(error);
    this.worker?.terminate();
    for (const { reject } of this.asked.values()) reject(error);
    this.asked.clear();
    this.worker = this.ready = null;
  }
}
