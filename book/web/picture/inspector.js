// What is touched, in words: its lines with weights and prices, and everything that can be done to it.
import { button, make, percent } from "../widgets/dom.js";
import { priced, rowOf } from "./drawing.js";
import { placeOf } from "./columns.js";
import { asCut, lineId, linesAt, PLACES } from "./lines.js";
import { isSame } from "./same.js";

const DOOR = { encoder: "encoder layer", decoder: "what is written, layer", cross: "door" };

/** Where something is, in words. */
const named = ({ kind, layer, head = null }) =>
  `${DOOR[kind]} ${layer + 1}${head === null ? "" : `, head ${head + 1}`}`;

/** A line of a change that was made, for the list of those that can be undone. */
export function described(name, one, { source, read, written }) {
  const key = (kind, n) => (kind === "decoder" ? read : source)[n];
  const query = (kind, n) => (kind === "encoder" ? source : written)[n];
  if (name === "cut") return `${query(one.kind, one.query)} no longer hears ${key(one.kind, one.key)} in ${named(one)}`;
  if (name === "off") return `${named(one)} is silent${one.query === null ? "" : ` for ${query(one.kind, one.query)}`}`;
  return one.at === "door"
    ? `door ${one.layer + 1} hears the twin's ${source[one.key]}`
    : `${source[one.key]} leaves encoder layer ${one.layer + 1} as in the twin`;
}

/** The word that is touched, its lines by place, and its buttons. `change(name, one)` makes or undoes a change. */
export function inspector(view, { open, change, hover }) {
  const { result, touched, state, cost } = view;
  const word = result[touched.side][touched.at];
  const { kind, layer, head } = placeOf(open);
  const isHere = (place) => {
    if (!kind) return true;
    if (place.layer !== layer) return false;
    if (head !== null) return place.kind === kind;
    return kind === "encoder" ? place.kind === kind : place.kind !== "encoder";
  };
  const groups = PLACES.filter(isHere)
    .map((place) => [{ ...place, head }, linesAt(result, place, touched, head)])
    .filter(([, lines]) => lines.length)
    .map(([place, lines]) => group(place, lines));
  const doing = [...silencing(view, { kind, layer, head }, change), ...giving(view, change)];
  return [
    make("h2", {}, touched.side === "source" ? `“${word}”` : `“${word}”, as it is written`),
    doing.length ? make("div", { class: "beside" }, doing) : null,
    groups.length ? make("div", { class: "places" }, groups) : make("p", { class: "quiet" }, "It is not heard here."),
  ].filter(Boolean);

  function group(place, lines) {
    return make(
      "section",
      {},
      make("h3", {}, named(place)),
      make(
        "ul",
        {},
        lines.map((line) => item(line)),
      ),
    );
  }

  function item(line) {
    const isCut = state.cut.some((one) => isSame(one, asCut(line)));
    const query = (line.kind === "encoder" ? result.source : result.written)[line.query];
    const key = (line.kind === "decoder" ? result.read : result.source)[line.key];
    const text = line.heard ? `hears ${key}` : `is heard by ${query}`;
    const who = line.heard && line.kind !== "encoder" && touched.side === "source" ? `${query} ` : "";
    return make(
      "li",
      { onmouseenter: () => hover(lineId(line)), onmouseleave: () => hover(null) },
      button(
        [
          make("span", {}, `${who}${text}`),
          make("b", {}, percent(line.weight)),
          make("span", {}, "cut: ", make("span", { "data-price": lineId(line) }, priced(cost(line), view))),
        ],
        () => change("cut", asCut(line)),
        { "aria-pressed": String(isCut), onfocus: () => hover(lineId(line)), onblur: () => hover(null) },
      ),
    );
  }
}

/** Buttons that silence the head that is open, for all words or for the one that is touched. */
function silencing({ result, touched, state }, place, change) {
  if (place.head === null) return [];
  const hears = rowOf(result, place, touched);
  const word = (place.kind === "encoder" ? result.source : result.written)[hears];
  const silent = (query, label) => {
    const one = { ...place, query };
    return button(label, () => change("off", one), {
      "aria-pressed": String(state.off.some((other) => isSame(one, other))),
    });
  };
  return [silent(null, "Silence this head"), silent(hears, `Silence it for “${word}” only`)];
}

/** Buttons that give a word the vector that it has in the twin. */
function giving(view, change) {
  const { result, touched, state } = view;
  if (touched.side !== "source" || !result.twins[touched.at]) return [];
  const places = [
    ["level", 0, "Give it the twin's vector after encoder layer 1"],
    ...view.doors.map((layer) => ["door", layer, `at door ${layer + 1}`]),
  ];
  return places.map(([at, layer, label]) => {
    const one = { at, layer, key: touched.at };
    return button(label, () => change("give", one), {
      "aria-pressed": String(state.give.some((other) => isSame(one, other))),
    });
  });
}
