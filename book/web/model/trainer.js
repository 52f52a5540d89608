// The trainer of chapter 83, in a worker: two models from the same numbers, and one of them lacks a part.
import { Learner } from "./learner.js";
import { TASKS } from "./tasks.js";

/** One request to a worker; whoever wants something else ends it, and begins another. */
self.onmessage = ({ data: { task, part, ...settings } }) => {
  const both = ["", part].map((missing) => new Learner(TASKS[task], missing, settings));
  const { steps } = settings;
  for (let step = 1; step <= steps; step++) {
    for (const learner of both) learner.step(step);
    const broken = both.findIndex(({ loss }) => !Number.isFinite(loss));
    if (broken >= 0) {
      self.postMessage({ step, steps, broken });
      return;
    }
    const counts = step % 50 === 0 || step === steps;
    if (step % 10 === 0 || counts) self.postMessage({ step, steps, both: both.map((one) => one.report(counts)) });
  }
};
