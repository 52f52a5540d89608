// The picture's columns and their places. Every token keeps its row; to zoom is to give one column the width of others.
const SLIVER = { wide: 12, narrow: 5 }; // of a column beside the one that is open
const PAD = 4;

const strip = (id, name, says, flex = 1) => ({ id, name, says, flex, draws: "strip" });

/** A head: its queries, keys, weights, values and outputs; the weights open into the row of one word. */
function head(kind, layer, number) {
  const id = `${kind}.${layer}.${number}`;
  const part = (name, says) => ({ ...strip(`${id}.${name}`, name, says), sliver: 28 });
  const column = (name, says, flex) => ({
    id: `${id}.${name}`,
    name,
    says,
    flex,
    draws: name,
    at: { kind, layer, head: number },
  });
  const row = [
    column("score", "query · key / √d", 1),
    column("weight", "their softmax", 1.4),
    column("cost", "what a cut costs", 1.2),
  ];
  const weights = { ...column("weights", "who hears whom", 2.4), draws: "matrix", children: row };
  return {
    id,
    name: `head ${number + 1}`,
    short: `${number + 1}`,
    group: number ? null : { encoder: "four heads", decoder: "hears German", cross: "hears English" }[kind],
    flex: 1.3,
    draws: "lines",
    places: [{ kind, layer, head: number }],
    children: [
      part("query", "asks"),
      part("key", "is asked"),
      weights,
      part("value", "tells"),
      part("outputs", "hears"),
    ],
  };
}

/** A layer, from what comes in to what goes out. */
function layer(side, number, heads, words) {
  const id = `${side}.${number}`;
  const isDecoder = side === "decoder";
  const group = (kind) => Array.from({ length: heads }, (_, h) => head(kind, number, h));
  const norm = (n, what) => strip(`${id}.norm${n}`, "norm", what);
  return {
    id,
    ...words,
    isLayer: true,
    flex: isDecoder ? 2 : 1.2,
    draws: "lines",
    places: isDecoder
      ? [side, "cross"].map((kind) => ({ kind, layer: number, head: null }))
      : [{ kind: side, layer: number, head: null }],
    children: [
      strip(`${id}.in`, "in", "what comes in"),
      ...group(side),
      norm(1, "with what was heard"),
      ...(isDecoder ? [...group("cross"), norm(2, "with what English told")] : []),
      strip(`${id}.feed`, "feed", "each word by itself"),
      strip(`${id}.out`, "out", "sum, norm"),
    ],
  };
}

/** All columns of a model with so many layers and heads. */
export function columnsOf({ num_layers, num_decoder_layers, num_heads }) {
  const words = (id, name) => ({ id, name, draws: "words", isFixed: true });
  const encoder = ["words hear each other", "and hear each other again"];
  const decoder = ["hears German and English", "hears them again"];
  const layers = (side, count, says) =>
    Array.from({ length: count }, (_, n) =>
      layer(side, n, num_heads, {
        name: `${side} layer\u00a0${n + 1}`,
        short: `${side[0].toUpperCase()}${n + 1}`,
        says: says[Math.min(n, 1)],
      }),
    );
  return [
    words("source", "English"),
    ...layers("encoder", num_layers, encoder),
    words("read", "so far"),
    ...layers("decoder", num_decoder_layers, decoder),
    words("written", "German"),
  ];
}

/** The column with a name, and those that it lies in, from the outermost. */
export function pathTo(columns, id) {
  for (const column of columns) {
    if (column.id === id) return [column];
    const inside = pathTo(column.children ?? [], id);
    if (inside.length) return [column, ...inside];
  }
  return [];
}

/** The place of attention that a column's name begins with, { kind, layer, head }, as far as it says one. */
export function placeOf(id) {
  const [, kind = null, layer = null, head = null] = /^(encoder|decoder|cross)\.(\d+)(?:\.(\d+))?/.exec(id ?? "") ?? [];
  const number = (text) => (text === null ? null : Number(text));
  return { kind, layer: number(layer), head: number(head) };
}

/** Where every column stands in a picture of a width, { x, width, isOpen, isSeen } by name, when `open` is open. */
export function layout(columns, open, width, isNarrow) {
  const path = pathTo(columns, open).map(({ id }) => id);
  const [places, sliver] = [new Map(), isNarrow ? SLIVER.narrow : SLIVER.wide];
  const fixed = isNarrow ? { source: 60, read: 0, written: 74 } : { source: 78, read: 80, written: 86 };
  if (isNarrow && path[0]?.startsWith("encoder")) fixed.written = 0;

  function place(nodes, x, whole, depth, isSeen) {
    const isInPath = (node) => node.id === path[depth];
    const isSliver = (node) => nodes.some(isInPath) && !isInPath(node);
    const given = (node) =>
      node.isFixed ? fixed[node.id] : isSliver(node) ? (isNarrow ? sliver : (node.sliver ?? sliver)) : null;
    const rest = whole - nodes.reduce((sum, node) => sum + (given(node) ?? 0), 0);
    const flexible = nodes.filter((node) => given(node) === null).reduce((sum, { flex }) => sum + flex, 0);
    for (const node of nodes) {
      const size = given(node) ?? (rest * node.flex) / flexible;
      const isOpen = isInPath(node);
      places.set(node.id, { x, width: size, isOpen, isSeen, isSliver: isSliver(node) });
      if (node.children) {
        const pad = Math.min(PAD, size / 6);
        place(node.children, x + pad, size - 2 * pad, isOpen ? depth + 1 : Infinity, isSeen && isOpen);
      }
      x += size;
    }
  }
  place(columns, 0, width, 0, true);
  return places;
}
