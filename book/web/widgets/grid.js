// Attention as a matrix: a row for each query, a column for each key, darker where the weight is larger.
import { arrow, draw, fixed, make } from "./dom.js";

/** `onpoint(query, key)` hears which cell is pointed at or has the focus, `onchoose(query, key)` which is chosen. */
export function grid(label, onpoint = () => {}, onchoose = null) {
  const table = make("table", { class: "weights", role: "grid", "aria-label": label });
  const box = make("div", { class: "grid" }, table);
  let cells = [];
  let place = [0, 0];

  function enter(query, key, focus = false) {
    if (!cells[query]?.[key]) return;
    cells[place[0]]?.[place[1]]?.setAttribute("tabindex", -1);
    place = [query, key];
    cells[query][key].setAttribute("tabindex", 0);
    if (focus) cells[query][key].focus();
    onpoint(query, key);
  }

  function press(event, query, key) {
    const step = arrow(event);
    if (step) {
      enter(query + step[0], key + step[1], true);
    } else if (onchoose && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      onchoose(query, key);
    }
  }

  function cell(weight, query, key, queries, keys, marked) {
    const name = `${queries[query]} to ${keys[key]}: ${fixed(weight)}`;
    return make("td", {
      role: "gridcell",
      tabindex: query === place[0] && key === place[1] ? 0 : -1,
      style: `--weight: ${weight}`,
      "aria-label": name,
      title: name,
      class: marked(query, key) ? "marked" : null,
      onfocus: () => enter(query, key),
      onmouseenter: () => onpoint(query, key),
      onclick: () => (enter(query, key), onchoose?.(query, key)),
      onkeydown: (event) => press(event, query, key),
    });
  }

  /** `marked(query, key)` says which cells have a frame. */
  function show(queries, keys, weights, marked = () => false) {
    const focused = box.contains(document.activeElement);
    place = [Math.min(place[0], queries.length - 1), Math.min(place[1], keys.length - 1)];
    cells = queries.map((_, query) =>
      keys.map((_, key) =>
        key < weights[query].length ? cell(weights[query][key], query, key, queries, keys, marked) : null,
      ),
    );
    const head = make(
      "tr",
      {},
      make("td", {}),
      keys.map((key) => make("th", { scope: "col" }, make("span", {}, key))),
    );
    const rows = queries.map((query, i) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, query),
        cells[i].map((one) => one ?? make("td", { class: "hidden", role: "gridcell", "aria-label": "not visible" })),
      ),
    );
    table.replaceChildren(make("thead", {}, head), make("tbody", {}, rows));
    if (focused) cells[place[0]][place[1]]?.focus();
  }
  return { box, show };
}

/** A small picture of a matrix. */
export function thumbnail(weights) {
  const [rows, columns] = [weights.length, Math.max(...weights.map((row) => row.length))];
  const fields = weights.flatMap((row, y) =>
    [...row].flatMap((weight, x) =>
      weight < 0.03 ? [] : draw("rect", { x, y, width: 1, height: 1, opacity: weight }),
    ),
  );
  return draw(
    "svg",
    { class: "thumbnail", viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    fields,
  );
}
