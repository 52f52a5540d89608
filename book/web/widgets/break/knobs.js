// Chapter 83: what is taken away and learned, and the seed, width and the like.
import { make, pick, slider, tick } from "../dom.js";
import { CHOICES, EXPERIMENTS, startOf, TASKS } from "./experiments.js";

const SEVERAL = "several"; // in the list of what can be taken away

/** The two `lists`, and what stands below the question. `now()` are the settings; `change(changed)` hears of others. */
export function knobs(now, change) {
  const several = make("div", {});
  const parts = [...Object.entries(EXPERIMENTS).map(([part, { name }]) => [part, name]), [SEVERAL, "several parts"]];
  const knob = (name, values) =>
    slider(
      name === "rate" ? "learning rate, times" : name,
      { min: 0, max: values.length - 1, value: values.indexOf(now()[name]), told: (i) => String(values[i]) },
      (i) => change({ [name]: values[i] }),
    );
  const sliders = Object.entries(CHOICES).map(([name, values]) => knob(name, values));

  /** All six as boxes, when several are wanted. */
  function showBoxes(areWanted) {
    const all = Object.keys(EXPERIMENTS);
    const isLost = (part) => now().parts.includes(part);
    const turn = (part, isOn) => change({ parts: all.filter((each) => (each === part ? isOn : isLost(each))) });
    const boxes = all.map((part) => tick(EXPERIMENTS[part].name, isLost(part), (isOn) => turn(part, isOn)));
    const legend = make("legend", {}, "Take away");
    several.replaceChildren(...(areWanted ? [make("fieldset", { class: "parts" }, legend, boxes)] : []));
  }

  /** Another part, with settings of its own except where the reader turned a knob. */
  function choosePart(part) {
    if (part !== SEVERAL) {
      const { parts, task, ...settings } = now();
      const [from, to] = [startOf(parts, task), startOf([part], task)];
      Object.entries(CHOICES).forEach(([name, values], i) => {
        if (settings[name] !== from[name]) to[name] = settings[name];
        sliders[i].set(values.indexOf(to[name]));
      });
      change(to);
    }
    showBoxes(part === SEVERAL);
  }

  const first = now().parts.length > 1 ? SEVERAL : now().parts[0];
  showBoxes(first === SEVERAL);
  const taken = pick("what to take away", parts, first, choosePart);
  const titles = Object.entries(TASKS).map(([task, [title]]) => [task, title]);
  const learned = pick("what to learn", titles, now().task, (task) => change({ task }));
  const summary = make("summary", {}, "seed, width, layers, heads, learning rate");
  return {
    lists: make("p", {}, "Take away ", taken, " and let both learn ", learned),
    others: [several, make("details", {}, summary, sliders)],
  };
}
