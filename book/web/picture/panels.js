// What stands around the scene: the places, the answer, what was changed, and what the numbers mean.
import { button, make, percent, teller } from "../widgets/dom.js";
import { GENDERS } from "../widgets/genders.js";
import { described, inspector } from "./inspector.js";
import { stepper } from "./stops.js";

/** The places in their order, `box` around them, and `tell`. */
export function panels(svg) {
  const [told, tell] = teller();
  const parts = {
    top: make("div", { class: "see-top" }),
    story: make("div", { class: "see-story" }),
    answer: make("div", { class: "see-answer" }),
    path: make("nav", { class: "see-path", "aria-label": "how deep" }),
    frame: make("div", { class: "see-scene" }, svg),
    done: make("div", { class: "done" }),
    notes: make("p", { class: "problem", hidden: true }),
    told,
    legend: make("p", { class: "see-legend quiet" }),
    scrub: make("div", { class: "see-scrub" }),
    words: make("div", { class: "see-words" }),
  };
  return { parts, tell, box: make("div", { class: "see" }, Object.values(parts)) };
}

/** Bring them up to date. `doing` has `change`, `update`, `hover` and `end`. */
export function fill({ story, answer, done, legend, words }, view, doing) {
  const { state, result, open } = view;
  story.replaceChildren(...told(state, doing));
  story.parentNode.classList.toggle("telling", state.stop !== null);
  answer.replaceChildren(...answered(result));
  done.replaceChildren(...undoing(state, result, doing));
  legend.textContent =
    `On a line stand its weight and what a cut of it costs: so many points of the chance of ` +
    `“${result.written[result.watch]}”, or, in red, the word that comes in its place. Click a line to cut it. A door is where the decoder hears English.`;
  if (result.source.concat(result.written).some((word) => word.startsWith("·")))
    legend.append(" A piece with a dot goes on with the word above.");
  words.replaceChildren(...inspector(view, { open, ...doing }));
}

/** The translation, before and now, and the chances of er, sie and es. */
function answered({ text, textBefore, genders, likeliest }) {
  const before = text === textBefore ? null : [make("del", { lang: "de" }, textBefore), " "];
  const chance = (word, share) => [make("span", { lang: "de" }, word), ` ${percent(share)}`];
  const all = genders
    ? GENDERS.map((word, n) => chance(word, genders.after[n]))
    : [chance(likeliest[0].word, likeliest[0].share)];
  const chances = make(
    "small",
    {},
    all.flatMap((one, n) => [n ? ", " : "", ...one]),
  );
  return [make("p", {}, before, make("b", { lang: "de" }, text), " ", chances)];
}

/** The stepper through the case. */
function told({ stop }, { update, end }) {
  return stop === null ? [] : stepper(stop, { go: update, end });
}

/** Every change that was made, as a button that undoes it. */
function undoing(state, result, { change, update }) {
  const all = ["cut", "off", "give"].flatMap((name) =>
    state[name].map((one) => {
      const label = described(name, one, result);
      return button(`${label} ✕`, () => change(name, one), { "aria-label": `undo: ${label}` });
    }),
  );
  if (all.length > 1) all.push(button("undo all", () => update({ cut: [], off: [], give: [] })));
  return all;
}
