// The trainer of chapter 83, in a worker: one small model, whole or without some parts.
import { Learner } from "./learner.js";
import { TASKS } from "./tasks.js";

/** One request to a worker; whoever wants something else ends it, and begins another. */
self.onmessage = ({ data: { task, parts, ...settings } }) => {
  const learner = new Learner(TASKS[task], parts, settings);
  const { steps } = settings;
  for (let step = 1; step <= steps; step++) {
    learner.step(step);
    if (!Number.isFinite(learner.loss)) {
      self.postMessage({ step, broken: true });
      return;
    }
    const counts = step % 50 === 0 || step === steps;
    if (step % 10 === 0 || counts) self.postMessage({ step, ...learner.report(counts) });
  }
};
