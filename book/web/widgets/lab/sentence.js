// The sentence of an experiment: put together from what the grammar knows, or typed.
import { choice, make } from "../dom.js";
import { chips } from "../sentences.js";
import { START } from "./address.js";

const WORD = /[\p{L}\p{N}]+(?:'s)?|[^\s\p{L}\p{N}]/gu;

/** The words of a text with whether the model has met them in training. */
export function wordsOf(text, known) {
  return (text.match(WORD) ?? []).map((word) => {
    const lower = word.toLowerCase();
    return { word, known: known.has(lower) || (lower.endsWith("'s") && known.has(lower.slice(0, -2))) };
  });
}

/** The words of a text as a line in which those are marked that the model has never met; nothing for no words. */
export function marked(text, known) {
  const words = wordsOf(text, known);
  if (!words.length) return null;
  const shown = words.map((one) => [
    one.known ? one.word : make("mark", {}, one.word, make("span", { class: "sr" }, " (unknown)")),
    " ",
  ]);
  const isStrange = words.some((one) => !one.known);
  const said = isStrange ? "Marked words were never seen in training: " : "All these words were seen in training: ";
  return make("p", { class: "quiet" }, said, shown);
}

/** `sentences` is what the grammar offers; `onchange({ say, twin })`. */
export function sentencePanel(sentences, onchange) {
  const known = new Set(sentences.known);
  const [body, answer] = [make("div", {}), make("p", { class: "quiet" })];
  let typed = false;
  const mode = choice(
    "The sentence is",
    [
      ["chosen", "put together"],
      ["typed", "typed"],
    ],
    "chosen",
    (value) => {
      typed = value === "typed";
      if (!typed && !sentences.find(now.say)) onchange({ say: START.say, twin: START.twin });
      else show(now);
    },
  );
  const box = make("div", {}, mode, body, answer);
  let now = null;

  const textsOf = (choice_, adjective) => {
    return { say: sentences.text(choice_).source, twin: sentences.text(sentences.twin(choice_, adjective)).source };
  };

  function line(label, name, value) {
    const input = make("input", { "aria-label": label, spellcheck: "false", class: "line" });
    input.value = value;
    input.addEventListener("change", () => onchange({ [name]: input.value }));
    return make("p", {}, make("label", {}, label, input));
  }

  function show(state) {
    now = state;
    const found = sentences.find(state.say);
    typed ||= !found;
    mode.querySelectorAll("input").forEach((input) => (input.checked = (input.value === "typed") === typed));
    if (typed) {
      const lines = [
        line("sentence ", "say", state.say),
        marked(state.say, known),
        line("its twin, to paste attention from ", "twin", state.twin),
      ];
      body.replaceChildren(...lines.filter(Boolean));
      answer.textContent = `The model knows ${sentences.known.length} English words and one kind of grammar. Of anything else it makes what it can.`;
      return;
    }
    const adjective = sentences.find(state.twin)?.adjective;
    const twin = sentences.twin(found, adjective);
    const others = sentences.frames[found.frame].adjectives.find((side) => side.includes(twin.adjective));
    body.replaceChildren(
      chips(sentences, found, (choice_) => onchange(textsOf(choice_, twin.adjective))),
      others.length > 1
        ? choice(
            "Its twin says",
            others.map((word) => [word, word]),
            twin.adjective,
            (word) => onchange(textsOf(found, word)),
          )
        : make("p", {}, `Its twin says ${twin.adjective}.`),
    );
    answer.replaceChildren("right: ", make("b", {}, sentences.text(found).target));
  }
  return {
    box,
    show,
    answerTo: (say) => {
      const found = sentences.find(say);
      return found && sentences.text(found).target;
    },
  };
}
