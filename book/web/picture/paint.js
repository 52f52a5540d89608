// Numbers as colours.
import { draw } from "../widgets/dom.js";

const COLOURS = [
  [216, 92, 8],
  [2, 98, 224],
  [36, 112, 220],
]; // above zero, below, weights

const painted = new WeakMap(); // of rows that were drawn before

/** A picture of numbers, a pixel each, with a gap below every row. */
export function image(rows, look, top, pitch) {
  if (!painted.has(rows)) painted.set(rows, paint(rows, look));
  const href = painted.get(rows);
  const size = { x: 0, y: top, width: 1, height: pitch * rows.length };
  return draw("image", { href, ...size, preserveAspectRatio: "none", class: "numbers" });
}

/** The same as the address of a picture. `look(value, most)` gives the number of a colour and its share. */
function paint(rows, look) {
  const [height, width] = [rows.length, Math.max(...rows.map(({ length }) => length))]; // those of the future are left out
  const canvas = Object.assign(document.createElement("canvas"), { width, height: 4 * height });
  const pixels = new ImageData(width, 4 * height);
  const most = Math.max(...rows.map((row) => row.reduce((large, value) => Math.max(large, Math.abs(value)), 0)));
  rows.forEach((row, r) =>
    row.forEach((value, x) => {
      const [colour, share] = look(value, most);
      for (let n = 0; n < 3; n++) pixels.data.set([...COLOURS[colour], 255 * share], 4 * ((4 * r + n) * width + x));
    }),
  );
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  return canvas.toDataURL();
}
