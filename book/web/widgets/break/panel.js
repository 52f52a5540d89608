// Chapter 83: what one model writes, and where its decoder looks, now and at earlier steps.
import { draw, make, percent } from "../dom.js";
import { thumbnail } from "../grid.js";
import { wordedMap } from "./map.js";

const EVERY = 50; // steps: one of the small maps stays

/**
 * A box for one model, with a piece of its line in the chart. `clear(name, steps, room)` makes room for the maps of so
 * many steps, `show(step, report)` brings it up to date.
 */
export function panel(line) {
  const [written, share, map] = [make("p", {}), make("p", { class: "quiet" }), make("div", {})];
  const maps = make("div", { class: "maps" });
  const sample = draw("svg", { class: "plot sample", viewBox: "0 0 36 8", "aria-hidden": "true" });
  sample.append(draw("path", { class: line, d: "M 0 4 H 36" }));
  const name = make("span", {});
  const slot = (picture, step) => make("span", {}, picture, make("span", { class: "quiet" }, step));
  let room = null;
  return {
    box: make("div", { class: "learner" }, make("h2", {}, sample, name), written, share, map, maps),
    clear(text, steps, given) {
      name.textContent = text;
      written.textContent = "writes nothing yet";
      share.textContent = "not counted yet";
      room = given;
      map.replaceChildren(wordedMap(room));
      const ends = Array.from({ length: Math.ceil(steps / EVERY) }, (_, i) => Math.min(steps, EVERY * (i + 1)));
      maps.replaceChildren(...ends.map((end) => slot(make("span", { class: "empty" }), end)));
    },
    show(step, report) {
      written.textContent = report.written.length ? `writes: ${report.written.join(" ")}` : "writes nothing";
      if (report.share !== null) share.textContent = `${percent(report.share)} of unseen examples right`;
      map.replaceChildren(wordedMap({ ...room, columns: report.columns }, report));
      maps.children[Math.ceil(step / EVERY) - 1].replaceWith(slot(picture(report), step));
    },
  };
}

/** A map, with its diagonal where the decoder looks at its own words. */
function picture({ look, map }) {
  const svg = thumbnail(map);
  if (look === "decoder") svg.append(draw("path", { d: `M 0 0 L ${map.length} ${map.length}` }));
  return svg;
}
