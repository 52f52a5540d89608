// Chapter 83: what can be taken away, what may happen then, what to look at, and the address of an experiment.

import * as came from "./outcomes.js";

const both = (each) => ({ digits: each, pronouns: each });

/**
 * For each part: what it is called; what may happen without it, among which readers guess, and whether it did; which
 * guess the recorded runs bear out; the seed of a recorded run that came out otherwise; whose map is shown (the
 * attention of the last decoder layer to the source, or to its own words); what to look at; why it came out so; and
 * settings that differ from the others'.
 */
export const EXPERIMENTS = {
  mask: {
    name: "the causal mask",
    guesses: [
      ["Its loss stays high.", came.lossStaysHigh],
      ["Its loss ends as low, and by itself it writes nothing right.", came.leaks],
      ["It works as well as the other.", came.worksAsWell],
    ],
    answer: both(1),
    look: "decoder",
    watch:
      "Compare the losses first, then what the two models write. The maps show where the decoder looks among its own words while it learns: the future is to the right of the diagonal.",
    found: {
      digits:
        "Heads learned to look at the word to the right, which is the answer. When the model writes by itself, nothing is there yet.",
      pronouns:
        "The models learned to look at the words to their right, where the answer is. When a model writes by itself, nothing is there yet.",
    },
  },
  shift: {
    name: "the shift",
    guesses: [
      ["It works as well as the other.", came.worksAsWell],
      ["It learns more slowly.", came.learnsLater],
      ["Its loss is low at once, and by itself it writes one word again and again.", came.repeats],
    ],
    answer: both(2),
    watch:
      "Compare how soon the two losses fall, then what the two models write. The maps show where the decoder looks in the source while it writes.",
    found: both(
      "The model learned to copy the word that it reads. When it writes by itself, it reads its own last word.",
    ),
  },
  root: {
    name: "the root under the scores",
    guesses: [
      ["It does not learn the task.", came.writesNothingRight],
      ["It learns, perhaps more slowly.", came.learnsNotSooner],
      ["It learns faster.", came.learnsSooner],
    ],
    answer: both(0),
    watch:
      "Compare the maps, which show where the decoder looks in the source. Which of them sharpen sooner, and do they point to the right words?",
    found: {
      digits:
        "Scores without the root are eight times as large, and the softmax decides before anything is learned. With heads of 8 numbers the root hardly matters.",
      pronouns:
        "Scores without the root are eight times as large, and the softmax decides before anything is learned. (With the root all three models of chapter 83 learned it. Later two lost it again, one of them when the rate was highest.)",
    },
    settings: { width: 64, heads: 1, steps: 300 },
  },
  positions: {
    name: "positions",
    guesses: [
      ["It works as well as the other.", came.worksAsWell],
      ["It does not learn at all.", came.learnsNothing],
      ["It writes the right words in a wrong order.", came.isInDisorder],
    ],
    answer: { digits: 2, pronouns: 0 },
    otherwise: { pronouns: 2 },
    watch:
      "Look at the words that the second model writes: are they the right ones, and are they in the right places? The maps show where the decoder looks in the source.",
    found: {
      digits: "The model learned which digits there are, but not where they belong.",
      pronouns: "Each word of these sentences has only one place, so the order says nothing new.",
    },
  },
  "warm-up": {
    name: "the warm-up",
    guesses: [
      ["It learns faster.", came.learnsSooner],
      ["It works as well as the other.", came.worksAsWell],
      ["It does not learn at all.", came.learnsNothing],
    ],
    answer: both(2),
    watch: "Look at the first steps: the second model takes them at full speed. Do its maps ever become sharp?",
    found: both(
      "The first steps are so long that the weights end up far from where they began, and the falling rate does not bring them back.",
    ),
  },
  heads: {
    name: "three of its four heads",
    guesses: [
      ["It does not learn at all.", came.learnsNothing],
      ["It learns much more slowly.", came.learnsLater],
      ["It works as well as the other.", came.worksAsWell],
    ],
    answer: both(2),
    watch:
      "Compare the losses, then the maps, which show where the decoder looks in the source: does a single head look in other places than four together?",
    found: both("One wide head learns it as well as four narrow ones: one look at a time is enough here."),
  },
};

/** What may happen when several parts are gone. */
export const ANY = [
  ["It works as well as the other.", came.worksAsWell],
  ["It learns more slowly.", came.learnsLater],
  ["Its loss looks good, but by itself it writes nonsense.", came.leaks],
  ["It does not learn at all.", came.learnsNothing],
];
export const TASKS = { digits: ["eight digits backwards", 400], pronouns: ["what “it” means", 300] };
export const CHOICES = {
  seed: [1, 2, 3, 4, 5, 6, 7, 8, 9],
  width: [16, 32, 48, 64],
  layers: [1, 2, 3],
  heads: [1, 2, 4],
  rate: [1, 10, 100, 1000],
};

/** The settings with which the experiment without these parts begins. */
export const startOf = (parts, task = "digits") => ({
  parts,
  task,
  seed: 1,
  width: 32,
  layers: 2,
  heads: 4,
  rate: 1,
  steps: TASKS[task][1],
  ...(parts.length === 1 && EXPERIMENTS[parts[0]].settings),
});

/** The settings of an address, #break-part=root&seed=2; nothing where it is no such address. What is absurd is left. */
export function fromHash(hash) {
  if (!/^#break(-|$)/.test(hash)) return null;
  const given = new URLSearchParams(hash.slice(7));
  const asked = (given.get("part") ?? "").split(",");
  const parts = Object.keys(EXPERIMENTS).filter((part) => asked.includes(part));
  const task = Object.hasOwn(TASKS, given.get("task") ?? "") ? given.get("task") : "digits";
  const found = startOf(parts.length ? parts : ["mask"], task);
  for (const [name, values] of Object.entries(CHOICES))
    found[name] = values.find((value) => String(value) === given.get(name)) ?? found[name];
  return found;
}

/** The address of settings: what is as at the start is left out. */
export function toHash({ parts, task, ...settings }) {
  const start = startOf(parts, task);
  const others = Object.keys(CHOICES).filter((name) => settings[name] !== start[name]);
  const told = [
    ...(String(parts) === "mask" ? [] : [`part=${parts}`]),
    ...(task === "digits" ? [] : [`task=${task}`]),
    ...others.map((name) => `${name}=${settings[name]}`),
  ];
  return `#break${told.length ? "-" : ""}${told.join("&")}`;
}
