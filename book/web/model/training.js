// Training: chapter 59 of the book, section 5 of the paper. As annotated/training.py, one sentence after the other.
import { backward } from "./gradients.js";
import { labelSmoothedLoss } from "./regularization.js";

/** Adam with the paper's settings (section 5.3), for tensors {values, gradient}. */
export class Adam {
  constructor(tensors, { beta1 = 0.9, beta2 = 0.98, epsilon = 1e-9 } = {}) {
    Object.assign(this, { tensors, beta1, beta2, epsilon, steps: 0 });
    this.means = tensors.map(({ values }) => new values.constructor(values.length));
    this.squares = tensors.map(({ values }) => new values.constructor(values.length));
  }

  /** Move all numbers against their gradients, and forget the gradients. */
  step(rate) {
    const { beta1, beta2, epsilon } = this;
    this.steps++;
    const first = 1 - beta1 ** this.steps;
    const second = Math.sqrt(1 - beta2 ** this.steps);
    this.tensors.forEach((tensor, t) => {
      const { values, gradient } = tensor;
      if (!gradient) return;
      const mean = this.means[t];
      const square = this.squares[t];
      for (let i = 0; i < values.length; i++) {
        mean[i] += (1 - beta1) * (gradient[i] - mean[i]);
        square[i] = beta2 * square[i] + (1 - beta2) * gradient[i] * gradient[i];
        values[i] -= ((rate / first) * mean[i]) / (Math.sqrt(square[i]) / second + epsilon);
      }
      gradient.fill(0);
    });
  }
}

/**
 * The loss of pairs (source, target), a mean over all tokens that are to be said, and its gradients. A target begins
 * with the start symbol and ends with the end: `readAndSaid` says which of it the decoder reads, and which it says.
 */
export function lossOf(model, pairs, smoothing = 0.1, readAndSaid = shifted) {
  const tokens = pairs.reduce((sum, [, target]) => sum + readAndSaid(target)[1].length, 0);
  let loss = 0;
  for (const [source, target] of pairs) {
    const [read, said] = readAndSaid(target);
    loss += backward(() => labelSmoothedLoss(model.forward(source, read), said, smoothing, 1 / tokens));
  }
  return loss / tokens;
}

/** Read up to here, and say what comes next. */
const shifted = (target) => [target.slice(0, -1), target.slice(1)];
