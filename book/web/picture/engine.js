// Questions to the picture's worker.

export class Engine {
  constructor() {
    this.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    Object.assign(this, { asked: new Map(), count: 0 });
    this.worker.onmessage = ({ data: { id, kind, value } }) => {
      const { resolve, reject, listen } = this.asked.get(id);
      if (kind === "result") resolve(value);
      else if (kind === "failed") reject(new Error(value));
      else return listen(value);
      this.asked.delete(id);
    };
    this.worker.onerror = (event) => {
      const error = new Error(event.message || "the model's script could not be loaded");
      this.asked.forEach(({ reject }) => reject(error));
      this.asked.clear();
    };
  }

  /** Resolves to the answer; `listen` hears what comes before it. */
  ask(name, given, listen = () => {}) {
    return new Promise((resolve, reject) => {
      const id = ++this.count;
      this.asked.set(id, { resolve, reject, listen });
      this.worker.postMessage({ id, name, given });
    });
  }

  end() {
    this.worker.terminate();
  }
}
