// Attention: chapter 32 of the book, section 3.2 of the paper. As annotated/attention.py.
import { gradientOf, record, share } from "./gradients.js";
import { blend, dot, increase, linear, numbers, softmax } from "./matrices.js";

/**
 * softmax(Q K^T / sqrt(d_k)), the weights of equation (1): a row for each query, a column for each key. Q and K are
 * matrices; `visible(query, key)` says whether a query may attend to a key, null that all may.
 */
export function attentionWeights(query, key, visible = null, scale = Math.sqrt(query[0].length)) {
  const weights = query.map((q, i) => {
    const scores = key.map((k, j) => (visible && !visible(i, j) ? -Infinity : dot(q, k) / scale));
    return softmax(scores);
  });
  record(() => weightsBackward(query, key, weights, scale));
  return weights;
}

/** Of a softmax w over scores s: ds = w (dw - sum of w dw). A score q k / scale hands it on to q and k. */
function weightsBackward(query, key, weights, scale) {
  weights.forEach((row, i) => {
    const ofRow = gradientOf(row);
    const mean = dot(row, ofRow);
    for (let j = 0; j < row.length; j++) {
      if (row[j] === 0) continue;
      const ofScore = (row[j] * (ofRow[j] - mean)) / scale;
      increase(gradientOf(query[i]), key[j], ofScore);
      increase(gradientOf(key[j]), query[i], ofScore);
    }
  });
}

/** Attentions side by side, each in its own learned subspace (section 3.2.2). */
export class MultiHeadAttention {
  /** `parts` are query, key, value and output, each with a weight and perhaps a bias. */
  constructor(parts, numHeads) {
    Object.assign(this, parts);
    this.numHeads = numHeads;
    this.edits = []; // of interventions.js: functions (what, heads, start) that return other heads
  }

  forward(x, memory, visible = null) {
    return this.attend(...this.project(x, memory), visible);
  }

  /** Q W^Q, K W^K and V W^V, each split into heads. */
  project(x, memory) {
    return [this.splitHeads(linear(x, this.query)), ...this.remember(memory)];
  }

  /** K W^K and V W^V of what is heard. */
  remember(memory) {
    const heard = this.edited("memory", memory, 0);
    return [this.key, this.value].map((part) => this.splitHeads(linear(heard, part)));
  }

  /** For each head, the rows of its own columns. Nothing is copied. */
  splitHeads(x) {
    const width = x[0].length / this.numHeads;
    const heads = Array.from({ length: this.numHeads }, (_, h) => h);
    return heads.map((h) =>
      x.map((row) => {
        const part = row.subarray(h * width, (h + 1) * width);
        share(part, () => gradientOf(row).subarray(h * width, (h + 1) * width));
        return part;
      }),
    );
  }

  /** Attention in each head, then the concatenated heads times W^O. `start` is the position of the first query. */
  attend(query, key, value, visible = null, start = 0) {
    const weights = this.edited(
      "weights",
      query.map((q, h) => attentionWeights(q, key[h], visible, this.scale)),
      start,
    );
    const values = this.edited("values", value, start);
    const heads = this.edited(
      "outputs",
      weights.map((w, h) => blend(w, values[h])),
      start,
    );
    return linear(concatenate(heads), this.output);
  }

  edited(what, heads, start) {
    return this.edits.reduce((now, edit) => edit(what, now, start), heads);
  }
}

/** The rows of all heads side by side. */
function concatenate(heads) {
  return heads[0].map((_, i) => {
    const width = heads[0][i].length;
    const row = new numbers.Array(heads.length * width);
    heads.forEach((head, h) => {
      row.set(head[i], h * width);
      record(() => increase(gradientOf(head[i]), gradientOf(row).subarray(h * width, (h + 1) * width)));
    });
    return row;
  });
}
