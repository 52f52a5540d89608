// Attention as lines: words that ask on the left, words that are asked on the right, a curve for each weight.
import { draw, fixed, make } from "./dom.js";

const ROW = 28; // pixels, as in widgets.css
const WIDTH = 100;

/** `onpoint(query)` hears which word is pointed at or has the focus, null when none is. */
export function arcs(label, onpoint = () => {}) {
  const left = make("ol", { class: "asking" });
  const right = make("ol", { class: "asked" });
  const curves = draw("svg", { "aria-hidden": "true", preserveAspectRatio: "none" });
  const box = make("div", { class: "arcs", role: "group", "aria-label": label }, left, curves, right);
  let now = { queries: [], keys: [], weights: [] };
  let pinned = null;

  function point(query) {
    const active = query ?? pinned;
    curves.replaceChildren(...lines(now.weights, active));
    [...left.children].forEach((item, i) => {
      item.classList.toggle("active", i === active);
      item.firstChild.setAttribute("aria-pressed", i === pinned);
    });
    [...right.children].forEach((item, key) => {
      const weight = active === null ? 0 : (now.weights[active][key] ?? 0);
      item.style.setProperty("--weight", weight);
      item.lastChild.textContent = active === null || weight < 0.005 ? "" : fixed(weight);
    });
    onpoint(active);
  }

  function asking(word, i) {
    const press = () => {
      pinned = pinned === i ? null : i;
      point(i);
    };
    const listeners = { onclick: press, onfocus: () => point(i), onmouseenter: () => point(i) };
    listeners.onblur = listeners.onmouseleave = () => point(null);
    return make("li", {}, make("button", { type: "button", "aria-pressed": "false", ...listeners }, word));
  }

  /** Other weights, perhaps of other words; then the word `query` is pinned, if there is one. */
  function show(queries, keys, weights, query = null) {
    const same = String(queries) === String(now.queries) && String(keys) === String(now.keys);
    now = { queries, keys, weights };
    if (!same) {
      pinned = query;
      left.replaceChildren(...queries.map(asking));
      right.replaceChildren(...keys.map((key) => make("li", {}, make("span", {}, key), make("small", {}))));
      const height = ROW * Math.max(queries.length, keys.length);
      curves.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
      curves.style.height = `${height}px`;
    }
    point(null);
  }
  return { box, show };
}

/** A curve for each weight that can be seen; those of other words than the active one are faint. */
function lines(weights, active) {
  const middle = (i) => ROW * (i + 0.5);
  return weights.flatMap((row, query) =>
    [...row].flatMap((weight, key) => {
      if (weight < 0.02 || (active !== null && query !== active)) return [];
      const [from, to] = [middle(query), middle(key)];
      const path = `M 0 ${from} C ${WIDTH / 2} ${from}, ${WIDTH / 2} ${to}, ${WIDTH} ${to}`;
      return draw("path", {
        d: path,
        "stroke-width": 0.5 + 7 * weight,
        opacity: active === null ? 0.15 + 0.5 * weight : 0.35 + 0.65 * weight,
      });
    }),
  );
}
