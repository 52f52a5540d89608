// What stands in a column: pictures that stretch with it (a unit wide), and letters that do not.
import { draw, fixed, percent } from "../widgets/dom.js";
import { lineId, linesAt, sourceOf } from "./lines.js";
import { image } from "./paint.js";

export const HEAD = 62; // pixels above the first row
export const LINE = 13; // of a header
const LABELS = 74; // the least width of a column that says what it does

/** Whose rows a column shows: of the source, of what the decoder has read, or of what it writes. */
export const sideOf = (id) =>
  id === "source" || id.startsWith("encoder") || /^cross.*(key|value|score|weight|cost)$/.test(id)
    ? "source"
    : "written";

/** The numbers of a strip: a vector for each row. */
function numbersOf({ attentions, vectors }, id) {
  const [, place, head, part] = /^((?:encoder|decoder|cross)\.\d+)\.(\d+)\.(\w+)$/.exec(id) ?? [];
  return part ? attentions[place][part][head] : vectors[id];
}

/** The names of a column, in lines. */
export function header(column, { width, isOpen, isSliver }) {
  const least = 8 * Math.max(...(column.short ?? column.name).split(" ").map((word) => word.length)); // pixels
  if (isSliver || isOpen || width < least) return [];
  const room = Math.floor(width / 7.2);
  const isWide = Math.max(...column.name.split(" ").map((word) => word.length)) <= room;
  const name = column.short && (!isWide || column.group !== undefined) ? column.short : column.name;
  const wrapped = (text) =>
    text.split(" ").reduce(
      (lines, word) => {
        const joined = `${lines.at(-1)} ${word}`.trim();
        return joined.length <= room || !lines.at(-1) ? [...lines.slice(0, -1), joined] : [...lines, word];
      },
      [""],
    );
  const said = column.says && width > LABELS ? wrapped(column.says) : [];
  const lines = [
    ...wrapped(name)
      .slice(0, 2)
      .map((text) => [text, "name"]),
    ...said.slice(0, 2).map((text) => [text, "says"]),
  ];
  const first = column.short && column.group !== undefined ? 2 : 1; // heads stand below the name of their group
  const group = column.group ? [draw("text", { y: LINE, x: -width / 2, class: "says group" }, column.group)] : [];
  return [...group, ...lines.map(([text, kind], n) => draw("text", { y: LINE * (first + n), class: kind }, text))];
}

/** The lines of what is touched, from keys on the left to queries on the right; of two places each has its half. */
function lines(column, view) {
  const { result, touched, y, cost } = view;
  const share = 1 / column.places.length;
  const [stretch, start] = [[], []];
  column.places.forEach((place, n) => {
    const [from, to] = [share * n + 0.02, share * (n + 1) - 0.02];
    const middle = (from + to) / 2;
    for (const line of linesAt(result, place, touched, place.head)) {
      if (place.kind === "encoder" && place.head !== null && !line.heard) continue; // the list has them, and the matrix
      const id = lineId(line);
      const [a, b] = [y(line.key), y(line.query)];
      const d = `M ${from} ${a} C ${middle} ${a}, ${middle} ${b}, ${to} ${b}`;
      const price = cost(line);
      const kind = `line ${place.kind} ${line.heard ? "heard" : "hearing"}${price?.isOther ? " turns" : ""}`;
      stretch.push(draw("path", { d, class: kind, "stroke-width": 1 + 7 * line.weight, "data-line": id }));
      if (view.isSliver(column.id)) continue; // too narrow for more
      stretch.push(draw("path", { d, class: "grip", "data-line": id }));
      const word = place.kind === "cross" ? `${result.source[line.key]} ` : "";
      const row = line.heard ? a : b;
      const told = draw(
        "text",
        { y: row - 4, "data-line": id },
        `${word}${percent(line.weight)} `,
        draw("tspan", { "data-price": id, class: price?.isOther ? "turns" : null }, priced(price, view)),
      );
      const isLeft = line.heard && !view.isNarrow; // on a phone a label may need the room of its neighbour
      start.push([isLeft ? from : to, isLeft ? "start" : "end", told, matters(price, view)]);
    }
  });
  return { stretch, labels: start };
}

/** Whether a cut costs anything that one can see. */
export const matters = (price, { result }) =>
  price !== null &&
  price !== undefined &&
  (price.isOther || Math.abs(price.share - result.likeliest[0].share) >= 0.005);

/** What a cut costs, in a few letters: how many points of the watched word's chance, or the word that comes instead. */
export function priced(price, { result }) {
  if (!price) return "…";
  if (price.isOther) return `→ ${price.word}`;
  const points = 100 * (price.share - result.likeliest[0].share);
  return !matters(price, { result }) ? "0" : `${points < 0 ? "−" : "+"}${Math.abs(points).toFixed(0)}`;
}

/** A word for each row: one can touch it. */
function words({ id }, { result, y }) {
  const side = id === "source" ? "source" : "written";
  const kind = { source: "English", read: "read by the decoder", written: "written" }[id];
  const watched = { read: result.watch + 1, written: result.watch }[id];
  const word = (text, at) => {
    const isChanged = id === "written" && text !== result.writtenBefore[at];
    const names = { changed: isChanged, watched: at === watched };
    return draw(
      "text",
      {
        y: y(at),
        class: ["word", ...Object.keys(names).filter((name) => names[name])].join(" "),
        role: "button",
        "data-side": side,
        "data-at": at,
        lang: side === "source" || text === "start" || text === "end" ? null : "de",
        "aria-label": `${text}, ${kind}`,
      },
      text,
    );
  };
  return { [id === "source" ? "end" : "start"]: result[id].map(word) };
}

/** Vectors as rows of colour. */
function strip(column, { result, pitch, y }) {
  const rows = numbersOf(result, column.id);
  return {
    stretch: [
      image(rows, (value, most) => [value < 0 ? 1 : 0, Math.sqrt(Math.abs(value) / most)], y(0) - pitch / 2, pitch),
    ],
  };
}

/** All weights of a head: a row for each word that asks. */
function matrix(column, { result, pitch, y, touched }) {
  const rows = numbersOf(result, `${column.at.kind}.${column.at.layer}.${column.at.head}.weights`);
  const at = rowOf(result, column.at, touched);
  const frame = draw("rect", { x: 0, y: y(at) - pitch / 2 + 1, width: 1, height: pitch - 4, class: "frame" });
  return { stretch: [image(rows, (value) => [2, value], y(0) - pitch / 2, pitch), frame] };
}

/** Which row of an attention belongs to what is touched. */
export function rowOf(result, { kind }, { side, at }) {
  if (kind === "encoder") return sourceOf(result, { side, at });
  return side === "written" ? at : result.watch;
}

/** Equation (1) with the numbers of one row: score, softmax, price. */
function row(column, view) {
  const { result, touched, y, cost } = view;
  const { at, draws } = column;
  const { query, key, weights } = result.attentions[`${at.kind}.${at.layer}`];
  const asks = rowOf(result, at, touched);
  const [q, w] = [query[at.head][asks], weights[at.head][asks]];
  const score = (k) => key[at.head][k].reduce((sum, value, n) => sum + value * q[n], 0) / Math.sqrt(q.length);
  const numbers = [...w.keys()];
  const told = {
    score: (k) => fixed(score(k)),
    weight: (k) => fixed(w[k]),
  }[draws];
  const price = (line) => draw("tspan", { "data-price": lineId(line) }, priced(cost(line), view));
  if (draws === "cost") {
    const heard = linesAt(result, at, touched, at.head).filter((line) => line.query === asks);
    return { middle: heard.map((line) => draw("text", { y: y(line.key), "data-line": lineId(line) }, price(line))) };
  }
  const bars =
    draws === "weight"
      ? numbers.map((k) => draw("rect", { x: 0, y: y(k) - 8, width: w[k], height: 16, class: "bar" }))
      : [];
  return { stretch: bars, middle: numbers.map((k) => draw("text", { y: y(k) }, told(k))) };
}

const DRAWN = { lines, words, strip, matrix, score: row, weight: row, cost: row };

/** A column's contents, by how they move: `stretch`, `start`, `middle`, `end`, and `labels` at shares of the width. */
export const contents = (column, view) => DRAWN[column.draws](column, view);
