// Asks the engine of the page: reads { folder, tasks } from standard input, writes the answers as JSON.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { InputError } from "../../book/web/model/files.js";
import {
  attentions,
  edited,
  moved,
  overwritten,
  pasted,
  places,
  silenced,
  watched,
} from "../../book/web/model/interventions.js";
import { FILES, Translator } from "../../book/web/model/translation.js";

const { folder, tasks } = JSON.parse(readFileSync(0, "utf8"));
const bytes = (path) => new Uint8Array(readFileSync(path));
const files = (place = folder) => Object.fromEntries(FILES.map((name) => [name, bytes(join(place, name))]));
let translator = null;

const rows = (matrices) => matrices.map((matrix) => matrix.map((row) => [...row]));
const short = ({ tokens, logProbability, score }) => ({ tokens, logProbability, score });

/** The edits that a task names, on the sentence of a task. */
function edits({ silence, means, overwrite, paste, twin, prefix }) {
  const { model } = translator;
  if (silence) return silenced(silence, means);
  if (overwrite) return overwritten(overwrite);
  if (!paste) return [];
  const { kept } = watched(model, () => model.forward(translator.tokenize(twin), [model.config.start_id, ...prefix]));
  return pasted(kept, paste.where ?? places(model), paste.parts);
}

const answer = {
  encode: ({ texts }) => texts.map((text) => translator.tokenizer.toIds(text)),
  decode: ({ ids }) => ids.map((each) => translator.tokenizer.toText(each)),
  translate: ({ texts, options }) => texts.map((text) => short(translator.translate(text, options))),
  tree: ({ text, options }) => {
    const { tree } = translator.translate(text, options);
    return tree.map(({ parent, token, kept, finished }) => ({
      parent: tree.indexOf(parent),
      token,
      kept,
      finished: Boolean(finished),
    }));
  },
  forward: ({ text, target, place }) => {
    const { model } = place ? Translator.from(files(place)) : translator;
    return rows([model.forward(translator.tokenize(text), target)])[0];
  },
  weights: ({ text, target }) => {
    const { kept } = watched(translator.model, () => translator.model.forward(translator.tokenize(text), target));
    return Object.fromEntries(Object.entries(kept).map(([place, heads]) => [place, rows(heads)]));
  },
  changed: (task) => {
    const { model } = translator;
    const source = translator.tokenize(task.text);
    const target = [model.config.start_id, ...task.prefix];
    const run = () => ({
      last: [...model.forward(source, target).at(-1)],
      free: short(translator.translate(task.text, { prefix: task.forced ?? [] })),
    });
    const result = task.offset === undefined ? edited(model, edits(task), run) : moved(model, task.offset, run);
    const left = Object.values(attentions(model))
      .flat()
      .reduce((sum, module) => sum + module.edits.length, 0);
    return { ...result, left };
  },
  load: ({ replace = {} }) => {
    try {
      const changed = files();
      for (const [name, base64] of Object.entries(replace)) {
        if (base64 === null) delete changed[name];
        else changed[name] = new Uint8Array(Buffer.from(base64, "base64"));
      }
      Translator.from(changed);
      return "loaded";
    } catch (error) {
      if (error instanceof InputError) return error.message;
      throw error;
    }
  },
};

if (tasks.some(({ ask }) => ask !== "load")) translator = Translator.from(files());
process.stdout.write(JSON.stringify(tasks.map(({ ask, ...task }) => answer[ask](task))));
