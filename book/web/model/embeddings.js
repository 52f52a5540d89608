// Embeddings and softmax: chapter 34 of the book, section 3.4 of the paper. As annotated/embeddings.py.
import { gradientOf, gradientOfTensor, record } from "./gradients.js";
import { linear } from "./matrices.js";

/** A learned vector for each token, times sqrt(d_model). */
export class TokenEmbedding {
  constructor(weight, scale = true) {
    Object.assign(this, { weight, scale: scale ? Math.sqrt(weight.shape[1]) : 1 });
  }

  forward(tokens) {
    const width = this.weight.shape[1];
    return tokens.map((token) => {
      const row = this.weight.values.slice(token * width, (token + 1) * width).map((value) => value * this.scale);
      record(() => {
        const ofWeight = gradientOfTensor(this.weight);
        gradientOf(row).forEach((gradient, c) => (ofWeight[token * width + c] += gradient * this.scale));
      });
      return row;
    });
  }
}

/** Logits for the next token: x E^T, where E may be the embedding's own matrix. */
export class OutputProjection {
  constructor(weight, bias = null) {
    Object.assign(this, { weight, bias });
  }

  forward(x) {
    return linear(x, this);
  }
}
