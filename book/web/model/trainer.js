// The trainer of chapter 83, in a worker: two models from the same numbers, and one of them lacks a part.
import { Learner } from "./learner.js";
import { TASKS } from "./tasks.js";

let current = 0; // a number for each request: an older one ends when a newer one comes

self.onmessage = ({ data }) => train(data, ++current);

async function train({ task: name, part, seed, width, layers, steps }, mine) {
  const task = TASKS[name];
  const both = ["", part].map((missing) => new Learner(task, missing, { seed, width, layers, steps }));
  for (let step = 1; step <= steps; step++) {
    for (const learner of both) learner.step(step);
    const shown = step % 10 === 0 || step === steps;
    if (shown)
      self.postMessage({ step, steps, both: both.map((learner) => learner.report(step % 50 === 0 || step === steps)) });
    if (both.some((learner) => !Number.isFinite(learner.loss))) {
      self.postMessage({ step, steps, broken: both.findIndex((learner) => !Number.isFinite(learner.loss)) });
      return;
    }
    await new Promise((resume) => setTimeout(resume)); // hear whether something else is wanted
    if (mine !== current) return;
  }
}
