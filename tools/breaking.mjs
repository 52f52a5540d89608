// One run of chapter 83 for its record: settings as JSON on standard input, what came of them on standard output.
import { readFileSync } from "node:fs";

import { Learner } from "../book/web/model/learner.js";
import { TASKS } from "../book/web/model/tasks.js";

const settings = JSON.parse(readFileSync(0, "utf8"));
const learner = new Learner(TASKS[settings.task], settings.part, settings);
const [losses, shares] = [[], []];
let report = null;
for (let step = 1; step <= settings.steps; step++) {
  learner.step(step);
  if (step % 10 === 0) losses.push(Number(learner.loss.toFixed(4)));
  if (step % 50 === 0) {
    report = learner.report(true);
    shares.push(report.share);
  }
}
process.stdout.write(JSON.stringify({ ...settings, losses, shares, written: report.written }));
