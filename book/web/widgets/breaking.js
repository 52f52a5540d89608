// Chapter 83: two small Transformers are trained in the page, one of them without a part; the reader guesses first.
// widget-breaking-mask, in another chapter, is the one experiment of that name.
import { lossChart } from "./break/chart.js";
import { CHOICES, EXPERIMENTS, fromHash, startOf, TASKS, toHash } from "./break/experiments.js";
import { panel } from "./break/panel.js";
import { race } from "./break/race.js";
import { guessesOf, lost, named, verdict } from "./break/verdict.js";
import { button, choice, fixed, holdFocus, make, percent, pick, slider, teller, tick } from "./dom.js";

const SEVERAL = "several"; // in the list of what can be taken away

export function mount(place) {
  const only = place.parentElement.id.split("-").slice(2).join("-");
  let settings = only ? startOf([only]) : (fromHash(location.hash) ?? startOf(["mask"]));
  const [told, tell] = teller();
  let [stopBoth, guess] = [null, null];
  const question = make("div", {});
  const knobs = make("div", {});
  const [watch, reads] = [make("p", {}), make("p", { class: "quiet" })];
  const panels = ["curve", "other"].map(panel);
  const chart = lossChart(place.clientWidth);
  const start = button("Train both", begin, { disabled: true });
  const stop = button("Stop", () => end("Stopped."), { hidden: true });
  const bar = make("progress", { max: 1, value: 0, "aria-label": "training", hidden: true });
  const controls = make("p", {}, start, " ", stop, bar);

  /** The question about these parts, and nothing learned yet. */
  function ask() {
    [guess, start.disabled] = [null, true];
    const parts = lost(settings);
    const none = settings.parts.length
      ? "One head has none to spare: choose two or four."
      : "Take away at least one part.";
    const legend = parts.length ? `The second model lacks ${named(settings)}. What will happen?` : none;
    const answers = parts.length ? guessesOf(parts).map((text, i) => [i, text]) : [];
    const choose = (value) => {
      guess = value;
      start.disabled = stopBoth !== null;
    };
    question.replaceChildren(choice(legend, answers, null, choose));
    panels[0].call("the whole model");
    panels[1].call(parts.length === 1 ? `without ${named(settings)}` : "without these parts");
  }

  function clear(steps) {
    chart.clear(steps);
    panels.forEach((each) => each.clear());
    [watch.textContent, reads.textContent] = ["", ""];
  }

  function change(changed) {
    const before = named(settings);
    settings = { ...settings, ...changed };
    settings.steps = startOf(settings.parts, settings.task).steps;
    history.replaceState(null, "", toHash(settings));
    if (changed.parts || named(settings) !== before) ask();
    end("");
    clear(settings.steps);
  }

  function begin() {
    end("");
    clear(settings.steps);
    const parts = lost(settings);
    stopBoth = race(settings, lookOf(parts), hear, end);
    const hand = holdFocus(controls);
    [start.disabled, stop.hidden, bar.hidden, bar.value] = [true, false, false, 0];
    hand();
    watch.textContent = parts.length === 1 ? EXPERIMENTS[parts[0]].watch : "";
    tell("Both models begin with the same random numbers.");
  }

  function end(text) {
    stopBoth?.();
    stopBoth = null;
    const hand = holdFocus(controls);
    [start.disabled, stop.hidden, bar.hidden] = [guess === null, true, true];
    hand();
    if (text) tell(text);
  }

  function hear(step, both) {
    const { steps } = settings;
    const isEnd = step === steps;
    bar.value = step / steps;
    chart.add(
      step,
      steps,
      both.map(({ loss }) => loss),
    );
    reads.textContent = `Both read: ${both[0].read.join(" ")}`;
    both.forEach((report, i) => panels[i].show(step, report, step % 50 === 0));
    if (isEnd) end("");
    if (step % 100 === 0 || isEnd) tell(said(step, both, settings, isEnd ? guess : null));
  }

  /** Seed, width and the like; in the list of parts, all six as boxes when several are wanted. */
  function turn(isSeveral) {
    const box = (part) =>
      tick(EXPERIMENTS[part].name, settings.parts.includes(part), (isOn) =>
        change({
          parts: Object.keys(EXPERIMENTS).filter((each) => (each === part ? isOn : settings.parts.includes(each))),
        }),
      );
    const sliders = Object.entries(CHOICES).map(([name, values]) =>
      slider(
        name === "rate" ? "learning rate, times" : name,
        { min: 0, max: values.length - 1, value: values.indexOf(settings[name]), told: (i) => String(values[i]) },
        (i) => change({ [name]: values[i] }),
      ),
    );
    knobs.replaceChildren(
      ...(isSeveral
        ? [make("fieldset", { class: "parts" }, make("legend", {}, "Take away"), Object.keys(EXPERIMENTS).map(box))]
        : []),
      make("details", {}, make("summary", {}, "seed, width, layers, heads, learning rate"), sliders),
    );
  }

  function choosePart(part) {
    change(part === SEVERAL ? {} : startOf([part], settings.task));
    turn(part === SEVERAL);
  }

  const isSeveral = settings.parts.length > 1;
  const parts = [...Object.entries(EXPERIMENTS).map(([part, { name }]) => [part, name]), [SEVERAL, "several parts"]];
  const lists = make(
    "p",
    {},
    "Take away ",
    pick("what to take away", parts, isSeveral ? SEVERAL : settings.parts[0], choosePart),
    " and let both learn ",
    pick("what to learn", titles(), settings.task, (task) => change({ task })),
  );
  const chapter = make("a", { href: `83_break_one.html${toHash(settings)}` }, "Chapter 83");
  const isSlide = place.closest(".reveal") !== null; // no chapter lies beside slides
  const alone = make(
    "p",
    {},
    "On this page, two small models learn to write eight digits backwards.",
    isSlide ? null : [" (", chapter, " has all six experiments.)"],
  );
  place.append(
    ...(only ? [alone] : [lists]),
    question,
    ...(only ? [] : [knobs]),
    controls,
    watch,
    chart.box,
    reads,
    make(
      "div",
      { class: "beside" },
      panels.map(({ box }) => box),
    ),
    told,
  );
  if (!only) turn(isSeveral);
  ask();
  clear(settings.steps);
  const away = new AbortController();
  const hide = () => document.hidden && stopBoth && end("Stopped, because the page was hidden.");
  document.addEventListener("visibilitychange", hide, away);
  if (!only) window.addEventListener("hashchange", again, away);

  /** Another experiment has been asked for by its address. */
  function again() {
    if (!fromHash(location.hash)) return;
    away.abort();
    end("");
    place.replaceChildren();
    mount(place);
  }
}

const titles = () => Object.entries(TASKS).map(([task, [title]]) => [task, title]);
const lookOf = (parts) => (parts.length === 1 && EXPERIMENTS[parts[0]].look) || "cross";

/** What has happened so far, from the numbers; at the end, with what there is to say of the guess. */
function said(step, both, settings, guess) {
  const right = ({ share }) => `${percent(share)} of unseen examples right`;
  const [whole, without] = both;
  const text =
    `Step ${step}. Whole: loss ${fixed(whole.loss)}, ${right(whole)}. ` +
    `Without ${named(settings)}: loss ${fixed(without.loss)}, ${right(without)}.`;
  return guess === null ? text : `${text} ${verdict(settings, both, guess)}`;
}
