// Chapter 81: the laboratory. A sentence, its translation, what every head looks at, and what happens if one interferes.
import { Sentences } from "./sentences.js";
import { button, choice, fixed, holdFocus, make, percent, teller } from "./dom.js";
import { json, modelOfCase, whenAsked } from "./engine.js";
import { GENDERS } from "./genders.js";
import { MODELS, START, fromHash, toHash } from "./lab/address.js";
import { experiment, possible } from "./lab/experiment.js";
import { headsPanel } from "./lab/heads.js";
import { outputPanel } from "./lab/output.js";
import { ownPanel } from "./lab/own.js";
import { sentencePanel } from "./lab/sentence.js";
import { beamView } from "./unsure.js";

export const waits = true;

export function mount(place) {
  const arrive = () => fromHash(location.hash) && place.closest("figure").scrollIntoView();
  window.addEventListener("hashchange", arrive);
  arrive();
  whenAsked(place, fromHash(location.hash) ? "Open this experiment" : "Open the laboratory", async (translator) => {
    const sentences = new Sentences(await json("sentences.json"));
    const { model } = { ...START, ...fromHash(location.hash) };
    laboratory(place, sentences, translator, await modelOfCase(model, translator));
  });
}

/** Everything that was done to the model, each with a button that undoes it. */
function doneTo(state, translator, onchange) {
  const undo = (label, part) => button(`${label} ✕`, () => onchange(part), { "aria-label": `undo: ${label}` });
  const all = [
    ...state.off.map((name) =>
      undo(`silenced: ${name.replace(".", " ")}`, { off: state.off.filter((one) => one !== name) }),
    ),
    ...state.set.map((one) =>
      undo(`a weight of ${one.at.replace(".", " ")} set to ${fixed(one.weight)}`, {
        set: state.set.filter((other) => other !== one),
      }),
    ),
    state.paste &&
      undo(`${state.paste === "both" ? "weights and values" : state.paste} of the twin, ${state.where}`, { paste: "" }),
    state.begin.length && undo(`begins with "${translator.tokenizer.toText(state.begin)}"`, { begin: [] }),
  ].filter(Boolean);
  if (all.length > 1) all.push(button("undo all", () => onchange({ off: [], set: [], paste: "", begin: [] })));
  return all.length
    ? all
    : [
        make(
          "span",
          { class: "quiet" },
          "Nothing yet: silence a head, overwrite a weight, paste from the twin, or force a word.",
        ),
      ];
}

const PASTE = [
  ["", "nothing"],
  ["weights", "weights"],
  ["values", "values"],
  ["both", "both"],
];
const WHERE = [
  ["encoder", "encoder"],
  ["decoder", "decoder"],
  ["cross", "cross-attention"],
  ["all", "everywhere"],
];

function laboratory(place, sentences, shipped, translator, about = null) {
  let state = { ...START, ...fromHash(location.hash), ...(about && { model: START.model }) };
  const [told, tell] = teller();
  const [done, notes, swap] = [
    make("div", { class: "done" }),
    make("p", { class: "problem", hidden: true }),
    make("div", {}),
  ];
  const which = choice("Which model? They were trained alike.", MODELS, state.model, (model) =>
    other({ ...state, model }),
  );
  const sentence = sentencePanel(sentences, (part) => update({ ...part, begin: [], set: [] }));
  const output = outputPanel(translator, (begin) => update({ begin }));
  const heads = headsPanel(translator, update);
  const beam = beamView(translator, update);
  const tree = make("details", {}, make("summary", {}, "The beam as a tree"), beam.box);
  const own = make(
    "details",
    {},
    make("summary", {}, "Bring your own model"),
    ownPanel((other, about) => laboratory(place, sentences, shipped, other ?? shipped, about)),
  );
  tree.addEventListener("toggle", () => tree.open && update(state.width === 1 ? { width: 4 } : {}));
  let [result, coming] = [null, null];

  /** The same place with the model of another state; the last one that was asked for counts. */
  async function other(wanted) {
    coming = wanted;
    tell("The model is loading.");
    try {
      const found = await modelOfCase(wanted.model, shipped);
      if (coming !== wanted || !which.isConnected) return;
      history.replaceState(null, "", toHash(wanted));
      laboratory(place, sentences, shipped, found);
    } catch (error) {
      which.querySelectorAll("input").forEach((input) => (input.checked = input.value === state.model));
      tell(`The model could not be loaded: ${error.message}`);
    }
  }

  function update(part = {}) {
    state = { ...state, ...part };
    const allowed = possible(translator, state);
    state = allowed.state;
    notes.hidden = !allowed.dropped.length;
    notes.textContent = allowed.dropped.join("; ");
    history.replaceState(null, "", toHash(state));
    const hand = holdFocus(sentence.box, done, heads.box, swap, output.long);
    show();
    hand();
  }

  function show() {
    sentence.show(state);
    const isEmpty = !state.say.trim();
    [output.short, done, inside].forEach((part) => (part.hidden = isEmpty));
    if (isEmpty) {
      tell("There is nothing to translate: type a sentence.");
      return;
    }
    result = experiment(translator, state);
    output.show(result, state, sentence.answerTo(state.say));
    heads.show(result, state);
    done.replaceChildren(...doneTo(state, translator, update));
    swap.replaceChildren(
      choice("From the twin, attentions take", PASTE, state.paste, (paste) => update({ paste })),
      choice("where", WHERE, state.where, (where) => update({ where })),
    );
    if (tree.open) beam.show(result.run, state);
    const { before, after, genders } = result;
    const moved =
      genders &&
      GENDERS.map((word, i) => [word, genders.before[i], genders.after[i]]).filter(
        ([, a, b]) => Math.abs(a - b) > 0.005,
      );
    const chances = moved?.length
      ? ` ${moved.map(([word, a, b]) => `${word} ${percent(a)} → ${percent(b)}`).join(", ")}.`
      : "";
    tell(
      result.touched
        ? `${before.text === after.text ? "The translation stays" : "The translation becomes"}: ${after.text}${chances}`
        : `Untouched: ${after.text}`,
    );
  }

  const inside = make(
    "div",
    {},
    make("h2", {}, "Attention"),
    heads.box,
    make("h2", {}, "The twin's attention"),
    swap,
    make("h2", {}, "Token by token"),
    output.long,
    tree,
  );
  const hand = holdFocus(place);
  place.replaceChildren(
    ...(about ? [make("p", { role: "status" }, about)] : []),
    ...(about && translator !== shipped ? [] : [which]),
    make("h2", {}, "Sentence"),
    sentence.box,
    make("div", { class: "result" }, make("h2", {}, "Translation"), output.short, told, done, notes),
    inside,
    own,
  );
  window.onhashchange = () => {
    const asked = fromHash(location.hash);
    if (!asked || toHash(asked) === toHash(state)) return;
    if (asked.model === state.model) update(asked);
    else other(asked);
  };
  update();
  hand();
}
