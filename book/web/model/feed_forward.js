// Position-wise feed-forward networks: chapter 33 of the book, section 3.3 of the paper. As annotated/feed_forward.py.
import { gradientOf, record } from "./gradients.js";
import { linear } from "./matrices.js";

export const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  gelu: (x) => (x / 2) * (1 + erf(x / Math.SQRT2)),
  swish: (x) => x / (1 + Math.exp(-x)),
};

/** max(0, x W_1 + b_1) W_2 + b_2, for each position alone: equation (2). */
export class FeedForward {
  constructor(inner, outer, activation = "relu") {
    Object.assign(this, { inner, outer, activation: ACTIVATIONS[activation] });
  }

  forward(x) {
    const { activation } = this;
    const hidden = linear(x, this.inner);
    for (const row of hidden) {
      for (let i = 0; i < row.length; i++) row[i] = activation(row[i]);
      record(() => reluBackward(row));
    }
    return linear(hidden, this.outer);
  }
}

/** A unit that a ReLU has set to 0 gets no gradient. (Other activations are not trained in the page.) */
function reluBackward(row) {
  const gradient = gradientOf(row);
  for (let i = 0; i < row.length; i++) if (row[i] <= 0) gradient[i] = 0;
}

/** The error function, by its series near 0 and its continued fraction elsewhere; wrong by less than 1e-12. */
function erf(x) {
  const z = Math.abs(x);
  let result;
  if (z < 2.5) {
    let term = z;
    result = z;
    for (let n = 1; n < 60; n++) {
      term *= (-z * z) / n;
      result += term / (2 * n + 1);
    }
    result *= 2 / Math.sqrt(Math.PI);
  } else {
    let fraction = z;
    for (let n = 60; n > 0; n--) fraction = z + n / 2 / fraction;
    result = 1 - Math.exp(-z * z) / (fraction * Math.sqrt(Math.PI));
  }
  return Math.sign(x) * result;
}
