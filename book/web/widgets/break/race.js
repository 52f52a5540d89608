// Chapter 83: the whole model and the one without some parts, each trained in a worker of its own.

/** `hear(step, both)` gets what both report of a step, `fail(text)` why there is nothing to hear; the answer ends both. */
export function race(settings, look, hear, fail) {
  const waiting = new Map(); // the reports of a step until both are there
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
      const both = waiting.get(step) ?? [];
      both[i] = report;
      waiting.set(step, both);
      if (!both[0] || !both[1]) return;
      waiting.delete(step);
      hear(step, both);
    };
    worker.postMessage({ ...settings, parts, look });
    return worker;
  });
  return () => workers.forEach((worker) => worker.terminate());
}
