// Chapter 83: the losses of two models, drawn as they learn, before those of earlier runs.
import { draw, make } from "../dom.js";

const [WIDEST, HIGH, LEFT, RIGHT, ABOVE, BELOW] = [560, 216, 44, 24, 24, 26]; // pixels

/** `show(steps, runs, run, marked)` draws a run of so many steps over earlier ones, of which one may be marked. */
export function lossChart() {
  const label = "losses of both models against steps; that of the model without the part is dashed";
  const svg = draw("svg", { class: "plot", role: "img", "aria-label": label });
  const box = make("div", {}, svg);
  let shown = [0, [], null];
  new ResizeObserver(() => show(...shown)).observe(box);

  function show(...asked) {
    shown = asked;
    const [steps, runs, run, marked = null] = asked;
    const wide = Math.max(280, Math.min(WIDEST, box.clientWidth)); // text keeps its size on a phone
    const all = run ? [...runs, run] : runs;
    const last = Math.max(steps, ...all.map(({ settings }) => settings.steps));
    const highest = Math.max(...all.flatMap(({ losses }) => losses.flat()));
    const across = (step) => LEFT + ((wide - LEFT - RIGHT) * step) / last;
    const ticks = ticksTo(highest);
    const scale = Math.log(2 * Math.max(highest, ticks.at(-1)));
    const up = (loss) => HIGH - BELOW - ((HIGH - BELOW - ABOVE) * Math.log(2 * loss)) / scale;
    const lines = (one, kind) =>
      one.losses.map((losses, i) => {
        const points = losses.map((loss, k) => `${across(one.steps[k]).toFixed(1)} ${up(loss).toFixed(1)}`);
        return draw("path", { class: `${i ? "other" : "curve"} ${kind}`, d: `M ${points.join(" L ") || "0 0"}` });
      });
    const text = (x, y, anchor, what) => draw("text", { x, y, "text-anchor": anchor }, what);
    svg.setAttribute("viewBox", `0 0 ${wide} ${HIGH}`);
    svg.replaceChildren(
      draw("path", { d: `M ${LEFT} ${ABOVE} V ${HIGH - BELOW} H ${wide - RIGHT}` }),
      ...ticks.map((loss) => text(LEFT - 6, up(loss) + 4, "end", loss < 1e5 ? loss : loss.toExponential())),
      ...[0, last / 2, last].map((step) => text(across(step), HIGH - 8, "middle", step)),
      text(4, 13, "start", "loss (log scale)"),
      text(across(0.75 * last), HIGH - 8, "middle", "step"),
      ...runs.flatMap((one) => lines(one, one === marked ? "" : "faint")),
      ...(run ? lines(run, marked ? "faint" : "") : []),
    );
  }
  return { box, show };
}

/** What stands beside the axis, which begins at 0.5: no smoothed loss goes below. */
function ticksTo(highest) {
  if (highest <= 4) return [0.5, 1, 2, 4];
  const powers = Math.ceil(Math.log10(highest));
  const apart = Math.ceil(powers / 5);
  return Array.from({ length: Math.floor(powers / apart) + 1 }, (_, i) => 10 ** (i * apart));
}
