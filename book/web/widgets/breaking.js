// Chapter 83: two small Transformers are trained in the page, one of them without a part; the reader guesses first.
// widget-breaking-mask, in another chapter, is the one experiment of that name.
import { TASKS as LEARNED } from "../model/tasks.js";
import { lossChart } from "./break/chart.js";
import { EXPERIMENTS, fromHash, startOf, toHash } from "./break/experiments.js";
import { knobs } from "./break/knobs.js";
import { panel } from "./break/panel.js";
import { AT_ONCE, race } from "./break/race.js";
import { earlierRuns } from "./break/runs.js";
import { guessesOf, lost, named, soFar, verdict } from "./break/verdict.js";
import { button, choice, make, teller } from "./dom.js";

/** `earlier` are runs to compare with, which stay when another experiment is asked for by its address. */
export function mount(place, earlier = []) {
  const only = place.parentElement.id.split("-").slice(2).join("-");
  let settings = only ? startOf([only]) : (fromHash(location.hash) ?? startOf(["mask"]));
  const [told, tell] = teller();
  let [guess, run, isGoing] = [null, null, false]; // a run that is over stays here as long as it is seen
  const question = make("div", {});
  const [watch, reads] = [make("p", {}), make("p", { class: "quiet" })];
  const panels = ["curve", "other"].map(panel);
  const chart = lossChart();
  const runs = earlierRuns(earlier, (marked) => chart.show(settings.steps, earlier, run, marked));
  const turned = knobs(() => settings, change);
  const main = button("", () => (isGoing ? pause() : go(true)), { class: "go" });
  const some = button(`${AT_ONCE} steps`, () => go(false));
  const stop = button("Stop", () => end(`Stopped at step ${run.steps.at(-1) ?? 0}.`));
  const bar = make("progress", { max: 1, value: 0, "aria-label": "training" });
  const isOpen = () => run !== null && !run.isOver;

  function showControls() {
    main.textContent = isGoing ? "Pause" : isOpen() ? "Go on" : "Train both";
    main.disabled = guess === null && !isOpen();
    some.disabled = isGoing || main.disabled;
    stop.disabled = !isOpen();
  }

  /** The question about these parts, and nothing learned yet. */
  function ask() {
    guess = null;
    const parts = lost(settings);
    const none = settings.parts.length
      ? "One head has none to spare: choose two or four."
      : "Take away at least one part.";
    const legend = parts.length ? `The second model lacks ${named(settings)}. What will happen?` : none;
    const answers = parts.length ? guessesOf(parts).map(([text], i) => [i, text]) : [];
    const choose = (value) => ((guess = value), showControls());
    question.replaceChildren(choice(legend, answers, null, choose));
    watch.textContent = parts.length === 1 ? EXPERIMENTS[parts[0]].watch : "";
  }

  /** Room for a run with these settings. */
  function clear() {
    const [source, target] = LEARNED[settings.task].example;
    const isOwn = lookOf(lost(settings)) === "decoder";
    const rows = isOwn ? "a word that the decoder read" : "a word that the model writes";
    reads.textContent =
      `Both read: ${source.join(" ")}. In the maps each row is ${rows}, ` +
      `each column a word ${isOwn ? "among these" : "of the source"} at which it looks: the darker, the more.`;
    const letters = Math.max(4, ...target.map((word) => word.length)); // of </s>, too
    const room = { columns: isOwn ? ["<s>", ...target] : source, height: target.length + 1, letters };
    const second = lost(settings).length === 1 ? `without ${named(settings)}` : "without these parts";
    panels.forEach((each, i) => each.clear(i ? second : "the whole model", settings.steps, room));
    bar.value = 0;
    chart.show(settings.steps, earlier, null);
  }

  /** The run that is seen goes behind the next one. */
  function putAside() {
    if (run?.steps.length && !only) runs.add(run);
    run = null;
  }

  function change(changed) {
    const stopped = isOpen() ? `Stopped at step ${run.steps.at(-1) ?? 0}, because the settings changed. ` : "";
    const stays = run?.steps.length ? "The run stays among the earlier ones." : "";
    if (isOpen()) end("");
    putAside();
    if (stopped || stays) tell(stopped + stays);
    const before = named(settings);
    settings = { ...settings, ...changed };
    settings.steps = startOf(settings.parts, settings.task).steps;
    history.replaceState(null, "", toHash(settings));
    if (changed.parts || named(settings) !== before) ask();
    clear();
    showControls();
  }

  /** Both learn, up to the end or for some steps only. */
  function go(isOn) {
    if (!isOpen()) {
      putAside();
      clear();
      run = { settings, steps: [], losses: [[], []], both: [{}, {}], isOver: false };
      run.race = race(settings, lookOf(lost(settings)), hear, end);
      tell("Both models begin with the same random numbers.");
    } else if (isOn) tell("Training goes on.");
    isGoing = isOn;
    run.race.next();
    showControls();
  }

  function pause(why = "Paused.") {
    isGoing = false;
    showControls();
    tell(why);
  }

  function end(text) {
    run?.race.end();
    if (run) run.isOver = true;
    isGoing = false;
    showControls();
    if (text) tell(text);
  }

  function hear(step, both) {
    const { steps } = settings;
    const isEnd = step === steps;
    run.both = both.map((report, i) => ({ ...report, ...reached(report, step, run.both[i]) }));
    run.steps.push(step);
    run.losses.forEach((losses, i) => losses.push(both[i].loss));
    bar.value = step / steps;
    chart.show(steps, earlier, run);
    both.forEach((report, i) => panels[i].show(step, report));
    const text = `Step ${step}. ${soFar(both, settings)}`;
    if (isEnd) end(`${text} ${verdict(settings, run.both, guess)}`);
    else if (!isGoing) tell(`Paused. ${text}`);
    else if (step % 100 === 0) tell(text);
    if (isGoing) run.race.next();
  }

  const chapter = make("a", { href: `83_break_one.html${toHash(settings)}` }, "Chapter 83");
  const isSlide = place.closest(".reveal") !== null; // no chapter lies beside slides
  const more = isSlide ? null : [" (", chapter, " has all six experiments.)"];
  const alone = make("p", {}, "On this page, two small models learn to write eight digits backwards.", more);
  const boxes = panels.map(({ box }) => box);
  place.append(
    ...(only ? [alone, question] : [turned.lists, question, ...turned.others]),
    make("p", { class: "controls" }, main, some, stop, bar),
    watch,
    chart.box,
    reads,
    make("div", { class: "beside" }, boxes),
    told,
    runs.box,
  );
  ask();
  clear();
  showControls();
  place.style.minHeight = ""; // the room of a picture, which is taller on a wide page
  const away = new AbortController();
  const hide = () => document.hidden && isGoing && pause("Paused, because the page was hidden.");
  document.addEventListener("visibilitychange", hide, away);
  if (!only) window.addEventListener("hashchange", again, away);

  /** Another experiment has been asked for by its address. */
  function again() {
    if (!fromHash(location.hash)) return;
    away.abort();
    end("");
    putAside();
    place.replaceChildren();
    mount(place, earlier);
  }
}

const lookOf = (parts) => (parts.length === 1 && EXPERIMENTS[parts[0]].look) || "cross";

/** At which step half of the unseen examples were right for the first time, and the largest share so far. */
const reached = ({ share }, step, { half = Infinity, best = 0 }) => ({
  half: share >= 0.5 ? Math.min(half, step) : half,
  best: Math.max(best, share),
});
