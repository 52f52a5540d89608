// What `python -m benchmarks page` asks of a page: the same training by the page's own code and by TensorFlow.js.
import { rateOf } from "../_static/model/breaking.js";
import { newModel, Random } from "../_static/model/initialization.js";
import { pairOf, sizeOf, TASKS } from "../_static/model/tasks.js";

/** What the page's own code says: milliseconds, losses and shares of unseen examples. */
export const own = (settings) => answer(new Worker("peer/own.js", { type: "module" }), settings);

/** What TensorFlow.js says, with the same numbers to begin with, the same batches and the same rates. */
export function peer(backend, { task: name, seed, width, layers, steps }) {
  const task = TASKS[name];
  const sizes = { vocab_size: sizeOf(task), d_model: width, d_ff: 2 * width, num_heads: 4, num_layers: layers };
  const random = new Random(seed + 1000);
  const batches = Array.from({ length: steps }, () => Array.from({ length: 32 }, () => pairOf(task, random)));
  const rates = batches.map((_, i) => rateOf(i + 1, width, Math.round(0.6 * steps), []));
  const tensors = Object.entries(newModel(sizes, seed).tensors).map(([key, { values, shape }]) => [
    key,
    { values: [...values], shape },
  ]);
  const settings = { backend, sizes, tensors: Object.fromEntries(tensors), batches, rates };
  return answer(new Worker("peer/tensorflow.js"), settings);
}

const answer = (worker, task) =>
  new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      worker.terminate();
      if (data.error) reject(new Error(data.error));
      else resolve(data);
    };
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.postMessage(task);
  });
