// Encoder and decoder stacks: chapter 31 of the book, section 3.1 of the paper. As annotated/stacks.py.
import { gradientOf, gradientOfTensor, record } from "./gradients.js";
import { add } from "./matrices.js";

/** Every token's vector to mean 0 and variance 1, then scaled and shifted. */
export function layerNorm(x, { weight, bias }, eps) {
  return x.map((row) => {
    const mean = row.reduce((a, b) => a + b, 0) / row.length;
    const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
    const scale = 1 / Math.sqrt(variance + eps);
    const result = row.map((value, c) => weight.values[c] * (value - mean) * scale + bias.values[c]);
    record(() => layerNormBackward(row, weight, bias, mean, scale, result));
    return result;
  });
}

/** Of y = w n + b, where n is the normalised x: dx = scale (dn - mean of dn - n mean of n dn), with dn = w dy. */
function layerNormBackward(row, weight, bias, mean, scale, result) {
  const ofWeight = gradientOfTensor(weight);
  const ofBias = gradientOfTensor(bias);
  const ofResult = gradientOf(result);
  const ofRow = gradientOf(row);
  const size = row.length;
  let sum = 0;
  let along = 0;
  for (let c = 0; c < size; c++) {
    const normal = (row[c] - mean) * scale;
    const ofNormal = weight.values[c] * ofResult[c];
    ofWeight[c] += ofResult[c] * normal;
    ofBias[c] += ofResult[c];
    sum += ofNormal;
    along += ofNormal * normal;
  }
  for (let c = 0; c < size; c++) {
    const normal = (row[c] - mean) * scale;
    ofRow[c] += scale * (weight.values[c] * ofResult[c] - sum / size - (normal * along) / size);
  }
}

/** The frame around every sub-layer: LayerNorm(x + Sublayer(x)), or, with `normFirst`, x + Sublayer(LayerNorm(x)). */
export class AddNorm {
  constructor(norm, normFirst, eps) {
    Object.assign(this, { norm, normFirst, eps });
  }

  forward(x, sublayer) {
    if (this.normFirst) return add(x, sublayer(layerNorm(x, this.norm, this.eps)));
    return layerNorm(add(x, sublayer(x)), this.norm, this.eps);
  }
}

/** Self-attention, then a feed-forward network, each inside its own frame. */
export class EncoderLayer {
  constructor(parts) {
    Object.assign(this, parts);
  }

  forward(x) {
    x = this.aroundSelfAttention.forward(x, (y) => this.selfAttention.forward(y, y));
    return this.aroundFeedForward.forward(x, (y) => this.feedForward.forward(y));
  }
}

/** Masked self-attention, attention over the encoder's output, feed-forward network. */
export class DecoderLayer {
  constructor(parts) {
    Object.assign(this, { causal: (query, key) => key <= query }, parts);
  }

  forward(x, memory) {
    x = this.aroundSelfAttention.forward(x, (y) => this.selfAttention.forward(y, y, this.causal));
    x = this.aroundCrossAttention.forward(x, (y) => this.crossAttention.forward(y, memory));
    return this.aroundFeedForward.forward(x, (y) => this.feedForward.forward(y));
  }
}

/** Layers on top of each other, and a last normalisation where the norm stands before the sub-layers. */
export class Stack {
  constructor(layers, finalNorm, eps) {
    Object.assign(this, { layers, finalNorm, eps });
    this.edits = []; // of interventions.js: functions (layer, rows) that return other rows
  }

  forward(x, memory = null) {
    this.layers.forEach((layer, n) => (x = this.edited(n, layer.forward(x, memory))));
    return this.finish(x);
  }

  edited(layer, rows) {
    return this.edits.reduce((now, edit) => edit(layer, now), rows);
  }

  finish(x) {
    return this.finalNorm ? layerNorm(x, this.finalNorm, this.eps) : x;
  }
}
