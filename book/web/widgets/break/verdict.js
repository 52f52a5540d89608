// Chapter 83: what a run says beside the recorded ones. Their answer is told only where settings are the same.
import { ANY, EXPERIMENTS, startOf } from "./experiments.js";

const SEEDS = [1, 2, 3]; // of the recorded runs

/** The parts that the second model lacks: where there is one head, none can go. */
export const lost = ({ parts, heads }) => parts.filter((part) => part !== "heads" || heads > 1);

/** What may happen without these parts. */
export const guessesOf = (parts) => (parts.length === 1 ? EXPERIMENTS[parts[0]].guesses : ANY);

/** "the mask, the shift and one of its two heads". */
export function named(settings) {
  const heads = { 2: "one of its two heads" };
  const names = lost(settings).map((part) => (part === "heads" && heads[settings.heads]) || EXPERIMENTS[part].name);
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** Where the settings of the recorded runs differ from these: "width 64, 1 head"; nothing if they do not. */
export function elsewhere(settings) {
  const start = startOf(lost(settings), settings.task);
  const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  const told = {
    width: `width ${start.width}`,
    layers: count(start.layers, "layer"),
    heads: count(start.heads, "head"),
    rate: "the plain learning rate",
    steps: count(start.steps, "step"),
    seed: "seeds 1 to 3",
  };
  const isOther = (name) => (name === "seed" ? !SEEDS.includes(settings.seed) : settings[name] !== start[name]);
  return Object.keys(told)
    .filter(isOther)
    .map((name) => told[name])
    .join(", ");
}

/** What there is to say of a guess at the end, when `both` have reported. */
export function verdict(settings, both, guess) {
  const parts = lost(settings);
  const guesses = guessesOf(parts);
  const guessed = `You guessed: “${guesses[guess]}”`;
  if (parts.length !== 1) return guessed;
  const others = elsewhere(settings);
  if (others)
    return `${guessed} The recorded runs of chapter 83 have other settings (${others}), so they do not answer for this run.`;
  const { task, seed } = settings;
  const { answer, bears, found, otherwise } = EXPERIMENTS[parts[0]];
  const exception = otherwise?.[task];
  const isBorneOut = bears[task](...both);
  const says = isBorneOut && answer[task] === guess ? "so, too." : `“${guesses[answer[task]]}”`;
  const known = exception === seed ? ", and so did the recorded one" : "";
  const why = isBorneOut ? found[task] : `This run, with seed ${seed}, came out otherwise${known}.`;
  const except = exception && !known ? ` Of the recorded runs, the one with seed ${exception} came out otherwise.` : "";
  return `${guessed} The runs of chapter 83 say ${says} ${why}${except}`;
}
