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
    let come = 0;
    const fetched = (isWanted) => fetchParts(this.parts.filter(isWanted), (count) => progress((come += count)), signal);
    const isFile = ({ kind }) => kind === "texts" || kind === "file";
    const found = await fetched((part) => !isFile(part));
    signal.throwIfAborted();
    const files = fetched(isFile); // come while Python begins
    const begun = this.beginWorker(found);
    const [given] = await Promise.all([files, begun]);
    signal.throwIfAborted();
    const texts = this.of("texts", given).map(([, bytes]) => JSON.parse(new TextDecoder().decode(bytes)));
    await this.ask("take", Object.assign({}, ...texts, Object.fromEntries(this.of("file", given))));
  }

  beginWorker(found) {
    this.modules ??= link(this.of("script", found));
    this.worker = new Worker(this.modules["python/worker.js"], { type: "module" });
    this.worker.onmessage = ({ data }) => this.hear(data);
    this.worker.onerror = (event) => this.end(new Ended(event.message || "Python could not begin here"));
    const [[, wasm], [, library], [, lock]] = ["wasm", "library", "lock"].flatMap((kind) => this.of(kind, found));
    const [pyodide, asm] = [this.modules["pyodide/pyodide.mjs"], this.modules["pyodide/pyodide.asm.mjs"]];
    return this.ask("begin", { pyodide, asm, wasm, library, lock: new TextDecoder().decode(lock) });
  }

  /** The parts of a kind, [name, bytes], in order. */
  of(kind, found) {
    return this.parts.filter((part) => part.kind === kind).map(({ name }) => [name, found[name]]);
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
