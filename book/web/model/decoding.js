// Greedy and beam search: chapter 60 of the book, section 6.1 of the paper. As annotated/decoding.py.
import { linear, logSoftmax } from "./matrices.js";

/** The longest output: the source's length + 50, within max_length. */
export function outputLimit(model, source, extra = 50) {
  return Math.max(1, Math.min(source.length + extra, model.config.max_length));
}

/** The divisor of the paper's search, ((5 + |Y|) / 6)^alpha. */
export const lengthPenalty = (length, alpha) => ((5 + length) / 6) ** alpha;

/** Keys and values of the source in each decoder layer, and of no target position yet. */
export function startDecoding(model, source) {
  const memory = model.encode(source);
  return {
    step: 0,
    layers: model.decoder.layers.map(({ crossAttention, selfAttention }) => ({
      memory: crossAttention.remember(memory),
      keys: Array.from({ length: selfAttention.numHeads }, () => []),
      values: Array.from({ length: selfAttention.numHeads }, () => []),
    })),
  };
}

/**
 * Feed one token: the log-probabilities of the next, and the state after it. The state given stays as it is, so that
 * several hypotheses can go on from it.
 */
export function decodingStep(model, token, state) {
  let x = model.targetPositions.forward(model.targetEmbedding.forward([token]), state.step);
  const layers = model.decoder.layers.map((layer, n) => {
    const { memory, keys, values } = state.layers[n];
    const after = { memory };
    x = layer.aroundSelfAttention.forward(x, (y) => {
      const [query, key, value] = layer.selfAttention.project(y, y);
      after.keys = keys.map((rows, h) => [...rows, key[h][0]]);
      after.values = values.map((rows, h) => [...rows, value[h][0]]);
      return layer.selfAttention.attend(query, after.keys, after.values, null, state.step);
    });
    x = layer.aroundCrossAttention.forward(x, (y) => {
      const query = layer.crossAttention.splitHeads(linear(y, layer.crossAttention.query));
      return layer.crossAttention.attend(query, ...memory, null, state.step);
    });
    x = layer.aroundFeedForward.forward(x, (y) => layer.feedForward.forward(y));
    return after;
  });
  const [logits] = model.output.forward(model.decoder.finish(x));
  return { scores: allowed(model, logSoftmax(logits)), state: { step: state.step + 1, layers } };
}

/** Pad and the start symbol made impossible, unless one of them is the end. */
function allowed(model, scores) {
  for (const token of [model.config.pad_id, model.config.start_id]) {
    if (token !== model.config.end_id) scores[token] = -Infinity;
  }
  return scores;
}

/** The `count` most probable tokens, the likeliest first. */
export function best(scores, count) {
  const found = [];
  for (let token = 0; token < scores.length; token++) {
    if (found.length === count && scores[token] <= found[count - 1].score) continue;
    let place = found.length;
    while (place && found[place - 1].score < scores[token]) place--;
    found.splice(place, 0, { token, score: scores[token] });
    if (found.length > count) found.pop();
  }
  return found;
}

/**
 * The most probable token at every step, after a `prefix` that is given. `steps` has the log-probabilities at each
 * position, those of the prefix included.
 */
export function greedySearch(model, source, { prefix = [], extra = 50 } = {}) {
  const limit = outputLimit(model, source, extra);
  const tokens = [];
  const steps = [];
  let logProbability = 0;
  let state = startDecoding(model, source);
  let last = model.config.start_id;
  while (tokens.length < limit && last !== model.config.end_id) {
    const { scores, state: next } = decodingStep(model, last, state);
    last = prefix[tokens.length] ?? best(scores, 1)[0].token;
    state = next;
    tokens.push(last);
    steps.push(scores);
    logProbability += scores[last];
  }
  return { tokens, logProbability, score: logProbability, steps };
}

/**
 * The best output by log P / lp that a beam of `width` finds. `tree` has every hypothesis that was in the beam or
 * finished, and the candidates that were pruned: { parent, token, logProbability, step, kept, finished }.
 */
export function beamSearch(model, source, { width = 4, alpha = 0.6, extra = 50, prefix = [] } = {}) {
  const limit = outputLimit(model, source, extra);
  const end = model.config.end_id;
  const root = { parent: null, token: model.config.start_id, logProbability: 0, step: 0, kept: true };
  root.state = startDecoding(model, source);
  const tree = [root];
  let beam = [root];
  let finished = [];
  for (let length = 1; beam.length; length++) {
    const forced = prefix[length - 1];
    const candidates = beam.flatMap((hypothesis) => {
      const { scores, state } = decodingStep(model, hypothesis.token, hypothesis.state);
      const tokens = forced === undefined ? best(scores, 2 * width) : [{ token: forced, score: scores[forced] }];
      delete hypothesis.state; // no other needs it
      return tokens.map(({ token, score }) => {
        const logProbability = hypothesis.logProbability + score;
        return { parent: hypothesis, token, logProbability, step: length, state };
      });
    });
    candidates.sort((a, b) => b.logProbability - a.logProbability);
    candidates.length = Math.min(candidates.length, 2 * width);
    tree.push(...candidates);
    const ends = ({ token, logProbability }) => (token === end || length >= limit) && logProbability > -Infinity;
    const ended = candidates.slice(0, width).filter(ends);
    for (const one of ended)
      Object.assign(one, { finished: true, score: one.logProbability / lengthPenalty(length, alpha) });
    finished = [...finished, ...ended].sort((a, b) => b.score - a.score).slice(0, width);
    beam = length < limit ? candidates.filter((one) => one.token !== end).slice(0, width) : [];
    for (const one of candidates) {
      one.kept = beam.includes(one) || Boolean(one.finished);
      if (!beam.includes(one)) delete one.state;
    }
    if (settled(finished, beam, { alpha, length, limit })) break;
  }
  for (const one of tree) delete one.state;
  return { ...finished[0], tokens: tokensOf(finished[0]), finished, tree };
}

/** Whether no prefix can still win. */
function settled(finished, beam, { alpha, length, limit }) {
  if (!finished.length || !beam.length) return false;
  const possible = beam[0].logProbability / Math.max(lengthPenalty(length + 1, alpha), lengthPenalty(limit, alpha));
  return finished[0].score >= possible;
}

/** The tokens from the root to a hypothesis. */
export function tokensOf(hypothesis) {
  return hypothesis.parent ? [...tokensOf(hypothesis.parent), hypothesis.token] : [];
}
