// How tokens and weights are shown.
import { fixed, make } from "./dom.js";

/** A token as a reader sees it: a piece that goes on with a word begins with a dot, the end has a name. */
export function shown(tokenizer, id) {
  if (id === tokenizer.eosId) return "end";
  if (id === tokenizer.bosId) return "start";
  const { piece } = tokenizer.pieces[id];
  if (piece.startsWith("▁")) return piece.slice(1) || "space";
  return /^[\p{L}\p{N}]/u.test(piece) ? `·${piece}` : piece;
}

/** The three largest weights of a row, in words. */
export function looksAt(query, keys, row, verb = "looks at") {
  const order = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, 3);
  return `${query} ${verb}: ${order.map((key) => `${keys[key]} ${fixed(row[key])}`).join(", ")}`;
}

/** Shares as bars: rows of { label, share, before, strong }, a tick where it was before. */
export function bars(rows, told = (share) => fixed(share)) {
  return make(
    "ul",
    { class: "bars" },
    rows.map(({ label, share, before, strong }) => {
      const was = before === undefined ? null : make("span", { class: "was", style: `--share: ${before}` });
      const number =
        before === undefined || told(before) === told(share) ? told(share) : `${told(before)} → ${told(share)}`;
      return make(
        "li",
        { class: strong ? "strong" : null },
        make("span", { class: "label" }, label),
        make("span", { class: "bar", style: `--share: ${share}`, "aria-hidden": "true" }, was),
        make("span", { class: "number" }, number),
      );
    }),
  );
}
