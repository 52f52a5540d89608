// A beam search as a tree: a row for each step, the likeliest hypothesis first, what was pruned on the right. Each has its
// last token and the probability of all its tokens together.
import { arrow, draw, fixed, make, percent } from "./dom.js";

const [WIDE, HIGH, GAP, ROW] = [84, 40, 8, 62]; // pixels: a node, the gap beside it, and from row to row

/** The nodes of each step in the order of their columns. */
function rowsOf(tree, pruned) {
  const rows = [];
  for (const node of tree) {
    if (node.kept || pruned) (rows[node.step] ??= []).push(node);
  }
  return rows.map((row) => [...row.filter((node) => node.kept), ...row.filter((node) => !node.kept)]);
}

/** Whether a node lies on the way to a hypothesis. */
const leadsTo = (node, end) => {
  for (let at = end; at; at = at.parent) if (at === node) return true;
  return false;
};

/** `name(node)` is a node's token; `onopen(node)` hears which node is chosen. */
export function beamTree(label, name, onopen) {
  const box = make("div", { class: "tree", role: "group", "aria-label": label });
  let place = [0, 0];

  /** The tree up to a step; `best` is the hypothesis that won. */
  function show(found, { upTo = Infinity, pruned = false } = {}) {
    const focused = box.contains(document.activeElement);
    const rows = rowsOf(found.tree, pruned).slice(0, upTo + 1);
    const best = found.finished[0];
    const at = new Map(rows.flatMap((row, y) => row.map((node, x) => [node, [x * (WIDE + GAP), y * ROW]])));
    const lines = [...at].flatMap(([node, [x, y]]) => {
      if (!at.has(node.parent)) return [];
      const [px, py] = at.get(node.parent);
      const [from, to, middle] = [px + WIDE / 2, x + WIDE / 2, (py + HIGH + y) / 2];
      const path = `M ${from} ${py + HIGH} C ${from} ${middle}, ${to} ${middle}, ${to} ${y}`;
      return draw("path", { d: path, class: leadsTo(node, best) ? "best" : node.kept ? "kept" : "pruned" });
    });
    const [width, height] = [Math.max(...rows.map((row) => row.length)) * (WIDE + GAP), rows.length * ROW];
    place[0] = Math.min(place[0], rows.length - 1);
    place[1] = Math.min(place[1], rows[place[0]].length - 1);
    const buttons = rows.map((row, y) => row.map((node, x) => nodeButton(node, x, y, leadsTo(node, best))));

    function nodeButton(node, x, y, wins) {
      const state = node.finished ? "finished" : node.kept ? "kept" : "pruned";
      const score = node.finished ? `score ${fixed(node.score)}` : percent(Math.exp(node.logProbability));
      const told = ` step ${node.step}, ${state}${wins ? ", on the way to the output" : ""}`;
      const go = ([down, right]) => {
        const row = buttons[y + down];
        const next = row?.[Math.min(x + right, row.length - 1)];
        if (!next) return;
        buttons[place[0]][place[1]].tabIndex = -1;
        place = [y + down, row.indexOf(next)];
        next.tabIndex = 0;
        next.focus();
      };
      return make(
        "button",
        {
          type: "button",
          class: wins ? `best ${state}` : state,
          style: `left: ${x * (WIDE + GAP)}px; top: ${y * ROW}px`,
          tabindex: y === place[0] && x === place[1] ? 0 : -1,
          onclick: () => onopen(node),
          onkeydown: (event) => {
            const step = arrow(event);
            if (step) go(step);
          },
        },
        make("b", {}, name(node)),
        make("small", {}, score),
        make("span", { class: "sr" }, told),
      );
    }
    const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, lines);
    box.style.setProperty("--width", `${width}px`);
    box.style.setProperty("--height", `${height}px`);
    box.replaceChildren(make("div", {}, svg, buttons.flat()));
    if (focused) buttons[place[0]][place[1]].focus();
  }
  return { box, show };
}
