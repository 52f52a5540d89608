// The lines of a touched word: who hears whom, with weights; one for all heads together, or of one head.
const LEAST = 0.05; // weights below are not drawn
const LOUD = 0.15; // of those who hear a word, weights below are not drawn
const MOST = 6; // lines of one word in one place, for all heads together

/** A line's name, in addresses and in elements. */
export const lineId = ({ kind, layer, head, query, key }) => [kind, layer, head ?? "all", query, key].join(".");

/** A line as a change that cuts it. */
export const asCut = ({ kind, layer, head, query, key }) => ({ kind, layer, head, query, key });

const mean = (heads, query, key) => heads.reduce((sum, head) => sum + (head[query]?.[key] ?? 0), 0) / heads.length;

/** The lines of one place with this query, or with this key, the strongest first; `head` null is the mean of all. */
function found(weights, place, { query = null, key = null }, head) {
  const heads = head === null ? weights : [weights[head]];
  const [rows, columns] = [weights[0].length, weights[0].at(-1).length];
  const pairs =
    query !== null
      ? Array.from({ length: columns }, (_, k) => [query, k])
      : Array.from({ length: rows }, (_, q) => [q, key]);
  return pairs
    .map(([q, k]) => ({ ...place, head, query: q, key: k, weight: mean(heads, q, k) }))
    .filter(({ weight }) => weight >= LEAST)
    .sort((a, b) => b.weight - a.weight)
    .slice(0, head === null ? MOST : Infinity);
}

/** The row of English that a view is about: the word that is touched, or the one that a written word hears best. */
export const sourceOf = ({ heard }, { side, at }) => (side === "source" ? at : heard[at]);

/**
 * The lines at one place of attention, for what is touched: { side: "source" or "written", at }. What a word hears
 * is `heard`; who hears it is not. Of a source word the decoder's lines are those from the watched word.
 */
export function linesAt(result, { kind, layer }, touched, head = null) {
  const { attentions, watch } = result;
  const { side, at } = touched;
  const { weights } = attentions[`${kind}.${layer}`];
  const place = { kind, layer };
  const hears = (query) => found(weights, place, { query }, head).map((line) => ({ ...line, heard: true }));
  const heardBy = (key) => found(weights, place, { key }, head).map((line) => ({ ...line, heard: false }));
  if (kind === "encoder") {
    if (side !== "source") return hears(sourceOf(result, touched));
    const own = hears(at);
    const isLoud = ({ query, weight }) => query !== at && weight >= LOUD;
    return [...own, ...heardBy(at).filter(isLoud)];
  }
  if (side === "written") return hears(at);
  return kind === "cross" ? heardBy(at) : head === null ? [] : hears(watch);
}

/** All places, in the order of the picture. */
export const PLACES = [
  { kind: "encoder", layer: 0 },
  { kind: "encoder", layer: 1 },
  { kind: "decoder", layer: 0 },
  { kind: "cross", layer: 0 },
  { kind: "decoder", layer: 1 },
  { kind: "cross", layer: 1 },
];
