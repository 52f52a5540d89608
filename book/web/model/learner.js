// A small model that learns, perhaps without some parts: what chapter 83 trains, in the page and for its record.
import { rateOf, readAndSaid, takeAway } from "./breaking.js";
import { newModel, Random } from "./initialization.js";
import { watched } from "./interventions.js";
import { END, pairOf, sizeOf, START, toPair, wordsOf } from "./tasks.js";
import { Adam, lossOf } from "./training.js";

const [BATCH, UNSEEN] = [32, 40];

/** A small model that learns a task without `parts`. `look` says whose map is shown: cross, or decoder for its own words. */
export class Learner {
  constructor(task, parts, { seed, width, layers, steps, heads = 4, rate = 1, look = "cross" }) {
    Object.assign(this, { task, parts, width, rate, look, steps, warmup: Math.round(0.6 * steps), share: null });
    const num_heads = parts.includes("heads") ? 1 : heads;
    const sizes = { vocab_size: sizeOf(task), d_model: width, d_ff: 2 * width, num_heads, num_layers: layers };
    const { model, tensors } = newModel(sizes, seed);
    takeAway(model, parts);
    this.model = model;
    this.optimizer = new Adam(Object.values(tensors));
    this.random = new Random(seed + 1000); // all learn from the same pairs
    this.readAndSaid = (target) => readAndSaid(target, parts);
  }

  step(step) {
    const pairs = Array.from({ length: BATCH }, () => pairOf(this.task, this.random));
    this.loss = lossOf(this.model, pairs, 0.1, this.readAndSaid);
    this.optimizer.step(this.rate * rateOf(step, this.width, this.warmup, this.parts));
  }

  /** What it writes by itself, where it looks, and, if it is counted, the share of unseen pairs that it gets right. */
  report(counts) {
    const { task, model } = this;
    if (counts) {
      const random = new Random(7);
      const pairs = Array.from({ length: UNSEEN }, () => pairOf(task, random));
      const right = ([source, target]) => String(write(model, source, target.length)) === String(target.slice(1));
      this.share = pairs.filter(right).length / UNSEEN;
    }
    const [source, target] = toPair(task, task.example);
    const written = write(model, source, source.length + 4);
    const isCross = this.look === "cross"; // while it writes; else while it learns
    const read = isCross ? [START, ...written.slice(0, -1)] : this.readAndSaid(target)[0];
    const [rows, columns] = [isCross ? written : read, isCross ? source : read].map((ids) => wordsOf(task, ids));
    const words = wordsOf(
      task,
      written.filter((id) => id !== END),
    );
    const { loss, share, look } = this;
    return { loss, share, look, read: task.example[0], written: words, map: this.map(source, read), rows, columns };
  }

  /** Where the last decoder layer looks while it reads these words: a mean over its heads. */
  map(source, read) {
    const { kept } = watched(this.model, () => this.model.forward(source, read));
    const heads = kept[`${this.look} ${this.model.decoder.layers.length - 1} weights`];
    return heads[0].map((row, q) =>
      [...row].map((_, k) => heads.reduce((sum, head) => sum + head[q][k], 0) / heads.length),
    );
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
