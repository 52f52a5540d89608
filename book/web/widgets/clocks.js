// Chapter 35: each pair of sine and cosine is the hand of a clock; a shift turns every clock by an angle of its own.
import { draw, fixed, make, slider, teller } from "./dom.js";
import { sinusoidalEncoding } from "../model/positional_encoding.js";

const WIDTH = 8; // numbers in a vector: four clocks
const RADIUS = 34;

export function mount(place) {
  let [position, shift] = [3, 5];
  const [told, tell] = teller();
  const faces = Array.from({ length: WIDTH / 2 }, (_, i) => clock(i));
  const rows = ["position", "later"].map((name) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }),
      Array.from({ length: WIDTH }, () => make("td", {})),
    ),
  );

  function show() {
    const vectors = [position, position + shift].map((at) => sinusoidalEncoding(at, WIDTH));
    faces.forEach(({ turn }) => turn(...vectors));
    vectors.forEach((vector, r) => {
      rows[r].cells[0].textContent = r ? `${position} + ${shift}` : `position ${position}`;
      vector.forEach((value, c) => (rows[r].cells[c + 1].textContent = fixed(value)));
    });
    const product = vectors[0].reduce((sum, value, c) => sum + value * vectors[1][c], 0);
    const turns = Array.from({ length: WIDTH / 2 }, (_, i) => `${Math.round((shift * rate(i) * 180) / Math.PI)}°`);
    tell(
      `A shift of ${shift} turns the clocks by ${turns.join(", ")}, from wherever they stand. The dot product of the two rows is ${fixed(product)}: it depends on the shift alone.`,
    );
  }
  place.append(
    slider("position", { min: 0, max: 40, value: position }, (value) => ((position = value), show())),
    slider("shift", { min: 0, max: 20, value: shift }, (value) => ((shift = value), show())),
    make(
      "div",
      { class: "clocks" },
      faces.map(({ box }) => box),
    ),
    make(
      "div",
      { class: "scrolls", tabindex: 0, role: "group", "aria-label": "the two vectors" },
      make("table", { class: "numbers" }, rows),
    ),
    told,
  );
  show();
}

/** The angle by which one position turns clock i. */
const rate = (i) => 10000 ** ((-2 * i) / WIDTH);

/** A face with two hands: where the clock stands at a position, and at a later one. */
function clock(i) {
  const hand = (name) => draw("line", { x1: 0, y1: 0, class: name });
  const [first, second] = [hand("first"), hand("second")];
  const arc = draw("path", { class: "turned" });
  const size = RADIUS + 8;
  const svg = draw(
    "svg",
    { viewBox: `${-size} ${-size} ${2 * size} ${2 * size}`, role: "img", "aria-label": `clock ${i + 1}` },
    draw("circle", { r: RADIUS }),
    arc,
    second,
    first,
  );
  const box = make("div", {}, svg, make("small", {}, `${2 * i + 1} and ${2 * i + 2}`));

  /** The hand points to (sine, cosine), as on a clock: up at position 0, then to the right. */
  const turn = (...vectors) => {
    const ends = vectors.map((vector) => [RADIUS * vector[2 * i], -RADIUS * vector[2 * i + 1]]);
    [first, second].forEach((line, n) => {
      line.setAttribute("x2", ends[n][0]);
      line.setAttribute("y2", ends[n][1]);
    });
    const [[x1, y1], [x2, y2]] = ends.map(([x, y]) => [x / 2, y / 2]);
    const angle = Math.atan2(x1 * y2 - y1 * x2, x1 * x2 + y1 * y2);
    const [large, sweep] = [0, angle > 0 ? 1 : 0];
    arc.setAttribute("d", `M ${x1} ${y1} A ${RADIUS / 2} ${RADIUS / 2} 0 ${large} ${sweep} ${x2} ${y2}`);
  };
  return { box, turn };
}
