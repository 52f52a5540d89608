// Chapter 83: what can be taken away, what may happen then, and the address that holds an experiment.

/** For each part: what it is called, and what may happen without it, among which readers guess. */
export const EXPERIMENTS = {
  mask: [
    "the causal mask",
    [
      "It learns more slowly.",
      "Its loss looks as good, and by itself it writes nonsense.",
      "It works as well as the other.",
    ],
  ],
  shift: [
    "the shift",
    [
      "It works as well as the other.",
      "It learns more slowly.",
      "Its loss is low at once, and by itself it writes one word again and again.",
    ],
  ],
  root: [
    "the root under the scores",
    ["It does not learn at all.", "It learns, perhaps more slowly.", "It learns faster."],
  ],
  positions: [
    "positions",
    ["It works as well as the other.", "It does not learn at all.", "It writes the right words in a wrong order."],
  ],
  "warm-up": ["the warm-up", ["It learns faster.", "It works as well as the other.", "It does not learn at all."]],
  heads: [
    "three of its four heads",
    ["It does not learn at all.", "It learns much more slowly.", "It works as well as the other."],
  ],
};
export const TASKS = { digits: "eight digits backwards", pronouns: "what “it” means" };
export const START = { part: "mask", task: "digits", seed: 1, width: 32, layers: 2, steps: 300 };
export const LIMITS = { seed: [1, 9, 1], width: [16, 64, 16], layers: [1, 3, 1] };

/** The settings of an address, #break-part=root&seed=2; nothing where it is no such address. What is absurd is left. */
export function fromHash(hash) {
  if (!/^#break(-|$)/.test(hash)) return null;
  const found = { ...START };
  const given = new URLSearchParams(hash.slice(7));
  if (Object.hasOwn(EXPERIMENTS, given.get("part") ?? "")) found.part = given.get("part");
  if (Object.hasOwn(TASKS, given.get("task") ?? "")) found.task = given.get("task");
  for (const [name, [least, most, step]] of Object.entries(LIMITS)) {
    const value = Number(given.get(name) ?? NaN);
    if (value >= least && value <= most && (value - least) % step === 0) found[name] = value;
  }
  return found;
}

/** The address of settings: what is as at the start is left out. */
export function toHash(settings) {
  const others = Object.keys(START).filter((name) => settings[name] !== START[name]);
  return `#break${others.length ? "-" : ""}${others.map((name) => `${name}=${settings[name]}`).join("&")}`;
}
