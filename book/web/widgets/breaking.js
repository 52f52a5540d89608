// Chapter 83: two small Transformers are trained in the page, one of them without a part; the reader guesses first.
import { lossChart } from "./break/chart.js";
import { EXPERIMENTS, LIMITS, START, TASKS, fromHash, toHash } from "./break/experiments.js";
import { button, choice, fixed, make, percent, pick, slider, teller } from "./dom.js";
import { thumbnail } from "./grid.js";

export function mount(place) {
  const settings = fromHash(location.hash) ?? { ...START };
  const [told, tell] = teller();
  let [worker, guess] = [null, null];
  const question = make("div", {});
  const reads = make("p", { class: "quiet" });
  const panels = ["whole", "without it"].map(panel);
  const chart = lossChart(place.clientWidth);
  const start = button("Train both", begin, { disabled: true });
  const stop = button("Stop", () => end("Stopped."), { hidden: true });
  const bar = make("progress", { max: 1, value: 0, "aria-label": "training", hidden: true });

  function ask() {
    const [what, options] = EXPERIMENTS[settings.part];
    guess = null;
    start.disabled = true;
    const legend = `The second model lacks ${what}. What will happen?`;
    question.replaceChildren(
      choice(legend, [...options.entries()], null, (value) => {
        guess = value;
        start.disabled = worker !== null;
      }),
    );
  }

  function change(name, value) {
    settings[name] = value;
    history.replaceState(null, "", toHash(settings));
    end("");
    chart.clear(settings.steps);
    if (name === "part") ask();
  }

  function begin() {
    end("");
    chart.clear(settings.steps);
    worker = new Worker(new URL("../model/trainer.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => hear(data);
    worker.onerror = () => end("The training could not be loaded.");
    worker.postMessage(settings);
    [start.disabled, stop.hidden, bar.hidden, bar.value] = [true, false, false, 0];
    tell("Both models begin with the same random numbers.");
  }

  function end(text) {
    worker?.terminate();
    worker = null;
    [start.disabled, stop.hidden, bar.hidden] = [guess === null, true, true];
    if (text) tell(text);
  }

  function hear({ step, steps, both, broken }) {
    if (broken !== undefined) {
      end(`At step ${step} the loss of the ${broken ? "second" : "first"} model is no number any more.`);
      return;
    }
    bar.value = step / steps;
    chart.add(
      step,
      steps,
      both.map(({ loss }) => loss),
    );
    reads.textContent = `Both read: ${both[0].read.join(" ")}`;
    both.forEach((one, i) => panels[i].show(one));
    const isEnd = step === steps;
    if (both[0].share !== null && (step % 100 === 0 || isEnd))
      tell(said(step, both, settings.part, isEnd ? guess : null));
    if (isEnd) end("");
  }

  const parts = Object.entries(EXPERIMENTS).map(([part, [what]]) => [part, what]);
  place.append(
    make(
      "p",
      {},
      "Take away ",
      pick("what to take away", parts, settings.part, (value) => change("part", value)),
      ", and let both learn ",
      pick("what to learn", Object.entries(TASKS), settings.task, (value) => change("task", value)),
      ".",
    ),
    question,
    make("details", {}, make("summary", {}, "seed, width, layers"), Object.keys(LIMITS).map(turned)),
    make("p", {}, start, " ", stop, bar),
    chart.box,
    reads,
    make(
      "div",
      { class: "beside" },
      panels.map(({ box }) => box),
    ),
    told,
  );
  chart.clear(settings.steps);
  ask();
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && worker) end("Stopped, because the page was hidden.");
  });
  window.addEventListener("hashchange", again);

  /** Another experiment has been asked for by its address. */
  function again() {
    if (!fromHash(location.hash)) return;
    window.removeEventListener("hashchange", again);
    end("");
    place.replaceChildren();
    mount(place);
  }

  function turned(name) {
    const [min, max, step] = LIMITS[name];
    return slider(name, { min, max, step, value: settings[name] }, (value) => change(name, value));
  }
}

/** What has happened so far, from the numbers; at the end, beside the guess. */
function said(step, [whole, without], part, guess) {
  const [what, options] = EXPERIMENTS[part];
  const right = ({ share }) => `${percent(share)} of unseen examples right`;
  const text =
    `Step ${step}. Whole: loss ${fixed(whole.loss)}, ${right(whole)}. ` +
    `Without ${what}: loss ${fixed(without.loss)}, ${right(without)}.`;
  return guess === null ? text : `${text} You guessed: ${options[guess]}`;
}

/** What one model writes, and where its decoder looks. */
function panel(name) {
  const [written, share, map] = [make("p", {}, "writes nothing yet"), make("p", { class: "quiet" }), make("div", {})];
  return {
    box: make("section", { class: "learner" }, make("h2", {}, name), written, share, map),
    show(one) {
      written.textContent = `writes: ${one.written.join(" ") || "nothing"}`;
      share.textContent = one.share === null ? "" : `${percent(one.share)} right`;
      map.replaceChildren(thumbnail(one.map));
    },
  };
}
