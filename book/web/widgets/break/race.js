// Chapter 83: the whole model and the one without some parts, each trained in a worker of its own.

export const AT_ONCE = 10; // steps, after which both report

/**
 * `hear(step, both)` gets what both report of a step, `fail(text)` why there is nothing to hear. What comes back: `next()`
 * lets both learn for some more steps, unless they are at it, and `end()` ends both.
 */
export function race(settings, look, hear, fail) {
  let [at, reports, isBusy] = [0, [], false];
  const workers = [[], settings.parts].map((parts, i) => {
    const worker = new Worker(new URL("../../model/trainer.js", import.meta.url), { type: "module" });
    worker.onerror = () => fail("The training could not be loaded.");
    worker.onmessage = ({ data: { step, broken, ...report } }) => {
      if (broken) {
        fail(
          `At step ${step} the loss of the ${i ? "second" : "first"} model is not a number any more: both are stopped.`,
        );
        return;
      }
      reports[i] = report;
      if (!reports[0] || !reports[1]) return;
      isBusy = false;
      hear(at, reports);
    };
    worker.postMessage({ settings: { ...settings, parts, look } });
    return worker;
  });
  function next() {
    if (isBusy) return;
    [at, reports, isBusy] = [Math.min(at + AT_ONCE, settings.steps), [], true];
    workers.forEach((worker) => worker.postMessage({ to: at }));
  }
  return { next, end: () => workers.forEach((worker) => worker.terminate()) };
}
