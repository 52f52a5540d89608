// One column of the scene: its box, its head, its contents, and what can be done in it.
import { draw } from "../widgets/dom.js";
import { contents, HEAD, header, LINE, sideOf } from "./drawing.js";
import { isSame } from "./same.js";

/**
 * { group, stretch, letters } of a column at a place: `stretch` is a unit wide, and `letters`, [share of the width,
 * element], keep their size.
 */
export function drawColumn(column, { width, isOpen, isSeen, isSliver }, view, height) {
  const made = isOpen ? {} : contents(column, view);
  const kind = `box ${column.isFixed ? "" : sideOf(column.id)} ${column.isLayer ? "layer" : ""}`;
  const box = draw("rect", { x: 0, y: HEAD - 4, width: 1, height: height - HEAD, class: kind });
  const door = column.children && doorOf(column, isSliver ? height : HEAD - 4, isOpen, isSeen);
  const stretch = draw("g", {}, box, made.stretch ?? [], door ?? [], isSliver ? [] : gift(column, view));
  const anchored = (anchor, more) => (parts) => draw("g", { "text-anchor": anchor, ...more }, parts);
  const named = [...header(column, { width, isOpen, isSliver }), ...(isSliver || isOpen ? [] : silencer(column, view))];
  const letters = [
    [0.5, anchored("middle", { class: "top" })(named)],
    ...["start", "middle", "end"].map((anchor, n) => [n / 2, anchored(anchor)(made[anchor] ?? [])]),
    ...(made.labels ?? []).map(([share, anchor, text, isSeen]) => [
      share,
      anchored(anchor, { class: isSeen ? "label matters" : "label" })(text),
    ]),
  ];
  const name = `column${isOpen ? " open" : ""}${isSeen ? "" : " leaving"}`;
  const group = draw("g", { class: name, "data-column": column.id }, stretch, ...letters.map(([, one]) => one));
  const words = column.draws === "words" ? (made.start ?? made.end) : [];
  return { group, stretch, letters, words, places: column.places?.length ?? 1 };
}

/** What opens and closes a column. */
function doorOf({ id, name }, height, isOpen, isSeen) {
  return draw("rect", {
    x: 0,
    y: 0,
    width: 1,
    height,
    class: "door",
    role: "button",
    tabindex: isSeen ? 0 : -1,
    "data-open": id,
    "aria-label": `${name}: ${isOpen ? "zoom out" : "zoom in"}`,
    "aria-expanded": String(isOpen),
  });
}

/** Below the name of a head: what silences it, for all words. */
function silencer({ places }, { state }) {
  const [place] = places ?? [];
  if (!place || place.head === null || !state) return [];
  const off = { ...place, query: null };
  const isOff = state.off.some((one) => isSame(one, off));
  const title = draw("title", {}, isOff ? "let it speak again" : "silence this head");
  return [
    draw("text", { y: 3.7 * LINE, class: "silencer", "data-off": JSON.stringify(off) }, isOff ? "silent" : "✕", title),
  ];
}

/** Where a vector leaves the encoder's first layer, or what a door hears: what gives the word that of the twin. */
function gift({ id }, { state, touched, result, y, pitch }) {
  const [, at, layer] = /^encoder\.(\d)\.out$/.exec(id)
    ? ["", "level", id[8]]
    : (/^(cross)\.(\d)\.\d\.key$/.exec(id) ?? []);
  if (!at || !state || touched.side !== "source" || !result.twins[touched.at]) return [];
  const one = { at: at === "cross" ? "door" : at, layer: Number(layer), key: touched.at };
  const isGiven = state.give.some((other) => isSame(one, other));
  const title = draw("title", {}, isGiven ? "its own vector again" : "give it the twin's vector");
  const place = { x: 0, y: y(touched.at) - pitch / 2, width: 1, height: pitch - 2 };
  return [draw("rect", { ...place, class: `gift${isGiven ? " given" : ""}`, "data-give": JSON.stringify(one) }, title)];
}
