// Trains a model as the page does: reads a task from standard input, writes losses, gradients and weights as JSON.
import { readFileSync } from "node:fs";

import { rateOf, readAndSaid, takeAway } from "../../book/web/model/breaking.js";
import { numbers } from "../../book/web/model/matrices.js";
import { Transformer, checkConfig } from "../../book/web/model/model.js";
import { Adam, lossOf } from "../../book/web/model/training.js";

const {
  config: content,
  tensors,
  batches,
  parts,
  warmup,
  double,
  smoothing,
  steps,
} = JSON.parse(readFileSync(0, "utf8"));
const config = checkConfig(content);
numbers.Array = double ? Float64Array : Float32Array;
for (const tensor of Object.values(tensors)) tensor.values = numbers.Array.from(tensor.values);
const model = new Transformer(config, tensors);
takeAway(model, parts);
const optimizer = new Adam(Object.values(tensors));
const say = (target) => readAndSaid(target, parts);

/** For some numbers of each tensor: the gradient, and what a small change of the number makes of the loss. */
function differences(pairs, size = 1e-5) {
  lossOf(model, pairs, smoothing, say);
  const gradients = Object.values(tensors).map(({ gradient }) => gradient.slice());
  return Object.entries(tensors).flatMap(([name, { values }], t) =>
    [0, Math.floor(values.length / 3), values.length - 1].map((i) => {
      const at = (change) => {
        const before = values[i];
        values[i] += change;
        const loss = lossOf(model, pairs, smoothing, say);
        values[i] = before;
        return loss;
      };
      return { name, gradient: gradients[t][i], difference: (at(size) - at(-size)) / (2 * size) };
    }),
  );
}

if (steps === 0) {
  process.stdout.write(JSON.stringify(differences(batches[0])));
  process.exit();
}
const losses = [];
let first = null;
batches.forEach((pairs, n) => {
  losses.push(lossOf(model, pairs, smoothing, say));
  first ??= Object.fromEntries(Object.entries(tensors).map(([name, { gradient }]) => [name, [...gradient]]));
  optimizer.step(rateOf(n + 1, config.d_model, warmup, parts));
});
const weights = Object.fromEntries(Object.entries(tensors).map(([name, { values }]) => [name, [...values]]));
process.stdout.write(JSON.stringify({ losses, gradients: first, weights }));
