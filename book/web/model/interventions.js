// What heads do, changed from outside: chapter 80 of the book. As annotated/interventions.py.

/** The attentions of a model by kind (encoder, decoder, cross), from the first layer to the last. */
export function attentions(model) {
  return {
    encoder: model.encoder.layers.map((layer) => layer.selfAttention),
    decoder: model.decoder.layers.map((layer) => layer.selfAttention),
    cross: model.decoder.layers.map((layer) => layer.crossAttention),
  };
}

/** All places of attention: a kind and a layer, from 0. */
export function places(model) {
  return Object.entries(attentions(model)).flatMap(([kind, layers]) => layers.map((_, layer) => ({ kind, layer })));
}

/**
 * What `body` returns while attentions use what `edits` make of their weights, values and outputs.
 * Each edit is { kind, layer, what, change }; `change(heads, start)` gets matrices, one for each head, and the position
 * of the first query, and returns others. It holds for the searches, too, which compute one query at a time.
 */
export function edited(model, edits, body) {
  const known = attentions(model);
  const undo = edits.map(({ kind, layer, what, change }) => {
    const module = known[kind][layer];
    const edit = (part, heads, start) => (part === what ? change(heads, start) : heads);
    module.edits.push(edit);
    return () => module.edits.splice(module.edits.indexOf(edit), 1);
  });
  try {
    return body();
  } finally {
    undo.forEach((one) => one());
  }
}

/**
 * Edits that silence heads, each { kind, layer, head }: they put out zeros, or always their mean from `means`; with a
 * `query`, only while this position listens.
 */
export function silenced(heads, means = null) {
  return heads.map(({ kind, layer, head, query = null }) => ({
    kind,
    layer,
    what: "outputs",
    change: (outputs, start) =>
      outputs.map((matrix, h) => {
        if (h !== head) return matrix;
        return matrix.map((row, q) => {
          if (query !== null && q + start !== query) return row;
          return means ? Float32Array.from(means[kind][layer][head]) : new Float32Array(row.length);
        });
      }),
  }));
}

/**
 * Edits that set single weights, each { kind, layer, head, query, key, weight }. The rest of a row is scaled so that
 * it adds up to one again; a row whose rest is zero keeps the one weight.
 */
export function overwritten(weights) {
  return weights.map(({ kind, layer, head, query, key, weight }) => ({
    kind,
    layer,
    what: "weights",
    change: (heads, start) =>
      heads.map((matrix, h) =>
        matrix.map((row, q) => {
          if (h !== head || q + start !== query || key >= row.length) return row;
          const rest = 1 - row[key];
          return row.map((value, k) => (k === key ? weight : rest > 0 ? (value * (1 - weight)) / rest : 0));
        }),
      ),
  }));
}

/** Edits that cut lines, each { kind, layer, head, query, key }, in all heads where `head` is null. */
export function cut(model, lines) {
  const all = [...Array(model.config.num_heads).keys()];
  return overwritten(
    lines.flatMap((line) => (line.head === null ? all : [line.head]).map((head) => ({ ...line, head, weight: 0 }))),
  );
}

/** Edits that give words other vectors at doors, each { layer, key, vector }: what a cross-attention hears of them. */
export function given(vectors) {
  const change = (key, vector) => (rows) => rows.map((row, k) => (k === key ? vector : row));
  return vectors.map(({ layer, key, vector }) => ({
    kind: "cross",
    layer,
    what: "memory",
    change: change(key, vector),
  }));
}

/** What `body` returns while words leave layers of the encoder with other vectors, each { layer, key, vector }. */
export function replaced(model, vectors, body) {
  const edits = vectors.map(
    ({ layer, key, vector }) =>
      (n, rows) =>
        rows.map((row, k) => (n === layer && k === key ? vector : row)),
  );
  model.encoder.edits.push(...edits);
  try {
    return body();
  } finally {
    model.encoder.edits.splice(model.encoder.edits.length - edits.length);
  }
}

/** Everything that attentions computed while `body` ran: weights, values and outputs by place; and its result. */
export function watched(model, body) {
  const kept = {};
  const edits = places(model).flatMap(({ kind, layer }) =>
    ["weights", "values", "outputs"].map((what) => ({
      kind,
      layer,
      what,
      change: (heads) => {
        kept[`${kind} ${layer} ${what}`] = heads;
        return heads;
      },
    })),
  );
  const result = edited(model, edits, body);
  return { kept, result };
}

/**
 * Edits that paste what was kept of another run (`watched`): "weights", "values" or both, at some places. A search that
 * comes to positions which the other run did not have keeps its own there.
 */
export function pasted(kept, where, parts) {
  return where.flatMap(({ kind, layer }) =>
    parts.map((what) => ({
      kind,
      layer,
      what,
      change: (own, start) => from(kept[`${kind} ${layer} ${what}`], what, own, start),
    })),
  );
}

/** Of what was kept for all positions, the queries and keys that there are now: a search has one query at a time. */
function from(heads, what, own, start) {
  const [first, size] = [what === "weights" ? start : 0, own[0].length];
  if (heads[0].length < first + size) return own;
  return heads.map((matrix, h) => matrix.slice(first, first + size).map((row, i) => row.subarray(0, own[h][i].length)));
}

/** What `body` returns while positions are counted from `offset`, in source and target. */
export function moved(model, offset, body) {
  const tables = [model.sourcePositions, model.targetPositions];
  for (const table of tables) table.offset = offset;
  try {
    return body();
  } finally {
    for (const table of tables) table.offset = 0;
  }
}
