// The state of the laboratory in the address, so that an experiment can be sent.

export const MODELS = [
  ["1", "the book's"],
  ["2", "model 2"],
  ["3", "model 3"],
];

export const START = {
  model: "1", // of those that were trained alike
  say: "The animal did not cross the street because it was too tired.",
  twin: "The animal did not cross the street because it was too wide.",
  off: [],
  by: "zero", // heads that are silenced, and how
  set: [], // weights that are overwritten: { at, query, key, weight }
  paste: "",
  where: "encoder", // what attentions take from the twin
  begin: [], // tokens that the translation has to begin with
  see: "encoder.2.4",
  as: "arcs", // the attention that is shown
  width: 1,
  alpha: 0.6,
};

const HEAD = /^(encoder|decoder|cross)\.([1-9]\d?)\.([1-9]\d?)$/; // kind, layer and head, counted from 1
export const LONGEST = 500; // characters of a sentence

/** A head by its name, or null: { kind, layer, head }, counted from 0. */
export function headOf(name) {
  const [, kind, layer, head] = HEAD.exec(name) ?? [];
  return kind ? { kind, layer: layer - 1, head: head - 1 } : null;
}

export const nameOf = ({ kind, layer, head }) => `${kind}.${layer + 1}.${head + 1}`;

/** Letters and digits stay; anything else becomes its number, so that scripts may take the address for a selector. */
export const escaped = (text) =>
  text.replace(/[^A-Za-z0-9]/g, (sign) => `_${sign.charCodeAt(0).toString(16).toUpperCase()}`);
export const unescaped = (text) =>
  text.replace(/_([0-9A-F]{2})/g, (_, code) => String.fromCharCode(parseInt(code, 16)));

/** The address of a state; what is as at the start is left out. */
export function toHash(state) {
  const words = {
    model: state.model,
    say: state.say,
    twin: state.twin,
    off: state.off.join("_"),
    by: state.by,
    set: state.set.map(({ at, query, key, weight }) => [at, query, key, Math.round(100 * weight)].join("-")).join("_"),
    paste: state.paste,
    where: state.where,
    begin: state.begin.join("-"),
    see: state.see,
    as: state.as,
    width: String(state.width),
    alpha: String(state.alpha),
  };
  const plain = { ...START, off: "", set: "", begin: "", width: String(START.width), alpha: String(START.alpha) };
  const said = Object.entries(words).filter(([name, value]) => value !== plain[name]);
  return said.length ? `#lab-${escaped(String(new URLSearchParams(said)))}` : "#lab";
}

/** What an address says, or null if it is none of the laboratory. Parts that say nothing sensible are passed over. */
export function fromHash(hash) {
  if (!/^#lab(-|$)/.test(hash)) return null;
  const words = new URLSearchParams(unescaped(hash.slice(5)));
  const among = (name, options) => (options.includes(words.get(name)) ? words.get(name) : START[name]);
  const several = (name) => (words.get(name) ?? "").split("_").filter(Boolean).slice(0, 100);
  const text = (name) => (words.get(name) ?? START[name]).slice(0, LONGEST);
  const within = (name, low, high) =>
    words.has(name) && words.get(name) >= low && words.get(name) <= high ? Number(words.get(name)) : START[name];
  const set = several("set")
    .map((one) => /^(.+?)-(\d+)-(\d+)-(\d+)$/.exec(one))
    .filter((found) => found && headOf(found[1]) && found[4] <= 100);
  return {
    model: among(
      "model",
      MODELS.map(([number]) => number),
    ),
    say: text("say"),
    twin: text("twin"),
    off: several("off").filter(headOf),
    by: among("by", ["zero", "mean"]),
    set: set.map(([, at, query, key, weight]) => ({
      at,
      query: Number(query),
      key: Number(key),
      weight: weight / 100,
    })),
    paste: among("paste", ["", "weights", "values", "both"]),
    where: among("where", ["encoder", "decoder", "cross", "all"]),
    begin: (words.get("begin") ?? "")
      .split("-")
      .filter((id) => /^\d{1,6}$/.test(id))
      .map(Number),
    see: headOf(words.get("see")) ? words.get("see") : START.see,
    as: among("as", ["arcs", "grid"]),
    width: Math.round(within("width", 1, 6)),
    alpha: within("alpha", 0, 3),
  };
}
