// A model without one of the things that the paper says it needs: chapter 83 of the book.
import { learningRate } from "./schedule.js";

/** Take a part out of a model that is there: the causal mask, the root under the scores, or the positions. */
export function takeAway(model, part) {
  const attentions = [...model.encoder.layers, ...model.decoder.layers].flatMap((layer) =>
    [layer.selfAttention, layer.crossAttention].filter(Boolean),
  );
  if (part === "mask") for (const layer of model.decoder.layers) layer.causal = null;
  if (part === "root") for (const attention of attentions) attention.scale = 1;
  if (part === "positions") model.sourcePositions = model.targetPositions = { forward: (x) => x };
}

/** What the decoder reads of a target, and what it should say: without the shift, it reads what it should say. */
export const readAndSaid = (target, part) => [
  part === "shift" ? target.slice(1) : target.slice(0, -1),
  target.slice(1),
];

/** The rate of a step: without warm-up, it falls from the first step on. */
export const rateOf = (step, dModel, warmupSteps, part) =>
  part === "warm-up" ? (dModel * step) ** -0.5 : learningRate(step, dModel, warmupSteps);
