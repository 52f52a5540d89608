// Chapter 83: the losses of two models, drawn as they learn.
import { draw, make } from "../dom.js";

const [WIDEST, HIGH, LEFT, BELOW] = [560, 200, 40, 26]; // pixels
const TOP = 4; // where the axis of the loss ends

/** A chart of that width at most; `add(step, steps, losses)` makes its two lines longer. */
export function lossChart(room) {
  const wide = Math.max(280, Math.min(WIDEST, room)); // text keeps its size on a phone
  const lines = [draw("path", { class: "curve" }), draw("path", { class: "other" })];
  const ticks = draw("g", {});
  const label = "losses of both models against steps; that of the model without the part is dashed";
  const svg = draw(
    "svg",
    { viewBox: `0 0 ${wide} ${HIGH}`, class: "plot", role: "img", "aria-label": label },
    ticks,
    lines,
  );
  let points = [[], []];

  function axes(steps) {
    const text = (x, y, anchor, what) => draw("text", { x, y, "text-anchor": anchor }, what);
    ticks.replaceChildren(
      draw("path", { d: `M ${LEFT} 4 V ${HIGH - BELOW} H ${wide - 24}` }),
      ...[0, 1, 2, 3, 4].map((value) => text(LEFT - 6, up(value) + 4, "end", value)),
      ...[0, steps / 2, steps].map((step) => text(across(step, steps), HIGH - 8, "middle", step)),
      text(LEFT + 6, 16, "start", "loss"),
      text(across(0.75, 1), HIGH - 8, "middle", "step"),
    );
  }
  const across = (step, steps) => LEFT + ((wide - LEFT - 24) * step) / steps;
  const up = (value) => HIGH - BELOW - ((HIGH - BELOW - 8) * Math.min(TOP, value)) / TOP;
  return {
    box: make("div", {}, svg),
    clear(steps) {
      points = [[], []];
      lines.forEach((line) => line.setAttribute("d", ""));
      axes(steps);
    },
    add(step, steps, losses) {
      losses.forEach((loss, i) => {
        points[i].push(`${across(step, steps).toFixed(1)} ${up(loss).toFixed(1)}`);
        lines[i].setAttribute("d", `M ${points[i].join(" L ")}`);
      });
    },
  };
}
