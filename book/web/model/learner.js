// A small model that learns, perhaps without a part: what chapter 83 trains, in the page and for its record.
import { rateOf, readAndSaid, takeAway } from "./breaking.js";
import { newModel, Random } from "./initialization.js";
import { watched } from "./interventions.js";
import { END, idsOf, pairOf, sizeOf, START, wordsOf } from "./tasks.js";
import { Adam, lossOf } from "./training.js";

const [BATCH, UNSEEN] = [32, 40];

/** A small model that learns a task, perhaps without a part. */
export class Learner {
  constructor(task, part, { seed, width, layers, steps }) {
    Object.assign(this, { task, part, width, warmup: Math.round(0.6 * steps) });
    const heads = part === "heads" ? 1 : 4;
    const sizes = { vocab_size: sizeOf(task), d_model: width, d_ff: 2 * width, num_heads: heads, num_layers: layers };
    const { model, tensors } = newModel(sizes, seed);
    takeAway(model, part);
    this.model = model;
    this.optimizer = new Adam(Object.values(tensors));
    this.random = new Random(seed + 1000); // both learn from the same pairs
    this.share = null;
  }

  step(step) {
    const pairs = Array.from({ length: BATCH }, () => pairOf(this.task, this.random));
    this.loss = lossOf(this.model, pairs, 0.1, (target) => readAndSaid(target, this.part));
    this.optimizer.step(rateOf(step, this.width, this.warmup, this.part));
  }

  /** What it writes by itself, where it looks, and, if it is counted, the share of unseen pairs that it gets right. */
  report(counts) {
    const source = idsOf(this.task, this.task.example);
    if (counts) {
      const random = new Random(7);
      const pairs = Array.from({ length: UNSEEN }, () => pairOf(this.task, random));
      this.share =
        pairs.filter(([from, to]) => String(write(this.model, from, to.length)) === String(to.slice(1))).length /
        UNSEEN;
    }
    const written = write(this.model, source, source.length + 4);
    const { kept } = watched(this.model, () => this.model.forward(source, [START, ...written]));
    const last = this.model.decoder.layers.length - 1;
    const map = kept[`cross ${last} weights`];
    const mean = map[0].map((row, q) => row.map((_, k) => map.reduce((sum, head) => sum + head[q][k], 0) / map.length));
    const words = wordsOf(
      this.task,
      written.filter((id) => id !== END),
    );
    return {
      loss: this.loss,
      share: this.share,
      read: this.task.example,
      written: words,
      map: mean.map((row) => [...row]),
    };
  }
}

/** Greedy search in its plain form: everything is read again for each token. */
function write(model, source, longest) {
  const target = [START];
  while (target.length <= longest && target.at(-1) !== END) {
    const scores = model.forward(source, target).at(-1);
    target.push(scores.indexOf(Math.max(...scores)));
  }
  return target.slice(1);
}
