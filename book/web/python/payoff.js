// Beside an edited cell of the model: what the shipped weights translate in it, before and after.
import { make } from "../widgets/dom.js";
import { diff } from "./diff.js";
import { describeError } from "./output.js";

/**
 * A panel for sentences, [English, German by the book's model, its chance]; `answer(place, text, chance)`, `fail(error)`
 * and `end` fill it.
 */
export function payoff(sentences) {
  const told = make(
    "p",
    { role: "status" },
    "Your code, with the weights that were learned without your change: the model is translating.",
  );
  const list = make("dl", {});
  const box = make("section", { class: "run-payoff", "aria-label": "What the model says now" }, told, list);
  const counts = { all: 0, changed: 0 };

  function answer(place, after, chance) {
    const [english, before, old] = sentences[place];
    const isSame = before === after;
    counts.all++;
    counts.changed += !isSame;
    const row = (label, sign) =>
      make("dd", {}, make("span", { class: "run-when" }, label), " ", marked(before, after, sign));
    list.append(make("dt", { lang: "en" }, english));
    if (isSame) list.append(make("dd", {}, make("span", { class: "run-when" }, "the same"), " ", german(after)));
    else list.append(row("before", "-"), row("now", "+"));
    const chances = `the chance of all of it was ${percent(old)}, and is ${percent(chance)}`;
    list.append(
      make(
        "dd",
        { class: "run-chance" },
        isSame ? chances : `its chance is ${percent(chance)}; that of the old one was ${percent(old)}`,
      ),
    );
  }

  function end() {
    const { all, changed } = counts;
    if (all)
      told.textContent = `Your code, with the weights that were learned without your change: ${changed} of ${all} translations changed.`;
  }

  const fail = (error) => {
    told.remove();
    box.prepend(make("div", { class: "run-error", role: "alert" }, describeError(error)));
  };
  return Object.assign(box, { answer, end, fail });
}

/** A share of 1, also one near 0 or 1. */
function percent(share) {
  if (share === null) return "not a number";
  if (share < 0.001) return "below 0.1%";
  return `${(100 * share).toFixed(share > 0.999 ? 3 : 1)}%`;
}

const german = (...words) => make("span", { lang: "de" }, ...words);

/** One of two texts, with the words marked that the other one lacks. */
function marked(before, after, sign) {
  const words = diff(before.split(" "), after.split(" ")).filter(([one]) => one === " " || one === sign);
  if (!words.length) return german("(nothing)");
  return german(words.flatMap(([one, word]) => [one === " " ? word : make("mark", {}, word), " "]));
}
