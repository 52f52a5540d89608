// One run of chapter 83 for its record: settings as JSON on standard input, what came of them on standard output.
import { readFileSync } from "node:fs";

import { watched } from "../book/web/model/interventions.js";
import { Learner } from "../book/web/model/learner.js";
import { layerNorm } from "../book/web/model/stacks.js";
import { TASKS, toPair } from "../book/web/model/tasks.js";

/** Six other faults, which the chapter lets its reader predict. */
const FAULTS = {
  "mask one place too wide": ({ decoder }) =>
    decoder.layers.forEach((layer) => (layer.causal = (query, key) => key <= query + 1)),
  "causal mask in the encoder": ({ encoder }) =>
    encoder.layers.forEach(({ selfAttention }) => {
      const { forward } = selfAttention;
      selfAttention.forward = (x, memory) => forward.call(selfAttention, x, memory, (query, key) => key <= query);
    }),
  "cross-attention gives zeros": ({ decoder }) =>
    decoder.layers.forEach((layer) => (layer.crossAttention.forward = (x) => x.map((row) => row.slice().fill(0)))),
  "no sums": ({ encoder, decoder }) =>
    [...encoder.layers, ...decoder.layers].forEach((layer) =>
      [layer.aroundSelfAttention, layer.aroundCrossAttention, layer.aroundFeedForward]
        .filter(Boolean)
        .forEach((frame) => (frame.forward = (x, sublayer) => layerNorm(sublayer(x), frame.norm, frame.eps))),
    ),
  "no positions in the encoder": (model) => (model.sourcePositions = { forward: (x) => x }),
};
const withoutEnd = (target) => [target.slice(0, -2), target.slice(1, -1)];

const settings = JSON.parse(readFileSync(0, "utf8"));
const learner = new Learner(TASKS[settings.task], settings.parts, settings);
FAULTS[settings.fault]?.(learner.model);
if (settings.fault === "the end is not a target") learner.readAndSaid = withoutEnd;
const [losses, shares] = [[], []];
let report = null;
for (let step = 1; step <= settings.steps; step++) {
  learner.step(step);
  if (step % 10 === 0) losses.push(Number(learner.loss.toFixed(4)));
  if (step % 50 === 0) {
    report = learner.report(true);
    shares.push(report.share);
  }
}
const rounded = (map) => map.map((row) => row.map((weight) => Number(weight.toFixed(3))));
const maps = settings.parts.includes("mask") ? { map: rounded(report.map), ahead: rounded(ahead(learner)) } : {};
process.stdout.write(JSON.stringify({ ...settings, losses, shares, written: report.written, ...maps }));

/** For each head of the decoder's own attention: the mean weight of the word one place to the right, while it learns. */
function ahead({ task, model, ...learner }) {
  const [source, target] = toPair(task, task.example);
  const [read] = learner.readAndSaid(target);
  const { kept } = watched(model, () => model.forward(source, read));
  const right = (head) => head.slice(0, -1).reduce((sum, row, i) => sum + row[i + 1], 0) / (head.length - 1);
  return model.decoder.layers.map((_, layer) => kept[`decoder ${layer} weights`].map(right));
}
