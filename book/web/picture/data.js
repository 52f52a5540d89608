// What the picture shows: everything that the model computes of a sentence, untouched or changed, and what lines cost.
import { best } from "../model/decoding.js";
import { cut, edited, given, replaced, silenced } from "../model/interventions.js";
import { logSoftmax, softmax } from "../model/matrices.js";
import { chances, genderTokens, pronounAt } from "../widgets/genders.js";
import { shown } from "../widgets/words.js";

/**
 * One pass of the model, taken apart: the vectors after each part, by name ("encoder.0.norm1"), and of each attention
 * ("cross.1") { query, key, value, weights, outputs }, for each head.
 */
function traced(model, source, target) {
  const [vectors, attentions] = [{}, {}];

  function attention(name, module, x, memory, visible) {
    const [query, key, value] = module.project(x, memory);
    const found = { query, key, value };
    const keep = (what, heads) => (found[what] = heads);
    module.edits.push(keep);
    const rows = module.attend(query, key, value, visible);
    module.edits.pop();
    attentions[name] = found;
    return rows;
  }

  function stack(side, x, memory) {
    const { layers } = model[side];
    layers.forEach((layer, n) => {
      const keep = (part, rows) => (vectors[`${side}.${n}.${part}`] = rows);
      const causal = memory ? layer.causal : null;
      keep("in", x);
      const own = (y) => keep("self", attention(`${side}.${n}`, layer.selfAttention, y, y, causal));
      x = keep("norm1", layer.aroundSelfAttention.forward(x, own));
      const cross = (y) => keep("cross", attention(`cross.${n}`, layer.crossAttention, y, memory, null));
      if (memory) x = keep("norm2", layer.aroundCrossAttention.forward(x, cross));
      x = layer.aroundFeedForward.forward(x, (y) => keep("feed", layer.feedForward.forward(y)));
      x = keep("out", memory ? x : model.encoder.edited(n, x));
    });
    return model[side].finish(x);
  }

  const embedded = (name, embedding, positions, tokens) => {
    vectors[`${name}.embedding`] = embedding.forward(tokens);
    return positions.forward(vectors[`${name}.embedding`]);
  };
  const memory = stack("encoder", embedded("encoder", model.sourceEmbedding, model.sourcePositions, source));
  const last = stack("decoder", embedded("decoder", model.targetEmbedding, model.targetPositions, target), memory);
  return { vectors, attentions, scores: model.output.forward(last).map(logSoftmax) };
}

/** Where each token of a sentence stands in its twin, counted from the beginning or from the end; null where nowhere. */
function twinPlaces(translator, say, twin) {
  const [own, other] = [say, twin].map((text) => translator.tokenize(text));
  if (say === twin) return own.map(() => null);
  const behind = other.length - own.length;
  return own.map((token, n) => {
    if (!behind || other[n] === token) return n;
    return other[n + behind] === token ? n + behind : null;
  });
}

/** A state's changes, { cut: [...], off: [...], give: [{ at: "door" or "level", layer, key }] }, for `changed`. */
function changesOf(translator, { say, twin, cut: lines, off, give }, tokens) {
  const { model } = translator;
  const edits = [...cut(model, lines), ...silenced(off)];
  if (!give.length) return { edits, levels: [] };
  const { vectors } = traced(model, translator.tokenize(twin), inputOf(model, tokens));
  const last = model.encoder.layers.length - 1;
  const places = twinPlaces(translator, say, twin);
  const vector = ({ at, layer, key }) => vectors[`encoder.${at === "door" ? last : layer}.out`][places[key]];
  const put = (place) =>
    give.filter(({ at, key }) => at === place && places[key] !== null).map((one) => ({ ...one, vector: vector(one) }));
  return { edits: [...edits, ...given(put("door"))], levels: put("level") };
}

const changed = (model, { edits, levels }, body) => replaced(model, levels, () => edited(model, edits, body));
const inputOf = (model, tokens) => [model.config.start_id, ...tokens.slice(0, -1)];

/** Whether a state changes anything. */
export const isTouched = ({ cut: lines, off, give }) => lines.length + off.length + give.length > 0;

/** The written word that costs are counted for: a pronoun, else the one that the model was least sure of. */
function watched(tokenizer, { tokens, steps }) {
  const pronoun = pronounAt(tokenizer, tokens);
  if (pronoun >= 0) return pronoun;
  const sure = tokens.map((token, n) => steps[n][token]);
  return sure.indexOf(Math.min(...sure));
}

/**
 * Everything of a state: the words of both sides, both translations, the place of the word that is watched with the
 * likeliest words there, the chances of er, sie and es before and after, and what `traced` gives.
 */
export function look(translator, state) {
  const { model, tokenizer } = translator;
  const before = translator.translate(state.say);
  const changes = changesOf(translator, state, before.tokens);
  const run = (options) => changed(model, changes, () => translator.translate(state.say, options));
  const after = isTouched(state) ? run({}) : before;
  const { source } = before;
  const input = inputOf(model, after.tokens);
  const pass = changed(model, changes, () => traced(model, source, input));
  const plain = after === before ? pass : traced(model, source, input);
  const watch = watched(tokenizer, after);
  const name = (id) => shown(tokenizer, id);
  const pronoun = genderTokens(tokenizer) ? pronounAt(tokenizer, before.tokens) : -1;
  const prefix = before.tokens.slice(0, pronoun);
  const genders = pronoun < 0 ? null : { before: chances(tokenizer, before.steps[pronoun]) };
  if (genders) genders.after = after === before ? genders.before : chances(tokenizer, run({ prefix }).steps[pronoun]);
  return {
    source: source.map(name),
    twins: twinPlaces(translator, state.say, state.twin).map((place) => place !== null),
    read: input.map(name),
    written: after.tokens.map(name),
    writtenBefore: before.tokens.map(name),
    textBefore: before.text,
    text: after.text,
    watch,
    likeliest: best(pass.scores[watch], 3).map(({ token, score }) => ({ word: name(token), share: Math.exp(score) })),
    genders,
    heard: heardBest(plain),
    ...pass,
  };
}

/** Of each written word the English one that it hears best at the last door, when nothing is changed. */
function heardBest({ attentions }) {
  const { weights } = attentions[Object.keys(attentions).findLast((name) => name.startsWith("cross"))];
  return weights[0].map((_, at) => {
    const row = Array.from(weights[0][at], (_, key) => weights.reduce((sum, head) => sum + head[at][key], 0));
    return row.indexOf(Math.max(...row));
  });
}

/** A function that says of a line what the watched word would be without it: { share of it now, word then, its share }. */
export function costs(translator, state) {
  const { model, tokenizer } = translator;
  const before = translator.translate(state.say);
  const changes = changesOf(translator, state, before.tokens);
  const after = changed(model, changes, () => translator.translate(state.say));
  const watch = watched(tokenizer, after);
  const input = inputOf(model, after.tokens).slice(0, watch + 1);
  const source = translator.tokenize(state.say);
  const memory = changed(model, changes, () => model.encode(source));
  return (line) => {
    const more = { ...changes, edits: [...changes.edits, ...cut(model, [line])] };
    const row = changed(model, more, () =>
      model.decode(input, line.kind === "encoder" ? model.encode(source) : memory).at(-1),
    );
    const shares = softmax(model.output.forward([row])[0]);
    const word = shares.indexOf(Math.max(...shares));
    return { share: shares[after.tokens[watch]], word: shown(tokenizer, word), isOther: word !== after.tokens[watch] };
  };
}
