// A model folder, loaded and used: chapter 61 of the book. As annotated/search/translation.py.
import { beamSearch, greedySearch } from "./decoding.js";
import { InputError, describeTensors, readJson, readTensors } from "./files.js";
import { Transformer, checkConfig, checkTensors } from "./model.js";
import { Tokenizer } from "./tokenization.js";

export const FILES = ["config.json", "tokenizer.model", "model.safetensors"];

/** A model with its tokenizer. */
export class Translator {
  constructor(model, tokenizer, notes = {}) {
    Object.assign(this, { model, tokenizer, notes });
  }

  /** From the three files of a folder, by name, as Uint8Arrays. Throws InputError, naming the file. */
  static from(files) {
    for (const name of FILES)
      if (!files[name]) throw new InputError(`${name} is missing: a model folder has ${FILES.join(", ")}`);
    const notes = readJson(files["config.json"], "config.json");
    const config = checkConfig(notes);
    const tokenizer = new Tokenizer(files["tokenizer.model"]);
    for (const field of ["vocab_size", "source_vocab_size"]) {
      if (config[field] !== tokenizer.size) {
        throw new InputError(`tokenizer.model: ${tokenizer.size} pieces, but config.json says ${config[field]}`);
      }
    }
    return new Translator(modelFrom(files["model.safetensors"], config), tokenizer, notes);
  }

  /** From the folder at an address. `progress` hears the share of bytes that has come, from 0 to 1. */
  static async load(address, progress = () => {}) {
    const files = {};
    let done = 0;
    for (const name of FILES) {
      const response = await fetch(new URL(name, address));
      if (!response.ok) throw new InputError(`${name}: not found at ${address}`);
      files[name] = await received(response, (share) => progress((done + share) / FILES.length));
      progress(++done / FILES.length);
    }
    return Translator.from(files);
  }

  /** A model of the same configuration and vocabulary, with the weights of the file at an address. */
  async withWeights(address) {
    const response = await fetch(address);
    if (!response.ok) throw new InputError(`not found: ${address}`);
    const model = modelFrom(await received(response, () => {}), this.model.config, String(address));
    return new Translator(model, this.tokenizer, this.notes);
  }

  /** Token ids of a sentence, eos at the end, cut to what the model takes. */
  tokenize(text) {
    const ids = this.tokenizer.toIds(text).slice(0, this.model.config.max_length - 1);
    return [...ids, this.tokenizer.eosId];
  }

  /**
   * The translation of a sentence by greedy search (width 1) or a beam: { text, tokens, logProbability, score, ... }.
   * A `tree` is that of a beam, also of width 1.
   */
  translate(text, { width = 1, tree = width > 1, ...options } = {}) {
    const source = this.tokenize(text);
    const found = tree
      ? beamSearch(this.model, source, { width, ...options })
      : greedySearch(this.model, source, options);
    return { ...found, source, text: this.tokenizer.toText(found.tokens) };
  }
}

/** The model with the weights of a file, whose name errors use. */
function modelFrom(bytes, config, name) {
  const described = describeTensors(bytes, name);
  checkTensors(described, config, name); // before room is made for a single number
  return new Transformer(config, readTensors(described));
}

/** The body of a response; `progress` hears the share that has come, where the server says how long it is. */
async function received(response, progress) {
  const length = Number(response.headers.get("content-length"));
  const parts = [];
  let size = 0;
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
    if (length) progress(Math.min(1, size / length));
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
