// Chapter 83: what one model writes, and where its decoder looks, now and at earlier steps.
import { draw, make, percent } from "../dom.js";
import { thumbnail } from "../grid.js";

/** A box for one model; `show(step, report, isCounted)` brings it up to date, `clear()` empties it. */
export function panel(name) {
  const [written, share, maps] = [make("p", {}), make("p", { class: "quiet" }), make("div", { class: "maps" })];
  const drawn = (step, report) => make("span", {}, picture(report), make("span", { class: "quiet" }, step));
  let now = null;
  const shown = {
    box: make("section", { class: "learner" }, make("h2", {}, name), written, share, maps),
    clear() {
      written.textContent = "writes nothing yet";
      share.textContent = "";
      now = null;
      maps.replaceChildren();
    },
    show(step, report, isCounted) {
      written.textContent = `writes: ${report.written.join(" ") || "nothing"}`;
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
