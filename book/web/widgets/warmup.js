// Chapter 53: equation (3), the learning rate over the steps, with the warm-up and the width to choose.
import { draw, make, slider, teller } from "./dom.js";

const [WIDEST, HIGH, LEFT, BELOW] = [560, 240, 56, 30]; // pixels
const STEPS = 40000;
const TOPS = [0.001, 0.002, 0.004, 0.008]; // where the axis of the rate may end
const BASE = [512, 4000]; // the paper's width and warm-up

/** d_model^-0.5 min(step^-0.5, step warmup^-1.5). */
export const rate = (step, width, warmup) => width ** -0.5 * Math.min(step ** -0.5, step * warmup ** -1.5);

export function mount(place) {
  let [width, warmup] = BASE;
  const [told, tell] = teller();
  const wide = Math.max(280, Math.min(WIDEST, place.clientWidth)); // text keeps its size on a phone
  const [ticks, paper, curve] = [draw("g", {}), draw("path", { class: "other" }), draw("path", { class: "curve" })];
  const [peak, name] = [draw("circle", { r: 4 }), draw("text", {})];
  const frame = {
    viewBox: `0 0 ${wide} ${HIGH}`,
    class: "plot",
    role: "img",
    "aria-label": "learning rate against steps",
  };
  const svg = draw("svg", frame, ticks, paper, curve, peak, name);
  const across = (step) => LEFT + ((wide - LEFT - 24) * step) / STEPS;

  function show() {
    const highest = rate(warmup, width, warmup);
    const top = TOPS.find((value) => value >= highest);
    const up = (value) => HIGH - BELOW - ((HIGH - BELOW - 8) * value) / top;
    ticks.replaceChildren(...axes(wide, top, across, up));
    paper.setAttribute("d", path(across, up, ...BASE));
    curve.setAttribute("d", path(across, up, width, warmup));
    const [x, y] = [across(warmup), up(highest)];
    for (const [attribute, value] of [
      ["cx", x],
      ["cy", y],
    ])
      peak.setAttribute(attribute, value);
    for (const [attribute, value] of [
      ["x", x + 8],
      ["y", Math.max(12, y - 6)],
    ])
      name.setAttribute(attribute, value);
    name.textContent = `peak ${highest.toFixed(5)}`;
    const change = highest / rate(BASE[1], ...BASE);
    const steps = (count) => count.toLocaleString("en");
    tell(
      `With ${steps(warmup)} steps of warm-up and a width of ${width} the rate peaks at ${highest.toFixed(5)}, ${change.toFixed(2)} times that of the paper's base model (dashed). Then it falls with the square root of the step: at step ${steps(STEPS)} it is ${rate(STEPS, width, warmup).toFixed(5)}, whatever the warm-up.`,
    );
  }
  const rounded = (value) => 100 * Math.round(10 ** value / 100);
  place.append(
    slider(
      "warm-up, steps",
      {
        min: Math.log10(500),
        max: Math.log10(20000),
        step: 0.01,
        value: Math.log10(warmup),
        told: (value) => rounded(value).toLocaleString("en"),
      },
      (value) => ((warmup = rounded(value)), show()),
    ),
    slider(
      "width d_model",
      { min: 6, max: 11, value: Math.log2(width), told: (value) => String(2 ** value) },
      (value) => ((width = 2 ** value), show()),
    ),
    make("div", {}, svg),
    told,
  );
  show();
}

function path(across, up, width, warmup) {
  const steps = Array.from({ length: 200 }, (_, i) => 1 + ((STEPS - 1) * i) / 199)
    .concat(warmup)
    .sort((a, b) => a - b);
  return `M ${steps.map((step) => `${across(step).toFixed(1)} ${up(rate(step, width, warmup)).toFixed(1)}`).join(" L ")}`;
}

function axes(wide, top, across, up) {
  const label = (x, y, anchor, text) => draw("text", { x, y, "text-anchor": anchor }, text);
  return [
    draw("path", { d: `M ${LEFT} 4 V ${HIGH - BELOW} H ${wide - 24}` }),
    ...[0, 10, 20, 30, 40].map((thousand) =>
      label(across(1000 * thousand), HIGH - 12, "middle", thousand ? `${thousand},000` : "0"),
    ),
    ...[1, 2, 3, 4].map((quarter) =>
      label(LEFT - 6, up((top * quarter) / 4) + 4, "end", ((top * quarter) / 4).toFixed(5).replace(/0$/, "")),
    ),
  ];
}
