// Numbers to begin with: chapters 34 and 39 of the book. The same seed gives the same model in every browser.
import { checkConfig, shapesOf, Transformer } from "./model.js";
import { numbers } from "./matrices.js";

/** Random numbers from a seed: evenly between 0 and 1, and normally distributed. */
export class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }

  /** Between 0 and 1 (Mulberry32: an addition, and then bits that are shifted and multiplied). */
  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let bits = this.state;
    bits = Math.imul(bits ^ (bits >>> 15), bits | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number below `count`. */
  below(count) {
    return Math.floor(count * this.next());
  }

  normal() {
    return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
  }
}

/** A small Transformer and its tensors: embeddings of size 1 / sqrt(d), Glorot-uniform matrices, biases zero. */
export function newModel(sizes, seed) {
  const config = checkConfig({ format: "annotated-1", model: { ...PAPER, ...sizes } });
  const random = new Random(seed);
  const tensors = {};
  for (const [name, shape] of Object.entries(shapesOf(config))) {
    const values = new numbers.Array(shape.reduce((a, b) => a * b, 1));
    const limit = Math.sqrt(6 / (shape[0] + shape[1]));
    if (name.endsWith("embedding.weight"))
      values.forEach((_, i) => (values[i] = random.normal() / Math.sqrt(shape[1])));
    else if (shape.length === 2) values.forEach((_, i) => (values[i] = limit * (2 * random.next() - 1)));
    else if (name.endsWith("norm.weight")) values.fill(1);
    tensors[name] = { values, shape };
  }
  return { model: new Transformer(config, tensors), tensors };
}

const PAPER = {
  activation: "relu",
  positions: "sinusoidal",
  norm_first: false,
  norm_eps: 1e-6,
  tie_embeddings: true,
  tie_output: true,
  scale_embeddings: true,
  output_bias: false,
  attention_bias: false,
  max_length: 64,
  pad_id: 0,
  start_id: 2,
  end_id: 3,
};
