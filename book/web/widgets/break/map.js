// Chapter 83: where a decoder looks, with the words that write as rows and those that are looked at as columns.
import { draw } from "../dom.js";

const [CELL, LETTER, GAP] = [16, 7.8, 5]; // pixels: a weight, a wide letter, and between word and weight

/**
 * A map in which `height` rows have room, with words of so many letters beside them. A diagonal is drawn where the
 * decoder looks at its own words. Without a report there are the columns only.
 */
export function wordedMap({ columns, height, letters }, { rows = [], map, look } = {}) {
  const longest = Math.max(...columns.map((word) => word.length));
  const [left, top] = [LETTER * letters + GAP, (longest > 1 ? LETTER * longest : 12) + GAP];
  const [wide, high] = [CELL * columns.length, CELL * Math.max(height, rows.length)];
  const above = (word, x) => {
    const [right, turned] = word.length > 1 ? [12, "rotate(-90)"] : [4, ""];
    return draw("text", { transform: `translate(${left + CELL * x + right} ${top - GAP}) ${turned}` }, word);
  };
  const beside = (word, y) => [
    draw("text", { x: left - GAP, y: top + CELL * y + 12, "text-anchor": "end" }, word),
    [...map[y]].map((weight, x) =>
      draw("rect", { x: left + CELL * x, y: top + CELL * y, width: CELL, height: CELL, opacity: weight }),
    ),
  ];
  const viewBox = `0 0 ${left + wide + 1} ${top + high + 1}`;
  const most = (weights) => columns[weights.indexOf(Math.max(...weights))];
  const label = rows.map((word, y) => `${word} looks most at ${most(map[y])}`).join(", ");
  return draw(
    "svg",
    { class: "worded", viewBox, width: left + wide + 1, role: "img", "aria-label": label || "no map yet" },
    columns.map(above),
    rows.flatMap(beside),
    draw("path", { d: `M ${left} ${top} h ${wide} v ${high} h ${-wide} z` }),
    look === "decoder" ? draw("path", { class: "diagonal", d: `M ${left} ${top} l ${wide} ${high}` }) : [],
  );
}
