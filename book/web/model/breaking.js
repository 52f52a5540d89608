// A model without some of the things that the paper says it needs: chapter 83 of the book.
import { learningRate } from "./schedule.js";

/** Take parts out of a model that is there: the causal mask, the root under the scores, or the positions. */
export function takeAway(model, parts) {
  const attentions = [...model.encoder.layers, ...model.decoder.layers].flatMap((layer) =>
    [layer.selfAttention, layer.crossAttention].filter(Boolean),
  );
  if (parts.includes("mask")) for (const layer of model.decoder.layers) layer.causal = null;
  if (parts.includes("root")) for (const attention of attentions) attention.scale = 1;
  if (parts.includes("positions")) model.sourcePositions = model.targetPositions = { forward: (x) => x };
}

/** What the decoder reads of a target, and what it should say: without the shift, it reads what it should say. */
export const readAndSaid = (target, parts) => [
  parts.includes("shift") ? target.slice(1) : target.slice(0, -1),
  target.slice(1),
];

/** The rate of a step: without warm-up, it falls from the first step on. */
export const rateOf = (step, dModel, warmupSteps, parts) =>
  parts.includes("warm-up") ? (dModel * step) ** -0.5 : learningRate(step, dModel, warmupSteps);
