// The heads: small pictures of all, a large one of one, silenced with a tick, a weight overwritten with a slider.
import { arcs } from "../arcs.js";
import { button, choice, fixed, make, slider, teller, tick } from "../dom.js";
import { GENDERS } from "../genders.js";
import { grid, thumbnail } from "../grid.js";
import { looksAt, shown } from "../words.js";
import { headOf, nameOf } from "./address.js";

const KINDS = [
  ["encoder", "encoder"],
  ["decoder", "decoder"],
  ["cross", "cross-attention"],
];

/** `onchange(part)` hears what changes of the state. */
export function headsPanel(translator, onchange) {
  const { model, tokenizer } = translator;
  const [told, tell] = teller();
  const [kinds, small, edit, title] = [
    make("div", {}),
    make("div", { class: "heads" }),
    make("div", {}),
    make("h3", {}),
  ];
  const lines = arcs("attention as lines", (query) => point(query));
  const matrix = grid(
    "attention as a matrix",
    (query, key) => point(query, key),
    (query, key) => overwrite(query, key),
  );
  const large = make("div", {});
  const halves = [make("div", {}, kinds, small), make("div", {}, title, large, told, edit)];
  const box = make("div", { class: "attention" }, make("div", { class: "halves" }, halves));
  let now = null;

  function point(query, key) {
    if (!now || query === null) return;
    const { queries, keys, weights } = now;
    tell(
      key === undefined
        ? looksAt(queries[query], keys, weights[query])
        : `${queries[query]} looks at ${keys[key]}: ${fixed(weights[query][key])}. Enter or a click overwrites it.`,
    );
  }

  function overwrite(query, key) {
    const { state, queries, keys, weights } = now;
    const others = state.set.filter((one) => one.at !== state.see || one.query !== query || one.key !== key);
    const set = (weight) => onchange({ set: [...others, { at: state.see, query, key, weight }] });
    const control = slider(
      `${queries[query]} looks at ${keys[key]}`,
      { min: 0, max: 1, step: 0.05, value: weights[query][key], told: fixed },
      set,
    );
    edit.replaceChildren(
      control,
      make("p", { class: "quiet" }, "The rest of the row is scaled, so that it adds up to one."),
      button("as it was", () => (edit.replaceChildren(), onchange({ set: others }))),
    );
    control.querySelector("input").focus();
  }

  function card(result, state, place) {
    const name = nameOf(place);
    const off = state.off.includes(name);
    const label = `${place.layer + 1}.${place.head + 1}`;
    return make(
      "div",
      { class: off ? "silenced" : null },
      button([thumbnail(result.weights(place)[place.head]), make("span", {}, label)], () => onchange({ see: name }), {
        "aria-pressed": state.see === name,
        "aria-label": `look at ${place.kind} ${label}`,
      }),
      tick(["silence", make("span", { class: "sr" }, ` ${label}`)], off, (value) =>
        onchange({ off: value ? [...state.off, name] : state.off.filter((one) => one !== name) }),
      ),
    );
  }

  function show(result, state) {
    const seen = headOf(state.see);
    const layers = seen.kind === "encoder" ? model.encoder.layers : model.decoder.layers;
    const { numHeads } = layers[0].selfAttention;
    const places = layers.flatMap((_, layer) =>
      Array.from({ length: numHeads }, (_, head) => ({ kind: seen.kind, layer, head })),
    );
    kinds.replaceChildren(
      choice(
        "Whose attention?",
        KINDS,
        seen.kind,
        (kind) => (
          edit.replaceChildren(),
          onchange({
            see: nameOf({
              ...seen,
              kind,
              layer: Math.min(seen.layer, (kind === "encoder" ? model.encoder : model.decoder).layers.length - 1),
            }),
          })
        ),
      ),
      choice(
        "drawn as",
        [
          ["arcs", "lines"],
          ["grid", "matrix"],
        ],
        state.as,
        (as) => onchange({ as }),
      ),
      choice(
        "silenced heads put out",
        translator.means
          ? [
              ["zero", "zeros"],
              ["mean", "their mean"],
            ]
          : [["zero", "zeros"]],
        state.by,
        (by) => onchange({ by }),
      ),
    );
    small.style.setProperty("--columns", numHeads);
    small.replaceChildren(...places.map((place) => card(result, state, place)));
    const inputs = { source: result.source, input: result.input };
    const [asking, asked] = { encoder: ["source", "source"], decoder: ["input", "input"], cross: ["input", "source"] }[
      seen.kind
    ];
    const names = (which) => inputs[which].map((id) => shown(tokenizer, id));
    const weights = result
      .weights(seen)
      [seen.head].map((row, i) => (seen.kind === "decoder" ? row.subarray(0, i + 1) : row));
    if (!now || now.state.see !== state.see) edit.replaceChildren();
    now = { state, queries: names(asking), keys: names(asked), weights };
    title.textContent = `${KINDS.find(([kind]) => kind === seen.kind)[1]}, layer ${seen.layer + 1}, head ${seen.head + 1}`;
    if (state.as === "arcs") {
      const pronoun = now.queries.findIndex((word) => ["it", ...GENDERS].includes(word));
      lines.show(now.queries, now.keys, weights, pronoun < 0 ? null : pronoun);
    } else {
      const marked = (query, key) =>
        state.set.some((one) => one.at === state.see && one.query === query && one.key === key);
      matrix.show(now.queries, now.keys, weights, marked);
    }
    const picture = state.as === "arcs" ? lines.box : matrix.box;
    if (large.firstChild !== picture) large.replaceChildren(picture);
  }
  return { box, show };
}
