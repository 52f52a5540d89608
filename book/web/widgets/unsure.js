// Chapter 60: the beam on sentences of which the model is unsure.
import { tokensOf } from "../model/decoding.js";
import { choice, fixed, make, slider, teller, tick } from "./dom.js";
import { whenAsked } from "./engine.js";
import { beamTree } from "./tree.js";
import { shown } from "./words.js";

export const waits = true;
const SENTENCES = ["The car was newer than the lorry.", "Some tired crocodiles that have followed the cat today play."];

/**
 * A tree with its sliders, for the chapter and the laboratory. `onchange({ width })` or `({ alpha })` hears what a reader
 * wants; `show(run, { width, alpha })` searches by `run(options)` and draws.
 */
export function beamView(translator, onchange) {
  const { tokenizer } = translator;
  const [told, tell] = teller();
  const opened = make("p", { class: "quiet" });
  const tree = beamTree("beam search, step by step", (node) => shown(tokenizer, node.token), open);
  let [run, found, upTo, pruned] = [null, null, Infinity, false];
  const draw = () => tree.show(found, { upTo, pruned });
  const steps = slider("steps shown", { min: 1, max: 1, value: 1 }, (value) => ((upTo = value), draw()));
  const widths = slider("width of the beam", { min: 1, max: 6, value: 3 }, (width) => onchange({ width }));
  const penalties = slider(
    "penalty alpha",
    { min: 0, max: 3, step: 0.1, value: 0, told: (value) => fixed(value, 1) },
    (alpha) => onchange({ alpha }),
  );

  /** What would have come of a hypothesis: greedy search from its prefix on. */
  function open(node) {
    const prefix = tokensOf(node);
    const { text, logProbability } = run({ prefix });
    const fate = node.finished ? "It finished." : node.kept ? "It was kept." : "It was pruned.";
    opened.textContent = `${tokenizer.toText(prefix) || "Nothing yet"}: log P ${fixed(node.logProbability)}. ${fate} Taken further, the likeliest token every time: ${text} (log P ${fixed(logProbability)})`;
  }

  function show(run_, { width, alpha }) {
    run = run_;
    found = run({ width, alpha, tree: true });
    upTo = Math.max(...found.tree.map(({ step }) => step));
    steps.querySelector("input").max = upTo;
    for (const [control, value] of [
      [steps, upTo],
      [widths, width],
      [penalties, alpha],
    ])
      control.set(value);
    opened.textContent = "";
    draw();
    const greedy = run({});
    const same = String(greedy.tokens) === String(found.tokens);
    tell(
      `Width ${width}, alpha ${fixed(alpha, 1)}: ${found.text} log P ${fixed(found.logProbability)}, score ${fixed(found.score)}. ${same ? "Greedy search writes the same." : `Greedy search writes: ${greedy.text} log P ${fixed(greedy.logProbability)}.`}`,
    );
  }
  const box = make(
    "div",
    {},
    widths,
    penalties,
    steps,
    tick("show what was pruned", pruned, (value) => ((pruned = value), draw())),
    tree.box,
    opened,
    told,
  );
  return { box, show };
}

export function mount(place) {
  whenAsked(place, "Grow the beam", (translator) => {
    let state = { sentence: SENTENCES[0], width: 3, alpha: 0 };
    const update = (part) => {
      state = { ...state, ...part };
      view.show((options) => translator.translate(state.sentence, options), state);
    };
    const view = beamView(translator, update);
    const options = SENTENCES.map((sentence) => [sentence, sentence]);
    place.append(
      choice("Translate", options, SENTENCES[0], (sentence) => update({ sentence })),
      view.box,
    );
    update();
  });
}
