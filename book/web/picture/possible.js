// What a model and a sentence allow of a state that came from an address.

/** The state without what does not exist here, and a line for each part that is left out. */
export function possible(translator, state) {
  const { model } = translator;
  const { num_layers, num_heads, max_length } = model.config;
  const decoders = model.decoder.layers.length;
  const tokens = translator.tokenizer.toIds(state.say).length;
  const notes = [];
  if (tokens >= max_length)
    notes.push(`The sentence has ${tokens} tokens, of which the model reads ${max_length - 1}.`);
  const source = Math.min(tokens + 1, max_length);
  const isPlace = ({ kind, layer, head }) =>
    layer < (kind === "encoder" ? num_layers : decoders) && (head ?? 0) < num_heads;
  const isKey = ({ kind, key }) => kind === "decoder" || key < source;
  const keep = (name, isThere) => {
    const all = state[name].filter(isThere);
    if (all.length < state[name].length) notes.push("Some changes of the address do not exist in this model.");
    return all;
  };
  const cut = keep("cut", (one) => isPlace(one) && isKey(one) && (one.kind !== "encoder" || one.query < source));
  const off = keep("off", isPlace);
  const give = keep("give", ({ at, layer, key }) => key < source && layer < (at === "door" ? decoders : num_layers));
  const { touched } = state;
  const at = touched.side === "source" ? Math.min(touched.at, source - 1) : touched.at;
  return { state: { ...state, cut, off, give, touched: { ...touched, at } }, notes };
}
