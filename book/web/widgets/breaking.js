// Chapter 83: two small Transformers are trained in the page, one of them without a part; the reader guesses first.
import { button, choice, draw, fixed, make, percent, pick, slider, teller } from "./dom.js";
import { thumbnail } from "./grid.js";

/** For each part: what is taken away, the question, and what may happen. The first option is not the right one. */
export const EXPERIMENTS = {
  mask: [
    "the causal mask",
    [
      "It learns more slowly.",
      "Its loss falls faster, and by itself it writes nonsense.",
      "It works as well as the other.",
    ],
  ],
  shift: [
    "the shift",
    [
      "It works as well as the other.",
      "It learns more slowly.",
      "Its loss falls to almost nothing, and by itself it writes nonsense.",
    ],
  ],
  root: [
    "the root under the scores",
    ["It does not learn at all.", "It learns, perhaps more slowly.", "It writes everything backwards."],
  ],
  positions: [
    "positions",
    [
      "It writes the right words in a wrong order.",
      "It works as well as the other.",
      "It writes the same word again and again.",
    ],
  ],
  "warm-up": ["the warm-up", ["It learns faster.", "It works as well as the other.", "It does not learn."]],
  heads: ["three of four heads", ["It does not learn at all.", "It learns, perhaps more slowly.", "It learns faster."]],
};
const DEFAULTS = { task: "digits", part: "mask", seed: 1, width: 32, layers: 2, steps: 400 };
const LIMITS = { seed: [1, 999], width: [16, 64], layers: [1, 3], steps: [50, 2000] };
const [WIDE, HIGH, LEFT, BELOW] = [560, 200, 40, 26]; // pixels of the chart

/** The settings that an address holds, as in #break-mask,seed=2; what is absurd in it is left out. */
export function fromAddress(hash) {
  const found = { ...DEFAULTS };
  const [part, ...others] = decodeURIComponent(hash.replace(/^#break-/, "")).split(",");
  if (!hash.startsWith("#break-") || !Object.hasOwn(EXPERIMENTS, part)) return found;
  found.part = part;
  for (const other of others) {
    const [name, value] = other.split("=");
    if (name === "task" && ["digits", "pronouns"].includes(value)) found.task = value;
    const [least, most] = LIMITS[name] ?? [];
    if (least !== undefined && Number.isInteger(+value)) found[name] = Math.min(most, Math.max(least, +value));
  }
  return found;
}

/** The address of settings: only what is not as usual. */
export function toAddress(settings) {
  const others = Object.keys(DEFAULTS).filter((name) => name !== "part" && settings[name] !== DEFAULTS[name]);
  return `#break-${[settings.part, ...others.map((name) => `${name}=${settings[name]}`)].join(",")}`;
}

export function mount(place) {
  const settings = fromAddress(location.hash);
  const [told, tell] = teller();
  let [worker, guess] = [null, null];
  const question = make("div", {});
  const panels = ["whole", "without it"].map((name) => panel(name));
  const chart = new Chart(Math.max(280, Math.min(WIDE, place.clientWidth)));
  const start = button("Train both", begin, { class: "go", disabled: true });
  const stop = button("Stop", () => end("Stopped."), { hidden: true });
  const bar = make("progress", { max: 1, value: 0, "aria-label": "training", hidden: true });

  function ask() {
    const [what, options] = EXPERIMENTS[settings.part];
    guess = null;
    start.disabled = true;
    const answers = choice(
      `Two models begin with the same numbers and see the same pairs. The second lacks ${what}. What will happen?`,
      options.map((option, i) => [i, option]),
      null,
      (value) => ((guess = value), (start.disabled = false)),
    );
    question.replaceChildren(answers);
  }

  function change(name, value) {
    settings[name] = value;
    history.replaceState(null, "", toAddress(settings));
    end("");
    ask();
  }

  function begin() {
    end("");
    chart.clear();
    [start.disabled, stop.hidden, bar.hidden] = [true, false, false];
    worker = new Worker(new URL("../model/trainer.js", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }) => hear(data);
    worker.onerror = () => end("The training could not be loaded.");
    worker.postMessage(settings);
    tell("Training begins.");
  }

  function end(text) {
    worker?.terminate();
    worker = null;
    [start.disabled, stop.hidden, bar.hidden] = [guess === null, true, true];
    if (text) tell(text);
  }

  function hear({ step, steps, both, broken }) {
    if (broken !== undefined) {
      end(
        `At step ${step} the loss of the model ${broken ? `without ${EXPERIMENTS[settings.part][0]}` : "that is whole"} is no number any more.`,
      );
      return;
    }
    bar.value = step / steps;
    chart.add(
      step,
      steps,
      both.map(({ loss }) => loss),
    );
    both.forEach((one, i) => panels[i].show(one));
    if (both[0].share !== null && (step % 100 === 0 || step === steps))
      tell(said(step, both, settings, step === steps && guess));
    if (step === steps) end("");
  }

  const options = Object.entries(EXPERIMENTS).map(([part, [what]]) => [part, what]);
  place.append(
    make(
      "p",
      {},
      "Take away ",
      pick("what to take away", options, settings.part, (value) => change("part", value)),
      " from a model that learns ",
      pick(
        "the task",
        [
          ["digits", "eight digits backwards"],
          ["pronouns", "what it means"],
        ],
        settings.task,
        (value) => change("task", value),
      ),
      ".",
    ),
    question,
    make(
      "details",
      {},
      make("summary", {}, "seed, width, layers"),
      ...["seed", "width", "layers"].map((name) =>
        slider(
          name,
          {
            min: LIMITS[name][0],
            max: name === "seed" ? 9 : LIMITS[name][1],
            step: name === "width" ? 16 : 1,
            value: settings[name],
          },
          (value) => change(name, value),
        ),
      ),
    ),
    make("p", {}, start, stop, bar),
    chart.box,
    make(
      "div",
      { class: "beside" },
      panels.map(({ box }) => box),
    ),
    told,
  );
  ask();
  document.addEventListener(
    "visibilitychange",
    () => document.hidden && worker && end("Stopped, since the page was hidden."),
  );
}

/** What happened, in a sentence or two, from the numbers. */
export function said(step, [whole, without], { part }, guess) {
  const [what, options] = EXPERIMENTS[part];
  const share = ({ share }) => `${percent(share)} of the unseen`;
  const text = `Step ${step}: the whole model has a loss of ${fixed(whole.loss)} and writes ${share(whole)} rightly by itself. Without ${what}, the loss is ${fixed(without.loss)}, and ${share(without)} are right.`;
  return guess === false || guess === null ? text : `${text} You guessed: ${options[guess]}`;
}

/** What one model writes, and where it looks. */
function panel(name) {
  const [written, share, map] = [
    make("p", { class: "written" }),
    make("p", { class: "quiet" }),
    make("div", { class: "map" }),
  ];
  const box = make("section", {}, make("h3", {}, name), written, share, map);
  return {
    box,
    show(one) {
      written.textContent = `writes: ${one.written.join(" ") || "(nothing)"}`;
      share.textContent = one.share === null ? "" : `right: ${percent(one.share)}`;
      map.replaceChildren(thumbnail(one.map.map((row) => Float32Array.from(row))));
    },
  };
}

/** Two losses over the steps. */
class Chart {
  constructor(wide) {
    this.wide = wide;
    this.lines = [draw("path", { class: "curve" }), draw("path", { class: "other" })];
    this.ticks = draw("g", {});
    const frame = {
      viewBox: `0 0 ${wide} ${HIGH}`,
      class: "plot",
      role: "img",
      "aria-label": "losses of both models against steps; the model that lacks a part is dashed",
    };
    this.box = make("div", {}, draw("svg", frame, this.ticks, ...this.lines));
    this.clear();
  }

  clear() {
    this.points = [[], []];
    this.lines.forEach((line) => line.setAttribute("d", ""));
  }

  add(step, steps, losses) {
    const across = (n) => LEFT + ((this.wide - LEFT - 24) * n) / steps;
    const up = (value) => HIGH - BELOW - ((HIGH - BELOW - 8) * Math.min(4, value)) / 4;
    losses.forEach((loss, i) => {
      this.points[i].push(`${across(step).toFixed(1)} ${up(loss).toFixed(1)}`);
      this.lines[i].setAttribute("d", `M ${this.points[i].join(" L ")}`);
    });
    const label = (x, y, anchor, text) => draw("text", { x, y, "text-anchor": anchor }, text);
    this.ticks.replaceChildren(
      draw("path", { d: `M ${LEFT} 4 V ${HIGH - BELOW} H ${this.wide - 24}` }),
      ...[0, 1, 2, 3, 4].map((value) => label(LEFT - 6, up(value) + 4, "end", value)),
      ...[0, steps / 2, steps].map((n) => label(across(n), HIGH - 8, "middle", n)),
    );
  }
}
