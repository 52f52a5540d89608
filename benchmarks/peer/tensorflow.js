// The training step of chapter 83 in TensorFlow.js, in a worker: the same numbers to begin with, and the same batches.
"use strict";
importScripts(
  "node_modules/@tensorflow/tfjs/dist/tf.min.js",
  "node_modules/@tensorflow/tfjs-backend-wasm/dist/tf-backend-wasm.min.js",
);

/** Its backend, sizes, weights and batches of pairs, all of one length: the losses, and the milliseconds of each step. */
self.onmessage = async ({ data }) => {
  try {
    self.postMessage(await train(data));
  } catch (error) {
    self.postMessage({ error: error.message });
  }
};

async function train({ backend, sizes, tensors, batches, rates }) {
  tf.wasm.setWasmPaths("node_modules/@tensorflow/tfjs-backend-wasm/dist/");
  await tf.setBackend(backend);
  await tf.ready();
  const variables = variablesOf(tensors, sizes);
  const positions = [0, 1].map((i) => tf.tensor2d(table(batches[0][0][i].length - i, sizes.d_model)));
  const optimizer = tf.train.adam(1, 0.9, 0.98, 1e-9);
  const found = { losses: [], milliseconds: [] };
  for (const [i, pairs] of batches.entries()) {
    const start = performance.now();
    optimizer.learningRate = rates[i];
    const loss = optimizer.minimize(() => lossOf(variables, positions, pairs, sizes), true);
    found.losses.push((await loss.data())[0]);
    loss.dispose();
    found.milliseconds.push(performance.now() - start);
  }
  return found;
}

/** One variable for each tensor; the three projections of a self-attention are one, as one product computes them. */
function variablesOf(tensors, { num_layers: layers }) {
  const matrix = (name) => tf.tensor(tensors[name].values, tensors[name].shape);
  const joined = (place, names) => tf.variable(tf.concat(names.map((name) => matrix(`${place}.${name}.weight`))));
  const variables = {};
  for (const name of Object.keys(tensors))
    if (!/attention\.(query|key|value)/.test(name)) variables[name] = tf.variable(matrix(name));
  for (let i = 0; i < layers; i++) {
    for (const stack of ["encoder", "decoder"]) {
      const place = `${stack}.layers.${i}.self_attention`;
      variables[`${place}.qkv`] = joined(place, ["query", "key", "value"]);
    }
    const place = `decoder.layers.${i}.cross_attention`;
    variables[`${place}.q`] = joined(place, ["query"]);
    variables[`${place}.kv`] = joined(place, ["key", "value"]);
  }
  return variables;
}

function lossOf(variables, positions, pairs, sizes) {
  const { d_model: width, num_heads: heads, num_layers: layers, vocab_size: words } = sizes;
  const count = pairs.length;
  const linear = (x, weight) => tf.matMul(x, weight, false, true);
  const named = (place) => (name) => variables[`${place}.${name}`];

  const { add, matMul, mul, reshape, sub, transpose } = tf;
  const oneHot = (ids) => tf.cast(tf.oneHot(tf.tensor1d(ids, "int32"), words), "float32");

  function embed(rows, position) {
    const x = mul(matMul(oneHot(rows.flat()), variables["target_embedding.weight"]), Math.sqrt(width));
    return reshape(add(reshape(x, [count, -1, width]), position), [-1, width]);
  }
  function norm(x, place) {
    const { mean, variance } = tf.moments(x, -1, true);
    const normal = mul(sub(x, mean), tf.rsqrt(add(variance, 1e-6)));
    return add(mul(normal, named(place)("weight")), named(place)("bias"));
  }
  const split = (x) => transpose(reshape(x, [count, -1, heads, width / heads]), [0, 2, 1, 3]);
  function attention(query, key, value, output, mask) {
    const scores = mul(matMul(split(query), split(key), false, true), Math.sqrt(heads / width));
    const mixed = matMul(tf.softmax(mask ? add(scores, mask) : scores), split(value));
    return linear(reshape(transpose(mixed, [0, 2, 1, 3]), [-1, width]), output);
  }
  function selfAttention(x, place, mask) {
    const of = named(`${place}.self_attention`);
    return attention(...tf.split(linear(x, of("qkv")), 3, 1), of("output.weight"), mask);
  }
  function crossAttention(x, memory, place) {
    const of = named(`${place}.cross_attention`);
    return attention(linear(x, of("q")), ...tf.split(linear(memory, of("kv")), 2, 1), of("output.weight"), null);
  }
  function feedForward(x, place) {
    const of = named(`${place}.feed_forward`);
    const inner = tf.relu(add(linear(x, of("inner.weight")), of("inner.bias")));
    return add(linear(inner, of("outer.weight")), of("outer.bias"));
  }

  const [sources, targets] = [0, 1].map((side) => pairs.map((pair) => pair[side]));
  let x = embed(sources, positions[0]);
  for (let i = 0; i < layers; i++) {
    const place = `encoder.layers.${i}`;
    x = norm(add(x, selfAttention(x, place, null)), `${place}.around_self_attention.norm`);
    x = norm(add(x, feedForward(x, place)), `${place}.around_feed_forward.norm`);
  }
  const memory = x;
  const said = targets.flatMap((target) => target.slice(1));
  const length = targets[0].length - 1;
  const mask = tf.tensor2d(
    Array.from({ length }, (_, query) => Array.from({ length }, (_, key) => (key <= query ? 0 : -1e9))),
  );
  x = embed(
    targets.map((target) => target.slice(0, -1)),
    positions[1],
  );
  for (let i = 0; i < layers; i++) {
    const place = `decoder.layers.${i}`;
    x = norm(add(x, selfAttention(x, place, mask)), `${place}.around_self_attention.norm`);
    x = norm(add(x, crossAttention(x, memory, place)), `${place}.around_cross_attention.norm`);
    x = norm(add(x, feedForward(x, place)), `${place}.around_feed_forward.norm`);
  }
  const scores = tf.logSoftmax(linear(x, variables["target_embedding.weight"]));
  return tf.div(tf.sum(mul(scores, add(mul(oneHot(said), 0.9), 0.1 / words))), -said.length);
}

/** Sines and cosines, side by side. */
const table = (length, width) =>
  Array.from({ length }, (_, position) =>
    Array.from({ length: width }, (_, i) => {
      const angle = position / 10000 ** ((2 * Math.floor(i / 2)) / width);
      return i % 2 ? Math.cos(angle) : Math.sin(angle);
    }),
  );
