// The page's own training of chapter 83, timed in a worker.
import { Learner } from "../_static/model/learner.js";
import { TASKS } from "../_static/model/tasks.js";

/** The milliseconds of each step until all steps are done, or until it gets `wanted` of unseen examples right. */
self.onmessage = ({ data: { task, wanted, ...settings } }) => {
  const learner = new Learner(TASKS[task], [], settings);
  const [milliseconds, losses, shares] = [[], [], []];
  for (let step = 1; step <= settings.steps; step++) {
    const start = performance.now();
    learner.step(step);
    milliseconds.push(performance.now() - start);
    losses.push(learner.loss);
    if (step % 25 === 0) {
      shares.push(learner.report(true).share);
      if (shares.at(-1) >= wanted) break;
    }
  }
  self.postMessage({ milliseconds, losses, shares });
};
