// Chapter 53: equation (3), the learning rate over the steps, with the warm-up and the width to choose.
import { draw, make, slider, teller } from "./dom.js";

const [WIDE, HIGH, LEFT, BELOW] = [560, 240, 62, 30];
const STEPS = 40000;

/** d_model^-0.5 min(step^-0.5, step warmup^-1.5). */
export const rate = (step, width, warmup) => width ** -0.5 * Math.min(step ** -0.5, step * warmup ** -1.5);

const small = (number) => number.toPrecision(2).replace(/e-(\d)/, " · 10^−$1");

export function mount(place) {
  let [warmup, width] = [4000, 512];
  const [told, tell] = teller();
  const [paper, curve, peak, name] = [draw("path", { class: "other" }), draw("path", { class: "curve" }), draw("circle", { r: 4 }), draw("text", {})];
  const svg = draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "plot", role: "img", "aria-label": "learning rate against steps" }, axes(), paper, curve, peak, name);
  paper.setAttribute("d", path(512, 4000));

  function show() {
    const highest = rate(warmup, width, warmup);
    curve.setAttribute("d", path(width, warmup));
    const [x, y] = [across(warmup), up(highest)];
    peak.setAttribute("cx", x);
    peak.setAttribute("cy", y);
    name.setAttribute("x", x + 8);
    name.setAttribute("y", Math.max(12, y - 6));
    name.textContent = `peak ${small(highest)}`;
    const change = highest / rate(4000, 512, 4000);
    tell(`With ${warmup.toLocaleString("en")} steps of warm-up and a width of ${width} the rate peaks at ${small(highest)}, ${change.toFixed(2)} times that of the paper's base model (dashed). Then it falls with the square root of the step: at step ${STEPS.toLocaleString("en")} it is ${small(rate(STEPS, width, warmup))}, whatever the warm-up.`);
  }
  const logarithmic = { told: (value) => Math.round(10 ** value / 100).toLocaleString("en") + "00" };
  place.append(
    slider("warm-up, steps", { min: Math.log10(500), max: Math.log10(20000), step: 0.01, value: Math.log10(warmup), ...logarithmic },
      (value) => ((warmup = 100 * Math.round(10 ** value / 100)), show())),
    slider("width d_model", { min: 6, max: 11, value: 9, told: (value) => String(2 ** value) }, (value) => ((width = 2 ** value), show())),
    svg, told,
  );
  show();
}

const HIGHEST = 0.002;
const across = (step) => LEFT + ((WIDE - LEFT - 24) * step) / STEPS;
const up = (value) => HIGH - BELOW - ((HIGH - BELOW - 8) * Math.min(value, HIGHEST)) / HIGHEST;

function path(width, warmup) {
  const steps = Array.from({ length: 200 }, (_, i) => 1 + ((STEPS - 1) * i) / 199).concat(warmup).sort((a, b) => a - b);
  return `M ${steps.map((step) => `${across(step).toFixed(1)} ${up(rate(step, width, warmup)).toFixed(1)}`).join(" L ")}`;
}

function axes() {
  const lines = [`M ${LEFT} 4 V ${HIGH - BELOW} H ${WIDE - 24}`];
  const labels = [];
  for (const step of [10000, 20000, 30000, 40000]) labels.push(draw("text", { x: across(step), y: HIGH - 12, "text-anchor": "middle" }, `${step / 1000},000`));
  for (const value of [0.0005, 0.001, 0.0015, 0.002]) labels.push(draw("text", { x: LEFT - 6, y: up(value) + 4, "text-anchor": "end" }, value.toFixed(4)));
  labels.push(draw("text", { x: across(0), y: HIGH - 12, "text-anchor": "middle" }, "0"));
  return [draw("path", { d: lines[0], class: "axis" }), ...labels];
}
