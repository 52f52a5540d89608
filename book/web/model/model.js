// The Transformer: chapter 39 of the book, section 3 of the paper. As annotated/model.py.
import { MultiHeadAttention } from "./attention.js";
import { OutputProjection, TokenEmbedding } from "./embeddings.js";
import { ACTIVATIONS, FeedForward } from "./feed_forward.js";
import { InputError } from "./files.js";
import { LearnedPositions, SinusoidalPositions } from "./positional_encoding.js";
import { AddNorm, DecoderLayer, EncoderLayer, Stack } from "./stacks.js";

const SIZES = ["vocab_size", "d_model", "d_ff", "num_heads", "num_layers", "max_length"];
const POSITIONS = ["sinusoidal", "concatenated", "learned"];
const LARGEST = { num_layers: 64, num_decoder_layers: 64, num_heads: 256 }; // what a page should try
const LARGEST_SIZE = 2 ** 20; // of all other fields

/** The configuration of config.json with what may be left out filled in. Throws InputError, naming the field. */
export function checkConfig(content, name = "config.json") {
  const config = content?.format === "annotated-1" ? { ...content.model } : null;
  if (!config) throw new InputError(`${name}: not a configuration of this book's package`);
  const checkSize = (field) => {
    const [value, most] = [config[field], LARGEST[field] ?? LARGEST_SIZE];
    if (Number.isInteger(value) && value >= 1 && value <= most) return;
    throw new InputError(
      `${name}: ${field} must be a whole number from 1 to ${most.toLocaleString("en")}, not ${JSON.stringify(value)}`,
    );
  };
  SIZES.forEach(checkSize);
  config.d_k ??= config.d_model / config.num_heads;
  config.d_v ??= config.d_model / config.num_heads;
  config.num_decoder_layers ??= config.num_layers;
  config.source_vocab_size ??= config.vocab_size;
  ["d_k", "d_v", "num_decoder_layers", "source_vocab_size"].forEach(checkSize);
  if (!Object.hasOwn(ACTIVATIONS, config.activation))
    throw new InputError(`${name}: unknown activation ${config.activation}`);
  if (!POSITIONS.includes(config.positions)) throw new InputError(`${name}: unknown positions ${config.positions}`);
  return config;
}

/** What tensors a model of this configuration has, and their shapes: checked before anything is made of them. */
export function shapesOf(config) {
  const { d_model: d, d_ff: inner, num_heads: heads, d_k: k, d_v: v } = config;
  const shapes = { "target_embedding.weight": [config.vocab_size, d] };
  if (!config.tie_embeddings) shapes["source_embedding.weight"] = [config.source_vocab_size, d];
  if (!config.tie_output) shapes["output.weight"] = [config.vocab_size, d];
  if (config.output_bias) shapes["output.bias"] = [config.vocab_size];
  const norm = (name) => Object.assign(shapes, { [`${name}.weight`]: [d], [`${name}.bias`]: [d] });
  const matrix = (name, outputs, inputs, bias) => {
    shapes[`${name}.weight`] = [outputs, inputs];
    if (bias) shapes[`${name}.bias`] = [outputs];
  };
  const attention = (name) => {
    for (const [part, width] of [
      ["query", k],
      ["key", k],
      ["value", v],
    ]) {
      matrix(`${name}.${part}`, heads * width, d, config.attention_bias);
    }
    matrix(`${name}.output`, d, heads * v, config.attention_bias);
  };
  for (const [stack, count] of [
    ["encoder", config.num_layers],
    ["decoder", config.num_decoder_layers],
  ]) {
    for (let n = 0; n < count; n++) {
      const layer = `${stack}.layers.${n}`;
      for (const part of stack === "encoder" ? ["self_attention"] : ["self_attention", "cross_attention"]) {
        attention(`${layer}.${part}`);
        norm(`${layer}.around_${part}.norm`);
      }
      matrix(`${layer}.feed_forward.inner`, inner, d, true);
      matrix(`${layer}.feed_forward.outer`, d, inner, true);
      norm(`${layer}.around_feed_forward.norm`);
    }
    if (config.norm_first) norm(`${stack}.final_norm`);
  }
  if (config.positions === "learned") {
    for (const side of ["source", "target"]) shapes[`${side}_positions.weight`] = [config.max_length, d];
  }
  return shapes;
}

/** Throws InputError, naming the tensor, unless these are the tensors of such a model. */
export function checkTensors(tensors, config, name = "model.safetensors") {
  const shapes = shapesOf(config);
  for (const [key, shape] of Object.entries(shapes)) {
    if (!tensors[key]) throw new InputError(`${name}: the tensor ${key} is missing`);
    if (String(tensors[key].shape) !== String(shape)) {
      throw new InputError(`${name}: ${key} has the shape [${tensors[key].shape}] instead of [${shape}]`);
    }
  }
  const foreign = Object.keys(tensors).find((key) => !shapes[key]);
  if (foreign) throw new InputError(`${name}: ${foreign} is no tensor of this model`);
}

/** The encoder-decoder of the paper (Figure 1), for one sentence at a time. Tokens are lists of whole numbers. */
export class Transformer {
  constructor(config, tensors) {
    checkTensors(tensors, config);
    this.config = config;
    const eps = config.norm_eps;
    const part = (name) => ({ weight: tensors[`${name}.weight`], bias: tensors[`${name}.bias`] });
    const frame = (name) => new AddNorm(part(`${name}.norm`), config.norm_first, eps);
    const attention = (name) => {
      const parts = ["query", "key", "value", "output"].map((each) => [each, part(`${name}.${each}`)]);
      return new MultiHeadAttention(Object.fromEntries(parts), config.num_heads);
    };
    const layers = (stack, count, Layer) =>
      Array.from({ length: count }, (_, n) => {
        const name = `${stack}.layers.${n}`;
        const parts = { selfAttention: attention(`${name}.self_attention`) };
        parts.aroundSelfAttention = frame(`${name}.around_self_attention`);
        if (stack === "decoder") {
          parts.crossAttention = attention(`${name}.cross_attention`);
          parts.aroundCrossAttention = frame(`${name}.around_cross_attention`);
        }
        const { inner, outer } = {
          inner: part(`${name}.feed_forward.inner`),
          outer: part(`${name}.feed_forward.outer`),
        };
        parts.feedForward = new FeedForward(inner, outer, config.activation);
        parts.aroundFeedForward = frame(`${name}.around_feed_forward`);
        return new Layer(parts);
      });
    const last = (stack) => (config.norm_first ? part(`${stack}.final_norm`) : null);
    this.encoder = new Stack(layers("encoder", config.num_layers, EncoderLayer), last("encoder"), eps);
    this.decoder = new Stack(layers("decoder", config.num_decoder_layers, DecoderLayer), last("decoder"), eps);
    this.targetEmbedding = new TokenEmbedding(tensors["target_embedding.weight"], config.scale_embeddings);
    this.sourceEmbedding = config.tie_embeddings
      ? this.targetEmbedding
      : new TokenEmbedding(tensors["source_embedding.weight"], config.scale_embeddings);
    const positions = (side) =>
      config.positions === "learned"
        ? new LearnedPositions(tensors[`${side}_positions.weight`])
        : new SinusoidalPositions(config.d_model, config.positions === "sinusoidal");
    this.sourcePositions = positions("source");
    this.targetPositions = positions("target");
    this.output = new OutputProjection(
      tensors[config.tie_output ? "target_embedding.weight" : "output.weight"],
      tensors["output.bias"],
    );
  }

  /** Logits for the token after each target position: a row for each. */
  forward(source, target) {
    return this.output.forward(this.decode(target, this.encode(source)));
  }

  /** The encoder's output, a row for each source token. */
  encode(source) {
    return this.encoder.forward(this.sourcePositions.forward(this.sourceEmbedding.forward(source)));
  }

  /** The decoder's output for a whole prefix; position i sees tokens up to i. */
  decode(target, memory) {
    return this.decoder.forward(this.targetPositions.forward(this.targetEmbedding.forward(target)), memory);
  }
}
