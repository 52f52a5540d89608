// The model of the picture, in a thread of its own: answers { id, name, given } with { id, kind, value }.
import { Translator } from "../model/translation.js";
import { costs, look } from "./data.js";
import { possible } from "./possible.js";

const FOLDER = new URL("../models/embedded/", import.meta.url);
const CASE = new URL("../models/case/", import.meta.url);
const models = new Map();
let [latest, price] = [0, null];

const tell = (id, kind, value) => postMessage({ id, kind, value });

/** One of the three models of the case; the first is the shipped one. */
function load(number, progress) {
  if (!models.has(number)) {
    const coming =
      number === "1"
        ? Translator.load(FOLDER, progress)
        : load("1", progress).then((first) => first.withWeights(new URL(`base-${number}.safetensors`, CASE)));
    models.set(number, coming);
    coming.catch(() => models.delete(number)); // so that one can try again
  }
  return models.get(number);
}

const answers = {
  /** The state as it is possible here, with everything that the picture shows of it. */
  async look(id, state) {
    const translator = await load(state.model, (share) => tell(id, "progress", share));
    const allowed = possible(translator, state);
    price = costs(translator, allowed.state);
    return { ...allowed, result: look(translator, allowed.state), config: translator.model.config };
  },

  /** What each of some lines costs, one after the other; a later question ends it. */
  async costs(id, lines) {
    latest = id;
    for (const line of lines) {
      if (latest !== id) return null;
      tell(id, "cost", [line, price(line)]);
      await new Promise((done) => setTimeout(done)); // another question may have come
    }
    return null;
  },
};

onmessage = async ({ data: { id, name, given } }) => {
  try {
    tell(id, "result", await answers[name](id, given));
  } catch (error) {
    tell(id, "failed", error.message);
  }
};
