// Chapter 83: earlier runs, which stay for comparison until they are removed.
import { button, holdFocus, make } from "../dom.js";
import { TASKS, toHash } from "./experiments.js";
import { listed, named, soFar } from "./verdict.js";

/** A list of six `runs` at most, which it changes; `onchange(marked)` hears of that, and which one is pointed at. */
export function earlierRuns(runs, onchange) {
  const list = make("ol", {});
  const box = make("div", { class: "earlier" }, make("h2", {}, "Earlier runs"), list);

  function show() {
    box.hidden = runs.length === 0;
    list.replaceChildren(...runs.map(entry));
  }

  function entry(run) {
    const [mark, unmark] = [() => onchange(run), () => onchange(null)];
    const label = `Remove the run without ${named(run.settings)}`;
    const away = button("Remove", () => remove(run), { "aria-label": label });
    const heard = { onmouseenter: mark, onmouseleave: unmark, onfocusin: mark, onfocusout: unmark };
    return make("li", heard, `${told(run)} `, away);
  }

  function remove(run) {
    const hand = holdFocus(list);
    runs.splice(runs.indexOf(run), 1);
    show();
    hand();
    onchange(null);
  }

  /** One more, in the place of one with the same settings, or of the oldest where there are too many. */
  function add(run) {
    const same = runs.findIndex(({ settings }) => toHash(settings) === toHash(run.settings));
    if (same >= 0) runs.splice(same, 1);
    runs.push(run);
    if (runs.length > 6) runs.shift();
    show();
  }

  show();
  return { box, add };
}

/** What was trained, how far, and what came of it. */
function told({ settings, steps, both }) {
  const rest = listed(settings, (name) => name !== "steps" && (name !== "rate" || settings.rate !== 1)).join(", ");
  const far = `${steps.at(-1)} of ${settings.steps} steps`;
  return `${soFar(both, settings)} (${TASKS[settings.task][0]}, ${rest}, ${far})`;
}
