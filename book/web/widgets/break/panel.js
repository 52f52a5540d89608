// Chapter 83: what one model writes, and where its decoder looks, now and at earlier steps.
import { draw, make, percent } from "../dom.js";
import { thumbnail } from "../grid.js";

/**
 * A box for one model, with a piece of its line in the chart. `call(name)` names it, `show(step, report, isCounted)`
 * brings it up to date, `clear()` empties it.
 */
export function panel(line) {
  const [written, share, maps] = [make("p", {}), make("p", { class: "quiet" }), make("div", { class: "maps" })];
  const sample = draw("svg", { class: "plot sample", viewBox: "0 0 36 8", "aria-hidden": "true" });
  sample.append(draw("path", { class: line, d: "M 0 4 H 36" }));
  const name = make("span", {});
  const drawn = (step, report) =>
    make("span", {}, picture(report), make("span", { class: "quiet" }, step <= 50 ? `step ${step}` : step));
  let now = null;
  const shown = {
    box: make("div", { class: "learner" }, make("h2", {}, sample, name), written, share, maps),
    call(text) {
      name.textContent = text;
    },
    clear() {
      written.textContent = "writes nothing yet";
      share.textContent = "";
      now = null;
      maps.replaceChildren();
    },
    show(step, report, isCounted) {
      written.textContent = report.written.length ? `writes: ${report.written.join(" ")}` : "writes nothing";
      share.textContent = report.share === null ? "" : `${percent(report.share)} right`;
      now?.remove();
      now = drawn(step, report);
      maps.append(now);
      if (isCounted) now = null; // this one stays
    },
  };
  shown.clear();
  return shown;
}

/** A map, with its diagonal where the decoder looks at its own words. */
function picture({ look, map }) {
  const svg = thumbnail(map);
  if (look === "decoder") svg.append(draw("path", { d: `M 0 0 L ${map.length} ${map.length}` }));
  return svg;
}
