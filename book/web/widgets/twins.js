// The landing page: what "it" means. A guess, es or sie; then switch tired and wide, and see what two heads look at.
import { watched } from "../model/interventions.js";
import { button, choice, make, teller } from "./dom.js";
import { json, whenAsked } from "./engine.js";
import { marked } from "./lab/sentence.js";
import { looksAt, shown } from "./words.js";

const LAYER = 1; // the second of two layers: only there can "it" have met the adjective
const HEADS = [0, 3]; // the two that lead to nouns, as in book/_ext/twins.py
const FAINT = 0.02; // weights below are not drawn
const GLOSSES = {
  er: "for a masculine noun, as der Hund",
  sie: "for a feminine noun, as die Straße",
  es: "for a neuter noun, as das Tier",
};
const MEANINGS = { es: "es, for the animal (das Tier)", sie: "sie, for the street (die Straße)" };

/** What is shown of a sentence: its words, the row of "it" in both heads, the translation. As in book/_ext/twins.py. */
export function look(translator, sentence) {
  const { model, tokenizer } = translator;
  const ids = translator.tokenize(sentence);
  const pieces = ids.map((id) => shown(tokenizer, id));
  const { kept } = watched(model, () => model.encode(ids));
  const it = pieces.indexOf("it");
  const rows = it < 0 ? [] : HEADS.map((head) => [...kept[`encoder ${LAYER} weights`][head][it]]);
  return { ...joined(pieces, rows), text: translator.translate(sentence).text };
}

/** Pieces of a word, which begin with a dot, put together again; their weights are added. */
function joined(pieces, rows) {
  const words = [];
  const sums = rows.map(() => []);
  pieces.forEach((piece, k) => {
    const goesOn = piece.startsWith("·");
    if (goesOn) words[words.length - 1] += piece.slice(1);
    else words.push(piece);
    rows.forEach((row, i) => {
      if (goesOn) sums[i][sums[i].length - 1] += row[k];
      else sums[i].push(row[k]);
    });
  });
  return { words, rows: sums };
}

export async function mount(place) {
  const seen = await json("twins.json");
  const [told, tell] = teller();
  told.classList.add("sr"); // what it says can be seen
  const hint = make(
    "p",
    { class: "quiet" },
    "Guess, and the answer comes here: the German sentence, and which English words the machine looks at.",
  );
  const [answer, own] = [make("div", { class: "answer" }, hint), make("div", { class: "own-sentence" })];
  let [adjective, guess] = ["tired", null];

  function show() {
    if (guess === null) return;
    const state = seen[adjective];
    const pronoun = / (es|sie) (?=zu )/.exec(state.text)[1];
    const right = guess[adjective] === undefined ? "" : guess[adjective] === pronoun ? "Right: " : "Not this time: ";
    answer.replaceChildren(make("p", {}, right, ...translation(state.text, pronoun)), ...looks(state));
    tell(`With ${adjective}: ${spoken(state)}. ${state.text}`);
  }

  function ask() {
    const choose = (pronoun) => {
      guess = { ...guess, [adjective]: pronoun };
      show();
    };
    return choice(
      "German has different words for “it”. Which one will the machine write?",
      Object.entries(MEANINGS),
      guess?.[adjective] ?? null,
      choose,
    );
  }

  let question = ask();
  const switched = (value) => {
    adjective = value;
    const next = ask();
    question.replaceWith(next);
    question = next;
    show();
  };
  const said = "The animal did not cross the street because it was too ";
  const twins = Object.keys(seen).map((word) => [word, make("span", {}, said, make("b", {}, word), ".")]);
  const sentences = choice("Sentence", twins, adjective, switched);
  sentences.querySelector("legend").className = "sr";
  place.append(sentences, question, answer, own, told);
  const askOwn = async (translator) => ownSentence(own, translator, new Set((await json("sentences.json")).known));
  whenAsked(own, "Type your own sentence", askOwn, false);
}

/** A field for a sentence of the reader's own, for the model that has been loaded, and the words that this one knows. */
function ownSentence(place, translator, known) {
  const field = make("input", { "aria-label": "an English sentence", class: "own", size: 60 });
  field.value = "The dog did not chase the cat because it was too tired.";
  const found = make("div", { class: "answer", role: "status" });
  const translate = (event) => {
    event?.preventDefault();
    const told = marked(field.value, known);
    if (!told) {
      found.replaceChildren("There is nothing to translate: type an English sentence.");
      return;
    }
    const state = look(translator, field.value);
    const pronouns = [...new Set(state.text.match(/\b(er|sie|es)\b/g))];
    const gloss = pronouns.map((word) => ` (${word}: ${GLOSSES[word]})`);
    found.replaceChildren(told, make("p", {}, make("b", { lang: "de" }, state.text), gloss), ...looks(state));
  };
  place.append(make("form", { onsubmit: translate }, field, " ", button("Translate", translate)), found);
  translate();
}

/** The translation, with its pronoun in bold and glossed. */
function translation(text, pronoun) {
  const [before, after] = text.split(new RegExp(`\\b${pronoun}\\b(?= zu )`));
  const meaning = pronoun === "es" ? "the animal" : "the street";
  return [make("span", { lang: "de" }, before, make("b", {}, pronoun), after), ` (${pronoun} is ${meaning})`];
}

/** The sentence once for each head, each word the darker the more "it" looks at it. */
function looks({ words, rows }) {
  return rows.map((row, i) =>
    make(
      "p",
      { class: "looks" },
      make("span", { class: "quiet" }, `What “it” looks at, in head ${HEADS[i] + 1}: `),
      words
        .filter((word, k) => word !== "end" || row[k] >= FAINT)
        .map((word, k) => [make("span", { style: row[k] < FAINT ? null : `--weight: ${row[k]}` }, word), " "]),
    ),
  );
}

const spoken = ({ words, rows }) =>
  rows.map((row, i) => `in head ${HEADS[i] + 1} ${looksAt("it", words, row)}`).join("; ");
