// Label smoothing: chapter 54 of the book, section 5.4 of the paper. As annotated/regularization.py.
import { gradientOf, record } from "./gradients.js";
import { logSoftmax } from "./matrices.js";

/**
 * Cross-entropy of rows of logits against smoothed targets, summed over rows: 1 - smoothing for the right token, and
 * `smoothing` divided among all. `share` is the part that this sum has in the loss, 1 divided by all tokens of a step.
 */
export function labelSmoothedLoss(logits, targets, smoothing = 0.1, share = 1) {
  let loss = 0;
  logits.forEach((row, r) => {
    const scores = logSoftmax(row);
    const even = smoothing / row.length;
    let sum = 0;
    for (const score of scores) sum += score;
    loss -= (1 - smoothing) * scores[targets[r]] + even * sum;
    record(() => {
      const gradient = gradientOf(row);
      for (let i = 0; i < row.length; i++) gradient[i] += share * (Math.exp(scores[i]) - even);
      gradient[targets[r]] -= share * (1 - smoothing);
    });
  });
  return loss;
}
