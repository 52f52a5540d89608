// Chapter 80: let attentions use what they had in the sentence's twin, its weights, its values, or both.
import { edited, pasted, places, watched } from "../model/interventions.js";
import { choice, make, percent, teller } from "./dom.js";
import { whenAsked } from "./engine.js";
import { chances, genderBars, GENDERS, pronounAt } from "./genders.js";

export const waits = true;
const TWINS = {
  loud: "The radio wakes the dog because it is very loud.",
  alert: "The radio wakes the dog because it is very alert.",
};
const PARTS = [
  ["weights", "its weights"],
  ["values", "its values"],
  ["both", "both"],
];
const WHERE = [
  ["encoder", "in the encoder"],
  ["cross", "in the cross-attention"],
  ["all", "everywhere"],
];

/** The chances of er, sie, es at the pronoun of `text`, alone, and with parts of its twin pasted at some places. */
export function swapped(translator, text, twin, parts, kinds) {
  const { model, tokenizer } = translator;
  const plain = translator.translate(text);
  const at = pronounAt(tokenizer, plain.tokens);
  const prefix = plain.tokens.slice(0, at);
  const { kept } = watched(model, () => model.forward(translator.tokenize(twin), [model.config.start_id, ...prefix]));
  const edits = pasted(
    kept,
    places(model).filter(({ kind }) => kinds.includes(kind)),
    parts,
  );
  const changed = edited(model, edits, () => translator.translate(text, { prefix }));
  return { plain, before: chances(tokenizer, plain.steps[at]), changed, after: chances(tokenizer, changed.steps[at]) };
}

export function mount(place) {
  whenAsked(place, "Swap the twins' attention", (translator) => {
    let [own, what, where, guess] = ["loud", "weights", "encoder", null];
    const [told, tell] = teller();
    const [before, after, bars, verdict] = [
      make("p", {}),
      make("p", { class: "translation" }),
      make("div", {}),
      make("p", { class: "quiet" }),
    ];
    const gender = (shares) => GENDERS[shares.indexOf(Math.max(...shares))];

    function show() {
      const twin = own === "loud" ? "alert" : "loud";
      const parts = what === "both" ? ["weights", "values"] : [what];
      const kinds = where === "all" ? ["encoder", "decoder", "cross"] : [where];
      const found = swapped(translator, TWINS[own], TWINS[twin], parts, kinds);
      const turned = gender(found.before) !== gender(found.after);
      before.textContent = `before: ${found.plain.text}`;
      after.replaceChildren("after: ", make("b", {}, found.changed.text));
      bars.replaceChildren(genderBars(found.after, found.before));
      verdict.textContent = guess
        ? `You guessed that it ${guess === "turns" ? "turns" : "stays"}. ${(guess === "turns") === turned ? "So it does." : "It does not."}`
        : "";
      tell(
        `The model reads "${own}". With ${what === "both" ? "weights and values" : what} from "${twin}", ${where === "all" ? "everywhere" : WHERE.find(([name]) => name === where)[1]}: ${gender(found.before)} ${turned ? `becomes ${gender(found.after)}` : "stays"}, ${percent(Math.max(...found.after))}.`,
      );
    }
    place.append(
      choice("The model reads", Object.entries(TWINS), own, (value) => ((own = value), show())),
      choice("but uses of the other sentence", PARTS, what, (value) => ((what = value), show())),
      choice("where?", WHERE, where, (value) => ((where = value), show())),
      choice(
        "Your guess: does the pronoun turn?",
        [
          ["turns", "it turns"],
          ["stays", "it stays"],
        ],
        guess,
        (value) => ((guess = value), show()),
      ),
      before,
      after,
      bars,
      verdict,
      told,
    );
    show();
  });
}
