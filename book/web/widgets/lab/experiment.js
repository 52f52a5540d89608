// One experiment: what the model does with a sentence, untouched and under interventions.
import { edited, overwritten, pasted, places, silenced, watched } from "../../model/interventions.js";
import { chances, genderTokens, pronounAt } from "../genders.js";
import { headOf, LONGEST } from "./address.js";

/** Whether a model has a head; models that a reader brings may have others. */
export function exists({ model }, { kind, layer, head }) {
  const layers = kind === "encoder" ? model.encoder.layers : model.decoder.layers;
  return layer < layers.length && head < model.config.num_heads;
}

/** The parts of a state that this model and sentence allow, and a line for each that they do not. */
export function possible(translator, state) {
  const dropped = [];
  const known = (name) => exists(translator, headOf(name)) || (dropped.push(`this model has no head ${name}`), false);
  const result = { ...state, off: state.off.filter(known), set: state.set.filter(({ at }) => known(at)) };
  if (!exists(translator, headOf(state.see))) result.see = "encoder.1.1";
  if (state.by === "mean" && !translator.means) result.by = "zero";
  const most = translator.model.config.max_length - 1; // tokens
  if (state.begin.some((id) => id >= translator.tokenizer.size)) result.begin = [];
  for (const [name, what] of [
    ["say", "the sentence"],
    ["twin", "its twin"],
  ]) {
    const [text, count] = [state[name], translator.tokenizer.toIds(state[name]).length];
    result[name] = text.slice(0, LONGEST);
    if (text.length > LONGEST)
      dropped.push(`${what} has ${text.length} characters: those after ${LONGEST} are left out`);
    else if (count > most) dropped.push(`${what} has ${count} tokens, of which the model reads ${most}`);
  }
  if (state.begin.length > most) dropped.push(`of the words to begin with, ${most} tokens are taken`);
  result.begin = result.begin.slice(0, most);
  const [own, other] = [result.say, result.twin].map((text) => translator.tokenize(text).length);
  if (state.paste && own !== other) {
    result.paste = "";
    dropped.push(`the twin has ${other} tokens, the sentence ${own}: attention can only be pasted between equals`);
  }
  return { state: result, dropped };
}

/** The edits of a state. `tokens` is the untouched output, which the twin is given to read, too. */
function editsOf(translator, state, tokens) {
  const { model } = translator;
  const edits = silenced(state.off.map(headOf), state.by === "mean" ? translator.means : null);
  if (state.paste) {
    const input = [model.config.start_id, ...tokens.slice(0, -1)];
    const { kept } = watched(model, () => model.forward(translator.tokenize(state.twin), input));
    const where = places(model).filter(({ kind }) => state.where === "all" || kind === state.where);
    edits.push(...pasted(kept, where, state.paste === "both" ? ["weights", "values"] : [state.paste]));
  }
  return [...edits, ...overwritten(state.set.map(({ at, ...rest }) => ({ ...headOf(at), ...rest })))];
}

/** Translations before and after, the chances of er, sie and es where the untouched output has one, and all weights. */
export function experiment(translator, state) {
  const { model, tokenizer } = translator;
  const options = { width: state.width, alpha: state.alpha };
  const before = translator.translate(state.say, options);
  const edits = editsOf(translator, state, before.tokens);
  const touched = edits.length > 0 || state.begin.length > 0;
  const run = (more = {}) => edited(model, edits, () => translator.translate(state.say, { ...more }));
  const after = touched ? run({ ...options, prefix: state.begin }) : before;
  const steps = touched || state.width > 1 ? run({ prefix: after.tokens }).steps : after.steps;

  const at = genderTokens(tokenizer) ? pronounAt(tokenizer, before.tokens) : -1;
  const prefix = before.tokens.slice(0, at);
  const genders =
    at < 0
      ? null
      : {
          prefix,
          before: chances(tokenizer, translator.translate(state.say, { prefix: before.tokens }).steps[at]),
          after: chances(tokenizer, run({ prefix: before.tokens }).steps[at]),
        };
  const input = [model.config.start_id, ...after.tokens.slice(0, -1)];
  const { kept } = edited(model, edits, () =>
    watched(model, () => model.forward(translator.tokenize(state.say), input)),
  );
  const weights = ({ kind, layer }) => kept[`${kind} ${layer} weights`];
  return { before, after, touched, steps, genders, input, source: translator.tokenize(state.say), weights, run };
}
