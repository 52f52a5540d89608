// Chapter 32: one row of equation (1), stage by stage. A score can be moved, a key can be hidden.
import { choice, fixed, make, teller } from "./dom.js";
import { dot, softmax } from "../model/matrices.js";

const WORDS = ["I", "love", "you", "very", "much"]; // the sentence of the chapter, with its rows of Q, K and V
const QUERIES = [
  [-1, 1, 0, 1],
  [1, 1, 0, -1],
  [0, -1, -2, -1],
  [1, 2, 1, 2],
  [0, 1, 1, -1],
];
const KEYS = [
  [1, 0, -2, 1],
  [0, 1, 2, -1],
  [1, -2, 0, -1],
  [1, 2, 0, 0],
  [-1, 1, 0, 1],
];
const VALUES = [
  [1, 2, -3],
  [-1, 1, 1],
  [3, 2, -1],
  [-2, 1, 0],
  [-1, 0, -1],
];

/** All stages of a row: scaled scores, their exponentials, weights, and the blend of the values. */
export function stages(scores, visible, values, width) {
  const scaled = scores.map((score) => score / Math.sqrt(width));
  const masked = scaled.map((score, key) => (visible[key] ? score : -Infinity));
  const weights = softmax(masked);
  const output = values[0].map((_, c) => values.reduce((sum, value, key) => sum + weights[key] * value[c], 0));
  return { scaled, masked, powers: masked.map(Math.exp), weights, output };
}

const vector = (numbers, digits) => `(${numbers.map((number) => fixed(number, digits)).join(", ")})`;

export function mount(place) {
  let query = 4;
  let scores, visible;
  const [told, tell] = teller();
  const query_ = make("p", { class: "beside" });
  const body = make("tbody", {});
  const output = make("td", {});
  const heads = ["key", "score q · k", "divided by √4", "e to it", "weight", "value", "see"];
  const table = make(
    "table",
    { class: "equation" },
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        heads.map((head) => make("th", { scope: "col" }, head)),
      ),
    ),
    body,
    make(
      "tfoot",
      {},
      make(
        "tr",
        {},
        ...[5, 3].map((columns) =>
          make("th", { scope: "row", colspan: columns }, "output: the values, each times its weight, added up"),
        ), // the second one where two columns are hidden
        output,
        make("td", {}),
      ),
    ),
  );

  function rowOf(word, key) {
    const number = make("output", {});
    const score = make("input", { type: "range", min: -6, max: 6, step: 0.5, "aria-label": `score of ${word}` });
    const see = make("input", { type: "checkbox", "aria-label": `${word} may be seen` });
    const cells = Array.from({ length: 3 }, () => make("td", {}));
    score.addEventListener(
      "input",
      () => ((scores[key] = score.valueAsNumber), show(`The score of ${word} is now ${fixed(scores[key], 1)}.`)),
    );
    see.addEventListener(
      "change",
      () => (
        (visible[key] = see.checked),
        show(`${word} is ${see.checked ? "seen" : "hidden: its score counts as minus infinity"}.`)
      ),
    );
    const row = make(
      "tr",
      {},
      make("th", { scope: "row" }, word),
      make("td", { class: "score" }, score, number),
      cells,
      make("td", {}, vector(VALUES[key], 0)),
      make("td", {}, see),
    );
    return { row, score, number, see, cells };
  }
  const rows = WORDS.map(rowOf);
  body.append(...rows.map(({ row }) => row));

  function show(what = "") {
    const now = stages(scores, visible, VALUES, KEYS[0].length);
    rows.forEach(({ row, score, number, see, cells }, key) => {
      score.value = scores[key];
      number.textContent = fixed(scores[key], 1);
      see.checked = visible[key];
      row.classList.toggle("masked", !visible[key]);
      cells[0].textContent = fixed(now.masked[key], 2);
      cells[1].textContent = fixed(now.powers[key], 2);
      cells[2].replaceChildren(
        make("span", { class: "bar", style: `--share: ${now.weights[key]}` }),
        fixed(now.weights[key], 2),
      );
    });
    output.textContent = vector(now.output, 2);
    const best = now.weights.indexOf(Math.max(...now.weights));
    const most = visible.some(Boolean)
      ? `${WORDS[query]} takes most from ${WORDS[best]}, ${fixed(now.weights[best])} of the weight.`
      : "Nothing may be seen, so nothing comes out.";
    tell(`${what} ${most} Output: ${vector(now.output, 2)}.`.trim());
  }

  function ask(word) {
    query = WORDS.indexOf(word);
    scores = KEYS.map((key) => dot(QUERIES[query], key));
    visible = WORDS.map(() => true);
    query_.textContent = `Query of ${word}: ${vector(QUERIES[query], 0)}.`;
    show();
  }
  place.append(
    choice(
      "Who asks?",
      WORDS.map((word) => [word, word]),
      WORDS[query],
      ask,
    ),
    query_,
    make("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": "the stages of equation (1)" }, table),
    told,
  );
  ask(WORDS[query]);
}
