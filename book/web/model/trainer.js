// The trainer of chapter 83, in a worker: one small model, whole or without some parts, which learns when it is asked.
import { Learner } from "./learner.js";
import { TASKS } from "./tasks.js";

let learner = null;
let step = 0;

/** First come the settings, then again and again the step up to which to learn; whoever wants another model ends this one. */
self.onmessage = ({ data: { settings, to } }) => {
  if (settings) {
    learner = new Learner(TASKS[settings.task], settings.parts, settings);
    return;
  }
  const isBroken = () => step > 0 && !Number.isFinite(learner.loss);
  while (step < to && !isBroken()) learner.step(++step);
  const report = isBroken() ? { broken: true } : learner.report(step % 50 === 0 || step === learner.steps);
  self.postMessage({ step, ...report });
};
