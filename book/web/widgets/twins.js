// The landing page: what "it" means. Switch tired and wide, and see which lines move, and es become sie.
import { watched } from "../model/interventions.js";
import { arcs } from "./arcs.js";
import { choice, make, teller } from "./dom.js";
import { whenAsked } from "./engine.js";
import { chances, genderBars, pronounAt } from "./genders.js";
import { looksAt, shown } from "./words.js";

export const waits = true; // the picture stays until the model is asked for
const LAYER = 1; // the second of two layers: only there can "it" have met the adjective
const GUESSES = [
  ["animal", "one that leads to animal"],
  ["street", "one that leads to street"],
  ["both", "one of each"],
  ["none", "none"],
];

/** What is shown of a sentence: its tokens, the row of "it" in each head, the translation, the chances at the pronoun. */
export function look(translator, sentence) {
  const { model, tokenizer } = translator;
  const tokens = translator.tokenize(sentence).map((id) => shown(tokenizer, id));
  const { kept } = watched(model, () => model.encode(translator.tokenize(sentence)));
  const it = tokens.indexOf("it");
  const rows = kept[`encoder ${LAYER} weights`].map((head) => head[it]);
  const found = translator.translate(sentence);
  return {
    tokens,
    it,
    rows,
    text: found.text,
    chances: chances(tokenizer, found.steps[pronounAt(tokenizer, found.tokens)]),
  };
}

export function mount(place) {
  whenAsked(place, "Switch tired and wide", (translator) => {
    const seen = Object.fromEntries(
      ["tired", "wide"].map((adjective) => {
        return [adjective, look(translator, `The animal did not cross the street because it was too ${adjective}.`)];
      }),
    );
    const heads = [0, 3]; // the two that lead to nouns
    const pictures = heads.map((head) => arcs(`head ${head + 1}: where "it" looks`));
    const [told, tell] = teller();
    const [translation, bars, answer] = [make("p", { class: "translation" }), make("div", {}), make("p", {})];
    let [guess, switched] = [null, false];

    function show(adjective) {
      const { tokens, it, rows, text, chances: now } = seen[adjective];
      heads.forEach((head, i) => pictures[i].show([tokens[it]], tokens, [rows[head]], 0));
      translation.replaceChildren(make("b", {}, text));
      bars.replaceChildren(genderBars(now, switched ? seen[adjective === "wide" ? "tired" : "wide"].chances : null));
      tell(
        `With ${adjective}: ${heads.map((head) => `in head ${head + 1} ${looksAt("it", tokens, rows[head])}`).join("; ")}. ${text}`,
      );
      if (switched && guess) {
        const right = guess === "both" ? "Right" : "Not quite";
        answer.textContent = `${right}: in head 1 the line leaves animal, in head 4 it gathers on street. And es becomes sie.`;
      }
    }
    place.append(
      choice(
        "Two lines from it are shown, each from another head. When tired becomes wide, which will move?",
        GUESSES,
        null,
        (value) => {
          guess = value;
          answer.textContent = "Now switch.";
          if (switched) show("wide");
        },
      ),
      choice(
        "The animal did not cross the street because it was too …",
        [
          ["tired", "tired"],
          ["wide", "wide"],
        ],
        "tired",
        (adjective) => {
          switched ||= adjective === "wide";
          show(adjective);
        },
      ),
      answer,
      make(
        "div",
        { class: "pair" },
        pictures.map(({ box }, i) => make("div", {}, make("b", {}, `head ${heads[i] + 1}`), box)),
      ),
      translation,
      bars,
      told,
    );
    show("tired");
  });
}
