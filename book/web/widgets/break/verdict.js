// Chapter 83: what a run shows, and what the recorded ones say, whose answer is told only where settings are the same.
import { fixed, percent } from "../dom.js";
import { ANY, EXPERIMENTS, startOf } from "./experiments.js";
import { leaks, learned, worksAsWell } from "./outcomes.js";

const SEEDS = [1, 2, 3]; // of the recorded runs

/** The parts that the second model lacks: where there is one head, none can go. */
export const lost = ({ parts, heads }) => parts.filter((part) => part !== "heads" || heads > 1);

/** What may happen without these parts: each a text, and whether it happened. */
export const guessesOf = (parts) => (parts.length === 1 ? EXPERIMENTS[parts[0]].guesses : ANY);

/** "the mask, the shift and one of its two heads". */
export function named(settings) {
  const heads = { 2: "one of its two heads" };
  const names = lost(settings).map((part) => (part === "heads" && heads[settings.heads]) || EXPERIMENTS[part].name);
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/** "width 32", "2 layers" and so on, for the settings that are wanted. */
export function listed(settings, wants, seed = `seed ${settings.seed}`) {
  const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
  const told = {
    width: `width ${settings.width}`,
    layers: count(settings.layers, "layer"),
    heads: count(settings.heads, "head"),
    rate: settings.rate === 1 ? "the plain learning rate" : `${settings.rate} times the learning rate`,
    steps: count(settings.steps, "step"),
    seed,
  };
  return Object.keys(told)
    .filter(wants)
    .map((name) => told[name]);
}

/** What has happened so far, from the numbers. */
export function soFar(both, settings) {
  const [whole, without] = both.map(({ loss, share }) => {
    const right = share === null ? "" : `, ${percent(share)} of unseen examples right`;
    return `loss ${fixed(loss)}${right}`;
  });
  return `Whole: ${whole}. Without ${named(settings)}: ${without}.`;
}

/** What there is to say at the end, when `both` have reported: of the guess, of this run, of the recorded ones. */
export function verdict(settings, both, guess) {
  const [text, isSo] = guessesOf(lost(settings))[guess];
  const came = isSo(...both) ? "This run bears it out" : "This run came out otherwise";
  const fits = learned(both[0]) ? came : "This run cannot tell";
  const fell = ["whole", "second"].filter((_, i) => both[i].best > both[i].share + 0.3);
  const again = fell.map((name) => ` The ${name} model had had more right, and lost it again.`).join("");
  return `You guessed: “${text}” ${fits}: ${shown(both)}${again} ${recorded(settings, both, guess)}`.trim();
}

/** What the second model came to in this run, beside the whole one. */
function shown([whole, without]) {
  const nothing = "by itself the second model writes as good as nothing right";
  if (!learned(whole)) return "by itself the whole model writes no more than 10% right.";
  if (leaks(whole, without)) return `${nothing}, although its loss ends as low as that of the whole one.`;
  if (!learned(without)) return `${nothing}, and its loss stays higher.`;
  const when = Number.isFinite(whole.half + without.half)
    ? ` Half of the examples were right by step ${without.half}, and by step ${whole.half} with the whole model.`
    : "";
  const most = worksAsWell(whole, without) ? "about as much right as the whole one" : "less right than the whole one";
  return `the second model writes ${most}.${when}`;
}

/** What the recorded runs say, where they are of the same settings. */
function recorded(settings, both, guess) {
  const parts = lost(settings);
  if (parts.length !== 1) return "";
  const { task, seed } = settings;
  const start = startOf(parts, task);
  const isOther = (name) => (name === "seed" ? !SEEDS.includes(seed) : settings[name] !== start[name]);
  const others = listed(start, isOther, "seeds 1 to 3");
  if (others.length)
    return `The recorded runs of chapter 83 have other settings (${others.join(", ")}), so they do not answer for this run.`;
  const { answer, guesses, found, otherwise } = EXPERIMENTS[parts[0]];
  const [text, isSo] = guesses[answer[task]];
  const exception = otherwise?.[task];
  const isBorneOut = isSo(...both);
  const says = isBorneOut && answer[task] === guess ? "so, too." : `“${text}”`;
  const known = exception === seed ? ", and so did the recorded one" : "";
  const why = isBorneOut ? found[task] : `This run, with seed ${seed}, came out otherwise${known}.`;
  const except = exception && !known ? ` Of the recorded runs, the one with seed ${exception} came out otherwise.` : "";
  return `The runs of chapter 83 say ${says} ${why}${except}`;
}
